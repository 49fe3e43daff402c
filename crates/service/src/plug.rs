//! Interface of a service for the server: three stages, from the process's settings to a lane's work.
//!
//! 1. A [`Service`] lives as long as the process. It reads its tables of a configuration and gives [`Settings`].
//! 2. [`Settings`] say which sockets are wanted and what is to be had; loaded (keys, certificates) they are a [`Site`].
//! 3. A [`Site`] travels to every lane. The first starts the [`LaneService`] there, each later one is made ready by
//!    [`LaneService::prepare`] and replaces the one before, on every lane or on none.
//!
//! Nothing here is called for a request or a packet: the finest grain is a connection.

use std::any::Any;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use identity::Accounts;
use lane::counters::CounterBlock;
use lane::layout::Layout;
use lane::net::TcpStream;
use vfs::{Objects, VolumeName};

use crate::admin_endpoint::AdminEndpoint;
use crate::commons::Commons;
use crate::config::{ConfigError, Document, Keys};
use crate::log::LaneLog;
use crate::socket::{Bound, ConnectionRouter, LaneSocket, Role, Wanted};
use crate::volumes::{LaneVolumes, VolumeSection};

/// Future of a service that stays on its lane.
pub type LaneFuture<T> = Pin<Box<dyn Future<Output = T>>>;

/// Problem that keeps a service from being served, in words for the administrator. A [`ConfigError`] is reported with
/// the file and the line of its key.
pub type Problem = Box<dyn std::error::Error + Send + Sync>;

/// Infallible switch to a prepared site. Dropped instead, everything stays as it is.
pub type Switch = Box<dyn FnOnce()>;

/// Protocol that the program can serve: one value for the process.
pub trait Service: Send + Sync {
    /// Returns the service's name in messages: `http`.
    fn name(&self) -> &'static str;

    /// Returns the tables and keys that the service owns; unknown keys in its own tables it refuses itself.
    fn keys(&self) -> Keys;

    /// Returns the keys that give the service an address, such as `http.listen`, for messages to a user that
    /// has set none.
    fn listen_keys(&self) -> &'static [&'static str];

    /// Reads and checks the service's tables, and its keys of `volumes`. `None` when the configuration does
    /// not enable it.
    ///
    /// # Errors
    /// [`ConfigError`], with line and column or naming the key.
    fn read(
        &self,
        document: &Document,
        volumes: &[VolumeSection],
    ) -> Result<Option<Arc<dyn Settings>>, ConfigError>;

    /// Imports the state that the last server [exported](Service::export_state), before the lanes start: one
    /// of them [restores it](LaneService::restore_state). A server that was killed leaves none.
    fn import_state(&self, left: Vec<u8>) {
        drop(left);
    }

    /// Exports the state for the next server, after every lane has ended in order and one has [saved
    /// it](LaneService::save_state).
    fn export_state(&self) -> Option<Vec<u8>> {
        None
    }

    /// Returns the endpoint where an administrator lists the service's users; `None` without one.
    fn admin_endpoint(&self) -> Option<Arc<dyn AdminEndpoint>> {
        None
    }
}

/// Settings of a service in a configuration: checked, nothing loaded.
pub trait Settings: fmt::Debug + Send + Sync {
    /// Returns the addresses where the service wants to be reached.
    fn sockets(&self) -> Vec<Wanted>;

    /// Returns the bound of each lane's connections, of those that take a descriptor each.
    fn connections(&self) -> ConnectionsMax;

    /// Returns whether lanes share the files of a volume even when no client may change them, as for clients
    /// that cache.
    fn needs_objects(&self, volume: &VolumeName) -> bool {
        let _ = volume;
        false
    }

    /// Returns the files that the service reads beside the configuration, such as certificates and keys,
    /// which are never served.
    fn own_files(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Loads what the service needs beside the configuration.
    ///
    /// # Errors
    /// What keeps it from being served.
    fn load(&self, context: &LoadContext<'_>) -> Result<Box<dyn Site>, Problem>;
}

/// Bound of connections, with the key that sets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionsMax {
    /// Name of the key, such as `http.limits.connections_per_lane`.
    pub key: &'static str,
    /// Connections of each lane; 0 for a service whose connections take no descriptors.
    pub per_lane: usize,
}

/// Context in which a service is loaded: directories, accounts, lanes, objects and volumes of the server.
#[derive(Clone, Copy, Debug)]
pub struct LoadContext<'a> {
    /// Directory for what is to outlive the process; `None` when none is configured.
    pub state_dir: Option<&'a Path>,
    /// Connections that each lane has descriptors for: at most [`Settings::connections`].
    pub connections_per_lane: usize,
    /// Users as of now: each reload loads them anew.
    pub accounts: &'a Arc<Accounts>,
    /// Lanes by silo, the same as long as the process lives.
    pub layout: &'a Layout,
    /// Objects that lanes share, once a volume has [objects](Settings::needs_objects).
    pub objects: Option<&'a Objects>,
    /// Problem of the index, by which numbers and versions of files end with the process; `None` also where
    /// no index is needed.
    pub index_trouble: Option<&'a str>,
    /// True when a configuration is only checked: nothing lasts, which then is no trouble to report.
    pub is_trial: bool,
    /// Volumes with the command line's options, in the order of [`Service::read`].
    pub volumes: &'a [VolumeSection],
}

