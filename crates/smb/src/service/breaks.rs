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

use super::lane_service::LaneSmb;
use super::post::Word;
use super::undelivered;
use crate::connection::{Connection, send_unasked};
use crate::session::{Channel, ChannelEntry};

/// One break, until its client has it or cannot be told.
#[derive(Clone, Debug)]
pub(crate) struct Break {
    what: What,
    /// By the last of these it was tried; later ones have greater numbers.
    tried: Vec<u64>,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Oplock { open: FileId, session: u64, level: u8 },
    Lease(LeaseBroken),
}

/// Which connections are channels of each client's sessions, on all lanes: touched as they come and go, and by breaks.
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

/// The lane's connections by their numbers.
#[derive(Default)]
pub(crate) struct Ways(RefCell<HashMap<u64, Weak<Connection>>>);

impl Ways {
    pub(super) fn of(&self, connection: u64) -> Option<Rc<Connection>> {
        self.even_lost(connection).filter(|connection| !connection.has_ended())
    }

    /// The same, or one that was lost and whose requests go on.
    pub(super) fn even_lost(&self, connection: u64) -> Option<Rc<Connection>> {
        self.0.borrow().get(&connection).and_then(Weak::upgrade)
    }

    /// All that there are, and those that were lost and whose requests go on.
    pub(super) fn all(&self) -> Vec<Rc<Connection>> {
        self.0.borrow().values().filter_map(Weak::upgrade).collect()
    }
}

impl LaneSmb {
    /// Those of the lane that have negotiated.
    #[cfg(test)]
    pub(crate) fn every_connection(&self) -> Vec<Rc<Connection>> {
        self.ways().all()
    }

    /// A client has negotiated by this connection.
    pub(crate) fn knows(&self, connection: &Rc<Connection>) {
        self.ways().0.borrow_mut().insert(connection.number, Rc::downgrade(connection));
        self.kept.figures.add(connection.number, &connection.figures);
    }

    /// The connection is a channel of a session of this client, who can be told by it.
    pub(crate) fn reaches(&self, client: Guid, connection: &Connection) {
        let entry = ChannelEntry { connection: connection.number, lane: self.post.here() };
        self.kept.clients.add(client, entry);
    }

    /// It is none any more, or has ended.
    pub(crate) fn reaches_no_more(&self, client: Guid, connection: &Connection) {
        self.kept.clients.remove(client, connection.number);
    }

    /// Nothing of the connection goes on.
    pub(crate) fn is_gone(&self, connection: &Connection) {
        self.ways().0.borrow_mut().remove(&connection.number);
        self.kept.figures.remove(connection.number);
    }

    /// Tells a client by the next of its connections, the older before the younger. Where nobody waits for the answer, those of
    /// this lane come first: the break is then queued before the reply to who caused it.
    pub(crate) fn tell(self: &Rc<Self>, mut broken: Break) {
        loop {
            let here = self.post.here();
            let mut ways = self.ways_of(&broken);
            let is_awaited = broken.what.is_awaited();
            ways.sort_by_key(|way| (!is_awaited && way.lane != here, way.connection));
            //= MS-SMB2 3.3.4.6
            //# Where sending fails it is sent by another connection; where none is left, the break goes unanswered.
            let Some(way) = ways.first() else {
                self.counters.breaks_undelivered.increment();
                return;
            };
            if !broken.tried.is_empty() {
                self.counters.breaks_sent_again.increment();
            }
            broken.tried.push(way.connection);
            if way.lane == here {
                if self.send_break(way.connection, &broken) {
                    return;
                }
            } else if self.post.send(way.lane, Word::Break { by: way.connection, broken: broken.clone() }) {
                return;
            }
        }
    }

    /// The connections that a break may be told by and was not yet.
    fn ways_of(&self, broken: &Break) -> Vec<ChannelEntry> {
        let mut ways = match broken.what {
            What::Oplock { session, .. } => {
                self.kept.sessions.get(session).map(|session| session.channels()).unwrap_or_default()
            }
            What::Lease(LeaseBroken { client, .. }) => self.kept.clients.of(client),
        };
        ways.retain(|way| !broken.tried.contains(&way.connection));
        ways
    }

    /// Whether a client could be told of it by another connection than those that it was tried by.
    pub(super) fn has_another_way(&self, broken: &Break) -> bool {
        !self.ways_of(broken).is_empty()
    }

    /// Tells a client by this connection, or by another where it has ended since.
    pub(super) fn tell_by(self: &Rc<Self>, connection: u64, broken: Break) {
        if !self.send_break(connection, &broken) {
            self.tell(broken);
        }
    }

    /// Runs a step of what a request of this connection causes.
    pub(crate) fn caused_by<T>(&self, connection: &Connection, step: impl FnOnce() -> T) -> T {
        let before = self.causer.replace(Some(connection.number));
        let came = step();
        self.causer.set(before);
        came
    }

    /// The replies to a frame of the connection have been queued: so are the breaks that it has caused there.
    pub(crate) fn tell_late(self: &Rc<Self>, connection: &Connection) {
        let late = connection.late_breaks.take();
        late.into_iter().for_each(|broken| self.tell_by(connection.number, broken));
    }

    fn send_break(self: &Rc<Self>, connection: u64, broken: &Break) -> bool {
        let Some(connection) = self.ways().of(connection) else { return false };
        let channel = {
            let channels = connection.channels.borrow();
            match broken.what {
                What::Oplock { session, .. } => channels.get(&session).cloned(),
                What::Lease(LeaseBroken { client, .. }) => {
                    channels.values().find(|channel| channel.session.client == client).cloned()
                }
            }
        };
        let Some(channel) = channel else { return false };
        if broken.what.may_follow() && self.causer.get() == Some(connection.number) {
            connection.late_breaks.borrow_mut().push(broken.clone());
            return true;
        }
        broken.what.send(&connection, &channel);
        self.counters.breaks_sent.increment();
        undelivered::watch(&connection, broken.clone());
        true
    }
}

impl What {
    /// Whether it may come behind the reply to who causes it, where he hears both by one connection: he knows of the names that he
    /// changes by the reply, and his other leases of the directory go a moment later, as with Samba. Whoever else is told is told before.
    fn may_follow(&self) -> bool {
        matches!(self, Self::Lease(broken) if broken.names)
    }

    /// Whether what causes it goes on only when the client has answered.
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

/// Where the lane's tree hands over what breaks.
pub(super) struct LaneBreaks(pub(super) Weak<LaneSmb>);

impl LaneBreaks {
    fn tell(&self, what: What) {
        if let Some(lane) = self.0.upgrade() {
            lane.tell(Break { what, tried: Vec::new() });
        }
    }
}

impl smb_tree::Breaks for LaneBreaks {
    fn oplock(&self, open: FileId, session: u64, level: u8) {
        self.tell(What::Oplock { open, session, level });
    }

    fn lease(&self, broken: &LeaseBroken) {
        self.tell(What::Lease(*broken));
    }
}
