//! Generated servers and clients over simulated lanes, on paths that lose packets.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use lane::backend::sim::{Config, World, seeds};
use lane::net::UdpSocket;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rx_lane::{Anonymous, CallError, Connection, Driver, DriverConfig, Links, ServerCall};
use xdr::rpc::{Failure, code};

use super::{SERVICE, pattern};

#[allow(unreachable_pub, dead_code)]
mod interface {
    include!("../../../rxgen/tests/generated/files.rs");
}

use interface::{CallBack, Fid, Status, StoreStatus, files};

const SERVER: ([u8; 4], u16) = ([10, 0, 0, 1], 7000);
const NO_SUCH_FILE: i32 = 2;

/// Files by vnode.
#[derive(Default)]
struct Shelf {
    files: RefCell<BTreeMap<u32, Vec<u8>>>,
    tally: files::Tally,
}

type Refused = Failure<CallError>;

impl Shelf {
    fn status(&self, fid: &Fid) -> Result<Status, Refused> {
        let files = self.files.borrow();
        let bytes = files.get(&fid.vnode).ok_or(Failure::Refused(NO_SUCH_FILE))?;
        Ok(Status { length: bytes.len() as u64, ..Status::default() })
    }
}

impl files::Server<ServerCall> for Shelf {
    async fn fetch_status(
        &self,
        call: &ServerCall,
        request: files::FetchStatus,
    ) -> Result<files::FetchStatusReply, Refused> {
        assert!(call.remote().is_some(), "the call tells who asks");
        Ok(files::FetchStatusReply { out: self.status(&request.fid)?, call_back: CallBack::default() })
    }

    async fn fetch_data64(
        &self,
        call: &mut ServerCall,
        request: files::FetchData64,
    ) -> Result<files::FetchData64Reply, Refused> {
        let out_status = self.status(&request.fid)?;
        let bytes = self.files.borrow()[&request.fid.vnode].clone();
        call.write(&(bytes.len() as u64).to_be_bytes()).await?;
        for piece in bytes.chunks(50_000) {
            call.write(piece).await?;
        }
        Ok(files::FetchData64Reply { out_status, call_back: CallBack::default() })
    }

    async fn store_data64(
        &self,
        call: &mut ServerCall,
        request: files::StoreData64<'_>,
    ) -> Result<files::StoreData64Reply, Refused> {
        if &*request.reason == b"forbidden" {
            return Err(Failure::Refused(13));
        }
        let mut bytes = vec![0; request.length as usize];
        call.read_exact(&mut bytes).await?;
        self.files.borrow_mut().insert(request.fid.vnode, bytes);
        Ok(files::StoreData64Reply { out_status: self.status(&request.fid)? })
    }
}

fn start(at: ([u8; 4], u16), seed: u64) -> Driver {
    let mut config = DriverConfig::default();
    config.endpoint.packets = 4096;
    let socket = UdpSocket::bind(at.into(), &config.socket).unwrap();
    Driver::start_seeded(socket, Links::alone(), config, StdRng::seed_from_u64(seed).random())
}

fn fid(vnode: u32) -> Fid {
    Fid { volume: 1, vnode, unique: 9 }
}

async fn status(connection: &Connection, vnode: u32) -> Result<u64, Refused> {
    let mut call = connection.call().await?;
    let reply = xdr::rpc::call(&mut call, &files::FetchStatus { fid: fid(vnode) }).await?;
    Ok(reply.get().out.length)
}

async fn store(connection: &Connection, vnode: u32, data: &[u8], reason: &str) -> Result<u64, Refused> {
    let mut call = connection.call().await?;
    let length = data.len() as u64;
    let request = files::StoreData64 {
        fid: fid(vnode),
        in_status: StoreStatus::default(),
        reason: reason.into(),
        pos: 0,
        length,
        file_length: length,
    };
    xdr::rpc::start(&mut call, &request).await?;
    call.write(data).await?;
    call.finish().await?;
    let reply = xdr::rpc::end::<files::StoreData64<'_>, _>(&mut call).await?;
    Ok(reply.get().out_status.length)
}

