//! A file server of two lanes that is stopped, killed and started again, and whose clients are on both lanes.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use afs::attached_volumes::{AttachedVolumes, Attachment, VolumeType};
use afs::audit::Audit;
use afs::fileserver::{DirPageVersions, FileCounters, FileServer, Locks, SERVICE, Totals};
use afs::host::{HostOptions, Hosts, LaneHosts};
use afs_wire::Fid;
use identity::Writable;
use index::{Index, Memory, Options};
use lane::backend::UdpOptions;
use lane::backend::sim::{Config, Host, World};
use lane::net::UdpSocket;
use lane::socket::reuseport::{SteeredSilo, Steering, owner_lane};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rx::Route;
use rx_lane::{Driver, LaneGroupLink};
use vfs::{
    Cache, CacheOptions, Number, Objects, ObjectsOptions, Volume, VolumeName, VolumeOptions, VolumeSpec,
};
use xdr::afs::AfsUuid;

use super::bed::{Client, config};

pub(crate) const LANES: usize = 2;
const ADDRESS: ([u8; 4], u16) = ([10, 0, 0, 1], 7000);

/// The server's machine and that of its clients.
pub(crate) struct Site {
    /// Objects of lanes, which go before these.
    life: Option<Rc<Life>>,
    pub(crate) world: World,
    pub(crate) server: Host,
    pub(crate) clients: Host,
    memory: Memory,
    /// Pages of directories that a lane keeps.
    pages: usize,
}

/// A process of the server.
pub(crate) struct Life {
    index: Arc<Index>,
    objects: Objects,
    hosts: Hosts,
    locks: Locks,
    dir_page_versions: DirPageVersions,
    totals: Totals,
    pages: usize,
    lanes: RefCell<BTreeMap<usize, Lane>>,
    is_over: Cell<bool>,
    left: Cell<usize>,
}

/// View of one lane.
struct Lane {
    files: FileServer,
    volume: Volume,
    driver: Driver,
}

impl Site {
    pub(crate) fn new(seed: u64, pages: usize) -> Self {
        let mut config = Config::clean();
        config.fs.delay = Duration::ZERO..Duration::from_micros(300);
        let world = World::new(seed, config);
        let (server, clients) = (world.host("10.0.0.1"), world.host("10.0.1.1"));
        for _ in 1..LANES {
            server.add_lane();
        }
        server.fs().create_dir_all("/srv").unwrap();
        Self { world, server, clients, memory: Memory::journaled(), pages, life: None }
    }

    /// The server begins, in the same boot of its machine.
    pub(crate) fn start(&mut self) {
        let index =
            Index::open(self.memory.clone(), Options { boot: [1; 16], ..Options::default() }).unwrap();
        let index = Arc::new(index);
        let options = ObjectsOptions { lanes_max: LANES, ..ObjectsOptions::default() };
        let objects = Objects::new(options, Arc::clone(&index));
        objects.freeze();
        let life = Rc::new(Life {
            hosts: Hosts::new(HostOptions::default(), AfsUuid([0xfe; 16]), Some(Arc::clone(&index))),
            index,
            objects,
            locks: Locks::default(),
            dir_page_versions: DirPageVersions::default(),
            totals: Totals::default(),
            pages: self.pages,
            lanes: RefCell::default(),
            is_over: Cell::default(),
            left: Cell::default(),
        });
        let silo = |n: usize| SteeredSilo { ifindexes: vec![n as u32 + 1], lanes: n..n + 1 };
        let steering = Steering::new((0..LANES).map(silo).collect()).unwrap();
        // By connection, so that a client is on both.
        self.world.net().steer_udp(&self.server, ADDRESS.1, |packet| {
            let route = Route::of(packet.payload)?;
            match route.from_client {
                true => Some((route.cid >> 2) as usize % LANES),
                false => Some(owner_lane(route.epoch, route.cid, LANES)),
            }
        });
        for links in LaneGroupLink::over(&steering, 64) {
            let (lane, life) = (links.lane(), Rc::clone(&life));
            let seed = self.world.seed() * 1_000_003 + self.world.now().as_micros() as u64 + lane as u64;
            let seed = SmallRng::seed_from_u64(seed).random();
            self.server.spawn_on(lane, async move { life.serve(links, seed).await });
            // Sockets join the group in the order of the lanes.
            self.world.run_for(Duration::from_micros(10));
        }
        while life.lanes.borrow().len() < LANES {
            self.world.run_for(Duration::from_millis(1));
        }
        self.life = Some(life);
    }

