//! Addresses of a server: one group of sockets each, opened before any lane starts.
//!
//! A taken address is so an error of the start and not of a lane. Lanes of drained nodes have no socket.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use lane::backend::UdpOptions;
use lane::layout::Layout;
use lane::socket::incoming;
use lane::socket::reuseport::{self, Group, GroupConfig, GroupError, Prepare, Steering, SteeringError};
use service::{Bound, Role, Transport, Wanted};

use crate::silo::Taking;

/// Open groups of sockets, with their services.
pub(crate) struct Listeners {
    open: Vec<OpenListener>,
    next_id: ListenerId,
    /// Addresses where calls of listeners that ended may still go on, with the end of that time.
    ended: Vec<(SocketAddr, Instant)>,
}

/// Change of the listeners by a configuration: decided and bound by [`Listeners::change`], taking connections
/// with [`Change::listen`], in force with [`Listeners::commit`]. Dropped before, it leaves everything as it
/// was.
pub(crate) struct Change {
    open: Vec<OpenListener>,
    close: Vec<ListenerId>,
    /// Wanted addresses as bound, in order, each with its service.
    bound: Vec<(usize, Bound)>,
}

/// Number of a listener in messages to the lanes. Addresses would not do: port 0 may occur several times.
pub(crate) type ListenerId = u64;

struct OpenListener {
    id: ListenerId,
    /// Address as configured: port 0 stays 0, so that a reload recognises it.
    asked: SocketAddr,
    transport: Transport,
    to: Destination,
    /// Group of sockets, shared by the old and the new listener while an address changes its role. Only the
    /// control thread locks it.
    group: Arc<Mutex<Group>>,
}

/// Service and role of connections that come by a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Destination {
    /// Index of the service among all of the program.
    pub(crate) service: usize,
    /// Role of the socket.
    pub(crate) role: Role,
}

/// Lanes with the sockets that are new to them.
pub(crate) type NewSockets = Vec<(usize, LaneListener)>;

/// Socket for one lane, with its listener's number and destination.
#[derive(Debug)]
pub(crate) struct LaneListener {
    pub(crate) id: ListenerId,
    pub(crate) to: Destination,
    pub(crate) transport: Transport,
    pub(crate) socket: OwnedFd,
}

/// Reason why an address cannot be listened at.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The sockets or their selector could not be made.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// The address is still in use by ending calls of this server.
    #[error(
        "{0} was given up by a reload less than {seconds} seconds ago, and calls there may go on for so long: send SIGHUP again after that",
        seconds = LEAVE_WITHIN.as_secs()
    )]
    Leaving(SocketAddr),
    /// The layout's silos cannot be steered to.
    #[error(transparent)]
    Steering(#[from] SteeringError),
}

impl Listeners {
    pub(crate) fn none() -> Self {
        Self { open: Vec::new(), next_id: 0, ended: Vec::new() }
    }

    /// Binds the addresses of `wanted` that are not open yet, for every lane, and determines those that are
    /// no longer wanted. Services are given by their index. Nothing is kept when one address fails.
    pub(crate) fn change(
        &mut self,
        wanted: &[(usize, Wanted)],
        layout: &Layout,
        taking: &Taking,
    ) -> Result<Change, ListenError> {
        let (mut open, mut kept, mut bound) = (Vec::new(), Vec::new(), Vec::new());
        for (service, wanted) in wanted {
            let to = Destination { service: *service, role: wanted.role };
            let address = self.want(wanted, to, (layout, taking), &mut open, &mut kept)?;
            bound.push((*service, Bound { address, transport: wanted.transport, role: wanted.role }));
        }
        let close = self.open.iter().map(|listener| listener.id).filter(|id| !kept.contains(id)).collect();
        Ok(Change { open, close, bound })
    }

    /// Puts a change in force, after the lanes were notified.
    pub(crate) fn commit(&mut self, change: Change) {
        let now = Instant::now();
        self.ended.retain(|(_, at)| now.duration_since(*at) < LEAVE_WITHIN);
        let (ended, open) = self.open.drain(..).partition(|listener| change.close.contains(&listener.id));
        self.open = open;
        let ended: Vec<OpenListener> = ended;
        let of_calls = ended.iter().filter(|listener| listener.transport == Transport::Rx);
        self.ended.extend(of_calls.map(|listener| (listener.asked, now)));
        self.open.extend(change.open);
    }

    /// Steers nothing new to the lanes that take no connections, and opens listeners for those that do again,
    /// whose new sockets are returned. What waits at a drained lane is its own to take, before
    /// [`Listeners::close`]. A group that fails is left as it was, to be tried again.
    pub(crate) fn steer_to(&self, taking: &Taking) -> (NewSockets, Vec<ListenError>) {
        let (mut new, mut errors) = (NewSockets::new(), Vec::new());
        for listener in &self.open {
            let mut group = listener.group();
            // Those that return come first, so that there is never none.
            for lane in taking.lanes(true).filter(|&lane| !group.takes(lane)).collect::<Vec<_>>() {
                let restored = group.restore(lane).map_err(ListenError::from);
                match restored.and_then(|()| listener.of_lane(&group, lane)) {
                    Ok(socket) => new.push((lane, socket)),
                    Err(error) => errors.push(error),
                }
            }
            for lane in taking.lanes(false).filter(|&lane| group.takes(lane)).collect::<Vec<_>>() {
                errors.extend(group.drain(lane).err().map(ListenError::from));
            }
        }
        (new, errors)
    }

