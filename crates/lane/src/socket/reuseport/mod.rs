//! Listener groups: one SO_REUSEPORT socket for each lane on one address. A classic-BPF program sends each
//! new TCP connection and each Rx packet to a lane of the NIC's silo.
//!
//! The program names a socket by its position in the kernel's array of the group. That array is in the order the
//! sockets joined (TCP: `listen`, UDP: `bind`); when one leaves, the last moves into its place. [`Group`] keeps
//! the same order beside the kernel's and attaches a new program after every change.

mod client_address;
mod connection_id;
mod presence;
mod program;
mod steering;

use std::fmt;
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::os::fd::OwnedFd;

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

pub use client_address::{client_selector, silo_lane};
pub use connection_id::{LaneConnectionIds, owner_lane};
pub use program::Slot;
pub use steering::{LANES_MAX, SteeredSilo, Steering, SteeringError};

use super::cbpf::{AssembleError, Program};
use super::options::keep_alive;

/// Transport of the group's sockets, which decides how packets choose a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// The sockets are listening TCP sockets. A connection goes to a random lane of the silo that serves its
    /// NIC; when that silo has no listener, or no silo serves the NIC, the kernel's hash chooses among all.
    Tcp {
        /// Connections that may wait to be accepted, for each lane; the kernel caps the number at
        /// `net.core.somaxconn`.
        backlog: i32,
    },
    /// The sockets are UDP sockets for Rx. A client's packet goes to a lane of the silo that serves its NIC,
    /// fixed by the client's address and port (see [`silo_lane`]); through a NIC that no silo serves, to one
    /// among all. Packets of connections that the server opened go to the lane that the connection's ids lead
    /// to (see [`owner_lane`]).
    Rx,
}

/// Configuration of a group, for [`Group::open`].
pub struct GroupConfig {
    /// Address that all sockets share. Port 0 lets the kernel choose one port for all.
    pub address: SocketAddr,
    /// Transport of the group: TCP or Rx.
    pub transport: Transport,
    /// Function called on each socket before the bind, for further options.
    pub prepare: Prepare,
}

/// Function that sets options on a socket before the bind.
pub type Prepare = Box<dyn Fn(&Socket) -> io::Result<()> + Send + Sync>;

/// Sockets of one address, one for each lane.
///
/// The group keeps a descriptor of every socket, and lanes get duplicates, so a socket leaves the kernel's
/// array when the group says so and not before. To stop a lane without refusing a connection:
/// [`drain`](Self::drain), let the lane take what already waits, close the lane's descriptors,
/// [`remove`](Self::remove).
pub struct Group {
    config: GroupConfig,
    steering: Steering,
    /// Sockets in the order of the kernel's array.
    members: Vec<Member>,
    /// True once there has been a second member.
    joined: bool,
    /// True if the sockets take connections, which UDP sockets do from the start.
    listening: bool,
}

/// Reason why a group could not be opened or changed.
#[derive(Debug, thiserror::Error)]
pub enum GroupError {
    /// The address is in use by another socket: a second copy of the server, or another program.
    #[error("{0} is already in use by another socket; stop the other program or choose another address")]
    InUse(SocketAddr),
    /// The port needs a privilege that this process lacks.
    #[error(
        "{0} needs a privilege: use a port from net.ipv4.ip_unprivileged_port_start up, or CAP_NET_BIND_SERVICE"
    )]
    Forbidden(SocketAddr),
    /// The address is not on this machine.
    #[error("{0} is not an address of this machine")]
    NotLocal(SocketAddr),
    /// A socket call failed.
    #[error("cannot {call} a socket for {address}: {source}")]
    Socket {
        /// Name of the socket call.
        call: &'static str,
        /// Address of the group.
        address: SocketAddr,
        /// Error of the system.
        source: io::Error,
    },
    /// The kernel refused the program.
    #[error(
        "cannot attach the selector of {address}: {source}; a large one needs a larger net.core.optmem_max"
    )]
    Attach {
        /// Address of the group.
        address: SocketAddr,
        /// Error of the system.
        source: io::Error,
    },
    /// The selector would be longer than the kernel allows.
    #[error("cannot write the selector: {0}")]
    Program(#[from] AssembleError),
    /// The lane is outside the steering, or without a socket in the group.
    #[error("lane {0} has no socket in this group")]
    NoSuchLane(usize),
    /// A descriptor of the lane's UDP socket is still open, so the kernel still delivers there.
    #[error("the socket of lane {0} is still held open, by the lane itself or a child process")]
    StillOpen(usize),
    /// The lane has a socket in the group already.
    #[error("lane {0} has a socket in this group already")]
    AlreadyThere(usize),
}

