//! A file server with out-of-band TCP on two lanes of a simulated host, and clients on others.

use std::cell::{Cell, RefCell};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use afs::attached_volumes::{AttachedVolumes, Attachment, VolumeType};
use afs::audit::Audit;
use afs::fileserver::{DirPageVersions, FileServer, Locks, Totals};
use afs::host::{HostOptions, Hosts, LaneHosts};
use afs::oob::{LaneOob, OobOptions};
use afs_client::{Client, ClientOptions};
use afs_wire::code::oob::OOB_BROKEN;
use afs_wire::{Fid, OobGrant, OobWish, rxafs};
use identity::Writable;
use lane::backend::ListenOptions;
use lane::backend::sim::{Config, Fs, Host, Net, World};
use lane::net::{TcpListener, TcpStream, UdpSocket};
use oob::{Claim, Token};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rx_lane::{Call, CallError, Driver, DriverConfig, LaneGroupLink};
use vfs::{
    Cache, CacheOptions, Number, Objects, ObjectsOptions, Volume, VolumeName, VolumeOptions, VolumeSpec,
};
use xdr::afs::AfsUuid;
use xdr::rpc::Failure;
use xdr::{List, Reader};

pub(crate) const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const BULK: u16 = 7000;

/// The server of a test.
pub(crate) struct Served {
    pub(crate) fs: Fs,
    pub(crate) files: FileServer,
    pub(crate) driver: Driver,
    /// Of both lanes; the first has the calls.
    pub(crate) oob: [LaneOob; 2],
    pub(crate) root: Fid,
}

/// State of a client's side of a test.
pub(crate) struct Bed {
    pub(crate) served: Rc<Served>,
    pub(crate) net: Net,
    pub(crate) server: Host,
    pub(crate) host: Host,
    pub(crate) other: Host,
    seed: RefCell<SmallRng>,
    port: Cell<u16>,
}

fn config() -> DriverConfig {
    let mut config = DriverConfig::default();
    config.endpoint.packets = 4096;
    config
}

fn driver(ip: IpAddr, port: u16, seed: [u8; 32]) -> Driver {
    let socket = UdpSocket::bind((ip, port).into(), &config().socket).unwrap();
    Driver::start_seeded(socket, LaneGroupLink::alone(), config(), seed)
}

async fn listen(oob: LaneOob) {
    let options = ListenOptions { reuse_port: true, ..ListenOptions::default() };
    let listener = TcpListener::bind((SERVER, BULK).into(), &options).unwrap();
    oob.listen(&listener).await.unwrap();
}

/// Runs `test` on a client's lane beside a server with these bounds.
pub(crate) fn run(seed: u64, config: Config, options: OobOptions, test: impl AsyncFnOnce(Rc<Bed>) + 'static) {
    let world = World::new(seed, config);
    let (server, host, other) = (world.host("10.0.0.1"), world.host("10.0.0.2"), world.host("10.0.0.3"));
    server.fs().create_dir_all("/srv").unwrap();
    assert_eq!(server.add_lane(), 1);
    let second = Rc::new(RefCell::new(None));
    let made = Rc::clone(&second);
    server.spawn_on(1, async move {
        let oob = LaneOob::new(options, None).unwrap();
        *made.borrow_mut() = Some(oob.clone());
        listen(oob).await;
    });
    let served = Rc::new(RefCell::new(None));
    let (made, here) = (Rc::clone(&served), server.clone());
    let done = Rc::new(Cell::new(false));
    let ended = Rc::clone(&done);
    server.spawn(async move {
        let oob = LaneOob::new(options, None).unwrap();
        let second = loop {
            if let Some(oob) = second.borrow().clone() {
                break oob;
            }
            lane::time::sleep(Duration::from_micros(10)).await;
        };
        let listening = lane::spawn(listen(oob.clone()));
        let serving = Rc::new(serve(&here, [oob, second], seed));
        *made.borrow_mut() = Some(Rc::clone(&serving));
        while !ended.get() {
            lane::time::sleep(Duration::from_secs(1)).await;
        }
        drop(listening);
    });
    world.run_for(Duration::from_millis(20));
    let served = served.borrow_mut().take().expect("it serves by now");
    let net = world.net();
    let here = host.clone();
    let port = Cell::new(7001);
    let seed = RefCell::new(SmallRng::seed_from_u64(seed));
    world.block_on(&host, async move {
        test(Rc::new(Bed { served, net, server, host: here, other, seed, port })).await;
        done.set(true);
    });
}

