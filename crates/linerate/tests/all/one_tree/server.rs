//! A server of all three services, on two lanes, over one volume; and what its clients and the test know of each other.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use afs_wire::Fid;
use identity::NtHash;
use lane::backend::sim::{Host, World};
use rx_lane::DriverConfig;
use smb_auth::Credentials;
use vfs::{CacheOptions, Objects, ObjectsOptions};

use super::life::{self, Counters, Life};
use super::truth::{State, content};

pub(crate) const LANES: usize = 2;
/// The names that all clients use.
pub(crate) const NAMES: [&str; 2] = ["page", "list"];
/// Time for which an AFS client may rely on what it was promised.
const PROMISE: Duration = Duration::from_secs(20);
const ADDRESS: [u8; 4] = [10, 0, 0, 1];
pub(crate) const PASSWORD: &str = "open sesame";

/// Returns where the file server of AFS is.
pub(crate) fn afs_address() -> SocketAddr {
    (ADDRESS, 7000).into()
}

/// Returns where a lane serves SMB,
pub(crate) fn smb_address(lane: usize) -> SocketAddr {
    (ADDRESS, 445 + lane as u16).into()
}

/// and HTTP.
pub(crate) fn http_address(lane: usize) -> SocketAddr {
    (ADDRESS, 80 + lane as u16).into()
}

/// Returns how SMB's clients sign in.
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
    life: Rc<Life>,
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
        life::steer(&world.net(), &host);
        let objects = Objects::in_memory(ObjectsOptions { lanes_max: LANES, ..ObjectsOptions::default() });
        // Nothing but promises keeps this cache honest.
        let day = Duration::from_secs(86_400);
        let cache = CacheOptions { ttl: day, listing_ttl: day, watches_max: 0, ..CacheOptions::default() };
        let life = Life::new(objects, None, PROMISE, cache);
        for () in life.lanes(&host, world.seed()) {
            world.run_for(Duration::from_micros(10));
        }
        // What was written a moment ago might be written again under the same time.
        world.run_for(Duration::from_secs(3));
        Self { host, life }
    }

    /// The volume's root, for AFS.
    pub(crate) fn root(&self) -> Fid {
        self.life.root()
    }

    /// Returns the counters of clients that did not hear in time what they had to.
    pub(crate) fn counters(&self) -> Counters {
        Rc::clone(&self.life.counters)
    }

    /// Returns what a name leads to on the disk.
    pub(crate) fn on_disk(&self, name: &str) -> State {
        self.host.fs().read(&format!("/srv/{name}")).map_or(State::Absent, |bytes| State::of(&bytes))
    }
}
