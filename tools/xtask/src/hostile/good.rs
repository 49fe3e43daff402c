//! The good client: it asks for little, waits a moment, asks again, and notes how long each answer took. Now and then it
//! comes as a newcomer, on a connection of its own.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use lane::runtime::{RuntimeOptions, run_here};
use rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rx_lane::{Anonymous, Connection, Driver, DriverConfig};
use rxperf::{Outbound, Reply, Request, Work};
use smb_wire::body::lock::flags;
use smb_wire::create::Disposition;
use smb_wire::create::access::{rights, share};

use super::arena::{Arena, inside};
use super::samples::{Part, Samples};
use super::server::{HTTP, HTTPS, RX, SMALL_BYTES, SMB};
use super::smb;
use super::smb::raw::{How, Raw};
use crate::lab::guest::https::Https;

/// Asks over HTTP and HTTPS until all is over.
pub(crate) fn http(arena: &Arena, samples: &Samples) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            inside(&arena.good, || {
                let connect = || Plain::connect(samples.patience());
                ask_again_and_again(samples, NEWCOMER_PLAIN, connect, Plain::ask);
                Ok(())
            })
        });
        scope.spawn(|| {
            inside(&arena.good, || {
                let connect = || {
                    let client = Https::connect(HTTPS, TLS13_AES_128_GCM_SHA256)?;
                    client.wait_at_most(samples.patience())?;
                    Ok(client)
                };
                let ask = |client: &mut Https| client.get("/small", "", &[b's'; SMALL_BYTES]).map(drop);
                ask_again_and_again(samples, NEWCOMER_TLS, connect, ask);
                Ok(())
            })
        });
    });
}

fn ask_again_and_again<C>(
    samples: &Samples,
    newcomer: u64,
    connect: impl Fn() -> anyhow::Result<C>,
    ask: impl Fn(&mut C) -> anyhow::Result<()>,
) {
    let mut open = None;
    for number in 0u64.. {
        let (part, asked) = (samples.part(), Instant::now());
        if part == Part::Over {
            return;
        }
        if number % newcomer == 0 {
            open = None;
        }
        let outcome = (|| {
            let client = match &mut open {
                Some(client) => client,
                none => none.insert(connect()?),
            };
            ask(client)
        })();
        if outcome.is_err() {
            open = None;
        }
        samples.record(part, asked, outcome.map_err(|error: anyhow::Error| format!("{error:#}")));
        std::thread::sleep(PAUSE);
    }
}

/// Opens a connection with this timeout for reads and writes.
fn connect(to: SocketAddr, patience: Duration) -> anyhow::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&to, patience)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    Ok(stream)
}

/// HTTP/1.1 without TLS.
struct Plain(TcpStream);

impl Plain {
    fn connect(patience: Duration) -> anyhow::Result<Self> {
        let stream = connect(HTTP, patience)?;
        stream.set_nodelay(true)?;
        Ok(Self(stream))
    }

    fn ask(&mut self) -> anyhow::Result<()> {
        self.0.write_all(b"GET /small HTTP/1.1\r\nHost: good\r\n\r\n")?;
        let mut answer = Vec::new();
        let mut part = [0; 4096];
        loop {
            let n = self.0.read(&mut part)?;
            ensure!(n > 0, "the server closed the connection");
            answer.extend_from_slice(&part[..n]);
            let Some(end) = answer.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
            ensure!(answer.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&answer[..end]));
            if answer.len() >= end + 4 + SMALL_BYTES {
                ensure!(answer[end + 4..] == [b's'; SMALL_BYTES], "other bytes than the file's");
                return Ok(());
            }
        }
    }
}

/// Opens, locks, reads and closes over SMB until all is over.
pub(crate) fn smb(arena: &Arena, samples: &Samples) -> anyhow::Result<()> {
    inside(&arena.good, || {
        let connect = || {
            let stream = connect(SMB, samples.patience())?;
            stream.set_nodelay(true)?;
            Raw::arrive(stream, smb::GOOD, true)
        };
        ask_again_and_again(samples, NEWCOMER_SMB, connect, work_with_a_file);
        Ok(())
    })
}

