//! Requests to the grants of an object, repeated until they are decided, and the lease breaks that they cause.

use std::sync::Arc;
use std::time::{Duration, Instant};

use grants::{Break, Event, GrantResult, LeaseOfOtherFile, Refused, Ticket};

use super::local::{LocalLocks, release};
use super::slot::{GrantOutcome, Grants};
use super::{GrantWait, Link};
use crate::cache::Cache;
use crate::error::Error;
use crate::object::{ChangeLockSet, Object};
use crate::volume::Volume;

/// A lease or oplock break that a holder is to be sent. It answers by [`Open::acknowledge`](super::Open::acknowledge)
/// or [`Volume::acknowledge`](crate::Volume::acknowledge) where the break takes an acknowledgement.
#[derive(Clone, Debug)]
pub struct LeaseBreak {
    /// The object that the lease is of.
    pub object: Arc<Object>,
    /// The break.
    pub grant_break: Break,
}

/// Reason why a file cannot be opened, or something of the open be done.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Grants of others, or limits, are in the way.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The lease's key is that of a lease of another file.
    #[error(transparent)]
    LeaseOfOtherFile(#[from] LeaseOfOtherFile),
    /// The volume or the file system.
    #[error(transparent)]
    Failed(#[from] Error),
}

/// Stream and object that a lease is of.
#[derive(Clone)]
pub(crate) struct LeasePlace {
    pub(crate) object: Arc<Object>,
    pub(crate) stream: Arc<[u8]>,
}

/// Lease breaks of some objects that are to be sent.
#[derive(Default)]
pub(crate) struct BreaksToSend {
    breaks: Vec<UnsentBreak>,
    expired: u64,
    unlocked: Vec<(Arc<Object>, Arc<LocalLocks>)>,
}

/// A lease break that is to be sent. It is dropped once it has been, or cannot be.
pub struct UnsentBreak {
    pub(crate) lease_break: LeaseBreak,
}

impl Drop for UnsentBreak {
    fn drop(&mut self) {
        self.lease_break.object.grants().note_break_sent();
    }
}

impl PartialEq for LeasePlace {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.object, &other.object) && self.stream == other.stream
    }
}

impl BreaksToSend {
    /// Takes the events of an outcome, which are to be sent, and returns its value.
    pub(crate) fn take<T>(&mut self, object: &Arc<Object>, outcome: GrantOutcome<T>) -> T {
        self.expired += outcome.expired;
        self.unlocked.extend(outcome.unlocked.map(|local| (Arc::clone(object), local)));
        let asked =
            |grant_break| UnsentBreak { lease_break: LeaseBreak { object: Arc::clone(object), grant_break } };
        self.breaks.extend(outcome.breaks.into_iter().map(asked));
        outcome.value
    }

    /// Has other programs see, in a moment, that locks are over.
    pub(crate) fn unlock(&mut self) {
        self.unlocked.drain(..).for_each(|(object, local)| lane::spawn(release(object, local)).detach());
    }

    pub(crate) fn into_breaks(self) -> Vec<UnsentBreak> {
        self.breaks
    }

    pub(crate) fn expired(&self) -> u64 {
        self.expired
    }
}

/// Repeats a request until it is granted or refused, and waits in between without any lock, up to a bound.
pub(super) async fn retry_until_decided<T>(
    volume: &Volume,
    object: &Arc<Object>,
    when: When,
    mut ask: impl FnMut(&mut Grants, Instant, Option<Ticket>, &mut Vec<Event>) -> GrantResult<T>,
) -> Result<T, OpenError> {
    let mut pause: Option<GrantWait> = None;
    let patience = lane::time::now() + WAIT_MAX;
    loop {
        // A task that only looked whether it is over might look for ever, in turns with others.
        let turn = match when == When::Unchanging && object.is_changing() {
            true => {
                let taken = ChangeLockSet::take(vec![Arc::clone(object)], volume.waiting_max()?).await;
                Some(taken.map_err(Error::from)?)
            }
            false => None,
        };
        let (now, ticket) = (lane::time::now(), pause.as_ref().map(GrantWait::ticket));
        let outcome = object.grants().ask(|grants, events| {
            let is_unsure = when == When::Unchanging && turn.is_none() && object.is_changing();
            (!is_unsure).then(|| ask(grants, now, ticket, events))
        });
        drop(turn);
        let mut breaks = BreaksToSend::default();
        let answer = breaks.take(object, outcome);
        volume.cache().send_breaks(breaks);
        let wait = match answer {
            None => continue,
            Some(GrantResult::Granted(value)) => {
                // A caller that goes on has them told before.
                object.grants().all_breaks_sent().await;
                return Ok(value);
            }
            Some(GrantResult::Refused(why)) => return Err(why.into()),
            Some(GrantResult::Wait(wait)) => wait,
        };
        volume.counters().grants_waited.increment();
        let pause = pause.get_or_insert_with(|| GrantWait::new(object, wait.ticket));
        if pause.until(wait.until.min(patience)).await.is_none() && lane::time::now() >= patience {
            return Err(Refused::Sharing.into());
        }
    }
}

/// Times when something may be asked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    /// Any time, as no client relies on anything by the answer.
    Always,
    /// Times without a change of the object under way: a change breaks what is granted then.
    Unchanging,
}

/// Asks for what is granted or refused at once.
pub(super) fn at_once<T>(
    cache: &Cache,
    object: &Arc<Object>,
    ask: impl FnOnce(&mut Grants, Instant, &mut Vec<Event>) -> T,
) -> T {
    let now = lane::time::now();
    let mut breaks = BreaksToSend::default();
    let value = breaks.take(object, object.grants().ask(|grants, events| ask(grants, now, events)));
    cache.send_breaks(breaks);
    value
}

/// A lease may be given back in two steps of 35 s each; what is waited for is not granted anew.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(75);

/// Returns the place of a file's name, for what hangs on names.
pub(super) fn name_of(link: &Link) -> Option<(&Arc<Object>, &[u8])> {
    link.place.as_ref().map(|(directory, name)| (directory, &**name))
}