/// Site that a service is to serve on every lane, until the next site replaces it.
pub trait Site: Any + Send + Sync {
    /// Returns warnings for the administrator about a site that can be served.
    fn warnings(&self) -> Vec<String>;

    /// Returns the present troubles of a site that is served nonetheless: for each its subject and a log
    /// line. Called twice a second.
    ///
    /// `/health` shows the subject for as long as it lasts; the line begins with the subject or a part of it.
    fn troubles(&self, now: SystemTime) -> Vec<(String, String)> {
        let _ = now;
        Vec::new()
    }

    /// Returns whether something that the server made for the site, such as a certificate, is due for
    /// renewal, which loading the site again does.
    fn is_outdated(&self, now: SystemTime) -> bool {
        let _ = now;
        false
    }

    /// Receives the ports that the kernel chose, before any lane gets the site.
    fn bound(&mut self, sockets: &[Bound]);

    /// Returns the lines for the user who started the server.
    fn greeting(&self) -> Greeting;

    /// Starts the service with this site on the current lane.
    ///
    /// # Errors
    /// Why this lane cannot.
    fn start(&self, lane: LaneStart<'_>) -> Result<Rc<dyn LaneService>, String>;
}

/// Lines for the user who started the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Greeting {
    /// Lines that say what is served where: `/srv/pub at /pub`.
    pub serves: Vec<String>,
    /// Addresses to open: `http://127.0.0.1:8080/`.
    pub urls: Vec<String>,
    /// Commands for the user to try.
    pub tries: Vec<String>,
}

/// Parameters that a service starts with on a lane.
pub struct LaneStart<'a> {
    /// Volumes that the lane has open.
    pub volumes: &'a LaneVolumes,
    /// Rate and memory of the lane, shared with the other services.
    pub commons: Commons,
    /// Lane's end of the access log, if there is one.
    pub log: Option<LaneLog>,
    /// Lane's end of the audit log, if there is one.
    pub audit: Option<LaneLog>,
    /// Seed, different for each lane and run, which guards no secret.
    pub seed: u64,
}

/// Service on one lane: one value per lane, from the first site that it serves to the end of the lane.
pub trait LaneService {
    /// Returns the service's counters, by area; called once.
    fn counters(&self) -> Vec<(&'static str, Arc<dyn CounterBlock>)>;

    /// Serves what comes by `socket` until [`LaneService::drain`] is asked for, or the future is dropped: the server
    /// does that when the address is no longer wanted, and connections go on. It is called again with the same socket
    /// when it panicked.
    ///
    /// # Errors
    /// The kernel's, when the socket is at its end without a request for it; the server opens another.
    fn listen(
        self: Rc<Self>,
        socket: LaneSocket,
        role: Role,
        router: Rc<dyn ConnectionRouter>,
    ) -> LaneFuture<io::Result<()>>;

    /// Serves a connection that another lane accepted.
    fn take(self: Rc<Self>, stream: TcpStream, role: Role);

    /// Prepares to serve `site` instead of the present one: does everything that can fail. What is served is
    /// untouched until the switch.
    ///
    /// # Errors
    /// Why this lane cannot; no lane switches then.
    fn prepare(self: Rc<Self>, site: &dyn Site, volumes: &LaneVolumes) -> Result<Switch, String>;

    /// Sets the mark of the packets sent from now on (SO_MARK), on open connections too; 0 removes it.
    fn mark(&self, mark: u32);

    /// Asks the present connections to leave as they become idle, and goes on serving those to come.
    fn dismiss(&self);

    /// Takes nothing new and asks all clients to leave. Ready when all are gone, or at `deadline` with the
    /// number of those that are left, which the end of the lane cuts.
    fn drain(self: Rc<Self>, deadline: Instant) -> LaneFuture<usize>;

    /// Restores the state that the last server exported: on one lane, before anything is listened at on any.
    fn restore_state(self: Rc<Self>) -> LaneFuture<()> {
        Box::pin(std::future::ready(()))
    }

    /// Saves the state that the next server is to restore, and releases what lanes share: on one lane, when all services of
    /// every lane have drained.
    fn save_state(self: Rc<Self>) -> LaneFuture<()> {
        Box::pin(std::future::ready(()))
    }

    /// Hands over what the access log has collected; called once a second.
    fn flush_log(&self);
}

impl dyn Site {
    /// Returns the site as the service's own type.
    ///
    /// # Panics
    /// When it is another service's: a defect of the server.
    pub fn expect<T: Site>(&self) -> &T {
        (self as &dyn Any).downcast_ref().expect("a service is given its own sites")
    }
}
