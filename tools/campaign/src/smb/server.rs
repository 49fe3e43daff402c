//! The server: one lane, small limits, three volumes and a share for each user.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use identity::{Accounts, NtHash};
use lane::backend::ListenOptions;
use lane::backend::sim::{Host, World};
use lane::counters::{CounterBlock, CounterKind};
use lane::layout::{LaneSpec, Layout, SiloLayout};
use lane::net::{TcpListener, TcpStream};
use service::commons::Commons;
use service::config::Document;
use service::volumes::{LaneVolumes, VolumeSection, VolumeTable};
use service::{ConnectionRouter, LaneSocket, LaneStart, LoadContext, Role, Service as _};
use vfs::{Cache, CacheOptions, Objects, ObjectsOptions};

use crate::decisions::Decisions;
use crate::rest::{Held, Subject, hold_of_lane};

/// Password of all users.
pub(super) const PASSWORD: &str = "open sesame";
pub(super) const ADDRESS: ([u8; 4], u16) = ([10, 0, 0, 1], 445);

/// Configuration of a case's server.
#[derive(Debug)]
pub(super) struct How {
    pub(super) seed: u8,
    pub(super) disk: u8,
    options: u8,
}

impl How {
    pub(super) fn decide(decisions: &mut Decisions<'_>) -> Self {
        let (seed, disk, options) = (decisions.byte(), decisions.byte(), decisions.byte());
        Self { seed, disk, options }
    }

    fn text(&self) -> String {
        let on = |bit: u8| self.options >> bit & 1 == 1;
        let credits = if on(0) { 16 } else { 128 };
        let encryption = if on(1) { "off" } else { "allowed" };
        let (names, hides, canonical, guest) = (on(2), on(3), !on(4), !on(5));
        let late = if on(6) { 500 } else { 0 };
        let (test, delay) = if on(7) { (true, "smb_test_delay_ms = 50\n") } else { (false, "") };
        format!(
            "[smb]\nlisten = '10.0.0.1:445'\nserver_name = 'FILES'\nsigning = 'allowed'\nencryption = '{encryption}'\n\
             guest = {guest}\nanonymous = true\nconnections_per_lane = 8\nsessions = 10\ncredits = {credits}\n\
             transfer_max = '64K'\nmemory_per_lane = '512K'\ntest_switches = {test}\n\
             [[smb.interface]]\naddress = '10.0.0.1'\nspeed = 1000000000\n\
             [[smb.share]]\nname = 'home'\nvolume = 'files'\ndirectory = 'home/%U'\ncreate = true\n\
             [[volume]]\nname = 'files'\npath = '/srv/files'\nwritable = 'anyone'\nsmb_short_names = {names}\n\
             smb_write_time_delay_ms = {late}\nsmb_hide = ['secret*']\n{delay}\
             [[volume]]\nname = 'listed'\npath = '/srv/listed'\nwritable = 'alice,bob'\nsmb_access_based_enumeration = {hides}\n\
             smb_acl_flag_inherited_canonicalization = {canonical}\nserve_dotfiles = true\n\
             [[volume]]\nname = 'shut'\npath = '/srv/shut'\n"
        )
    }
}

