//! Breaks of oplocks and leases on their way to clients of this lane (MS-SMB2 3.3.4.6, 3.3.4.7).

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::{Rc, Weak};

use smb_tree::LeaseBroken;
use smb_wire::body::oplock_break::{FLAG_ACK_REQUIRED, LeaseBreak, OplockBreak};
use smb_wire::fixed::Fixed;
use smb_wire::header::{UNSOLICITED, flags};
use smb_wire::{Command, FileId, Guid, Header};

use crate::connection::{Connection, send_unasked};
use crate::session::Channel;

/// Which connections of the lane can tell whom.
#[derive(Default)]
pub(crate) struct Ways {
    clients: RefCell<HashMap<Guid, Vec<Weak<Connection>>>>,
}

impl Ways {
    /// A client has negotiated by this connection.
    pub(crate) fn add(&self, client: Guid, connection: &Rc<Connection>) {
        self.clients.borrow_mut().entry(client).or_default().push(Rc::downgrade(connection));
    }

    /// The connection has ended.
    pub(crate) fn remove(&self, client: Guid, connection: &Connection) {
        let mut clients = self.clients.borrow_mut();
        if let Some(known) = clients.get_mut(&client) {
            known.retain(|known| !std::ptr::eq(known.as_ptr(), connection));
            if known.is_empty() {
                clients.remove(&client);
            }
        }
    }

    /// A channel of the session.
    fn of_session(&self, session: u64, client: Guid) -> Option<(Rc<Connection>, Rc<Channel>)> {
        self.of_client(client, |channels| channels.get(&session).cloned())
    }

    /// The newest connection of a client by which he can be told.
    fn of_client(
        &self,
        client: Guid,
        which: impl Fn(&HashMap<u64, Rc<Channel>>) -> Option<Rc<Channel>>,
    ) -> Option<(Rc<Connection>, Rc<Channel>)> {
        let clients = self.clients.borrow();
        let alive = clients.get(&client)?.iter().rev().filter_map(Weak::upgrade);
        alive.filter(|connection| !connection.has_ended()).find_map(|connection| {
            let channel = which(&connection.channels.borrow())?;
            Some((connection, channel))
        })
    }
}

/// Tells clients of this lane.
pub(super) struct LaneBreaks {
    pub(super) ways: Rc<Ways>,
    pub(super) sessions: Rc<dyn Fn(u64) -> Option<Guid>>,
}

impl smb_tree::Breaks for LaneBreaks {
    fn oplock(&self, open: FileId, session: u64, level: u8) {
        let way = (self.sessions)(session).and_then(|client| self.ways.of_session(session, client));
        let Some((connection, channel)) = way else { return };
        let body = OplockBreak { oplock_level: level, file_id: open, ..OplockBreak::blank() };
        //= MS-SMB2 3.3.4.6
        //# MessageId is 0xFFFFFFFFFFFFFFFF, TreeId 0, and the message is not signed.
        let mut header = header();
        header.session_id.set(session);
        connection.lane.counters.breaks_sent.increment();
        send_unasked(&connection, &header, &channel, |out| out.push(&body));
    }

    fn lease(&self, broken: &LeaseBroken) {
        let any = |channels: &HashMap<u64, Rc<Channel>>| channels.values().next().cloned();
        let Some((connection, channel)) = self.ways.of_client(broken.client, any) else { return };
        let body = LeaseBreak {
            new_epoch: broken.epoch.into(),
            flags: if broken.acknowledge { FLAG_ACK_REQUIRED.into() } else { 0.into() },
            lease_key: broken.key,
            current_lease_state: broken.from.into(),
            new_lease_state: broken.to.into(),
            ..LeaseBreak::blank()
        };
        //= MS-SMB2 3.3.4.7
        //# SessionId and TreeId are 0.
        connection.lane.counters.breaks_sent.increment();
        send_unasked(&connection, &header(), &channel, |out| out.push(&body));
    }
}

fn header() -> Header {
    Header::request(Command::OplockBreak, UNSOLICITED).with(flags::SERVER_TO_REDIR)
}
