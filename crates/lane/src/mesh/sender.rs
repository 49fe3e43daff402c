//! The sending side: messages, calls, and both to many.

use std::sync::Arc;

use super::calls::{Call, Gather, Unanswered, open_call};
use super::exchange::{Envelope, ExchangeShared, NoRoom, tell};
use super::members::{Member, Members};
use crate::backend;

/// Sender by which a member writes to the others, and to itself. Clones may be used by any of its tasks.
pub struct Sender<M, R: Send + 'static = ()> {
    shared: Arc<ExchangeShared<M, R>>,
    me: Member,
}

/// A message that was not sent, given back.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused<M> {
    /// The limit of this pair is reached: messages not taken, or calls not answered.
    #[error("the other lane has as much of this one's mail as it may")]
    Full(M),
    /// The receiver's port is closed, or was never open.
    #[error("the other lane takes no mail")]
    Gone(M),
}

/// Error of a call that has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The call was not sent, as [`Refused::Full`].
    #[error("the other lane has as much of this one's mail as it may")]
    Full,
    /// The call was not sent, as [`Refused::Gone`].
    #[error("the other lane takes no mail")]
    Gone,
    /// The call was sent, and ended as [`Unanswered`].
    #[error("the other lane did not answer")]
    Unanswered,
}

impl<M: Send + 'static, R: Send + 'static> Sender<M, R> {
    pub(super) fn new(shared: Arc<ExchangeShared<M, R>>, me: Member) -> Self {
        Self { shared, me }
    }

    /// Returns the member that sends.
    pub fn member(&self) -> Member {
        self.me
    }

    /// Returns the largest number of members.
    pub fn members(&self) -> usize {
        self.shared.members()
    }

    /// Returns whether a member takes mail now.
    pub fn is_open(&self, to: Member) -> bool {
        self.shared.is_open(to)
    }

    /// Returns all other members that take mail now.
    pub fn others(&self) -> Members {
        let all = (0..self.members()).map(Member::from);
        all.filter(|&member| member != self.me && self.is_open(member)).collect()
    }

    /// Sends a message, at once or not at all. It is taken or, when the other's port closes before, dropped.
    ///
    /// # Errors
    /// [`Refused`] with the message.
    pub fn cast(&self, to: Member, message: M) -> Result<(), Refused<M>> {
        self.send(to, Envelope { message, ticket: None })
    }

    /// Sends a message that asks for an answer. See the module for the tasks that may wait for it.
    ///
    /// # Errors
    /// [`Refused`] with the message, also when as many calls to `to` as may be are unanswered.
    pub fn call(&self, to: Member, message: M) -> Result<Call<R>, Refused<M>> {
        let Some(end) = self.shared.end(to) else { return Err(self.refuse(NoRoom::Gone, message)) };
        let Some((ticket, call)) = open_call(&end.pair(self.me).counts, self.shared.limits.calls) else {
            let why = if self.is_open(to) { NoRoom::Full } else { NoRoom::Gone };
            return Err(self.refuse(why, message));
        };
        self.send(to, Envelope { message, ticket: Some(ticket) })?;
        Ok(call)
    }

    /// Sends a message to all of `to`; returns the members that were not sent to.
    pub fn cast_all(&self, to: &Members, message: &M) -> Members
    where
        M: Clone,
    {
        to.iter().filter(|&member| self.cast(member, message.clone()).is_err()).collect()
    }

    /// Calls all of `to` and waits for every answer, or the error of a call without one.
    pub fn broadcast(&self, to: &Members, message: &M) -> Gather<R>
    where
        M: Clone,
    {
        Gather::new(to.iter().map(|member| {
            let call = self.call(member, message.clone());
            (member, call.map_err(CallError::from))
        }))
    }

    /// Rings another member's bell, for which there is always room; returns `false` when that member takes no
    /// mail. It gets [`Mail::Rung`](super::Mail::Rung) once, however often it was rung before it looked.
    pub fn ring(&self, to: Member) -> bool {
        let Some(end) = self.shared.end(to).filter(|_| self.is_open(to)) else { return false };
        tell(
            || end.doorbell.call(),
            |doorbells| {
                let shared = Arc::clone(&self.shared);
                doorbells.later(Box::new(move || shared.end(to)?.doorbell.call()));
            },
        );
        true
    }

    /// Rings the bells of all of `to`; returns the members that take no mail.
    pub fn ring_all(&self, to: &Members) -> Members {
        to.iter().filter(|&member| !self.ring(member)).collect()
    }

    fn send(&self, to: Member, envelope: Envelope<M, R>) -> Result<(), Refused<M>> {
        let Some(end) = self.shared.end(to) else { return Err(self.refuse(NoRoom::Gone, envelope.message)) };
        if let Err((why, envelope)) = end.put(self.me, envelope, self.shared.limits.messages) {
            return Err(self.refuse(why, envelope.message));
        }
        backend::try_with(|backend| backend.counters().mail_sent.increment());
        let me = self.me;
        tell(
            || end.doorbell.message_from(me),
            |doorbells| {
                let shared = Arc::clone(&self.shared);
                doorbells.later(Box::new(move || shared.end(to)?.doorbell.message_from(me)));
            },
        );
        Ok(())
    }

    fn refuse(&self, why: NoRoom, message: M) -> Refused<M> {
        backend::try_with(|backend| match why {
            NoRoom::Full => backend.counters().mail_refused_full.increment(),
            NoRoom::Gone => backend.counters().mail_refused_gone.increment(),
        });
        match why {
            NoRoom::Full => Refused::Full(message),
            NoRoom::Gone => Refused::Gone(message),
        }
    }
}

impl<M> Refused<M> {
    /// Returns the message that was not sent.
    pub fn into_message(self) -> M {
        match self {
            Self::Full(message) | Self::Gone(message) => message,
        }
    }
}

impl<M> From<Refused<M>> for CallError {
    fn from(refused: Refused<M>) -> Self {
        match refused {
            Refused::Full(_) => Self::Full,
            Refused::Gone(_) => Self::Gone,
        }
    }
}

impl From<Unanswered> for CallError {
    fn from(Unanswered: Unanswered) -> Self {
        Self::Unanswered
    }
}

impl<M, R: Send + 'static> Clone for Sender<M, R> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), me: self.me }
    }
}

impl<M, R: Send + 'static> std::fmt::Debug for Sender<M, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sender").field("member", &self.me).finish_non_exhaustive()
    }
}
