//! A server of all three services, on two lanes, over one volume; and what its clients and the test know of each other.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use afs::attached::{Attached, Attachment, Kind};
use afs::audit::Audit;
use afs::fileserver::{FileServer, Layouts, Locks, Totals};
use afs::host::{HostOptions, Hosts, LaneHosts};
use afs_wire::Fid;
use http::service::{Mount, Role as HttpRole};
use identity::{Accounts, NtHash};
use lane::backend::sim::{Host, World};
use lane::backend::{ListenOptions, UdpOptions};
use lane::layout::{LaneSpec, Layout, SiloLayout};
use lane::net::{TcpListener, TcpStream, UdpSocket};
use lane::socket::reuseport::{SteeredSilo, Steering, owner_lane};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rx::Route;
use rx_lane::{Driver, DriverConfig, Links};
use service::commons::Commons;
use service::config::Document;
use service::volumes::{LaneVolumes, VolumeSection, VolumeTable};
use service::{Door, Ground, LaneSocket, LaneStart, Role, Service as _, Site};
use smb_auth::Credentials;
use vfs::{Cache, CacheOptions, Number, Objects, ObjectsOptions, VfsCounters};
use xdr::afs::AfsUuid;

use super::truth::{State, content};

pub(crate) const LANES: usize = 2;
/// The names that all clients use.
pub(crate) const NAMES: [&str; 2] = ["page", "list"];
/// How long an AFS client may rely on what it was promised.
const PROMISE: Duration = Duration::from_secs(20);
const ADDRESS: [u8; 4] = [10, 0, 0, 1];
const PASSWORD: &str = "open sesame";

/// Where the file server of AFS is.
pub(crate) fn afs_address() -> SocketAddr {
    (ADDRESS, 7000).into()
}

/// Where a lane serves SMB,
pub(crate) fn smb_address(lane: usize) -> SocketAddr {
    (ADDRESS, 445 + lane as u16).into()
}

/// and HTTP.
pub(crate) fn http_address(lane: usize) -> SocketAddr {
    (ADDRESS, 80 + lane as u16).into()
}

/// How SMB's clients sign in.
pub(crate) fn credentials() -> Credentials {
    let nt = NtHash::new(&PASSWORD.into()).unwrap();
    Credentials {
        domain: String::new(),
        user: "alice".to_owned(),
        nt_hash: (*nt.expose()).into(),
        workstation: "CLIENT".to_owned(),
    }
}

/// Of every driver of Rx.
pub(crate) fn config() -> DriverConfig {
    let mut config = DriverConfig::default();
    config.endpoint.packets = 512;
    config
}

/// The server.
pub(crate) struct Server {
    pub(crate) host: Host,
    counters: Counters,
    root: Rc<Cell<Fid>>,
}

/// What its lanes count of the tree.
pub(crate) type Counters = Rc<RefCell<Vec<Arc<VfsCounters>>>>;

/// What one lane starts with.
struct Lane {
    links: Links,
    seed: u64,
    objects: Objects,
    table: VolumeTable,
    hosts: Hosts,
    locks: Locks,
    layouts: Layouts,
    totals: Totals,
    smb: Arc<dyn Site>,
    counters: Counters,
    root: Rc<Cell<Fid>>,
}

/// Whatever comes is served where it came.
struct Open;

impl Door for Open {
    fn place(&self, stream: TcpStream, _: Role) -> Option<TcpStream> {
        Some(stream)
    }
}

impl Server {
    /// Starts it, with a file behind each name.
    pub(crate) fn start(world: &World) -> Self {
        let host = world.host("10.0.0.1");
        host.fs().create_dir_all("/srv").unwrap();
        for name in NAMES {
            host.fs().write(&format!("/srv/{name}"), content(0)).unwrap();
        }
        (1..LANES).for_each(|lane| assert_eq!(host.add_lane(), lane));
        let silo = |lane: usize| SteeredSilo { ifindexes: vec![lane as u32 + 1], lanes: lane..lane + 1 };
        let steering = Steering::new((0..LANES).map(silo).collect()).unwrap();
        world.net().steer_udp(&host, afs_address().port(), |packet| {
            let route = Route::of(packet.payload)?;
            match route.from_client {
                true => Some((route.cid >> 2) as usize % LANES),
                false => Some(owner_lane(route.epoch, route.cid, LANES)),
            }
        });
        let server = Self { host, counters: Rc::default(), root: Rc::default() };
        let objects = Objects::in_memory(ObjectsOptions { lanes_max: LANES, ..ObjectsOptions::default() });
        let document = Document::of_text(Path::new("/etc/linerate.toml"), CONFIGURATION);
        let mut sections = VolumeSection::all(&document).unwrap();
        sections.iter_mut().for_each(|section| section.objects = true);
        let table = VolumeTable::default().followed_by(&sections, |_| None).sharing(&objects);
        let smb = smb_site(&document, &sections, &objects);
        let options = HostOptions { promise: PROMISE, ..HostOptions::default() };
        let hosts = Hosts::new(options, AfsUuid([0xfe; 16]), None);
        let (locks, layouts, totals) = (Locks::default(), Layouts::default(), Totals::default());
        for (number, links) in Links::over(&steering, 64).into_iter().enumerate() {
            let lane = Lane {
                links,
                seed: world.seed().wrapping_mul(1_000_003) + number as u64,
                objects: objects.clone(),
                table: table.clone(),
                hosts: hosts.clone(),
                locks: locks.clone(),
                layouts: layouts.clone(),
                totals: totals.clone(),
                smb: Arc::clone(&smb),
                counters: Rc::clone(&server.counters),
                root: Rc::clone(&server.root),
            };
            server.host.spawn_on(number, lane.serve());
            // Sockets join the group in the order of the lanes.
            world.run_for(Duration::from_micros(10));
        }
        // What was written a moment ago might be written again under the same time.
        world.run_for(Duration::from_secs(3));
        server
    }

