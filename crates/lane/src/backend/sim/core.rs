//! State that the lanes of a world share: the engine, the network, every host's disk and descriptors, and the
//! operations in flight.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};

use super::config::{Config, HelperConfig, MeshConfig};
use super::engine::{Engine, Event};
use super::fs::{Disk, Inode, OpenFile};
use super::helpers::Helpers;
use super::net::{HostId, Network, SocketId};
use super::ops::Ops;
use crate::backend::released::Dropped;
use crate::backend::{Fd, OpenHow};

/// Shared state of a world. Tasks are woken only while it is not borrowed.
pub(super) struct Core {
    state: RefCell<SimState>,
    /// Start of the lanes' clock, to which the virtual time is added.
    epoch: Instant,
}

pub(super) struct SimState {
    pub(super) engine: Engine,
    pub(super) net: Network,
    pub(super) disks: Vec<Disk>,
    pub(super) hosts: Vec<Process>,
    pub(super) ops: Ops,
    pub(super) mesh: MeshConfig,
    pub(super) helpers: HelperConfig,
}

/// State of a host's kernel for the one process that runs on it.
pub(crate) struct Process {
    descriptors: Vec<Option<Descriptor>>,
    open: usize,
    pub(super) descriptors_max: usize,
    /// Number of files opened so far, which numbers each open.
    opened: u64,
    pub(super) helpers: Helpers,
    /// Streams that were dropped between two lanes of the process.
    pub(super) dropped: Dropped,
}

/// Kind of a closed descriptor.
pub(super) enum Closed {
    Socket,
    File,
}

/// Object that a descriptor number names.
pub(super) enum Descriptor {
    Socket(SocketId),
    File(Rc<OpenFile>),
}

/// Access that a file was opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    /// Opened for writing and reading.
    Write,
}

impl From<OpenHow> for Access {
    fn from(how: OpenHow) -> Self {
        if how.write { Self::Write } else { Self::Read }
    }
}

impl Core {
    pub(super) fn new(seed: u64, config: &Config) -> Rc<Self> {
        let state = SimState {
            engine: Engine::new(seed),
            net: Network::new(config.net.clone()),
            disks: Vec::new(),
            hosts: Vec::new(),
            ops: Ops::default(),
            mesh: config.mesh.clone(),
            helpers: config.helpers.clone(),
        };
        Rc::new(Self { state: RefCell::new(state), epoch: Instant::now() })
    }

    /// Runs `act` on the state, then wakes the tasks that it has to.
    pub(super) fn with<R>(&self, act: impl FnOnce(&mut SimState) -> R) -> R {
        let mut state = self.state.borrow_mut();
        let result = act(&mut state);
        if !state.engine.has_left_over() {
            return result;
        }
        let (woken, bells) = (state.engine.take_woken(), state.engine.take_bells());
        let let_go = state.engine.take_let_go();
        drop(state);
        drop(let_go);
        woken.into_iter().for_each(std::task::Waker::wake);
        bells.into_iter().filter_map(|bell| bell.0()).for_each(std::task::Waker::wake);
        result
    }

    pub(super) fn with_net<R>(&self, act: impl FnOnce(&mut Network) -> R) -> R {
        self.with(|state| act(&mut state.net))
    }

    pub(super) fn with_net_and_engine<R>(&self, act: impl FnOnce(&mut Network, &mut Engine) -> R) -> R {
        self.with(|state| act(&mut state.net, &mut state.engine))
    }

    pub(super) fn with_disk<R>(
        &self,
        host: HostId,
        act: impl FnOnce(&mut Disk, &mut Engine) -> io::Result<R>,
    ) -> io::Result<R> {
        self.with(|state| act(&mut state.disks[host.0], &mut state.engine))
    }

    /// Returns the clock that lanes see.
    pub(super) fn instant(&self) -> Instant {
        // Wakes no task, and is asked for every timer.
        self.epoch + self.state.borrow().engine.now()
    }

    /// Converts a lane's deadline to virtual time.
    pub(super) fn moment(&self, instant: Instant) -> Duration {
        instant.saturating_duration_since(self.epoch)
    }
}

impl SimState {
    /// Closes streams that no task adopted.
    pub(super) fn close_dropped(&mut self) {
        for host in 0..self.hosts.len() {
            for fd in self.hosts[host].dropped.take() {
                self.close(HostId(host), fd);
            }
        }
    }

    /// Handles all events that are due now, and returns how many.
    pub(super) fn dispatch_due(&mut self) -> usize {
        self.close_dropped();
        let mut handled = 0;
        while let Some(event) = self.engine.pop_due() {
            handled += 1;
            match event {
                Event::Step(op) => self.step(op),
                Event::Cancel(op) => self.cancel(op),
                Event::Net(event) => self.net.handle(event, &mut self.engine),
                Event::Bell(bell) => self.engine.ring(bell),
                Event::Helped(host, party, job) => self.helped(host, party, job),
            }
        }
        handled
    }

