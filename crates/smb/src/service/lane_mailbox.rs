//! Messages between the lanes of SMB: sessions that have ended, and breaks whose clients have connections on other lanes alone.
//!
//! A message may be lost. An ended session is also marked in the state that lanes share, and a lane whose bell is rung looks for such
//! sessions.

use std::io;
use std::rc::{Rc, Weak};

use lane::Task;
use lane::mesh::{Limits, Mail, Member, Port, Sender};

use super::breaks::Break;
use super::lane_service::LaneSmb;

/// A message from one lane to another.
#[derive(Debug)]
pub(crate) enum LaneMessage {
    /// A session is over, of which these connections were channels.
    Ended { session: u64, connections: Vec<u64> },
    /// A break must be sent to a client by this connection of the lane.
    Break { by: u64, broken: Break },
    /// The connections that a session has left are on this lane: its client gets breaks here from now on.
    Adopt { session: u64 },
}

/// A lane's sender of messages to other lanes.
pub(crate) struct LaneMailbox {
    sender: Sender<LaneMessage>,
}

impl LaneMailbox {
    /// Opens the mailbox of the current lane, and returns the port at which its messages arrive.
    pub(crate) fn open() -> io::Result<(Self, Port<LaneMessage>)> {
        let lane = lane::current();
        let limits = Limits { messages: WORDS_MAX, calls: 0 };
        let exchange = lane.mesh().exchange::<LaneMessage, ()>("smb", limits).map_err(io::Error::other)?;
        let port =
            exchange.open(lane.id().into()).map_err(|_| io::Error::other("the lane has SMB already"))?;
        Ok((Self { sender: port.sender() }, port))
    }

    /// Returns which lane it is.
    pub(crate) fn here(&self) -> Member {
        self.sender.member()
    }

    /// Sends a message to another lane; `false` when its mailbox is full or closed.
    pub(crate) fn send(&self, to: Member, message: LaneMessage) -> bool {
        self.sender.cast(to, message).is_ok()
    }

    /// Rings another lane's bell, so that it looks for sessions that have ended.
    pub(crate) fn ring(&self, to: Member) {
        // A lane that takes no mail has no connection either.
        self.sender.ring(to);
    }
}

/// Takes the lane's mail for as long as the service lives.
pub(crate) fn take(lane: Weak<LaneSmb>, mut port: Port<LaneMessage>) -> Task<()> {
    lane::spawn(async move {
        while let Some(mail) = port.recv().await {
            let Some(lane) = lane.upgrade() else { return };
            match mail {
                Mail::Rung => lane.forget_ended(),
                Mail::Cast(_, message) | Mail::Call(_, message, _) => dispatch(&lane, message),
            }
        }
    })
}

fn dispatch(lane: &Rc<LaneSmb>, message: LaneMessage) {
    match message {
        LaneMessage::Ended { session, connections } => lane.forget(session, &connections),
        LaneMessage::Break { by, broken } => lane.deliver_by(by, broken),
        LaneMessage::Adopt { session } => lane.adopt(session),
    }
}

//@ limit: words of one lane to another
//@ section: SMB
//@ unit: break, or session that is over
//@ all: lane: {} of each pair
//@ empty: the lane looks for what is over by itself; a break goes to another connection
//@ counter: smb_breaks_undelivered
//@ attack: none, lanes write to each other
//@ reach: server
/// Words of one lane to another that were not taken yet.
const WORDS_MAX: usize = 4096;