impl Group {
    /// Opens one socket for every lane of `steering`, in the order of lane ids, and attaches the selector.
    ///
    /// Unlike plain SO_REUSEPORT, an address that another process holds is refused: two servers would each
    /// get half of the clients.
    pub fn open(config: GroupConfig, steering: Steering) -> Result<Self, GroupError> {
        Self::open_for(config, steering, |_| true)
    }

    /// Opens sockets for some lanes only ([`open`](Self::open)); the others may get theirs by
    /// [`restore`](Self::restore).
    pub fn open_for(
        config: GroupConfig,
        steering: Steering,
        wanted: impl Fn(usize) -> bool,
    ) -> Result<Self, GroupError> {
        let mut group = Self::bind_for(config, steering, wanted)?;
        group.listen()?;
        Ok(group)
    }

    /// Opens the group, but TCP sockets only bind ([`open_for`](Self::open_for)). Until
    /// [`listen`](Self::listen) the kernel refuses connections, so none waits at a lane that may never take
    /// it. If another process listens at the address in between, `listen` fails.
    pub fn bind_for(
        config: GroupConfig,
        steering: Steering,
        wanted: impl Fn(usize) -> bool,
    ) -> Result<Self, GroupError> {
        let listening = matches!(config.transport, Transport::Rx);
        let mut group = Self { config, steering, members: Vec::new(), joined: false, listening };
        for lane in (0..group.steering.lane_count()).filter(|&lane| wanted(lane)) {
            group.join(lane)?;
        }
        // What the selector would not take is known before a client relies on the address.
        group.program()?;
        Ok(group)
    }

    /// Accepts connections from now on. A group that listens already stays as it is.
    pub fn listen(&mut self) -> Result<(), GroupError> {
        if !self.listening {
            for member in &self.members {
                if let Some(socket) = &member.socket {
                    self.listen_on(socket)?;
                }
            }
            self.listening = true;
        }
        self.attach()
    }

    /// Returns the shared address, with the port that the kernel chose.
    pub fn address(&self) -> SocketAddr {
        self.config.address
    }

    /// Returns the lanes in the order of the kernel's array.
    pub fn order(&self) -> Vec<Slot> {
        self.members.iter().map(|member| member.slot).collect()
    }

    /// Returns a descriptor of the lane's socket, for the lane to own.
    pub fn descriptor(&self, lane: usize) -> Result<OwnedFd, GroupError> {
        let socket =
            self.members[self.position(lane)?].socket.as_ref().ok_or(GroupError::NoSuchLane(lane))?;
        let duplicate = socket.try_clone().map_err(|source| self.failed("duplicate", source))?;
        Ok(duplicate.into())
    }

    /// Returns the program as attached now.
    pub fn program(&self) -> Result<Program, GroupError> {
        let order = self.order();
        let program = match self.config.transport {
            Transport::Tcp { .. } => program::tcp(&self.steering, &order),
            Transport::Rx => program::rx(&self.steering, &order),
        };
        Ok(program?)
    }

    /// Sends nothing new to a lane. What waits in its socket stays there.
    pub fn drain(&mut self, lane: usize) -> Result<(), GroupError> {
        let position = self.position(lane)?;
        self.members[position].slot.draining = true;
        self.attach()
    }

