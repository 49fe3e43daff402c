//! A server of one lane, and clients of it on another host.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use identity::{Accounts, NtHash, Writable};
use lane::backend::ListenOptions;
use lane::backend::sim::{Config, Fs, Host, Net, World};
use lane::net::{TcpListener, TcpStream};
use lane::time::sleep;
use service::commons::Commons;
use service::log::{Format, LaneLog, LogReader};
use service::volumes::{LaneVolumes, VolumeSection, VolumeTable};
use service::{ConnectionRouter, LaneService, LaneSocket, LaneStart, Role};
use smb_auth::{Credentials, Policy, Target};
use smb_client::{Channel, Connection, Options as ClientOptions, Tree};
use smb_sid::Sids;
use smb_wire::Guid;
use smb_wire::body::lock::{self, LockElement};
use vfs::{Cache, CacheOptions, Objects, ObjectsOptions};
use zeroize::Zeroizing;

use crate::counters::SmbCounters;
use crate::interfaces::AdvertisedInterfaces;
use crate::options::Options;
use crate::server::ServerState;
use crate::service::LaneSmb;
use crate::settings::{Encryption, ShareSection, Signing};

/// The server of a test.
pub(crate) struct Bed {
    pub(crate) lane: Rc<LaneSmb>,
    pub(crate) server_state: Arc<ServerState>,
    pub(crate) fs: Fs,
    pub(crate) host: Host,
    pub(crate) address: SocketAddr,
    guids: Cell<u8>,
    options: Arc<Options>,
    objects: Objects,
    table: VolumeTable,
    /// Further lanes.
    others: RefCell<Vec<Other>>,
    audit: (LaneLog, LogReader),
}

/// A lane beside the one of the test.
#[derive(Clone)]
pub(crate) struct Other {
    pub(crate) address: SocketAddr,
    pub(crate) counters: Arc<SmbCounters>,
}

pub(crate) const PASSWORD: &str = "open sesame";

/// A router that serves every connection on its own lane.
struct Open;

impl ConnectionRouter for Open {
    fn place(&self, stream: TcpStream, _: Role) -> Option<TcpStream> {
        Some(stream)
    }
}

/// Rules of a server that lets clients do what they like.
pub(crate) fn rules() -> Options {
    let nt = NtHash::new(&PASSWORD.into()).unwrap();
    let user = |name, id| format!("[user.{name}]\nid = {id}\nnt = '{}'\n", *nt.to_text());
    let text = format!("version = 1\n{}{}", user("alice", 1000), user("bob", 1001));
    let name = || "FILES".to_owned();
    let target =
        Target { netbios_name: name(), netbios_domain: name(), dns_name: name(), dns_domain: name() };
    Options {
        target,
        policy: Policy::default(),
        signing: Signing::Allowed,
        encryption: Encryption::Allowed,
        multichannel: true,
        gmac_over_channels: false,
        accounts: Accounts::parse(&text).unwrap(),
        has_users: true,
        sids: Sids::new("FILES"),
        shares: vec![ShareSection {
            short_names: false,
            hide_unreadable: false,
            keep_inherited: false,
            write_time_delay: Duration::ZERO,
            hide: Vec::new(),
            hide_attributes: Vec::new(),
            name: "Files".to_owned(),
            directory: None,
            volume: "files".parse().unwrap(),
            path: "/srv".into(),
            writable: true,
            test_delay: None,
        }],
        interfaces: AdvertisedInterfaces::These(Vec::new()),
        test_switches: false,
        connections_max: 20_000,
        sessions_max: 1000,
        credits: 512,
        transfer_max: 1 << 20,
        memory: 32 << 20,
    }
}

/// Runs `test` on the host of the server.
pub(crate) fn run(seed: u64, options: Options, test: impl AsyncFnOnce(Rc<Bed>, Clients) + 'static) {
    run_in(seed, options, async move |bed, clients, _| test(bed, clients).await);
}

/// Runs a test that disturbs the network.
pub(crate) fn run_in(seed: u64, options: Options, test: impl AsyncFnOnce(Rc<Bed>, Clients, Net) + 'static) {
    let world = World::new(seed, Config::clean());
    let net = world.net();
    let host = world.host("10.0.0.1");
    let others = Clients { hosts: (2..6).map(|last| world.host(&format!("10.0.0.{last}"))).collect() };
    host.fs().create_dir_all("/srv").unwrap();
    let here = host.clone();
    world.block_on(&host, async move {
        let bed = Rc::new(Bed::new(here, options));
        test(bed, others, net).await;
    });
}

/// Hosts of clients.
pub(crate) struct Clients {
    pub(crate) hosts: Vec<Host>,
}

impl Clients {
    /// Does something on the host of a client.
    pub(crate) async fn on<T: 'static>(&self, host: usize, story: impl Future<Output = T> + 'static) -> T {
        self.hosts[host].start_on(0, story).await
    }
}

impl Bed {
    fn new(host: Host, options: Options) -> Self {
        let objects = Objects::in_memory(ObjectsOptions::default());
        let mut section = VolumeSection::new("files".parse().unwrap(), "/srv".into());
        section.writable = Writable::anyone();
        section.objects = true;
        let table = VolumeTable::default().followed_by(&[section], |_| None).sharing(&objects);
        let (server_state, options) = (Arc::<ServerState>::default(), Arc::new(options));
        let address: SocketAddr = "10.0.0.1:445".parse().unwrap();
        let audit = service::log::channel(64);
        let lane = serve(&options, &server_state, &objects, &table, address, &audit.0);
        let fs = host.fs();
        let others = RefCell::default();
        Self {
            lane,
            server_state,
            fs,
            host,
            address,
            guids: Cell::new(1),
            options,
            objects,
            table,
            others,
            audit,
        }
    }

