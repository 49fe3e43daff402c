//! Interface of a service for the server: three stages, from what the process knows to what a lane does.
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

/// Future of a service on a lane; it stays on its lane.
pub type LaneFuture<T> = Pin<Box<dyn Future<Output = T>>>;

/// Problem that keeps a service from being served, in words for the administrator.
/// A [`ConfigError`](crate::config::ConfigError) is told with the file and the line of its key.
pub type Problem = Box<dyn std::error::Error + Send + Sync>;

/// Carries out what was prepared, which cannot fail. Dropped instead, everything stays as it is.
pub type Switch = Box<dyn FnOnce()>;

/// A protocol that the program can serve: one value for the process.
pub trait Service: Send + Sync {
    /// Returns the service's name in messages: `http`.
    fn name(&self) -> &'static str;

    /// The tables and keys that it owns; it refuses unknown keys in its own tables.
    fn keys(&self) -> Keys;

    /// Keys that give it an address, such as `http.listen`, for messages to a user that has set none.
    fn listen_keys(&self) -> &'static [&'static str];

    /// Reads and checks its tables, and its keys of `volumes`. `None` when the configuration does not want it.
    ///
    /// # Errors
    /// [`ConfigError`], with line and column or naming the key.
    fn read(
        &self,
        document: &Document,
        volumes: &[VolumeSection],
    ) -> Result<Option<Arc<dyn Settings>>, ConfigError>;

    /// Imports what the last server [exported](Service::export_state), before the lanes start: one of them
    /// [restores it](LaneService::restore_state). It is there once: a server that is killed leaves nothing.
    fn import_state(&self, left: Vec<u8>) {
        drop(left);
    }

    /// Exports the state that the next server is to have, when every lane has ended in order: some lane has
    /// [saved it](LaneService::save_state).
    fn export_state(&self) -> Option<Vec<u8>> {
        None
    }

    /// Returns the endpoint where an administrator lists its users; `None` where there is none.
    fn admin_endpoint(&self) -> Option<Arc<dyn AdminEndpoint>> {
        None
    }
}

/// Settings of a service in a configuration: checked, nothing loaded.
pub trait Settings: fmt::Debug + Send + Sync {
    /// The addresses to be reached at.
    fn sockets(&self) -> Vec<Wanted>;

    /// Returns how many connections each lane may have, of those that take a descriptor each.
    fn connections(&self) -> ConnectionsMax;

    /// Returns whether lanes are to share the files of a volume though no client may change them, as for
    /// clients that cache.
    fn needs_objects(&self, volume: &VolumeName) -> bool {
        let _ = volume;
        false
    }

    /// Returns files that it reads beside the configuration, such as certificates and keys: they are never
    /// served.
    fn own_files(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Loads what the service needs beside the configuration.
    ///
    /// # Errors
    /// What keeps it from being served.
    fn load(&self, context: &LoadContext<'_>) -> Result<Box<dyn Site>, Problem>;
}

/// A bound of connections, and the key that sets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionsMax {
    /// Name of the key, such as `http.limits.connections_per_lane`.
    pub key: &'static str,
    /// 0 for a service whose connections take no descriptors.
    pub per_lane: usize,
}

/// The context in which a service is loaded: directories, accounts, lanes, objects and volumes of the server.
#[derive(Clone, Copy, Debug)]
pub struct LoadContext<'a> {
    /// A directory for what is to outlive the process; `None` when nothing says where.
    pub state_dir: Option<&'a Path>,
    /// Connections that each lane has descriptors for: at most [`Settings::connections`].
    pub connections_per_lane: usize,
    /// The users, as of now: each reload loads them anew.
    pub accounts: &'a Arc<Accounts>,
    /// The lanes, by silo: the same as long as the process lives.
    pub layout: &'a Layout,
    /// Objects that lanes share, once there are some that have [objects](Settings::needs_objects).
    pub objects: Option<&'a Objects>,
    /// Trouble that keeps the index from being used, so that numbers and versions of files end with the
    /// process; `None` also where nothing needs one.
    pub index_trouble: Option<&'a str>,
    /// A configuration is checked: nothing lasts, and what follows from that is no trouble to be told.
    pub is_trial: bool,
    /// The volumes, with what the command line says of them; in the order that [`Service::read`] had them.
    pub volumes: &'a [VolumeSection],
}

/// Site that a service is to serve on every lane, until the next site replaces it.
pub trait Site: Any + Send + Sync {
    /// Returns what the administrator should know though all is well.
    fn warnings(&self) -> Vec<String>;

    /// Returns what is wrong with it at this time, by the clock or by the machine, though it is served: its
    /// subject in `/health`, which has it for as long as it lasts, and the line of the log that tells of it,
    /// which begins with the subject or a part of it. Asked for twice a second.
    fn troubles(&self, now: SystemTime) -> Vec<(String, String)> {
        let _ = now;
        Vec::new()
    }

    /// Returns whether what the server made for it, such as a certificate, has to be made anew at this time,
    /// which loading it again does.
    fn is_outdated(&self, now: SystemTime) -> bool {
        let _ = now;
        false
    }

    /// Hears which ports the kernel chose, before any lane hears of the site.
    fn bound(&mut self, sockets: &[Bound]);

    /// Returns what to tell the person who started the server.
    fn greeting(&self) -> Greeting;

    /// Begins to serve it on the current lane.
    ///
    /// # Errors
    /// Why this lane cannot.
    fn start(&self, lane: LaneStart<'_>) -> Result<Rc<dyn LaneService>, String>;
}

/// Lines for a person.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Greeting {
    /// Lines that say what is to be found where: `/srv/pub at /pub`.
    pub serves: Vec<String>,
    /// Addresses to open: `http://127.0.0.1:8080/`.
    pub urls: Vec<String>,
    /// Commands to try.
    pub tries: Vec<String>,
}

/// Parameters that a service starts with on a lane.
pub struct LaneStart<'a> {
    /// The volumes, open.
    pub volumes: &'a LaneVolumes,
    /// The lane's rate and memory, shared with the other services.
    pub commons: Commons,
    /// The lane's end of the access log, if there is one.
    pub log: Option<LaneLog>,
    /// The lane's end of the audit log, if there is one.
    pub audit: Option<LaneLog>,
    /// Different for each lane and run; it guards no secret.
    pub seed: u64,
}

/// A service on one lane: one value per lane, from the first site that it serves to the end of the lane.
pub trait LaneService {
    /// Returns what it counts, by area; asked for once.
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

    /// Does everything that can fail of serving `site` instead of what is served. What is served is untouched until
    /// the switch.
    ///
    /// # Errors
    /// Why this lane cannot; no lane switches then.
    fn prepare(self: Rc<Self>, site: &dyn Site, volumes: &LaneVolumes) -> Result<Switch, String>;

    /// Marks what it sends from now on (SO_MARK), on open connections too; 0 takes the mark away.
    fn mark(&self, mark: u32);

    /// Asks the connections there are to leave as they become idle, and goes on serving those to come.
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
    /// The site as the service knows it.
    ///
    /// # Panics
    /// When it is another service's: a defect of the server.
    pub fn expect<T: Site>(&self) -> &T {
        (self as &dyn Any).downcast_ref().expect("a service is given its own sites")
    }
}
