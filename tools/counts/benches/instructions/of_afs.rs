//! Instructions that calls of a file server take, with the client's part of them and the simulated world's own, which are the same
//! every time.

use std::cell::RefCell;
use std::hint::black_box;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use afs::attached_volumes::{AttachedVolumes, Attachment, VolumeType};
use afs::audit::Audit;
use afs::fileserver::{DirPageVersions, FileServer, Locks, SERVICE, Totals};
use afs::host::{HostOptions, Hosts, LaneHosts};
use afs_wire::{Capabilities, Fid, Interfaces, StoreStatus, rxafs, rxafscb};
use gungraun::{library_benchmark, library_benchmark_group};
use identity::Writable;
use lane::backend::sim::{Config, Host, World};
use lane::net::UdpSocket;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rx_lane::{AbortCode, Anonymous, CallError, Connection, Driver, DriverConfig, LaneGroupLink, ServerCall};
use vfs::{
    Cache, CacheOptions, Number, Objects, ObjectsOptions, Volume, VolumeName, VolumeOptions, VolumeSpec,
};
use xdr::afs::AfsUuid;
use xdr::rpc::Failure;

#[library_benchmark]
#[bench::one_by_one(Cell::new())]
fn fetch_status_64_times(cell: Cell) -> Cell {
    cell.run(async |connection, fid| {
        for _ in 0..ROUNDS {
            let mut call = connection.call().await.expect("it stands");
            let reply = xdr::rpc::call(&mut call, &rxafs::FetchStatus { fid }).await;
            black_box(reply).expect("it is there");
        }
    });
    cell
}

#[library_benchmark]
#[bench::of_64_kib(Cell::new())]
fn fetch_data_16_times(cell: Cell) -> Cell {
    cell.run(async |connection, fid| {
        let mut bytes = vec![0; BYTES + 8];
        for _ in 0..ROUNDS / 4 {
            let mut call = connection.call().await.expect("it stands");
            let request = rxafs::FetchData64 { fid, offset: 0, length: BYTES as i64 };
            xdr::rpc::start(&mut call, &request).await.expect("it stands");
            call.finish().await.expect("it stands");
            call.read_exact(&mut bytes).await.expect("all of it");
            let reply = xdr::rpc::end::<rxafs::FetchData64, _>(&mut call).await;
            black_box(reply).expect("it is there");
        }
    });
    cell
}

#[library_benchmark]
#[bench::of_64_kib(Cell::new())]
fn store_data_16_times(cell: Cell) -> Cell {
    cell.run(async |connection, fid| {
        for _ in 0..ROUNDS / 4 {
            store(connection, fid).await;
        }
    });
    cell
}

async fn store(connection: &Connection, fid: Fid) {
    let mut call = connection.call().await.expect("it stands");
    let length = BYTES as u64;
    let request =
        rxafs::StoreData64 { fid, change: StoreStatus::default(), offset: 0, length, file_length: length };
    xdr::rpc::start(&mut call, &request).await.expect("it stands");
    call.write(&[7; BYTES]).await.expect("it stands");
    call.finish().await.expect("it stands");
    let reply = xdr::rpc::end::<rxafs::StoreData64, _>(&mut call).await;
    black_box(reply).expect("there is room");
}

/// Simulated file server and its client, with a file on which every path has been taken before.
struct Cell {
    open: Rc<RefCell<Option<Open>>>,
    host: Host,
    world: World,
}

struct Open {
    connection: Connection,
    fid: Fid,
    _drivers: [Driver; 2],
    _volume: Volume,
}

impl Cell {
    fn new() -> Self {
        let world = World::new(1, Config::clean());
        let host = world.host("10.0.0.1");
        host.fs().create_dir_all("/srv").expect("an empty disk");
        world.run_for(Duration::from_secs(3));
        let open = world.block_on(&host, async { Open::new().await });
        let cell = Self { open: Rc::new(RefCell::new(Some(open))), host, world };
        cell.run(async |connection, fid| {
            for _ in 0..2 {
                store(connection, fid).await;
                let mut call = connection.call().await.expect("it stands");
                xdr::rpc::call(&mut call, &rxafs::FetchStatus { fid }).await.expect("it is there");
            }
        });
        cell
    }