    pub(super) fn disk(&mut self, host: HostId) -> &mut Disk {
        &mut self.disks[host.0]
    }

    pub(super) fn socket(&self, host: HostId, fd: Fd) -> io::Result<SocketId> {
        match self.hosts[host.0].descriptor(fd) {
            Some(&Descriptor::Socket(socket)) => Ok(socket),
            Some(Descriptor::File(_)) => Err(io::Error::from_raw_os_error(libc::ENOTSOCK)),
            None => Err(io::Error::from_raw_os_error(libc::EBADF)),
        }
    }

    pub(super) fn inode(&self, host: HostId, fd: Fd) -> io::Result<Rc<Inode>> {
        self.file(host, fd).map(|file| Rc::clone(&file.inode))
    }

    pub(super) fn open_file(&self, host: HostId, fd: Fd) -> io::Result<Rc<OpenFile>> {
        self.file(host, fd).map(Rc::clone)
    }

    fn file(&self, host: HostId, fd: Fd) -> io::Result<&Rc<OpenFile>> {
        match self.hosts[host.0].descriptor(fd) {
            Some(Descriptor::File(file)) => Ok(file),
            Some(Descriptor::Socket(_)) => Err(io::Error::from_raw_os_error(libc::EINVAL)),
            None => Err(io::Error::from_raw_os_error(libc::EBADF)),
        }
    }

    /// Closes a descriptor; `None` for an unknown number.
    pub(super) fn close(&mut self, host: HostId, fd: Fd) -> Option<Closed> {
        match self.hosts[host.0].remove(fd)? {
            Descriptor::Socket(socket) => {
                self.net.close(socket, &mut self.engine);
                Some(Closed::Socket)
            }
            Descriptor::File(file) => {
                self.disks[host.0].closed(file, &mut self.engine);
                Some(Closed::File)
            }
        }
    }

    /// Gives a new socket a number; closes it when none is left.
    pub(super) fn name_socket(&mut self, host: HostId, socket: SocketId) -> io::Result<Fd> {
        let named = self.hosts[host.0].add(Descriptor::Socket(socket));
        if named.is_err() {
            self.net.close(socket, &mut self.engine);
        }
        named
    }
}

impl Process {
    pub(super) fn new(descriptors_max: usize, helpers: &HelperConfig) -> Self {
        Self {
            descriptors: Vec::new(),
            open: 0,
            opened: 0,
            descriptors_max,
            helpers: Helpers::new(helpers),
            dropped: Dropped::default(),
        }
    }

    pub(super) fn descriptor(&self, fd: Fd) -> Option<&Descriptor> {
        self.descriptors.get(usize::try_from(fd.0 - FIRST_FD).ok()?)?.as_ref()
    }

    pub(super) fn is_full(&self) -> bool {
        self.open >= self.descriptors_max
    }

    /// Returns the number of open descriptors.
    pub(super) fn open(&self) -> usize {
        self.open
    }

    pub(crate) fn add_file(&mut self, inode: Rc<Inode>, access: Access) -> io::Result<Fd> {
        self.opened += 1;
        self.add(Descriptor::File(OpenFile::new(inode, access, self.opened)))
    }

    pub(super) fn remove(&mut self, fd: Fd) -> Option<Descriptor> {
        let removed = self.descriptors.get_mut(usize::try_from(fd.0 - FIRST_FD).ok()?)?.take();
        self.open -= usize::from(removed.is_some());
        removed
    }

    pub(super) fn clear(&mut self) {
        // What is on its way between lanes of a process that is gone names nothing any more.
        self.dropped = Dropped::default();
        self.descriptors.clear();
        self.open = 0;
    }

    /// Returns every open descriptor.
    pub(super) fn numbers(&self) -> Vec<Fd> {
        let open = self.descriptors.iter().enumerate().filter(|(_, descriptor)| descriptor.is_some());
        open.map(|(index, _)| Fd(FIRST_FD + i32::try_from(index).expect("limited far below"))).collect()
    }

    /// Adds a descriptor under the lowest free number, as a kernel does: code that keeps a number too long
    /// meets another's.
    fn add(&mut self, descriptor: Descriptor) -> io::Result<Fd> {
        if self.is_full() {
            return Err(io::Error::from_raw_os_error(libc::EMFILE));
        }
        let free = self.descriptors.iter().position(Option::is_none);
        let index = free.unwrap_or_else(|| {
            self.descriptors.push(None);
            self.descriptors.len() - 1
        });
        self.descriptors[index] = Some(descriptor);
        self.open += 1;
        Ok(Fd(FIRST_FD + i32::try_from(index).expect("limited far below")))
    }
}

/// Converts virtual time to the time of day; worlds begin at 2026-01-01 00:00:00 UTC.
pub(super) fn wall_clock(now: Duration) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_225_600) + now
}

/// First number of a descriptor: 0 to 2 are taken in every process.
const FIRST_FD: i32 = 3;