/// A server, on the lane of its host.
pub(super) struct Server {
    objects: Objects,
    counters: Vec<(&'static str, Arc<dyn CounterBlock>)>,
    host: Host,
    clients: Host,
}

struct Open;

impl ConnectionRouter for Open {
    fn place(&self, stream: TcpStream, _: Role) -> Option<TcpStream> {
        Some(stream)
    }
}

impl Server {
    pub(super) fn start(world: &World, host: &Host, clients: &Host, how: &How) -> Self {
        let fs = host.fs();
        for directory in ["/srv/files/d/sub", "/srv/files/home", "/srv/listed/d", "/srv/shut"] {
            fs.create_dir_all(directory).expect("the disk is empty");
        }
        let full: Vec<u8> = (0..40_000u32).map(|at| at as u8).collect();
        for (name, bytes) in
            [("files/a", &full[..]), ("files/d/x", b"x"), ("listed/a", &full[..9000]), ("shut/a", b"a")]
        {
            fs.write(&format!("/srv/{name}"), bytes).expect("there is room");
        }
        fs.symlink("d/x", "/srv/files/link").expect("there is room");
        fs.symlink("/etc", "/srv/files/out").expect("there is room");
        fs.symlink("loop", "/srv/files/loop").expect("there is room");
        fs.hard_link("/srv/files/d/x", "/srv/files/d/y").expect("there is room");

        let document = Document::of_text(Path::new("/etc/linerate.toml"), how.text());
        let mut sections = VolumeSection::all(&document).expect("it is well-formed");
        sections.iter_mut().for_each(|section| section.objects = true);
        let objects = Objects::in_memory(ObjectsOptions {
            objects_max: 2000,
            waiting_max: 32,
            leases_per_client_max: 64,
            lanes_max: 1,
            local_locks_max: 16,
            ..ObjectsOptions::default()
        });
        let table = VolumeTable::default().followed_by(&sections, |_| None).sharing(&objects);
        let nt = NtHash::new(&PASSWORD.into()).expect("it can be one").to_text();
        let user = |name, id| format!("[user.{name}]\nid = {id}\nnt = '{}'\n", *nt);
        let accounts = format!("version = 1\n{}{}", user("alice", 1000), user("bob", 1001));
        let accounts = Accounts::parse(&accounts).expect("it is well-formed");
        let silo = SiloLayout {
            node: None,
            cpus: Default::default(),
            lanes: vec![LaneSpec { id: 0, silo: 0, cpu: 0, node: None }],
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
            objects: Some(&objects),
            index_trouble: None,
            volumes: &sections,
        };
        let settings = smb::Smb::default().read(&document, &sections).expect("it is well-formed");
        let site = settings.expect("it is wanted").load(&context).expect("there is nothing to fail");

        let counters = Rc::<RefCell<Vec<(&'static str, Arc<dyn CounterBlock>)>>>::default();
        let (told, shared) = (Rc::clone(&counters), objects.clone());
        host.spawn(async move {
            let options = CacheOptions {
                open_files_max: 24,
                absent_names_max: 24,
                listing_entries_max: 200,
                watches_max: 16,
                idle_max: Duration::from_secs(20),
                ..CacheOptions::default()
            };
            let volumes = LaneVolumes::new(Cache::sharing(options, &shared));
            let volumes = volumes.followed_by(&table).expect("the directories are there");
            let start = LaneStart {
                volumes: &volumes,
                commons: Commons::new(Arc::default()),
                log: None,
                audit: None,
                seed: 1,
            };
            let lane = site.start(start).expect("the volumes are open");
            told.borrow_mut().extend(lane.counters());
            for volume in volumes.iter().take(1) {
                told.borrow_mut().push(("vfs", Arc::clone(volume.counters()) as _));
            }
            let listener = TcpListener::bind(SocketAddr::from(ADDRESS), &ListenOptions::default());
            let socket = LaneSocket::Tcp(Rc::new(listener.expect("the port is free")));
            let listening = Rc::clone(&lane);
            lane::spawn(async move {
                let _ = listening.listen(socket, Role(0), Rc::new(Open)).await;
            })
            .detach();
            let (_lane, _volumes) = (lane, volumes);
            std::future::pending::<()>().await;
        });
        world.run_for(Duration::from_secs(1));
        Self { objects, counters: counters.take(), host: host.clone(), clients: clients.clone() }
    }

    /// Returns the host of its clients.
    pub(super) fn clients(&self) -> &Host {
        &self.clients
    }
}

impl Subject for Server {
    fn held(&self) -> Held {
        let mut held = BTreeMap::new();
        let mut pairs = BTreeMap::<&'static str, i64>::new();
        for (area, block) in &self.counters {
            block.visit(&mut |reading| {
                let name = reading.name;
                if HELD.contains(&(*area, name)) && reading.kind == CounterKind::Gauge {
                    *held.entry(name.to_owned()).or_default() += reading.value;
                }
                match name {
                    "opens_made" => *pairs.entry("opens").or_default() += reading.value as i64,
                    "opens_closed" => *pairs.entry("opens").or_default() -= reading.value as i64,
                    "caching_opens_made" => {
                        *pairs.entry("caching opens").or_default() += reading.value as i64
                    }
                    "caching_opens_closed" => {
                        *pairs.entry("caching opens").or_default() -= reading.value as i64
                    }
                    _ => {}
                }
            });
        }
        held.extend(pairs.into_iter().map(|(name, value)| (name.to_owned(), value as u64)));
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
        self.counters.iter().map(|(_, block)| &**block)
    }
}

/// Levels that are zero without clients.
const HELD: [(&str, &str); 6] = [
    ("smb", "sessions"),
    ("smb", "waiting"),
    ("smb", "connections"),
    ("smb", "reply_memory_bytes"),
    ("vfs", "callbacks_held"),
    ("vfs", "open_cached"),
];