    fn run(&self, work: impl AsyncFnOnce(&Connection, Fid) + 'static) {
        let open = Rc::clone(&self.open);
        self.world.block_on(&self.host, async move {
            let taken = open.take().expect("one at a time");
            work(&taken.connection, taken.fid).await;
            open.replace(Some(taken));
        });
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        let open = Rc::clone(&self.open);
        self.world.block_on(&self.host, async move { drop(open.take()) });
    }
}

impl Open {
    async fn new() -> Self {
        let objects = Objects::in_memory(ObjectsOptions::default());
        // The simulated clock runs while calls do: nothing gets old.
        let options = CacheOptions { ttl: Duration::from_secs(3600), ..CacheOptions::default() };
        let cache = Cache::sharing(options, &objects);
        let name: VolumeName = "count".parse().expect("a name");
        let spec = VolumeSpec::new(name.clone(), "/srv", VolumeOptions::default()).with_objects();
        let volume = Volume::open(&cache, &spec.writable_by(Writable::anyone())).expect("a directory");
        let attachment =
            Attachment { volume: name, name: "count".parse().expect("a name"), kind: VolumeType::ReadWrite };
        let attached = AttachedVolumes::of([(attachment, volume.clone())]).expect("one volume");
        let mut seed = SmallRng::seed_from_u64(1);
        let (server, client) = (driver(SERVER, &mut seed), driver(CLIENT, &mut seed));
        let hosts = Hosts::new(HostOptions::default(), AfsUuid([0xfe; 16]), None);
        let hosts = LaneHosts::new(&hosts, &cache, &server);
        server.serve(
            SERVICE,
            FileServer::new(
                Rc::new(attached),
                hosts,
                &Locks::default(),
                &DirPageVersions::default(),
                &Totals::default(),
                Audit::new(None),
            ),
        );
        client.serve(SERVICE, |mut call: ServerCall| async move {
            Ok::<(), AbortCode>(rxafscb::serve(&Silent, &mut call, &rxafscb::Tally::default()).await?)
        });
        let connection = client.connect(SERVER, SERVICE, &Anonymous).expect("an address");
        let directory = afs::fid::of(volume.shared().expect("it has objects").id(), Number::ROOT);
        let mut call = connection.call().await.expect("it stands");
        let request = rxafs::CreateFile { directory, name: "file".into(), change: StoreStatus::default() };
        let fid = xdr::rpc::call(&mut call, &request).await.expect("it is new").get().fid;
        drop(call);
        Self { connection, fid, _drivers: [server, client], _volume: volume }
    }
}

/// Callback handler of a client that keeps nothing.
struct Silent;

type Outcome<T> = Result<T, Failure<CallError>>;

impl rxafscb::Server<ServerCall> for Silent {
    async fn init_call_back_state3(
        &self,
        _: &ServerCall,
        _: rxafscb::InitCallBackState3,
    ) -> Outcome<rxafscb::InitCallBackState3Reply> {
        Ok(rxafscb::InitCallBackState3Reply)
    }

    async fn tell_me_about_yourself(
        &self,
        _: &ServerCall,
        _: rxafscb::TellMeAboutYourself,
    ) -> Outcome<rxafscb::TellMeAboutYourselfReply> {
        let interfaces = Interfaces { count: 1, uuid: AfsUuid([7; 16]), ..Interfaces::default() };
        Ok(rxafscb::TellMeAboutYourselfReply { interfaces, capabilities: Capabilities::default() })
    }
}

fn driver(address: SocketAddr, seed: &mut SmallRng) -> Driver {
    let mut config = DriverConfig::default();
    config.endpoint.packets = 2048;
    let socket = UdpSocket::bind(address, &config.socket).expect("a free port");
    Driver::start_seeded(socket, LaneGroupLink::alone(), config, seed.random())
}

library_benchmark_group!(
    name = in_afs,
    benchmarks = [fetch_status_64_times, fetch_data_16_times, store_data_16_times]
);
const ROUNDS: usize = 64;
const BYTES: usize = 64 << 10;
const SERVER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1)), 7000);
const CLIENT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1)), 7001);