    /// Closes the listeners of a lane that has taken what waited there.
    pub(crate) fn close(&self, lane: usize) -> Result<(), ListenError> {
        for listener in &self.open {
            match listener.group().remove(lane) {
                Ok(()) | Err(GroupError::NoSuchLane(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Finds listeners that another task has closed, and opens new ones for their lanes.
    pub(crate) fn repair(&self) -> Result<NewSockets, ListenError> {
        let mut new = NewSockets::new();
        for listener in &self.open {
            let mut group = listener.group();
            for lane in group.repair()? {
                new.push((lane, listener.of_lane(&group, lane)?));
            }
        }
        Ok(new)
    }

    /// Updates which NICs belong to which silo.
    pub(crate) fn steer_nics(&self, layout: &Layout) -> Result<(), ListenError> {
        for listener in &self.open {
            listener.group().steer(Steering::by_layout(layout)?)?;
        }
        Ok(())
    }

    pub(crate) fn close_all(&mut self) {
        self.open.clear();
    }

    /// Returns the addresses that are open.
    #[cfg(test)]
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.open.iter().map(|open| open.group().address()).collect()
    }

    fn want(
        &mut self,
        wanted: &Wanted,
        to: Destination,
        (layout, taking): (&Layout, &Taking),
        open: &mut Vec<OpenListener>,
        kept: &mut Vec<ListenerId>,
    ) -> Result<SocketAddr, ListenError> {
        let Wanted { address: asked, transport, .. } = *wanted;
        let here = |listener: &&OpenListener| listener.asked == asked && listener.transport == transport;
        let mut here = self.open.iter().filter(here);
        if let Some(same) = here.clone().find(|listener| listener.to == to && !kept.contains(&listener.id)) {
            kept.push(same.id);
            return Ok(same.group().address());
        }
        // A port the kernel chose belongs to the listener it was chosen for.
        let group = match here.next().filter(|_| asked.port() != 0) {
            Some(other_role) => Arc::clone(&other_role.group),
            None => {
                // Where a connection came from is a matter of placement: without it, it is served all the same.
                let prepare: Prepare = match transport {
                    Transport::Tcp => Box::new(|socket| incoming::keep_interface(socket).or(Ok(()))),
                    Transport::Rx => Box::new(|socket| {
                        UdpOptions::default().prepare(socket)?;
                        incoming::keep_interface(socket).or(Ok(()))
                    }),
                };
                let transport = match transport {
                    Transport::Tcp => reuseport::Transport::Tcp { backlog: BACKLOG },
                    Transport::Rx => reuseport::Transport::Rx,
                };
                let config = GroupConfig { address: asked, transport, prepare };
                let steering = Steering::by_layout(layout)?;
                let bound = Group::bind_for(config, steering, |lane| taking.lane(lane));
                Arc::new(Mutex::new(bound.map_err(|error| self.why_not(asked, error))?))
            }
        };
        let listener = OpenListener { id: self.next_id, asked, transport, to, group };
        let address = listener.group().address();
        open.push(listener);
        self.next_id += 1;
        Ok(address)
    }

    /// Returns the error of an address, with what is in its way.
    fn why_not(&self, asked: SocketAddr, error: GroupError) -> ListenError {
        let is_leaving =
            |(address, at): &(SocketAddr, Instant)| *address == asked && at.elapsed() < LEAVE_WITHIN;
        match error {
            GroupError::InUse(_) if self.ended.iter().any(is_leaving) => ListenError::Leaving(asked),
            error => error.into(),
        }
    }
}

impl Change {
    /// Returns one lane's sockets of the new listeners.
    pub(crate) fn for_lane(&self, lane: usize) -> Result<Vec<LaneListener>, ListenError> {
        let mut listeners = Vec::new();
        for open in &self.open {
            let group = open.group();
            if group.takes(lane) {
                listeners.push(open.of_lane(&group, lane)?);
            }
        }
        Ok(listeners)
    }

    /// Starts to take connections at the new listeners: once every lane is ready to accept them, not before.
    pub(crate) fn listen(&self) -> Result<(), ListenError> {
        for open in &self.open {
            open.group().listen()?;
        }
        Ok(())
    }

    /// Returns the addresses of one service, with the ports that the kernel chose.
    pub(crate) fn bound(&self, service: usize) -> Vec<Bound> {
        self.bound.iter().filter(|(of, _)| *of == service).map(|(_, bound)| *bound).collect()
    }

    /// Returns the listeners that end.
    pub(crate) fn closed(&self) -> &[ListenerId] {
        &self.close
    }
}

impl OpenListener {
    fn group(&self) -> MutexGuard<'_, Group> {
        self.group.lock().expect("nothing panics while it holds a group")
    }

    fn of_lane(&self, group: &Group, lane: usize) -> Result<LaneListener, ListenError> {
        let socket = group.descriptor(lane)?;
        Ok(LaneListener { id: self.id, to: self.to, transport: self.transport, socket })
    }
}

/// Time until the address of an ended listener is free: its Rx calls go on for 10 seconds at most, and their
/// lanes close the socket a moment later.
const LEAVE_WITHIN: Duration = Duration::from_secs(11);
/// Most connections that wait at each lane to be accepted; the kernel caps it at net.core.somaxconn.
const BACKLOG: i32 = 4096;