fn serve(host: &Host, oob: [LaneOob; 2], seed: u64) -> Served {
    let objects = Objects::in_memory(ObjectsOptions::default());
    let cache = Cache::sharing(CacheOptions::default(), &objects);
    let name: VolumeName = "files".parse().unwrap();
    let options = VolumeOptions { serve_hidden: true, ..VolumeOptions::default() };
    let spec = VolumeSpec::new(name.clone(), "/srv", options).with_objects();
    let volume = Volume::open(&cache, &spec.writable_by(Writable::anyone())).unwrap();
    let attachment = Attachment { volume: name, name: "files".parse().unwrap(), kind: VolumeType::ReadWrite };
    let root = afs::fid::of(volume.shared().unwrap().id(), Number::ROOT);
    let attached = Rc::new(AttachedVolumes::of([(attachment, volume)]).unwrap());
    let driver = driver(SERVER, 7000, SmallRng::seed_from_u64(seed).random());
    let hosts = Hosts::new(HostOptions::default(), AfsUuid([0xfe; 16]), None);
    let lane_hosts = LaneHosts::new(&hosts, &cache, &driver);
    let (locks, dir_page_versions, totals) =
        (Locks::default(), DirPageVersions::default(), Totals::default());
    let files = FileServer::new(attached, lane_hosts, &locks, &dir_page_versions, &totals, Audit::default());
    files.offer_oob(&oob[0]);
    driver.serve(afs::fileserver::SERVICE, files.clone());
    Served { fs: host.fs(), files, driver, oob, root }
}

/// Runs what both lanes of the server counted together.
macro_rules! counted {
    ($bed:expr, $field:ident) => {
        $bed.served.oob.iter().map(|oob| oob.counters().$field.get()).sum::<u64>()
    };
}
pub(crate) use counted;

impl Bed {
    /// A client with these options; a driver and a port of its own.
    pub(crate) fn client(&self, change: impl FnOnce(&mut ClientOptions)) -> Client {
        let port = self.port.replace(self.port.get() + 1);
        let mut options = ClientOptions::new(AfsUuid([port as u8; 16]));
        change(&mut options);
        let seed = self.seed.borrow_mut().random();
        Client::on(driver(IpAddr::from([10, 0, 0, 2]), port, seed), &options)
    }

    /// A client that does by hand what it wants.
    pub(crate) fn raw(&self) -> Raw {
        let client = self.client(|_| {});
        let connection = client
            .driver()
            .connect((SERVER, 7000).into(), afs::fileserver::SERVICE, &rx_lane::Anonymous)
            .unwrap();
        Raw { connection, _client: client }
    }

    /// A file of these bytes; its number for clients.
    pub(crate) async fn file(&self, name: &str, bytes: &[u8]) -> Fid {
        let server = self.client(|_| {}).file_server((SERVER, 7000).into()).unwrap();
        let fid =
            server.create(self.served.root, name.as_bytes(), afs_client::of_new(0o644, None)).await.unwrap();
        self.served.fs.write(&format!("/srv/{name}"), bytes).unwrap();
        fid
    }

    /// Waits until something is so.
    pub(crate) async fn until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let began = lane::time::now();
        while !is_so(self) {
            let waited = lane::time::now() - began;
            assert!(waited < Duration::from_secs(900), "{what}");
            lane::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Nothing is left of any transfer: no token, no place, no connection but idle ones, no packet.
    pub(crate) async fn settled(&self) {
        self.until("no transfer is under way", |_| counted!(self, transfers) == 0).await;
        self.until("no token waits", |_| counted!(self, unclaimed) == 0).await;
        self.until("all connections are idle or gone", |bed| {
            bed.served.oob.iter().all(|oob| oob.connections() == oob.idle())
        })
        .await;
        self.until("no packet is held", |bed| {
            let endpoint = bed.served.driver.endpoint();
            endpoint.pool().allocated() == endpoint.pool().free_count()
        })
        .await;
    }
}

/// A client by hand.
pub(crate) struct Raw {
    pub(crate) connection: rx_lane::Connection,
    _client: Client,
}

/// A call whose transfer was granted.
pub(crate) struct Granted {
    pub(crate) call: Call,
    pub(crate) length: u64,
    /// Number, offset, length and token of each stream.
    pub(crate) streams: Vec<(u64, u64, u64, Vec<u8>)>,
}

pub(crate) fn wish(transfer: u64, streams: u32, connections: &[u64]) -> OobWish {
    OobWish { version: 1, flags: 0, streams, transfer, connections: List(connections.to_vec()) }
}

/// Returns what a call was aborted with.
pub(crate) fn code<T>(outcome: Result<T, Failure<CallError>>) -> i32 {
    match outcome {
        Ok(_) => 0,
        Err(Failure::Stream(CallError::Aborted(code))) => code,
        Err(other) => panic!("the call failed in another way: {other:?}"),
    }
}

impl Raw {
    pub(crate) async fn fetch(
        &self,
        fid: Fid,
        range: (u64, u64),
        wish: OobWish,
    ) -> Result<Granted, Failure<CallError>> {
        let (offset, length) = range;
        self.begin(&rxafs::FetchDataOOB { fid, offset, length, wish }).await
    }

