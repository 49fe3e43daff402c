//! A server that ends in order and begins again, over a network that loses packets.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use identity::Writable;
use index::{Index, Memory};
use lane::backend::ListenOptions;
use lane::backend::sim::{Config, Host, World};
use lane::net::{TcpListener, TcpStream};
use lane::time::{now, sleep};
use service::commons::Commons;
use service::volumes::{LaneVolumes, VolumeSection, VolumeTable};
use service::{ConnectionRouter, LaneService, LaneSocket, LaneStart, Role};
use vfs::{Cache, CacheOptions, Objects, ObjectsOptions};

use super::super::bed::rules;
use crate::options::Options;
use crate::server::ServerState;
use crate::service::LaneSmb;

/// A server that ends and begins again.
pub(super) struct Site {
    pub(super) world: World,
    pub(super) host: Host,
    lanes: usize,
    options: Arc<Options>,
    storage: Memory,
    left: Option<Vec<u8>>,
    process: Option<Process>,
    is_begun: bool,
}

/// One process of it.
struct Process {
    index: Arc<Index>,
    server_state: Arc<ServerState>,
    lanes: Vec<Rc<LaneSmb>>,
}

/// A router that serves every connection where it came.
struct Everybody;

impl ConnectionRouter for Everybody {
    fn place(&self, stream: TcpStream, _: Role) -> Option<TcpStream> {
        Some(stream)
    }
}

impl Site {
    pub(super) fn new(seed: u64, lanes: usize) -> Self {
        let mut config = Config::clean();
        let link = &mut config.net.link;
        (link.loss, link.jitter) = (0.02, Duration::from_millis(3));
        let world = World::new(seed, config);
        let host = world.host("10.0.0.1");
        host.fs().create_dir_all("/srv").unwrap();
        (1..lanes).for_each(|lane| assert_eq!(host.add_lane(), lane));
        let (options, storage) = (Arc::new(rules()), Memory::default());
        Self { world, host, lanes, options, storage, left: None, process: None, is_begun: false }
    }

    pub(super) fn servers(&self) -> Vec<SocketAddr> {
        (0..self.lanes).map(address).collect()
    }

    /// Does something on a lane.
    fn on<T: 'static>(&self, lane: usize, what: impl Future<Output = T> + 'static) -> T {
        self.world.block_on(&self.host, self.host.start_on(lane, what))
    }

    /// A process begins, and takes up what the last has left.
    pub(super) fn begins(&mut self) {
        if std::mem::replace(&mut self.is_begun, true) {
            self.host.kill();
            self.host.restart();
        }
        // Another file with the same bytes, as what is left of the last process may have that one.
        let image = self.storage.image();
        self.storage = Memory::default();
        self.storage.set_back(&image);
        let options = index::Options { boot: [1; 16], ..index::Options::default() };
        let index = Arc::new(Index::open(self.storage.clone(), options).unwrap());
        let options = ObjectsOptions { lanes_max: self.lanes, ..ObjectsOptions::default() };
        let objects = Objects::new(options, Arc::clone(&index));
        let mut section = VolumeSection::new("files".parse().unwrap(), "/srv".into());
        section.writable = Writable::anyone();
        section.objects = true;
        let table = VolumeTable::default().followed_by(&[section], |_| None).sharing(&objects);
        let server_state = Arc::<ServerState>::default();
        if let Some(left) = self.left.take() {
            server_state.persisted_state.import(left);
        }
        let lane_of = |_| {
            let (objects, table) = (objects.clone(), table.clone());
            let (options, server_state) = (Arc::clone(&self.options), Arc::clone(&server_state));
            async move {
                let volumes = LaneVolumes::new(Cache::sharing(CacheOptions::default(), &objects));
                let volumes = volumes.followed_by(&table).unwrap();
                let commons = Commons::new(Arc::default());
                let start = LaneStart { volumes: &volumes, commons, log: None, audit: None, seed: 1 };
                LaneSmb::new(options, server_state, &start).unwrap()
            }
        };
        let lanes: Vec<_> = (0..self.lanes).map(|lane| self.on(lane, lane_of(lane))).collect();
        let first = Rc::clone(&lanes[0]);
        self.on(0, async move { first.restore_state().await });
        for (number, lane) in lanes.iter().enumerate() {
            let lane = Rc::clone(lane);
            self.host.spawn_on(number, async move {
                let listener = TcpListener::bind(address(number), &ListenOptions::default()).unwrap();
                let socket = LaneSocket::Tcp(Rc::new(listener));
                lane.listen(socket, Role(0), Rc::new(Everybody)).await.unwrap();
            });
        }
        self.process = Some(Process { index, server_state, lanes });
    }

    /// Ends the server in order, as by SIGTERM.
    pub(super) fn ends(&mut self) {
        let Process { index, server_state, lanes } = self.process.take().expect("it runs");
        let drain = |(number, lane): (usize, &Rc<LaneSmb>)| {
            let lane = Rc::clone(lane);
            self.host.start_on(number, async move { lane.drain(now() + Duration::from_secs(2)).await })
        };
        let drains: Vec<_> = lanes.iter().enumerate().map(drain).collect();
        self.on(0, async move {
            for drain in drains {
                drain.await;
            }
            sleep(vfs::SETTLES_IN).await;
        });
        let first = Rc::clone(&lanes[0]);
        self.on(0, async move { first.save_state().await });
        self.left = server_state.persisted_state.take_next();
        for (number, lane) in lanes.into_iter().enumerate() {
            self.on(number, async move { drop(lane) });
            self.host.end_lane(number);
        }
        index.close().expect("nothing is in use any more");
    }
}

pub(super) fn address(lane: usize) -> SocketAddr {
    ([10, 0, 0, 1], 445 + lane as u16).into()
}
