//! Mail between the lanes of a process, and threads beside them: one-way messages, calls with an answer,
//! messages to many, and bells.
//!
//! A protocol has an [`Exchange`] of its own, typed by what it sends; each lane that takes part opens its [`Port`]
//! there, at start or later, and sends through a [`Sender`]. A process has one [`Mesh`], where protocols find their
//! exchange by name.
//!
//! **Which side may wait for which.**
//! - *Sending never waits.* There is room for so many messages from each member to each other one; beyond it
//!   the message comes back ([`Refused::Full`]) and the refusal is counted. No other member's room is
//!   touched.
//! - *An answer always has room*: its call brought the cell it goes into. So the answering side never waits
//!   either.
//! - *A call that finds too many of its pair unanswered is refused*, not queued. Lanes that call each other in circles run
//!   out of calls, which unwinds the circle; they never wait in it.
//! - *The task that takes mail does not wait for answers.* It answers, or spawns a task that does; calls bound how many.
//!   Only thus is it there to take what others wait for.
//!
//! A call that is given up ([`Call`] dropped) stays counted until the other side has let go of it. It ends with an error
//! when the other side drops it, closes its port, or dies; it has no deadline of its own (`time::timeout` gives one).
//!
//! **What must not be lost is a bit in a shared thing; mail is only the bell.** [`Sender::ring`] needs no room: a port
//! that was rung says so once ([`Mail::Rung`]), however often and however full its boxes are.
//!
//! Messages of one member to another arrive in order, those of different members in any. A lane that is awake is
//! notified without a system call, one that waits in the kernel is woken once for however much there is to take. On
//! simulated lanes the seed decides how long word is on its way, and so whose comes first.

mod calls;
mod exchange;
mod members;
mod outside;
mod port;
mod sender;

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

pub use self::calls::{Call, Gather, Ticket, Unanswered};
pub use self::exchange::{AlreadyOpen, Exchange, Limits};
pub use self::members::{Member, Members};
pub use self::outside::wait;
pub use self::port::{Mail, Port};
pub use self::sender::{CallError, Refused, Sender};

/// Members of one process that may write to each other, and the exchanges of its protocols. Clones are
/// handles to the same one.
#[derive(Clone)]
pub struct Mesh {
    inner: Arc<MeshInner>,
}

struct MeshInner {
    lanes: usize,
    outsiders: Mutex<Outsiders>,
    exchanges: Mutex<BTreeMap<&'static str, Arc<dyn Any + Send + Sync>>>,
}

struct Outsiders {
    made: usize,
    max: usize,
}

/// Error of an exchange's name that carries messages of another type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the exchange {0:?} carries messages of another type")]
pub struct OtherType(&'static str);

impl Mesh {
    /// Makes a mesh of `lanes` lanes, with members of the lanes' numbers, and of at most `outsiders` threads
    /// beside them.
    pub fn new(lanes: usize, outsiders: usize) -> Self {
        let outsiders = Mutex::new(Outsiders { made: 0, max: outsiders });
        Self { inner: Arc::new(MeshInner { lanes, outsiders, exchanges: Mutex::default() }) }
    }

    /// Returns a member for a thread that is no lane; `None` when all are given away. They are not given
    /// back: such threads are few and live as long as the process.
    pub fn outsider(&self) -> Option<Member> {
        let mut outsiders = self.inner.outsiders.lock().expect("nobody panics while holding it");
        if outsiders.made == outsiders.max {
            return None;
        }
        outsiders.made += 1;
        Some(Member::from(self.inner.lanes + outsiders.made - 1))
    }

    /// Returns the exchange of this name, made by the first call. It lives as long as the mesh. `limits`
    /// count where it is made.
    ///
    /// # Errors
    /// [`OtherType`].
    pub fn exchange<M, R>(&self, name: &'static str, limits: Limits) -> Result<Exchange<M, R>, OtherType>
    where
        M: Send + 'static,
        R: Send + 'static,
    {
        let mut exchanges = self.inner.exchanges.lock().expect("nobody panics while holding it");
        let exchange = exchanges.entry(name).or_insert_with(|| {
            let outsiders = self.inner.outsiders.lock().expect("nobody panics while holding it").max;
            Arc::new(Exchange::<M, R>::new(self.inner.lanes + outsiders, limits))
        });
        exchange.downcast_ref::<Exchange<M, R>>().cloned().ok_or(OtherType(name))
    }
}

#[cfg(test)]
mod tests;