async fn fetch(connection: &Connection, vnode: u32) -> Result<Vec<u8>, Refused> {
    let mut call = connection.call().await?;
    let request = files::FetchData64 { fid: fid(vnode), pos: 0, length: i64::MAX };
    xdr::rpc::start(&mut call, &request).await?;
    call.finish().await?;
    let mut length = [0; 8];
    call.read_exact(&mut length).await?;
    let mut bytes = vec![0; u64::from_be_bytes(length) as usize];
    call.read_exact(&mut bytes).await?;
    let reply = xdr::rpc::end::<files::FetchData64, _>(&mut call).await?;
    assert_eq!(reply.get().out_status.length, bytes.len() as u64);
    Ok(bytes)
}

async fn scenario(connection: Connection, seed: u64) {
    let data = pattern(300_000 + seed as usize * 777);
    assert_eq!(status(&connection, 5).await, Err(Failure::Stream(CallError::Aborted(NO_SUCH_FILE))));
    assert_eq!(store(&connection, 5, &data, "because").await, Ok(data.len() as u64));
    assert_eq!(status(&connection, 5).await, Ok(data.len() as u64));
    assert!(fetch(&connection, 5).await.expect("stored") == data, "bytes differ");
    // Empty files have their parameters right behind one another.
    assert_eq!(store(&connection, 6, b"", "").await, Ok(0));
    assert_eq!(fetch(&connection, 6).await, Ok(Vec::new()));
    let refused = store(&connection, 7, &data, "forbidden").await;
    assert_eq!(refused, Err(Failure::Stream(CallError::Aborted(13))));
    assert_eq!(fetch(&connection, 7).await, Err(Failure::Stream(CallError::Aborted(NO_SUCH_FILE))));
    for (opcode, expected) in [(999u32, code::OPCODE), (65539, code::OPCODE)] {
        let mut call = connection.call().await.expect("a channel");
        call.write(&opcode.to_be_bytes()).await.expect("lives");
        call.finish().await.expect("lives");
        assert_eq!(call.read_to_end(1).await, Err(CallError::Aborted(expected)));
    }
    let mut call = connection.call().await.expect("a channel");
    call.write(&[0, 1, 0, 2, 0, 0]).await.expect("lives");
    call.finish().await.expect("lives");
    assert_eq!(call.read_to_end(1).await, Err(CallError::Aborted(code::SS_UNMARSHAL)));
}

#[test]
fn generated_server_and_client_speak_over_paths_that_lose_packets() {
    seeds(12, |seed| {
        let mut config = Config::default();
        if seed % 2 == 1 {
            config.net.link.loss = 0.03;
            config.net.link.reorder = 0.05;
        }
        let world = World::new(seed, config);
        let (server, client) = (world.host("10.0.0.1"), world.host("10.0.0.2"));
        let shelf = Rc::new(Shelf::default());
        let serves = Rc::clone(&shelf);
        server.spawn(async move {
            start(SERVER, seed).serve(SERVICE, move |mut call: ServerCall| {
                let shelf = Rc::clone(&serves);
                async move { files::serve(&*shelf, &mut call, &shelf.tally).await }
            });
        });
        world.run_for(Duration::from_millis(1));
        let done = Rc::new(RefCell::new(false));
        let tell = Rc::clone(&done);
        client.spawn(async move {
            let driver = start(([10, 0, 0, 2], 7001), seed + 1000);
            let connection = driver.connect(SERVER.into(), SERVICE, &Anonymous).expect("room");
            scenario(connection, seed).await;
            *tell.borrow_mut() = true;
        });
        world.run_for(Duration::from_secs(120));
        assert!(*done.borrow(), "seed {seed}");
        let tally = &shelf.tally;
        assert_eq!((tally.of(0).replied, tally.of(0).refused), (1, 1));
        assert_eq!((tally.of(5).replied, tally.of(5).refused, tally.of(5).faults), (2, 1, 1));
        assert_eq!((tally.of(4).replied, tally.unknown_opcodes(), tally.of(7).faults), (2, 1, 1));
        assert!(tally.of(4).took_us_max > 0);
    });
}
