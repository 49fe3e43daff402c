//! The file server: one lane, Rx and out-of-band TCP, two volumes.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use afs::attached_volumes::{AttachedVolumes, Attachment, VolumeType};
use afs::audit::Audit;
use afs::fileserver::{DirPageVersions, FileServer, Locks, Totals};
use afs::host::{HostOptions, Hosts, LaneHosts};
use afs::oob::{LaneOob, OobOptions};
use afs_wire::Fid;
use identity::Writable;
use lane::backend::ListenOptions;
use lane::backend::sim::{Host, World};
use lane::counters::{CounterBlock, CounterKind};
use lane::net::{TcpListener, UdpSocket};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rx_lane::{Driver, DriverConfig, LaneGroupLink};
use vfs::{
    Cache, CacheOptions, CallbackOptions, Number, Objects, ObjectsOptions, Volume, VolumeName, VolumeOptions,
    VolumeSpec,
};
use xdr::afs::AfsUuid;

use crate::rest::{Held, Subject, hold_of_lane};

pub(super) const ADDRESS: ([u8; 4], u16) = ([10, 0, 0, 1], 7000);

/// Returns the configuration of every Rx driver in the world.
pub(super) fn config() -> DriverConfig {
    let mut config = DriverConfig::default();
    config.endpoint.packets = 512;
    config.endpoint.connections_max = 24;
    config.endpoint.unproved_max = 12;
    config.endpoint.reap_time = Duration::from_secs(60);
    config.handlers_max = 12;
    config
}

/// A server, on the lane of its host.
pub(super) struct Server {
    objects: Objects,
    counters: Vec<Arc<dyn CounterBlock>>,
    oob: LaneOob,
    driver: Driver,
    roots: Vec<Fid>,
    host: Host,
}

type Made = (Vec<Arc<dyn CounterBlock>>, LaneOob, Driver, Vec<Fid>);

