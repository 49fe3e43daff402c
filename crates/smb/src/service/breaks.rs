//! Breaks of oplocks and leases on their way to clients (MS-SMB2 3.3.4.6, 3.3.4.7): by a connection of the lane that holds
//! what breaks, where the client has one, else by one of another lane; by the next one where a connection does not deliver it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::{Rc, Weak};
use std::sync::{Mutex, MutexGuard, PoisonError};

use smb_tree::LeaseBroken;
use smb_wire::body::oplock_break::{FLAG_ACK_REQUIRED, LeaseBreak, OplockBreak};
use smb_wire::create::oplock_level;
use smb_wire::fixed::Fixed;
use smb_wire::header::{UNSOLICITED, flags};
use smb_wire::{Command, FileId, Guid, Header};

use super::lane_mailbox::LaneMessage;
use super::lane_service::LaneSmb;
use super::undelivered;
use crate::connection::{Connection, send_unasked};
use crate::session::{Channel, ChannelEntry};

/// A break of an oplock or lease, with the connections that it was sent by.
#[derive(Clone, Debug)]
pub(crate) struct Break {
    kind: BreakKind,
    /// Numbers of the connections that it was sent by, the last one last.
    tried: Vec<u64>,
}

#[derive(Clone, Copy, Debug)]
enum BreakKind {
    Oplock { open: FileId, session: u64, level: u8 },
    Lease(LeaseBroken),
}

/// Channels of each client's sessions, on all lanes: touched as they come and go, and by breaks.
#[derive(Debug, Default)]
pub(crate) struct Clients(Mutex<HashMap<Guid, Vec<ChannelEntry>>>);

impl Clients {
    fn add(&self, client: Guid, entry: ChannelEntry) {
        let mut clients = self.lock();
        let known = clients.entry(client).or_default();
        if known.iter().all(|other| other.connection != entry.connection) {
            known.push(entry);
        }
    }

    fn remove(&self, client: Guid, connection: u64) {
        let mut clients = self.lock();
        if let Some(known) = clients.get_mut(&client) {
            known.retain(|entry| entry.connection != connection);
            if known.is_empty() {
                clients.remove(&client);
            }
        }
    }