    /// Closes a lane's socket and steers by the new order.
    ///
    /// TCP: the listener stops even while the lane still holds its descriptor; connections that wait in it are
    /// reset. Rx: a UDP socket stays in the kernel's array until its last descriptor is closed, so the lane's
    /// must be closed (and its ring gone) before. A child process that was just forked holds descriptors too until
    /// it executes; this waits a second for such. After [`GroupError::StillOpen`] the lane gets nothing, and
    /// `remove` can be called again.
    pub fn remove(&mut self, lane: usize) -> Result<(), GroupError> {
        let position = self.position(lane)?;
        self.members[position].slot.draining = true;
        match self.config.transport {
            Transport::Tcp { .. } => self.attach_around_last()?,
            Transport::Rx => self.attach()?,
        }
        let member = &mut self.members[position];
        if let Some(socket) = member.socket.take()
            && matches!(self.config.transport, Transport::Tcp { .. })
        {
            shut(&socket).map_err(|source| self.failed("shut down", source))?;
        }
        if self.config.transport == Transport::Rx
            && !presence::wait_until_closed(self.members[position].inode)
        {
            return Err(GroupError::StillOpen(lane));
        }
        self.members.swap_remove(position);
        self.attach()
    }

    /// Opens a socket for a lane without one, at the end of the kernel's array, or ends the lane's draining.
    pub fn restore(&mut self, lane: usize) -> Result<(), GroupError> {
        match self.position(lane) {
            Ok(position) if self.members[position].socket.is_none() => {
                self.remove(lane)?;
                self.join(lane)?;
            }
            Ok(position) if self.members[position].slot.draining => {
                self.members[position].slot.draining = false
            }
            Ok(_) => return Err(GroupError::AlreadyThere(lane)),
            Err(_) if lane < self.steering.lane_count() => self.join(lane)?,
            Err(error) => return Err(error),
        }
        self.attach()
    }

    /// Opens new TCP listeners in place of those that something else has closed (`ss --kill`, a defect).
    /// Returns the lanes whose socket is a new one and that need its descriptor.
    ///
    /// One that died leaves an order that is known. Where several did, it depends on which was first, which
    /// cannot be known; then every socket but one is replaced, and connections that wait in those are reset.
    pub fn repair(&mut self) -> Result<Vec<usize>, GroupError> {
        if self.config.transport == Transport::Rx {
            return Ok(Vec::new());
        }
        let died = |member: &Member| !member.socket.as_ref().is_some_and(is_listening);
        let mut gone: Vec<Slot> = Vec::new();
        match self.members.iter().filter(|member| died(member)).count() {
            0 => return Ok(Vec::new()),
            1 => {
                let position = self.members.iter().position(died).expect("one was counted");
                gone.push(self.members.swap_remove(position).slot);
            }
            _ => {
                let survivor = self.members.iter().position(|member| !died(member)).unwrap_or(usize::MAX);
                for (position, member) in std::mem::take(&mut self.members).into_iter().enumerate() {
                    if position == survivor {
                        self.members.push(member);
                        continue;
                    }
                    gone.push(member.slot);
                    if let Some(socket) = &member.socket {
                        shut(socket).map_err(|source| self.failed("shut down", source))?;
                    }
                }
            }
        }
        // The rest is steered right at once, whatever becomes of the new sockets.
        self.attach()?;
        let wanted: Vec<usize> = gone.iter().filter(|slot| !slot.draining).map(|slot| slot.lane).collect();
        for &lane in &wanted {
            self.join(lane)?;
        }
        self.attach()?;
        Ok(wanted)
    }

    /// Returns whether a lane has a socket here that takes new work.
    pub fn takes(&self, lane: usize) -> bool {
        self.position(lane).is_ok_and(|position| !self.members[position].slot.draining)
    }

    /// Replaces which NICs belong to which silo, after a link changed. The lanes must stay the same.
    pub fn steer(&mut self, steering: Steering) -> Result<(), GroupError> {
        if let Some(stray) = self.members.iter().find(|member| member.slot.lane >= steering.lane_count()) {
            return Err(GroupError::NoSuchLane(stray.slot.lane));
        }
        self.steering = steering;
        self.attach()
    }

    fn position(&self, lane: usize) -> Result<usize, GroupError> {
        self.members.iter().position(|member| member.slot.lane == lane).ok_or(GroupError::NoSuchLane(lane))
    }

