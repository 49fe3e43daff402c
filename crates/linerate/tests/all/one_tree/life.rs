//! One life of the server, from its start to its stop, or as far as it comes.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use afs::attached_volumes::{AttachedVolumes, Attachment, VolumeType};
use afs::audit::Audit;
use afs::fileserver::{DirPageVersions, FileServer, Locks, Totals};
use afs::host::{HostOptions, Hosts, LaneHosts};
use afs_wire::Fid;
use http::service::{Mount, Role as HttpRole};
use identity::{Accounts, NtHash};
use index::Index;
use lane::backend::sim::{Host, Net};
use lane::backend::{ListenOptions, UdpOptions};
use lane::layout::{LaneSpec, Layout, SiloLayout};
use lane::net::{TcpListener, TcpStream, UdpSocket};
use lane::socket::reuseport::{SteeredSilo, Steering, owner_lane};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rx::Route;
use rx_lane::{Driver, LaneGroupLink};
use service::commons::Commons;
use service::config::Document;
use service::volumes::{LaneVolumes, VolumeSection, VolumeTable};
use service::{ConnectionRouter, LaneSocket, LaneStart, LoadContext, Role, Service as _, Site};
use vfs::{Cache, CacheOptions, Number, Objects, VfsCounters};
use xdr::afs::AfsUuid;

use super::server::{LANES, PASSWORD, afs_address, config, http_address, smb_address};

/// Counters of its lanes about the tree.
pub(crate) type Counters = Rc<RefCell<Vec<Arc<VfsCounters>>>>;

/// State that all its lanes share.
pub(crate) struct Life {
    pub(crate) objects: Objects,
    pub(crate) counters: Counters,
    cache: CacheOptions,
    table: VolumeTable,
    hosts: Hosts,
    /// Clients that an earlier life has promised something are told first.
    is_recorded: bool,
    locks: Locks,
    dir_page_versions: DirPageVersions,
    totals: Totals,
    smb: Arc<dyn Site>,
    root: Cell<Fid>,
    serving: Cell<usize>,
    is_over: Cell<bool>,
    drained: Cell<usize>,
    left: Cell<usize>,
}

/// A router that serves every connection where it came.
struct Open;

impl ConnectionRouter for Open {
    fn place(&self, stream: TcpStream, _: Role) -> Option<TcpStream> {
        Some(stream)
    }
}

/// Packets of AFS go to their connection's lane.
pub(crate) fn steer(net: &Net, host: &Host) {
    net.steer_udp(host, afs_address().port(), |packet| {
        let route = Route::of(packet.payload)?;
        match route.from_client {
            true => Some((route.cid >> 2) as usize % LANES),
            false => Some(owner_lane(route.epoch, route.cid, LANES)),
        }
    });
}

impl Life {
    /// Over these objects, which are of the index if there is one.
    pub(crate) fn new(
        objects: Objects,
        index: Option<&Arc<Index>>,
        promise: Duration,
        cache: CacheOptions,
    ) -> Rc<Self> {
        let document = Document::of_text(Path::new("/etc/linerate.toml"), CONFIGURATION);
        let mut sections = VolumeSection::all(&document).unwrap();
        sections.iter_mut().for_each(|section| section.objects = true);
        let options = HostOptions { promise, ..HostOptions::default() };
        if index.is_some() {
            objects.freeze();
        }
        Rc::new(Self {
            counters: Rc::default(),
            cache,
            table: VolumeTable::default().followed_by(&sections, |_| None).sharing(&objects),
            hosts: Hosts::new(options, AfsUuid([0xfe; 16]), index.cloned()),
            is_recorded: index.is_some(),
            locks: Locks::default(),
            dir_page_versions: DirPageVersions::default(),
            totals: Totals::default(),
            smb: smb_site(&document, &sections, &objects),
            root: Cell::default(),
            serving: Cell::default(),
            is_over: Cell::default(),
            drained: Cell::default(),
            left: Cell::default(),
            objects,
        })
    }

    /// Starts its lanes. Sockets join the group in the order of the lanes: time goes by between two of them.
    pub(crate) fn lanes(self: &Rc<Self>, host: &Host, seed: u64) -> impl Iterator<Item = ()> {
        let silo = |lane: usize| SteeredSilo { ifindexes: vec![lane as u32 + 1], lanes: lane..lane + 1 };
        let steering = Steering::new((0..LANES).map(silo).collect()).unwrap();
        let (life, host) = (Rc::clone(self), host.clone());
        LaneGroupLink::over(&steering, 64).into_iter().enumerate().map(move |(number, links)| {
            let seed = seed.wrapping_mul(1_000_003) + number as u64;
            host.spawn_on(number, Rc::clone(&life).serve(links, seed));
        })
    }