    fn of(&self, client: Guid) -> Vec<ChannelEntry> {
        self.lock().get(&client).cloned().unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Guid, Vec<ChannelEntry>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The negotiated connections of a lane, by their numbers.
#[derive(Default)]
pub(crate) struct ConnectionTable(RefCell<HashMap<u64, Weak<Connection>>>);

impl ConnectionTable {
    pub(super) fn of(&self, connection: u64) -> Option<Rc<Connection>> {
        self.including_lost(connection).filter(|connection| !connection.has_ended())
    }

    /// Returns a connection, also one that was lost and whose requests go on.
    pub(super) fn including_lost(&self, connection: u64) -> Option<Rc<Connection>> {
        self.0.borrow().get(&connection).and_then(Weak::upgrade)
    }

    /// Returns all connections, and those that were lost and whose requests go on.
    pub(super) fn all(&self) -> Vec<Rc<Connection>> {
        self.0.borrow().values().filter_map(Weak::upgrade).collect()
    }
}

impl LaneSmb {
    /// Returns the lane's connections that have negotiated.
    #[cfg(test)]
    pub(crate) fn every_connection(&self) -> Vec<Rc<Connection>> {
        self.connection_table().all()
    }

    /// Adds a connection that has negotiated.
    pub(crate) fn add_connection(&self, connection: &Rc<Connection>) {
        self.connection_table().0.borrow_mut().insert(connection.number, Rc::downgrade(connection));
        self.server_state.stats.add(connection.number, &connection.stats);
    }

    /// Adds a connection to those by which breaks reach this client.
    pub(crate) fn add_client_channel(&self, client: Guid, connection: &Connection) {
        let entry = ChannelEntry { connection: connection.number, lane: self.lane_mailbox.here() };
        self.server_state.clients.add(client, entry);
    }

    /// Removes a connection from those by which breaks reach this client.
    pub(crate) fn remove_client_channel(&self, client: Guid, connection: &Connection) {
        self.server_state.clients.remove(client, connection.number);
    }

    /// Removes a connection whose requests have all ended.
    pub(crate) fn remove_connection(&self, connection: &Connection) {
        self.connection_table().0.borrow_mut().remove(&connection.number);
        self.server_state.stats.remove(connection.number);
    }

    /// Sends a break by the next of the client's connections, the older before the younger. When nothing waits for the answer, those of
    /// this lane come first: the break is then queued before the reply to the request that caused it.
    pub(crate) fn deliver(self: &Rc<Self>, mut broken: Break) {
        loop {
            let here = self.lane_mailbox.here();
            let mut routes = self.routes_of(&broken);
            let is_awaited = broken.kind.is_awaited();
            routes.sort_by_key(|route| (!is_awaited && route.lane != here, route.connection));
            //= MS-SMB2 3.3.4.6
            //# Where sending fails it is sent by another connection; where none is left, the break goes unanswered.
            let Some(route) = routes.first() else {
                self.counters.breaks_undelivered.increment();
                return;
            };
            if !broken.tried.is_empty() {
                self.counters.breaks_sent_again.increment();
            }
            broken.tried.push(route.connection);
            if route.lane == here {
                if self.send_break(route.connection, &broken) {
                    return;
                }
            } else if self
                .lane_mailbox
                .send(route.lane, LaneMessage::Break { by: route.connection, broken: broken.clone() })
            {
                return;
            }
        }
    }

    /// Returns the connections that a break may be sent by and was not yet.
    fn routes_of(&self, broken: &Break) -> Vec<ChannelEntry> {
        let mut routes = match broken.kind {
            BreakKind::Oplock { session, .. } => {
                self.server_state.sessions.get(session).map(|session| session.channels()).unwrap_or_default()
            }
            BreakKind::Lease(LeaseBroken { client, .. }) => self.server_state.clients.of(client),
        };
        routes.retain(|route| !broken.tried.contains(&route.connection));
        routes
    }

    /// Returns true when the client has a connection that this break was not sent by.
    pub(super) fn has_another_route(&self, broken: &Break) -> bool {
        !self.routes_of(broken).is_empty()
    }

    /// Sends a break by this connection, or by another if it has ended since.
    pub(super) fn deliver_by(self: &Rc<Self>, connection: u64, broken: Break) {
        if !self.send_break(connection, &broken) {
            self.deliver(broken);
        }
    }

    /// Runs a step of what a request of this connection causes.
    pub(crate) fn caused_by<T>(&self, connection: &Connection, step: impl FnOnce() -> T) -> T {
        let before = self.causer.replace(Some(connection.number));
        let came = step();
        self.causer.set(before);
        came
    }

    /// Sends the breaks that a frame of this connection has caused, once its replies are queued.
    pub(crate) fn send_held_breaks(self: &Rc<Self>, connection: &Connection) {
        let late = connection.held_breaks.take();
        late.into_iter().for_each(|broken| self.deliver_by(connection.number, broken));
    }

    fn send_break(self: &Rc<Self>, connection: u64, broken: &Break) -> bool {
        let Some(connection) = self.connection_table().of(connection) else { return false };
        let channel = {
            let channels = connection.channels.borrow();
            match broken.kind {
                BreakKind::Oplock { session, .. } => channels.get(&session).cloned(),
                BreakKind::Lease(LeaseBroken { client, .. }) => {
                    channels.values().find(|channel| channel.session.client == client).cloned()
                }
            }
        };
        let Some(channel) = channel else { return false };
        if broken.kind.may_follow() && self.causer.get() == Some(connection.number) {
            connection.held_breaks.borrow_mut().push(broken.clone());
            return true;
        }
        broken.kind.send(&connection, &channel);
        self.counters.breaks_sent.increment();
        undelivered::watch(&connection, broken.clone());
        true
    }
}

impl BreakKind {
    /// Returns whether it may come behind the reply to the client that causes it, where both go by one connection. It
    /// knows of the names that it changes by the reply, and its other leases of the directory go a moment later, as
    /// with Samba. Other clients get theirs before.
    fn may_follow(&self) -> bool {
        matches!(self, Self::Lease(broken) if broken.names)
    }

    /// Returns whether what causes it goes on only when the client has answered.
    fn is_awaited(&self) -> bool {
        match self {
            Self::Oplock { level, .. } => *level != oplock_level::NONE,
            Self::Lease(broken) => broken.acknowledge,
        }
    }

    fn send(&self, connection: &Rc<Connection>, channel: &Channel) {
        //= MS-SMB2 3.3.4.6
        //# MessageId is 0xFFFFFFFFFFFFFFFF, TreeId 0, and the message is not signed.
        let mut header = Header::request(Command::OplockBreak, UNSOLICITED).with(flags::SERVER_TO_REDIR);
        match self {
            Self::Oplock { open, session, level } => {
                let body = OplockBreak { oplock_level: *level, file_id: *open, ..OplockBreak::blank() };
                header.session_id.set(*session);
                send_unasked(connection, &header, channel, None, |out| out.push(&body));
            }
            //= MS-SMB2 3.3.4.7
            //# SessionId and TreeId are 0.
            Self::Lease(broken) => {
                let body = LeaseBreak {
                    new_epoch: broken.epoch.into(),
                    flags: if broken.acknowledge { FLAG_ACK_REQUIRED.into() } else { 0.into() },
                    lease_key: broken.key,
                    current_lease_state: broken.from.into(),
                    new_lease_state: broken.to.into(),
                    ..LeaseBreak::blank()
                };
                send_unasked(connection, &header, channel, None, |out| out.push(&body));
            }
        }
    }
}

/// Receiver of breaks of the lane's tree.
pub(super) struct LaneBreaks(pub(super) Weak<LaneSmb>);

impl LaneBreaks {
    fn deliver(&self, kind: BreakKind) {
        if let Some(lane) = self.0.upgrade() {
            lane.deliver(Break { kind, tried: Vec::new() });
        }
    }
}

impl smb_tree::Breaks for LaneBreaks {
    fn oplock(&self, open: FileId, session: u64, level: u8) {
        self.deliver(BreakKind::Oplock { open, session, level });
    }

    fn lease(&self, broken: &LeaseBroken) {
        self.deliver(BreakKind::Lease(*broken));
    }
}
