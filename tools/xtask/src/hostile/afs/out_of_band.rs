//! Out-of-band TCP: connections without a claim or with a wrong one, and transfers of which nothing is taken or sent, by one address.

use std::cell::Cell;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use afs_client::fetch::{self, Sink};
use afs_client::store::{self, Piece, Source};
use afs_client::{Cell as AfsCell, Client, ClientOptions, Error, of_new};
use anyhow::Context;
use lane::buffer::Buf;
use lane::runtime::{RuntimeOptions, run_here};
use rx_lane::{Held, PacketBuffers};
use xdr::afs::AfsUuid;

use super::cell_of;
use crate::hostile::arena::{ATTACKER, SERVER};
use crate::hostile::load;
use crate::hostile::net::{connect_from, connections_possible};
use crate::hostile::scenario::{Field, Findings, Scenario, Service};
use crate::hostile::server::{LARGE_BYTES, Wishes};

pub(crate) struct Pools;

impl Scenario for Pools {
    fn name(&self) -> &'static str {
        "oob-pools"
    }

    fn about(&self) -> &'static str {
        "TCP connections without a claim, and transfers that nobody takes or sends, as many as one address gets"
    }

    /// Returns HTTP, over which the good client asks.
    fn service(&self) -> Service {
        Service::Http
    }

    fn prepare(&self, work: &Path) -> anyhow::Result<Wishes> {
        let stored = work.join(STORED);
        std::fs::create_dir(&stored)?;
        std::fs::File::create(stored.join("large"))?.set_len(LARGE_BYTES)?;
        let config = format!(
            "[afs]\nlisten = '{SERVER}:{PORT}'\noob_connections_per_lane = {PLACES}\n[[volume]]\nname = '{STORED}'\npath = '{}'\n\
             mount = '/{STORED}'\nwritable = 'anyone'",
            stored.display()
        );
        Ok(Wishes { config, ..Wishes::default() })
    }

    fn attack(&self, field: &Field<'_>) -> anyhow::Result<Findings> {
        let [begun, failed] = [const { AtomicU64::new(0) }; 2];
        let (made, most) = std::thread::scope(|scope| {
            let moving = scope.spawn(|| {
                load::become_attacker();
                transfers(field, &begun, &failed)
            });
            let connections = connect(field);
            moving.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            anyhow::Ok(connections)
        })?;
        let [begun, failed] = [begun, failed].map(AtomicU64::into_inner);
        Ok(Findings::default()
            .with("connections", made)
            .with("connections at once", most)
            .with("transfers", begun)
            .with("transfers ended by the server", failed)
            .expect(begun > 0 && most > 0, || "nothing was taken".to_owned()))
    }
}

/// Connections of which half say nothing, and half claim what there is not; how many were made and how many were open
/// at once.
fn connect(field: &Field<'_>) -> (u64, usize) {
    let address = SocketAddr::from((SERVER, PORT));
    let wanted = connections_possible(2 * PLACES);
    let mut open: Vec<TcpStream> = Vec::new();
    let (mut made, mut most) = (0u64, 0);
    while !field.is_over() {
        for _ in 0..CONNECTS_A_TURN.min(wanted.saturating_sub(open.len())) {
            let Ok(mut stream) = connect_from(ATTACKER, address) else { continue };
            if made.is_multiple_of(2) {
                // The claim's magic, its version, and a token that was never given.
                let claim = [&b"LOOB\0\x01\0\0"[..], &[0x55; 32]].concat();
                let _ = stream.write_all(&claim);
            }
            let _ = stream.set_nonblocking(true);
            open.push(stream);
            made += 1;
        }
        open.retain(|stream| !matches!(stream.peek(&mut [0]), Ok(0)));
        most = most.max(open.len());
        field.sleep(TURN);
    }
    (made, most)
}

/// Fetches of which nothing is taken and stores of which nothing is sent, given up in the middle, again and again.
fn transfers(field: &Field<'_>, begun: &AtomicU64, failed: &AtomicU64) -> anyhow::Result<()> {
    let mut round = 0;
    while !field.is_over() {
        let (end, first) = (field.end, round * CLIENTS);
        let outcome = run_here(RuntimeOptions::default(), async move {
            let ended = Rc::new(Cell::new(0u64));
            let moving = (first..first + CLIENTS).map(|number| {
                let ended = Rc::clone(&ended);
                lane::spawn(async move {
                    // A refusal is the server's right; what it does not refuse must not harm it.
                    let _ = transfer(number).await;
                    ended.set(ended.get() + 1);
                })
            });
            let moving: Vec<_> = moving.collect();
            lane::time::sleep(MIDDLE.min(end.saturating_duration_since(Instant::now()))).await;
            // What tells the server has time to leave: it waits for calls whose clients are just silent when it ends.
            drop(moving);
            lane::time::sleep(GOOD_BYE).await;
            ended.get()
        });
        failed.fetch_add(outcome.context("the attackers' lane")?, Ordering::Relaxed);
        begun.fetch_add(CLIENTS, Ordering::Relaxed);
        round += 1;
    }
    Ok(())
}

async fn transfer(number: u64) -> anyhow::Result<()> {
    let mut options =
        ClientOptions::new(AfsUuid((0x0b5e_00b0_u128 << 64 | u128::from(number)).to_be_bytes()));
    options.driver.endpoint.packets = 256;
    options.connections = 1;
    options.patience = Duration::ZERO;
    let client = Client::bind((Ipv4Addr::UNSPECIFIED, 0).into(), options)?;
    let cell = AfsCell::new(&client, cell_of(PORT))?;
    if number.is_multiple_of(2) {
        let found = cell.find(STORED, &[b"large".to_vec()], true).await?;
        fetch::range(&found.server, 0, found.fid, (0, PIECE), &Nothing).await?;
    } else {
        let root = cell.root(STORED).await?;
        let change = of_new(0o666, None);
        let fid = root.server.create(root.fid, format!("store-{number}").as_bytes(), change).await?;
        let piece = Piece { fid, change: of_new(0o666, None), offset: 0, length: PIECE, file_length: PIECE };
        store::range(&root.server, 0, piece, &Nothing).await?;
    }
    Ok(())
}

/// Takes nothing and gives nothing, ever.
struct Nothing;

impl Sink for Nothing {
    async fn take(&self, _offset: u64, _bytes: Held) -> Result<(), Error> {
        std::future::pending().await
    }

    async fn take_bytes(&self, _offset: u64, _bytes: Buf) -> Result<(), Error> {
        std::future::pending().await
    }
}

impl Source for Nothing {
    async fn fill(&self, _offset: u64, _rooms: &mut PacketBuffers) -> Result<usize, Error> {
        std::future::pending().await
    }
}

const STORED: &str = "stored";
const PORT: u16 = 7000;
/// Connections that a lane allows; fewer than the attackers make.
const PLACES: usize = 512;
const CONNECTS_A_TURN: usize = 100;
const TURN: Duration = Duration::from_millis(50);
const CLIENTS: u64 = 24;
const PIECE: u64 = 32 << 20;
/// Time from a transfer's beginning to its end.
const MIDDLE: Duration = Duration::from_secs(2);
const GOOD_BYE: Duration = Duration::from_millis(300);