    /// The volume's root, for AFS.
    pub(crate) fn root(&self) -> Fid {
        self.root.get()
    }

    pub(crate) fn is_serving(&self) -> bool {
        self.serving.get() == LANES
    }

    /// Waits until the server's lanes have ended.
    pub(crate) fn is_to_end(&self) {
        self.is_over.set(true);
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.left.get() == LANES
    }

    async fn serve(self: Rc<Self>, links: LaneGroupLink, seed: u64) {
        let lane = links.lane();
        let cache = Cache::sharing(self.cache, &self.objects);
        let volumes = LaneVolumes::new(cache.clone()).followed_by(&self.table).unwrap();
        let volume = volumes.iter().next().expect("there is one").clone();
        self.counters.borrow_mut().push(Arc::clone(volume.counters()));
        self.root.set(afs::fid::of(volume.shared().unwrap().id(), Number::ROOT));
        let commons = Commons::new(Arc::default());

        let options = UdpOptions { reuse_port: true, ..UdpOptions::default() };
        let socket = UdpSocket::bind(afs_address(), &options).unwrap();
        let driver = Driver::start_seeded(socket, links, config(), SmallRng::seed_from_u64(seed).random());
        let hosts = LaneHosts::new(&self.hosts, &cache, &driver);
        if self.is_recorded && lane == 0 {
            hosts.reset_recorded().await.unwrap();
            self.objects.thaw();
        }

        let start = LaneStart { volumes: &volumes, commons: commons.clone(), log: None, audit: None, seed };
        let smb = self.smb.start(start).unwrap();
        let listener = TcpListener::bind(smb_address(lane), &ListenOptions::default()).unwrap();
        let (socket, listening) = (LaneSocket::Tcp(Rc::new(listener)), Rc::clone(&smb));
        let listening =
            lane::spawn(async move { listening.listen(socket, Role(0), Rc::new(Open)).await.unwrap() });

        let name: vfs::VolumeName = "files".parse().unwrap();
        let attachment =
            Attachment { volume: name, name: "files".parse().unwrap(), kind: VolumeType::ReadWrite };
        let attached = Rc::new(AttachedVolumes::of([(attachment, volume.clone())]).unwrap());
        let files = FileServer::new(
            attached,
            hosts,
            &self.locks,
            &self.dir_page_versions,
            &self.totals,
            Audit::new(None),
        );
        driver.serve(afs::fileserver::SERVICE, files);

        let site = http::service::Site::new(vec![Mount::new("/", volume, true)]);
        let http = http::service::Service::new(
            site,
            Arc::default(),
            Arc::default(),
            None,
            tls::KtlsPolicy::Off,
            commons,
            seed,
        );
        let listener = TcpListener::bind(http_address(lane), &ListenOptions::default()).unwrap();
        let browsed = Rc::clone(&http);
        let browsing = lane::spawn(async move { browsed.listen(listener, HttpRole::Plain).await });

        self.serving.update(|lanes| lanes + 1);
        while !self.is_over.get() {
            lane::time::sleep(Duration::from_millis(50)).await;
        }
        drop((listening, browsing));
        let patience = lane::time::now() + Duration::from_millis(500);
        Rc::clone(&smb).drain(patience).await;
        http.drain(patience).await;
        driver.close(Duration::from_millis(100)).await;
        self.drained.update(|lanes| lanes + 1);
        if self.drained.get() == LANES {
            Rc::clone(&smb).save_state().await;
        }
        drop((smb, http, driver, volumes));
        lane::time::sleep(vfs::SETTLES_IN).await;
        cache.clear();
        self.left.update(|lanes| lanes + 1);
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
    let context = LoadContext {
        is_trial: false,
        state_dir: None,
        connections_per_lane: 64,
        accounts: &accounts,
        layout: &layout,
        objects: Some(objects),
        index_trouble: None,
        volumes,
    };
    let settings = smb::Smb::default().read(document, volumes).unwrap().expect("it is wanted");
    settings.load(&context).unwrap().into()
}

const CONFIGURATION: &str = "[smb]\nlisten = '10.0.0.1:445'\nserver_name = 'FILES'\n\
                             [[volume]]\nname = 'files'\npath = '/srv'\nwritable = 'anyone'\n";