    /// Adds a lane to the server, which has a port of its own.
    pub(crate) async fn add_lane(&self) -> Other {
        let lane = self.host.add_lane();
        let address = SocketAddr::new(self.address.ip(), 445 + lane as u16);
        let (options, server_state) = (Arc::clone(&self.options), Arc::clone(&self.server_state));
        let (objects, table, audit) = (self.objects.clone(), self.table.clone(), self.audit.0.clone());
        let start = self.host.start_on(lane, async move {
            let lane = serve(&options, &server_state, &objects, &table, address, &audit);
            let counters = Arc::clone(&lane.counters);
            lane::spawn(async move {
                let _lane = lane;
                std::future::pending::<()>().await;
            })
            .detach();
            counters
        });
        let other = Other { address, counters: start.await };
        self.others.borrow_mut().push(other.clone());
        other
    }

    pub(crate) fn counters(&self) -> &SmbCounters {
        &self.lane.counters
    }

    /// Lines of the audit log since they were read last, of the first lane.
    pub(crate) fn audited(&self) -> Vec<String> {
        self.lane.flush_log();
        let mut lines = Vec::new();
        while self.audit.1.read(Format::Json, &mut lines) {}
        String::from_utf8(lines).unwrap().lines().map(str::to_owned).collect()
    }

    /// Returns how a client of ours negotiates.
    pub(crate) fn client(&self) -> ClientOptions {
        let guid = self.guids.get();
        self.guids.set(guid + 1);
        let state = Cell::new(u64::from(guid));
        let random = move |bytes: &mut [u8]| {
            for byte in bytes {
                state.set(state.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
                *byte = (state.get() >> 33) as u8;
            }
        };
        ClientOptions::new(Guid::new([guid; 16]), Rc::new(random))
    }

    /// Checks that nothing is left of any client.
    pub(crate) fn expect_empty(&self) {
        for other in self.others.borrow().iter() {
            let counters = &other.counters;
            assert_eq!((counters.sessions.get(), counters.waiting.get()), (0, 0), "on another lane");
        }
        assert_eq!(self.server_state.sessions.len(), 0, "sessions");
        assert_eq!(self.server_state.pending_sign_ins.len(), 0, "sign-ins under way");
        assert_eq!(self.server_state.trees.len(), 0, "tree connects");
        assert_eq!(self.counters().sessions.get(), 0, "sessions of the lane");
        assert_eq!(self.counters().waiting.get(), 0, "requests that wait");
        assert_eq!(self.lane.opens().usage().opens, 0, "opens");
        assert_eq!(self.server_state.pipes.memory.held(), 0, "bytes of named pipes");
        assert!(self.lane.connections().is_empty(), "connections");
        let held = self.lane.connections().counters().reply_memory_bytes.get();
        assert_eq!(held, 0, "memory on the books");
    }
}

/// Serves on the current lane.
fn serve(
    options: &Arc<Options>,
    server_state: &Arc<ServerState>,
    objects: &Objects,
    table: &VolumeTable,
    address: SocketAddr,
    audit: &LaneLog,
) -> Rc<LaneSmb> {
    let volumes = LaneVolumes::new(Cache::sharing(CacheOptions::default(), objects));
    let volumes = volumes.followed_by(table).unwrap();
    let start = LaneStart {
        volumes: &volumes,
        commons: Commons::new(Arc::default()),
        log: None,
        audit: Some(audit.clone()),
        seed: 1,
    };
    let lane = LaneSmb::new(Arc::clone(options), Arc::clone(server_state), &start).unwrap();
    let listener = Rc::new(TcpListener::bind(address, &ListenOptions::default()).unwrap());
    let service = Rc::clone(&lane);
    lane::spawn(async move {
        service.listen(LaneSocket::Tcp(listener), Role(0), Rc::new(Open)).await.unwrap();
    })
    .detach();
    lane
}

/// Waits until it is so.
pub(crate) async fn until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..3000 {
        if is_so() {
            return;
        }
        sleep(Duration::from_millis(10)).await;
    }
    panic!("{what}");
}

/// Binds one more channel of a client that has signed in.
pub(crate) async fn bind(
    to: &Tree,
    address: SocketAddr,
    options: ClientOptions,
) -> Result<Tree, smb_client::Error> {
    let connection = Connection::open(address, options).await?;
    Ok(to.over(&Channel::bind(&connection, &to.channel().ticket()).await?))
}

/// Makes an exclusive lock of the first ten bytes of a file.
pub(crate) fn first_ten() -> LockElement {
    let flags = lock::flags::EXCLUSIVE.into();
    LockElement { offset: 0.into(), length: 10.into(), flags, reserved: 0.into() }
}

/// Signs in and opens the share.
pub(crate) async fn sign_in(address: SocketAddr, options: ClientOptions) -> Result<Tree, smb_client::Error> {
    let connection = Connection::open(address, options).await?;
    let channel = Channel::sign_in(&connection, credentials("alice", PASSWORD)).await?;
    Tree::connect(&channel, r"\\10.0.0.1\files").await
}

pub(crate) fn credentials(user: &str, password: &str) -> Credentials {
    let nt = NtHash::new(&password.into()).unwrap();
    Credentials {
        domain: String::new(),
        user: user.to_owned(),
        nt_hash: Zeroizing::new(*nt.expose()),
        workstation: "CLIENT".to_owned(),
    }
}
