//! SERVER_TO_CLIENT_NOTIFICATION (MS-SMB2 2.2.44): a client is notified that an administrator has ended its session,
//! and does not learn it only when it uses it next.
//!
//! The session, which lanes share, says that its client must be notified: the first lane that removes one of its
//! connections does so by that one.

use std::rc::Rc;

use smb_wire::body::notification::{SESSION_CLOSED, SessionClosed};
use smb_wire::fixed::Fixed;
use smb_wire::header::{UNSOLICITED, flags};
use smb_wire::{Command, Header};

use crate::connection::{Connection, send_unasked};
use crate::session::Channel;

/// Notifies a client by this connection that a session is over, where it must be notified and no other connection has
/// done so.
pub(super) fn tell(connection: &Rc<Connection>, session: u64) {
    let channel = connection.channels.borrow().get(&session).cloned();
    let Some(channel) = channel.filter(|_| !connection.has_ended()) else { return };
    if channel.session.is_to_be_told() {
        send(connection, &channel);
        connection.lane.counters.notifications_sent.increment();
    }
}

fn send(connection: &Rc<Connection>, channel: &Rc<Channel>) {
    // Its MessageId is that of an oplock's break (MS-SMB2 3.2.5.20).
    let mut header =
        Header::request(Command::ServerToClientNotification, UNSOLICITED).with(flags::SERVER_TO_REDIR);
    header.session_id.set(channel.session.id);
    let body = SessionClosed { notification_type: SESSION_CLOSED.into(), ..SessionClosed::blank() };
    // It is encrypted where the session's data is, else signed where the session requires signatures (MS-SMB2 4.11.1). No other
    // message of the server with this MessageId is signed, so that no nonce of AES-GMAC is used twice.
    let signs = channel.session.signed_in().is_some_and(|signed_in| signed_in.signing_required);
    send_unasked(connection, &header, channel, signs.then(|| Rc::clone(channel)), |out| out.push(&body));
}
