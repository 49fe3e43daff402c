//! A server of two lanes with a service of two procedures over `vfs`: a file is read under a promise, or written.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use afs::host::{Contact, Host, HostCounters, HostOptions, Hosts, LaneHosts, Resets};
use identity::{Rights, Writable};
use index::{Index, Memory, Options};
use lane::backend::UdpOptions;
use lane::backend::sim;
use lane::buffer::BufClass;
use lane::fs::SyncOf;
use lane::net::UdpSocket;
use lane::socket::reuseport::{SteeredSilo, Steering, owner_lane};
use lane::time;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rx::Route;
use rx_lane::{AbortCode, Driver, DriverConfig, Handler, LaneGroupLink, ServerCall, ServerConnection};
use vfs::{
    Cache, CacheOptions, Caller, CreateOptions, Error, Name, Objects, ObjectsOptions, RelPath, Resolved,
    VfsCounters, Volume, VolumeOptions, VolumeSpec,
};
use xdr::afs::AfsUuid;

pub(crate) const ADDRESS: ([u8; 4], u16) = ([10, 0, 0, 1], 7000);
pub(crate) const LANES: usize = 2;
pub(crate) const FILES: [&str; 3] = ["a", "b", "c"];
pub(crate) const SERVICE: u16 = 1;
/// The file server's own identity.
pub(crate) const UUID: AfsUuid = AfsUuid([0xfe; 16]);
/// Kind of a call.
pub(crate) const READ: u8 = 1;
pub(crate) const WRITE: u8 = 2;
pub(crate) const GIVE_UP_ALL: u8 = 3;

/// A process of the server, for as long as it lives.
#[derive(Clone)]
pub(crate) struct Process {
    pub(crate) hosts: Hosts,
    pub(crate) index: Arc<Index>,
    pub(crate) lanes: Rc<RefCell<Vec<Lane>>>,
    /// Outcome for hosts that an earlier run has left.
    pub(crate) resets: Rc<Cell<Option<Resets>>>,
    /// Since when changes are made: those that came before have waited for that.
    thawed: Rc<Cell<Option<Instant>>>,
}

/// View of one lane.
#[derive(Clone)]
pub(crate) struct Lane {
    pub(crate) hosts: Rc<LaneHosts>,
    pub(crate) volume: Volume,
    /// Once changes are made.
    pub(crate) longest_write: Rc<Cell<Duration>>,
    thawed: Rc<Cell<Option<Instant>>>,
}

pub(crate) fn config() -> DriverConfig {
    let mut config = DriverConfig::default();
    config.endpoint.packets = 512;
    config
}

impl Process {
    /// Starts one on the server's host, whose index has been in `memory` since the first.
    pub(crate) fn start(
        world: &sim::World,
        server: &sim::Host,
        memory: &Memory,
        boot: u8,
        options: HostOptions,
        change: impl FnOnce(&mut ObjectsOptions),
    ) -> Self {
        let opened = Index::open(memory.clone(), Options { boot: [boot; 16], ..Options::default() }).unwrap();
        let index = Arc::new(opened);
        let mut of_objects = ObjectsOptions { lanes_max: LANES, ..Default::default() };
        change(&mut of_objects);
        let objects = Objects::new(of_objects, Arc::clone(&index));
        // A client with callbacks of an earlier run hears first.
        objects.freeze();
        let hosts = Hosts::new(options, UUID, Some(Arc::clone(&index)));
        let silo = |n: usize| SteeredSilo { ifindexes: vec![n as u32 + 1], lanes: n..n + 1 };
        let steering = Steering::new((0..LANES).map(silo).collect()).unwrap();
        // By connection, so that a client is on both.
        world.net().steer_udp(server, ADDRESS.1, |packet| {
            let route = Route::of(packet.payload)?;
            match route.from_client {
                true => Some((route.cid >> 2) as usize % LANES),
                false => Some(owner_lane(route.epoch, route.cid, LANES)),
            }
        });
        let process =
            Self { hosts, index, lanes: Rc::default(), resets: Rc::default(), thawed: Rc::default() };
        for links in LaneGroupLink::over(&steering, 64) {
            let (lane, process, objects) = (links.lane(), process.clone(), objects.clone());
            // Another for each life.
            let seed = world.seed().wrapping_mul(1_000_003) + world.now().as_micros() as u64 + lane as u64;
            let seed = SmallRng::seed_from_u64(seed).random();
            server.spawn_on(lane, async move { process.serve(links, &objects, seed).await });
            // Sockets join the group in the order of the lanes.
            world.run_for(Duration::from_micros(10));
        }
        process
    }

    async fn serve(self, links: LaneGroupLink, objects: &Objects, seed: [u8; 32]) {
        let lane = links.lane();
        let options = UdpOptions { reuse_port: true, ..UdpOptions::default() };
        let socket = UdpSocket::bind(SocketAddr::from(ADDRESS), &options).unwrap();
        let driver = Driver::start_seeded(socket, links, config(), seed);
        // Nothing but promises keeps these caches honest.
        let day = Duration::from_secs(86_400);
        let cache = CacheOptions { ttl: day, listing_ttl: day, watches_max: 0, ..Default::default() };
        let spec = VolumeSpec::new("home".parse().unwrap(), "/srv", VolumeOptions::default());
        let cache = Cache::sharing(cache, objects);
        let volume = Volume::open(&cache, &spec.writable_by(Writable::anyone())).unwrap();
        let hosts = LaneHosts::new(&self.hosts, &cache, &driver);
        let longest_write = Rc::<Cell<Duration>>::default();
        let served = Lane { hosts, volume, longest_write, thawed: Rc::clone(&self.thawed) };
        driver.serve(SERVICE, Files(served.clone()));
        self.lanes.borrow_mut().push(served.clone());
        if lane == 0 {
            let resets = served.hosts.reset_recorded().await.unwrap();
            objects.thaw();
            self.thawed.set(Some(time::now()));
            for file in FILES {
                prepare(&served.volume, file).await;
            }
            self.resets.set(Some(resets));
        }
        std::future::pending::<()>().await;
    }