/// Takes a place of each kind that clients could hoard.
fn work_with_a_file(client: &mut Raw) -> anyhow::Result<()> {
    let access = rights::READ_DATA | rights::WRITE_DATA;
    let how = How { access, share: share::READ | share::WRITE, disposition: Disposition::Open };
    let file = client.create("small", how)?.map_err(|status| anyhow::anyhow!("CREATE: {status}"))?;
    client.lock(file, flags::EXCLUSIVE)?;
    ensure!(client.read(file, 0, SMALL_BYTES as u32)? == [b's'; SMALL_BYTES], "other bytes than the file's");
    client.lock(file, flags::UNLOCK)?;
    client.close(file)
}

/// Calls rxperf's service until all is over.
pub(crate) fn rx(arena: &Arena, samples: &Arc<Samples>) -> anyhow::Result<()> {
    let samples = Arc::clone(samples);
    inside(&arena.good, move || {
        let done = run_here(RuntimeOptions::default(), async move {
            let mut config = DriverConfig::default();
            config.endpoint.packets = 2048;
            let driver = Rc::new(Driver::bind(([0, 0, 0, 0], 0).into(), config)?);
            let callers: Vec<_> = (0..RX_CALLERS)
                .map(|_| lane::spawn(call_again_and_again(Rc::clone(&driver), Arc::clone(&samples))))
                .collect();
            for caller in callers {
                caller.await;
            }
            anyhow::Ok(())
        });
        done.context("the good client's lane")?
    })
}

async fn call_again_and_again(driver: Rc<Driver>, samples: Arc<Samples>) {
    let mut open = None;
    for number in 0u64.. {
        let (part, asked) = (samples.part(), Instant::now());
        if part == Part::Over {
            return;
        }
        if number % NEWCOMER_RX == 0 {
            open = None;
        }
        let outcome = lane::time::timeout(samples.patience(), async {
            let connection = match &open {
                Some(connection) => connection,
                none => {
                    let _: &Option<Connection> = none;
                    open.insert(driver.connect(RX, rxperf::SERVICE, &Anonymous)?)
                }
            };
            call(connection).await
        });
        let outcome = match outcome.await {
            Ok(outcome) => outcome.map_err(|error| format!("{error:#}")),
            Err(_) => Err(format!("no reply within {:?}", samples.patience())),
        };
        if outcome.is_err() {
            open = None;
        }
        samples.record(part, asked, outcome);
        lane::time::sleep(PAUSE).await;
    }
}

/// Makes one call with a reply of several packets, and checks every byte of it.
async fn call(connection: &Connection) -> anyhow::Result<()> {
    let request = Request::new(Work::Rpc { send: 32, receive: RX_REPLY_BYTES });
    let (mut outbound, mut reply) = (Outbound::request(&request)?, Reply::new(&request.work.plan()?));
    let mut call = connection.call().await?;
    let mut filled = 0;
    call.write_with(outbound.remaining(), |room| filled += outbound.fill(room)).await?;
    call.finish().await?;
    let mut wrong = None;
    while call.read(|part| wrong = wrong.take().or(reply.handle(part).err())).await? > 0 {}
    if let Some(error) = wrong {
        return Err(error.into());
    }
    Ok(reply.finish()?)
}

const PAUSE: Duration = Duration::from_millis(3);
/// One request in so many comes on a connection of its own. A handshake of TLS takes longer than any answer: it must
/// stay rarer than one in a hundred, or the 99th percentile would be its own.
const NEWCOMER_PLAIN: u64 = 16;
const NEWCOMER_TLS: u64 = 250;
const NEWCOMER_RX: u64 = 16;
const NEWCOMER_SMB: u64 = 16;
const RX_CALLERS: usize = 3;
const RX_REPLY_BYTES: u32 = 4000;