    pub(crate) async fn store(
        &self,
        fid: Fid,
        length: u64,
        wish: OobWish,
    ) -> Result<Granted, Failure<CallError>> {
        let change = afs_wire::StoreStatus::default();
        self.begin(&rxafs::StoreDataOOB { fid, change, offset: 0, length, file_length: length, wish }).await
    }

    async fn begin<P: xdr::rpc::SplitCall>(&self, request: &P) -> Result<Granted, Failure<CallError>> {
        let mut call = self.connection.call().await?;
        xdr::rpc::start(&mut call, request).await?;
        call.finish().await?;
        let mut word = [0; 4];
        call.read_exact(&mut word).await?;
        let mut bytes = vec![0; u32::from_be_bytes(word) as usize];
        call.read_exact(&mut bytes).await?;
        let grant =
            Reader::lenient(&bytes).value::<OobGrant<'_>>().map_err(|_| Failure::Refused(OOB_BROKEN))?;
        let told = grant.streams.0.iter();
        let streams = told.map(|one| (one.connection, one.offset, one.length, one.token.to_vec())).collect();
        Ok(Granted { call, length: grant.length, streams })
    }
}

impl Granted {
    /// The claim of a stream.
    pub(crate) fn claim(&self, stream: usize) -> [u8; 40] {
        let token: [u8; 32] = self.streams[stream].3.as_slice().try_into().expect("a token");
        Claim { token: Token::from_bytes(token) }.encode()
    }

    /// Returns how the call ends, as a fetch.
    pub(crate) async fn end_fetch(mut self) -> Result<rxafs::FetchDataOOBReply, Failure<CallError>> {
        Ok(xdr::rpc::end::<rxafs::FetchDataOOB, _>(&mut self.call).await?.get())
    }

    /// Returns how the call ends, as a store.
    pub(crate) async fn end_store(mut self) -> Result<rxafs::StoreDataOOBReply, Failure<CallError>> {
        Ok(xdr::rpc::end::<rxafs::StoreDataOOB, _>(&mut self.call).await?.get())
    }
}

pub(crate) async fn dial() -> TcpStream {
    TcpStream::connect(SocketAddr::new(SERVER, BULK)).await.unwrap()
}

pub(crate) async fn say(stream: &TcpStream, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match stream.try_send(&[std::io::IoSlice::new(bytes)], false) {
            Ok(Some(count)) => bytes = &bytes[count..],
            Ok(None) => drop(stream.writable().await),
            Err(_) => return,
        }
    }
}

/// All of a part as it comes, without its headers.
pub(crate) async fn part_of(stream: &TcpStream, transfer: u64, part: oob::Part) -> Vec<u8> {
    let mut receiving = oob::Receiving::new(transfer, part);
    let (stop, memory, patience) = Default::default();
    let mut got = Vec::new();
    let take = async |_, bytes: lane::buffer::Buf| {
        got.extend_from_slice(&bytes);
        Ok::<(), ()>(())
    };
    let received = oob_lane::receive_part(stream, &mut receiving, &stop, &memory, &patience, take).await;
    assert!(matches!(received, Ok(oob_lane::Received::Whole)), "{received:?}");
    got
}

/// Returns whether the server closes the stream, with nothing said before.
pub(crate) async fn is_closed(stream: &TcpStream) -> bool {
    stream.recv().await.is_ok_and(|bytes| bytes.is_empty()) || stream.recv().await.is_err()
}

pub(crate) fn pattern(len: usize, seed: u64) -> Vec<u8> {
    (0..len as u64).map(|at| (at * 31 + at / 253 + seed * 7) as u8).collect()
}