    /// The server stops in order.
    pub(crate) fn stop(&mut self) {
        let life = self.life.take().expect("it runs");
        life.is_over.set(true);
        while life.left.get() < LANES {
            self.world.run_for(Duration::from_millis(1));
        }
        // What its tasks have goes with them.
        for _ in 0..100 {
            self.world.run_for(Duration::from_millis(10));
        }
        assert_eq!(life.objects.in_use(), 0, "the index has been told of all");
        life.index.close().unwrap();
        self.memory = self.memory.parted();
        drop(life);
        self.server.kill();
        self.server.restart();
    }

    /// The server is killed.
    pub(crate) fn kill(&mut self) {
        let life = self.life.take().expect("it runs");
        // What ends with the process cannot write to it.
        self.memory = self.memory.parted();
        life.lanes.borrow_mut().clear();
        drop(life);
        self.server.kill();
        self.server.restart();
    }

    pub(crate) fn life(&self) -> &Life {
        self.life.as_ref().expect("it runs")
    }

    /// A client at this port, by as many connections as reach every lane.
    pub(crate) fn client(&self, port: u16) -> Vec<Client> {
        let mut seed = SmallRng::seed_from_u64(self.world.seed() + u64::from(port));
        self.world.block_on(&self.clients, async move {
            let first = Client::start(([10, 0, 1, 1], port).into(), ADDRESS.into(), &mut seed);
            let others: Vec<_> = (1..2 * LANES).map(|_| first.again()).collect();
            std::iter::once(first).chain(others).collect()
        })
    }

    /// Has clients do something.
    pub(crate) fn run<T: 'static>(&self, work: impl Future<Output = T> + 'static) -> T {
        self.world.block_on(&self.clients, work)
    }

    /// Ends the world.
    pub(crate) fn end(mut self) {
        if self.life.is_some() {
            self.kill();
        }
        self.world.end();
    }
}

impl Life {
    async fn serve(self: Rc<Self>, links: LaneGroupLink, seed: [u8; 32]) {
        let lane = links.lane();
        let options = UdpOptions { reuse_port: true, ..UdpOptions::default() };
        let socket = UdpSocket::bind(SocketAddr::from(ADDRESS), &options).unwrap();
        let driver = Driver::start_seeded(socket, links, config(), seed);
        let cache = Cache::sharing(CacheOptions::default(), &self.objects);
        let name: VolumeName = "files".parse().unwrap();
        let options = VolumeOptions { serve_hidden: true, ..VolumeOptions::default() };
        let spec = VolumeSpec::new(name.clone(), "/srv", options).with_objects();
        let volume = Volume::open(&cache, &spec.writable_by(Writable::anyone())).unwrap();
        let attachment =
            Attachment { volume: name, name: "files".parse().unwrap(), kind: VolumeType::ReadWrite };
        let attached = Rc::new(AttachedVolumes::of([(attachment, volume.clone())]).unwrap());
        let hosts = LaneHosts::new(&self.hosts, &cache, &driver);
        if lane == 0 {
            hosts.reset_recorded().await.unwrap();
            self.objects.thaw();
        }
        let Self { locks, dir_page_versions, totals, .. } = &*self;
        let server = FileServer::new(attached, hosts, locks, dir_page_versions, totals, Audit::new(None));
        server.keep_pages(self.pages);
        driver.serve(SERVICE, server.clone());
        let shown = Lane { files: server, volume: volume.clone(), driver: driver.clone() };
        // The first takes longer: what is a lane's is used on that lane alone.
        self.lanes.borrow_mut().insert(lane, shown);
        while !self.is_over.get() {
            lane::time::sleep(Duration::from_millis(1)).await;
        }
        self.lanes.borrow_mut().clear();
        driver.close(Duration::from_millis(100)).await;
        drop((driver, volume));
        lane::time::sleep(vfs::SETTLES_IN).await;
        cache.clear();
        self.left.set(self.left.get() + 1);
    }

    pub(crate) fn root(&self) -> Fid {
        let lanes = self.lanes.borrow();
        afs::fid::of(lanes[&0].volume.shared().unwrap().id(), Number::ROOT)
    }

    /// The tree as one lane has it.
    pub(crate) fn volume(&self, lane: usize) -> Volume {
        self.lanes.borrow()[&lane].volume.clone()
    }

    /// Drops what the lanes keep of directories.
    pub(crate) fn evict(&self, lane: usize) {
        self.lanes.borrow()[&lane].files.keep_pages(self.pages);
    }

    pub(crate) fn sum(&self, of: impl Fn(&FileCounters) -> u64) -> u64 {
        self.lanes.borrow().values().map(|lane| of(lane.files.counters())).sum()
    }

    /// Packets that calls hold, on all lanes.
    pub(crate) fn packets_in_use(&self) -> u64 {
        self.lanes.borrow().values().map(|lane| lane.driver.counters().packets_in_use.get()).sum()
    }
}