    /// The volume's root, for AFS.
    pub(crate) fn root(&self) -> Fid {
        self.root.get()
    }

    /// They tell which clients did not hear in time what they had to.
    pub(crate) fn counters(&self) -> Counters {
        Rc::clone(&self.counters)
    }

    /// What a name leads to on the disk.
    pub(crate) fn on_disk(&self, name: &str) -> State {
        self.host.fs().read(&format!("/srv/{name}")).map_or(State::Absent, |bytes| State::of(&bytes))
    }
}

impl Lane {
    async fn serve(self) {
        let lane = self.links.lane();
        // Nothing but promises keeps this cache honest.
        let day = Duration::from_secs(86_400);
        let options = CacheOptions { ttl: day, listing_ttl: day, watches_max: 0, ..CacheOptions::default() };
        let cache = Cache::sharing(options, &self.objects);
        let volumes = LaneVolumes::new(cache.clone()).followed_by(&self.table).unwrap();
        let volume = volumes.iter().next().expect("there is one").clone();
        self.counters.borrow_mut().push(Arc::clone(volume.counters()));
        self.root.set(afs::fid::of(volume.shared().unwrap().id(), Number::ROOT));
        let commons = Commons::new(Arc::default());

        let start = LaneStart {
            volumes: &volumes,
            commons: commons.clone(),
            log: None,
            audit: None,
            seed: self.seed,
        };
        let smb = self.smb.start(start).unwrap();
        let listener = TcpListener::bind(smb_address(lane), &ListenOptions::default()).unwrap();
        let socket = LaneSocket::Tcp(Rc::new(listener));
        lane::spawn(async move { smb.listen(socket, Role(0), Rc::new(Open)).await.unwrap() }).detach();

        let options = UdpOptions { reuse_port: true, ..UdpOptions::default() };
        let socket = UdpSocket::bind(afs_address(), &options).unwrap();
        let seed = SmallRng::seed_from_u64(self.seed).random();
        let driver = Driver::start_seeded(socket, self.links, config(), seed);
        let name: vfs::VolumeName = "files".parse().unwrap();
        let attachment = Attachment { volume: name, name: "files".parse().unwrap(), kind: Kind::ReadWrite };
        let attached = Rc::new(Attached::of([(attachment, volume.clone())]).unwrap());
        let hosts = LaneHosts::new(&self.hosts, &cache, &driver);
        let files =
            FileServer::new(attached, hosts, &self.locks, &self.layouts, &self.totals, Audit::new(None));
        driver.serve(afs::fileserver::SERVICE, files);

        let site = http::service::Site::new(vec![Mount::new("/", volume, true)]);
        let http = http::service::Service::new(
            site,
            Arc::default(),
            Arc::default(),
            None,
            tls::KtlsPolicy::Off,
            commons,
            self.seed,
        );
        let listener = TcpListener::bind(http_address(lane), &ListenOptions::default()).unwrap();
        http.listen(listener, HttpRole::Plain).await;
        std::future::pending::<()>().await;
    }
}

/// SMB as the server plugs it in.
fn smb_site(document: &Document, volumes: &[VolumeSection], objects: &Objects) -> Arc<dyn Site> {
    let nt = NtHash::new(&PASSWORD.into()).unwrap();
    let text = format!("version = 1\n[user.alice]\nid = 1000\nnt = '{}'\n", *nt.to_text());
    let accounts = Accounts::parse(&text).unwrap();
    let spec = |id: usize| LaneSpec { id, silo: 0, cpu: id as u32, node: None };
    let silo = SiloLayout {
        node: None,
        cpus: Default::default(),
        lanes: (0..LANES).map(spec).collect(),
        helper_threads: 1,
        nics: Vec::new(),
    };
    let layout = Layout { silos: vec![silo], shared_nics: Vec::new() };
    let ground = Ground {
        state_dir: None,
        connections_per_lane: 64,
        accounts: &accounts,
        layout: &layout,
        objects: Some(objects),
        index_trouble: None,
        volumes,
    };
    let settings = smb::Smb::default().read(document, volumes).unwrap().expect("it is wanted");
    settings.load(&ground).unwrap().into()
}

const CONFIGURATION: &str = "[smb]\nlisten = '10.0.0.1:445'\nserver_name = 'FILES'\n\
                             [[volume]]\nname = 'files'\npath = '/srv'\nwritable = 'anyone'\n";