impl Server {
    pub(super) fn start(world: &World, host: &Host) -> Self {
        let fs = host.fs();
        for directory in ["/srv/d/sub", "/srv/many", "/ro/d"] {
            fs.create_dir_all(directory).expect("the disk is empty");
        }
        let full: Vec<u8> = (0..90_000u32).map(|at| at as u8).collect();
        for (name, bytes) in [("/srv/a", &full[..]), ("/srv/d/x", b"x"), ("/ro/a", b"a")] {
            fs.write(name, bytes).expect("there is room");
        }
        for at in 0..70 {
            fs.write(&format!("/srv/many/{at}"), Vec::new()).expect("there is room");
        }
        fs.symlink("d/x", "/srv/link").expect("there is room");
        fs.symlink("#files:sub.", "/srv/mount").expect("there is room");
        fs.hard_link("/srv/a", "/srv/d/y").expect("there is room");
        let callbacks =
            CallbackOptions { clients_max: 16, callbacks_max: 64, kept_max: 8, ..CallbackOptions::default() };
        let objects = Objects::in_memory(ObjectsOptions {
            objects_max: 300,
            waiting_max: 16,
            lanes_max: 1,
            callbacks,
            local_locks_max: 16,
            ..ObjectsOptions::default()
        });
        let made = Rc::<Cell<Option<Made>>>::default();
        let (told, shared) = (Rc::clone(&made), objects.clone());
        host.spawn(async move {
            let options = CacheOptions {
                open_files_max: 24,
                absent_names_max: 24,
                listing_entries_max: 200,
                watches_max: 16,
                idle_max: Duration::from_secs(20),
                ..CacheOptions::default()
            };
            let cache = Cache::sharing(options, &shared);
            let mut counters = Vec::<Arc<dyn CounterBlock>>::new();
            let (mut attached, mut roots) = (Vec::new(), Vec::new());
            for (name, path, writable) in
                [("files", "/srv", Writable::anyone()), ("shut", "/ro", Writable::Nobody)]
            {
                let volume_name: VolumeName = name.parse().expect("it can be one");
                let options = VolumeOptions { serve_hidden: true, ..VolumeOptions::default() };
                let spec =
                    VolumeSpec::new(volume_name.clone(), path, options).with_objects().writable_by(writable);
                let volume = Volume::open(&cache, &spec).expect("the directory is there");
                if roots.is_empty() {
                    counters.push(Arc::clone(volume.counters()) as _);
                }
                roots.push(afs::fid::of(volume.shared().expect("it has objects").id(), Number::ROOT));
                let name = name.parse().expect("it can be one");
                attached
                    .push((Attachment { volume: volume_name, name, kind: VolumeType::ReadWrite }, volume));
            }
            let attached = Rc::new(AttachedVolumes::of(attached).expect("they differ"));
            let seed = SmallRng::seed_from_u64(3).random();
            let socket =
                UdpSocket::bind(SocketAddr::from(ADDRESS), &config().socket).expect("the port is free");
            let driver = Driver::start_seeded(socket, LaneGroupLink::alone(), config(), seed);
            let hosts = HostOptions {
                hosts_max: 8,
                per_address_max: 6,
                silent_per_address_max: 2,
                asking_max: 4,
                asking_per_address_max: 2,
                promise: Duration::from_secs(30),
                ..HostOptions::default()
            };
            let hosts = Hosts::new(hosts, AfsUuid([0xfe; 16]), None);
            let lane_hosts = LaneHosts::new(&hosts, &cache, &driver);
            counters.push(Arc::clone(lane_hosts.counters()) as _);
            counters.push(driver.counters() as _);
            let (locks, dir_page_versions, totals) =
                (Locks::default(), DirPageVersions::default(), Totals::default());
            let files =
                FileServer::new(attached, lane_hosts, &locks, &dir_page_versions, &totals, Audit::default());
            let options = OobOptions {
                idle: Duration::from_secs(20),
                connections_max: 6,
                transfers_max: 3,
                receiving_max: 3,
                ..OobOptions::default()
            };
            let oob = LaneOob::new(options, None).expect("there is a mesh");
            counters.push(Arc::clone(oob.counters()) as _);
            counters.push(Arc::clone(files.counters()) as _);
            files.offer_oob(&oob);
            driver.serve(afs::fileserver::SERVICE, files.clone());
            let listening = oob.clone();
            lane::spawn(async move {
                let listener = TcpListener::bind(SocketAddr::from(ADDRESS), &ListenOptions::default());
                let _ = listening.listen(&listener.expect("the port is free")).await;
            })
            .detach();
            told.set(Some((counters, oob, driver, roots)));
            let _files = files;
            std::future::pending::<()>().await;
        });
        world.run_for(Duration::from_secs(1));
        let (counters, oob, driver, roots) = made.take().expect("it serves by now");
        Self { objects, counters, oob, driver, roots, host: host.clone() }
    }

    /// Returns the volumes' roots.
    pub(super) fn roots(&self) -> &[Fid] {
        &self.roots
    }
}

impl Subject for Server {
    fn held(&self) -> Held {
        let mut held = BTreeMap::new();
        for block in &self.counters {
            block.visit(&mut |reading| {
                if reading.kind == CounterKind::Gauge && HELD.contains(&reading.name) {
                    *held.entry(reading.name.to_owned()).or_default() += reading.value;
                }
            });
        }
        held.insert("oob connections".to_owned(), self.oob.connections() as u64);
        let endpoint = self.driver.endpoint();
        let pool = endpoint.pool();
        held.insert("packets".to_owned(), (pool.allocated() - pool.free_count()) as u64);
        hold_of_lane(&self.host, &self.objects, &mut held);
        held
    }

    fn objects(&self) -> &Objects {
        &self.objects
    }

    fn host(&self) -> &Host {
        &self.host
    }

    fn counters(&self) -> impl Iterator<Item = &dyn CounterBlock> {
        self.counters.iter().map(|block| &**block)
    }
}

/// Gauges that return to their first values when a server has no clients. `promises_given` is none of them: a client
/// that was not yet notified that all is void is remembered for as long as callbacks may last, a week.
const HELD: [&str; 6] = ["transfers", "idle", "unclaimed", "connections", "handlers", "open_cached"];