    fn join(&mut self, lane: usize) -> Result<(), GroupError> {
        let socket = self.create()?;
        if self.members.is_empty() {
            // Bound alone first, so that an address held by others is refused, then opened to the rest.
            self.bind(&socket)?;
            socket.set_reuse_port(true).map_err(|source| self.failed("share", source))?;
            let local = socket.local_addr().map_err(|source| self.failed("name", source))?;
            self.config.address = local.as_socket().unwrap_or(self.config.address);
        } else {
            socket.set_reuse_port(true).map_err(|source| self.failed("share", source))?;
            self.bind(&socket)?;
        }
        if self.listening {
            self.listen_on(&socket)?;
        }
        let inode = presence::inode(&socket).map_err(|source| self.failed("describe", source))?;
        self.joined |= !self.members.is_empty();
        self.members.push(Member { slot: Slot { lane, draining: false }, socket: Some(socket), inode });
        Ok(())
    }

    fn listen_on(&self, socket: &Socket) -> Result<(), GroupError> {
        let Transport::Tcp { backlog } = self.config.transport else { return Ok(()) };
        socket.listen(backlog).map_err(|source| match source.kind() {
            io::ErrorKind::AddrInUse => GroupError::InUse(self.config.address),
            _ => self.failed("listen on", source),
        })
    }

    fn create(&self) -> Result<Socket, GroupError> {
        let (kind, protocol) = match self.config.transport {
            Transport::Tcp { .. } => (Type::STREAM, Protocol::TCP),
            Transport::Rx => (Type::DGRAM, Protocol::UDP),
        };
        let domain = Domain::for_address(self.config.address);
        let socket = Socket::new(domain, kind.nonblocking(), Some(protocol))
            .map_err(|source| self.failed("create", source))?;
        let set_up = || -> io::Result<()> {
            if kind == Type::STREAM {
                // Connections of a former run in TIME_WAIT must not keep the port. For UDP it would mean sharing.
                socket.set_reuse_address(true)?;
                keep_alive(&socket)?;
            }
            if domain == Domain::IPV6 {
                socket.set_only_v6(true)?;
            }
            (self.config.prepare)(&socket)
        };
        set_up().map_err(|source| self.failed("set up", source))?;
        Ok(socket)
    }

    fn bind(&self, socket: &Socket) -> Result<(), GroupError> {
        let address = self.config.address;
        socket.bind(&SockAddr::from(address)).map_err(|source| match source.kind() {
            io::ErrorKind::AddrInUse => GroupError::InUse(address),
            io::ErrorKind::PermissionDenied => GroupError::Forbidden(address),
            io::ErrorKind::AddrNotAvailable => GroupError::NotLocal(address),
            _ => self.failed("bind", source),
        })
    }

    fn attach(&self) -> Result<(), GroupError> {
        if !self.joined && matches!(self.config.transport, Transport::Rx) {
            // A UDP socket that was bound alone is no group for the kernel until a second one joins it.
            return Ok(());
        }
        let Some(any) = self.members.iter().find_map(|member| member.socket.as_ref()) else { return Ok(()) };
        let address = self.config.address;
        let attached = self.program()?.attach_to_reuseport_group(any);
        attached.map_err(|source| GroupError::Attach { address, source })
    }

    /// Attaches the program for the time before a removal, which sends nothing to the last socket's present
    /// and coming place.
    fn attach_around_last(&mut self) -> Result<(), GroupError> {
        let last = self.members.len() - 1;
        let drains = std::mem::replace(&mut self.members[last].slot.draining, true);
        let attached = self.attach();
        self.members[last].slot.draining = drains;
        attached
    }

    fn failed(&self, call: &'static str, source: io::Error) -> GroupError {
        GroupError::Socket { call, address: self.config.address, source }
    }
}

/// Ends a listener, though lanes hold descriptors of it. One that has ended already is no error.
fn shut(listener: &Socket) -> io::Result<()> {
    match listener.shutdown(Shutdown::Both) {
        Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(()),
        other => other,
    }
}

fn is_listening(socket: &Socket) -> bool {
    socket.is_listener().unwrap_or(false)
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group")
            .field("address", &self.config.address)
            .field("transport", &self.config.transport)
            .field("order", &self.order())
            .finish_non_exhaustive()
    }
}

struct Member {
    slot: Slot,
    /// Socket of the lane; `None` while others still hold descriptors of one that this group has let go of.
    socket: Option<Socket>,
    inode: u64,
}