    /// Returns what all lanes have counted.
    pub(crate) fn sum(&self, of: impl Fn(&HostCounters) -> u64) -> u64 {
        self.lanes.borrow().iter().map(|lane| of(lane.hosts.counters())).sum()
    }

    pub(crate) fn vfs(&self, of: impl Fn(&VfsCounters) -> u64) -> u64 {
        self.lanes.borrow().iter().map(|lane| of(lane.volume.counters())).sum()
    }

    /// Times that a client did not hear in time what it had to.
    pub(crate) fn misses(&self) -> u64 {
        let silent = self.resets.get().map_or(0, |resets| resets.silent as u64);
        silent + self.vfs(|vfs| vfs.clients_late.get() + vfs.clients_not_waited_for.get())
    }
}

/// Makes a file of one byte where there is none.
async fn prepare(volume: &Volume, file: &str) {
    let root = volume.lookup(RelPath::ROOT).await.unwrap().into_directory().unwrap().0;
    let how = CreateOptions { exclusive: false, mode: 0o644 };
    let made = root.create(&Caller::anonymous(), name(file), how).await.unwrap();
    if made.is_new {
        made.writer.write_at(&Caller::anonymous(), 0, byte(0).await).await.0.unwrap();
        made.writer.sync(SyncOf::Data).await.unwrap();
        root.sync().await.unwrap();
    }
}

/// The service.
struct Files(Lane);

impl Handler for Files {
    type Connection = Contact;
    type Error = AbortCode;

    fn connected(&self, connection: &ServerConnection) -> Contact {
        Contact::new(connection)
    }

    fn handle(&self, mut call: ServerCall<Contact>) -> impl Future<Output = Result<(), AbortCode>> + 'static {
        let lane = self.0.clone();
        async move {
            let request = call.read_to_end(1024).await?;
            let host = lane.hosts.of(call.data()).await?;
            let (what, rest) = request.split_first().ok_or(AbortCode(-1))?;
            match *what {
                READ => read(&lane, &host, call, std::str::from_utf8(rest).unwrap()).await,
                WRITE => {
                    let (content, file) = rest.split_first().ok_or(AbortCode(-1))?;
                    let version = write(&lane, &host, std::str::from_utf8(file).unwrap(), *content).await;
                    let version = version.map_err(|error| AbortCode(afs::code::of(&error)))?;
                    call.write(&version.to_be_bytes()).await?;
                    call.write(&host.relies_since().to_be_bytes()).await?;
                    Ok(call.finish().await?)
                }
                _ => {
                    lane.hosts.give_up_all_callbacks(call.data(), &host).await;
                    Ok(call.finish().await?)
                }
            }
        }
    }
}

/// Answers vnode, uniquifier, version, for how many seconds, content, and since when the client relies on what it has.
async fn read(
    lane: &Lane,
    host: &Arc<Host>,
    mut call: ServerCall<Contact>,
    file: &str,
) -> Result<(), AbortCode> {
    let caller = Caller::anonymous().sparing(host.holder());
    for _ in 0..64 {
        let promise = lane.hosts.promise();
        let path = RelPath::parse(file.as_bytes()).unwrap();
        let promised =
            lane.volume.lookup_with_callback(&caller, host.client(), path, Rights::READ, promise.until).await;
        let promised = promised.map_err(|error| AbortCode(afs::code::of(&error)))?;
        let Resolved::File(opened, _) = promised.resolved() else { panic!("{file} is a file") };
        let buf = lane::current().buffers().get(BufClass::Small).await;
        let (count, buf) = opened.read_at(0, 1, buf).await;
        assert_eq!(count.unwrap(), 1);
        let Some(confirmed) = promised.confirm() else { continue };
        let number = opened.object().unwrap().number();
        let mut reply = Vec::new();
        reply.extend(number.vnode.to_be_bytes());
        reply.extend(number.uniquifier.to_be_bytes());
        reply.extend(u64::from(confirmed.version).to_be_bytes());
        reply.extend(promise.seconds.to_be_bytes());
        reply.push(buf[0]);
        reply.extend(host.relies_since().to_be_bytes());
        let in_flight_reply = host.loses_overtaking_breaks().then(|| promised.in_flight_reply());
        call.write(&reply).await?;
        call.finish().await?;
        call.closed().await?;
        drop(in_flight_reply);
        return Ok(());
    }
    Err(AbortCode(afs_wire::code::VBUSY))
}

async fn write(lane: &Lane, host: &Arc<Host>, file: &str, content: u8) -> Result<u64, Error> {
    let caller = Caller::anonymous().sparing(host.holder());
    let root = lane.volume.lookup(RelPath::ROOT).await?.into_directory().unwrap().0;
    let writer = root.open_writer(&caller, name(file)).await?;
    let began = time::now();
    writer.write_at(&caller, 0, byte(content).await).await.0?;
    writer.sync(SyncOf::Data).await?;
    let thawed = lane.thawed.get().expect("nothing is changed before");
    let took = time::now() - began.max(thawed);
    lane.longest_write.set(lane.longest_write.get().max(took));
    Ok(u64::from(writer.file().object().unwrap().version()))
}

async fn byte(content: u8) -> lane::buffer::Buf {
    let mut buf = lane::current().buffers().get(BufClass::Small).await;
    buf.append(&[content]);
    buf
}

fn name(file: &str) -> Name<'_> {
    Name::parse(file.as_bytes()).unwrap()
}
