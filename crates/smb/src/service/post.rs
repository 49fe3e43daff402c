//! Word between the lanes of SMB: of sessions that are over, and of breaks whose clients can be told elsewhere alone.
//!
//! What must not be lost is in what the lanes share: a session that is over says so by itself, and who missed the word looks
//! for such sessions when his bell is rung.

use std::io;
use std::rc::{Rc, Weak};

use lane::Task;
use lane::mesh::{Limits, Mail, Member, Port, Sender};

use super::breaks::Break;
use super::lane_service::LaneSmb;

/// What one lane tells another.
#[derive(Debug)]
pub(crate) enum Word {
    /// A session is over, of which these connections were channels.
    Ended { session: u64, connections: Vec<u64> },
    /// A client is to be told by this connection of the lane.
    Break { by: u64, broken: Break },
    /// The connections that a session has left are on this lane: its client is told of breaks here from now on.
    Adopt { session: u64 },
}

/// One lane's end.
pub(crate) struct Post {
    sender: Sender<Word>,
}

impl Post {
    /// Of the current lane, and where its mail comes in.
    pub(crate) fn open() -> io::Result<(Self, Port<Word>)> {
        let lane = lane::current();
        let limits = Limits { messages: WORDS_MAX, calls: 0 };
        let exchange = lane.mesh().exchange::<Word, ()>("smb", limits).map_err(io::Error::other)?;
        let port =
            exchange.open(lane.id().into()).map_err(|_| io::Error::other("the lane has SMB already"))?;
        Ok((Self { sender: port.sender() }, port))
    }

    /// Which lane it is.
    pub(crate) fn here(&self) -> Member {
        self.sender.member()
    }

    /// Sends word; `false` where the other takes none.
    pub(crate) fn send(&self, to: Member, word: Word) -> bool {
        self.sender.cast(to, word).is_ok()
    }

    /// Has another lane look at what it has.
    pub(crate) fn ring(&self, to: Member) {
        // A lane that takes no mail has no connection either.
        self.sender.ring(to);
    }
}

/// Takes the lane's mail for as long as the service lives.
pub(crate) fn take(lane: Weak<LaneSmb>, mut port: Port<Word>) -> Task<()> {
    lane::spawn(async move {
        while let Some(mail) = port.recv().await {
            let Some(lane) = lane.upgrade() else { return };
            match mail {
                Mail::Rung => lane.forget_ended(),
                Mail::Cast(_, word) | Mail::Call(_, word, _) => hear(&lane, word),
            }
        }
    })
}

fn hear(lane: &Rc<LaneSmb>, word: Word) {
    match word {
        Word::Ended { session, connections } => lane.forget(session, &connections),
        Word::Break { by, broken } => lane.tell_by(by, broken),
        Word::Adopt { session } => lane.adopt(session),
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
