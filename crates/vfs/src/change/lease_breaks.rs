//! Lease and oplock breaks that a change has to wait for. They are sent under the change locks and awaited without
//! them, as the holder has to write first.

use std::sync::Arc;
use std::time::Instant;

use coherence::ChangeKind;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use grants::conflict::FileOperation;
use grants::{Change, Event, ExemptHolder, GrantResult};

use super::located_directory::Interrupted;
use crate::caller::Caller;
use crate::error::Error;
use crate::grant::{BreaksToSend, Content, GrantWait, Grants, OpenCaller, WAIT_MAX};
use crate::object::Object;
use crate::volume::Volume;

/// A lease break that a change waits for, and until when.
pub(super) struct PendingLeaseBreak {
    pause: GrantWait,
    until: Instant,
    /// The object has to be closed: where one stays open the change is refused, whatever comes of the others.
    must_close: bool,
}

/// A directory whose leases the change breaks once it is made, as it shows the change.
pub(super) struct DirectoryLeaseBreak {
    pub(super) directory: Arc<Object>,
    pub(super) by: Option<ExemptHolder>,
}

/// The lease breaks that a change has waited for so far. While this lives, the holders are granted nothing of it
/// again.
#[derive(Default)]
pub(super) struct LeaseBreakWait {
    asked: Vec<PendingLeaseBreak>,
    patience: Option<Instant>,
}

impl Volume {
    /// Checks whether the change may be made, under its change locks, and breaks the leases that conflict with it.
    pub(super) fn break_leases(
        &self,
        caller: &Caller,
        what: &[(&Arc<Object>, ChangeKind)],
    ) -> Result<(), Interrupted> {
        self.break_leases_of(what.iter().filter_map(|(object, what)| Some((*object, change(what, caller)?))))
    }

    /// Breaks the leases that reading a file conflicts with ([`Volume::break_leases`]).
    pub(super) fn break_leases_to_read(
        &self,
        caller: &Caller,
        file: &Arc<Object>,
    ) -> Result<(), Interrupted> {
        let by = caller.open.map(OpenCaller::by);
        self.break_leases_of(std::iter::once((file, Change { operation: FileOperation::Read, by })))
    }

    pub(super) fn break_leases_of<'a>(
        &self,
        all: impl Iterator<Item = (&'a Arc<Object>, Change)>,
    ) -> Result<(), Interrupted> {
        self.break_each_lease(all.map(|(object, change)| {
            let asks = move |grants: &mut Grants, now, events: &mut Vec<Event>| {
                grants.change(now, b"", change, None, events)
            };
            (object, asks)
        }))
    }

    /// Breaks the conflicting leases of each of these objects; all holders are notified at once.
    pub(super) fn break_each_lease<'a>(
        &self,
        all: impl Iterator<
            Item = (&'a Arc<Object>, impl FnOnce(&mut Grants, Instant, &mut Vec<Event>) -> GrantResult<()>),
        >,
    ) -> Result<(), Interrupted> {
        let (mut breaks, mut pending, mut is_refused) = (BreaksToSend::default(), Vec::new(), false);
        for (object, asks) in all {
            let now = lane::time::now();
            let asked = object.grants().ask_if_any(|grants, events| asks(grants, now, events));
            match asked.map(|outcome| breaks.take(object, outcome)) {
                None | Some(GrantResult::Granted(())) => {}
                Some(GrantResult::Wait(wait)) => {
                    let pause = GrantWait::new(object, wait.ticket);
                    pending.push(PendingLeaseBreak { pause, until: wait.until, must_close: false });
                }
                Some(GrantResult::Refused(_)) => is_refused = true,
            }
        }
        self.cache().send_breaks(breaks);
        match (is_refused, pending.is_empty()) {
            (true, _) => Err(Error::Locked.into()),
            (false, false) => Err(Interrupted::AwaitLease(pending)),
            (false, true) => Ok(()),
        }
    }
}

impl Volume {
    /// Waits until holders of the parent directory's leases were notified of the break.
    pub(super) async fn wait_for_directory_breaks(&self, object: Option<&Arc<Object>>) {
        if let Some(above) = object.and_then(above) {
            above.grants().all_breaks_sent().await;
        }
    }
}

impl LeaseBreakWait {
    /// Waits until all that were asked have given something back or had their time, or one goes on with what
    /// had to be closed; holding nothing. Their times go together: many take no longer than one.
    ///
    /// # Errors
    /// [`Error::Locked`] when that has taken too long altogether.
    pub(super) async fn wait(
        &mut self,
        volume: &Volume,
        pending: Vec<PendingLeaseBreak>,
    ) -> Result<(), Error> {
        let patience = *self.patience.get_or_insert_with(|| lane::time::now() + WAIT_MAX);
        if lane::time::now() >= patience {
            return Err(Error::Locked);
        }
        volume.counters().grants_waited.increment();
        let mut all: FuturesUnordered<_> = pending.into_iter().map(|asked| asked.ended(patience)).collect();
        let mut ended = Vec::new();
        while let Some(asked) = all.next().await {
            let is_over = asked.must_close && asked.pause.object().grants().is_open_to_stay();
            ended.push(asked);
            if is_over {
                break;
            }
        }
        // An earlier place of the same change is no use beside the new one.
        self.asked.retain(|earlier| !ended.iter().any(|asked| asked.is_of(earlier)));
        self.asked.extend(ended);
        Ok(())
    }
}

impl PendingLeaseBreak {
    /// Makes the wait end by closing alone.
    pub(super) fn until_closed(mut self) -> Self {
        self.must_close = true;
        self
    }

    /// Waits until something has been given back, or its time is over.
    async fn ended(mut self, patience: Instant) -> Self {
        self.pause.until(self.until.min(patience)).await;
        self
    }

    fn is_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(self.pause.object(), other.pause.object())
    }
}

/// Returns what a change of an object asks of it.
fn change(what: &ChangeKind, caller: &Caller) -> Option<Change> {
    let own = caller.open.map(OpenCaller::by);
    let content = caller.open.map(|open| open.content).unwrap_or_default();
    let asks = match what {
        ChangeKind::Names(_) => return Some(Change { operation: FileOperation::Names, by: parent(caller) }),
        ChangeKind::Attributes => return None,
        ChangeKind::Content if content == Content::Overwritten => FileOperation::Overwrite,
        ChangeKind::Content => FileOperation::Write,
        // The change is made: it can no longer be refused.
        ChangeKind::Unknown => FileOperation::Behind,
        ChangeKind::Place | ChangeKind::Subtree => FileOperation::Rename,
        ChangeKind::Gone => FileOperation::Remove,
        ChangeKind::Rights => FileOperation::Security,
    };
    Some(Change { operation: asks, by: own })
}

/// Returns the directories whose leases the change breaks. A write by an open breaks them when the open is closed, a
/// truncation at once.
pub(super) fn directory_breaks(
    what: &[(&Arc<Object>, ChangeKind)],
    caller: &Caller,
) -> Vec<DirectoryLeaseBreak> {
    let is_shown = |what: &ChangeKind| match what {
        ChangeKind::Content | ChangeKind::Unknown => {
            caller.open.is_none_or(|open| open.content != Content::Written)
        }
        ChangeKind::Attributes | ChangeKind::Rights => true,
        ChangeKind::Names(_) | ChangeKind::Place | ChangeKind::Subtree | ChangeKind::Gone => false,
    };
    let changed = what.iter().filter(|(_, what)| is_shown(what));
    let above = changed.filter_map(|(object, _)| above(object));
    above.map(|directory| DirectoryLeaseBreak { directory, by: parent(caller) }).collect()
}

/// Returns the directory above, if a client holds anything of it.
fn above(object: &Arc<Object>) -> Option<Arc<Object>> {
    let place = object.volume().objects().any_held().then(|| object.place()).flatten()?;
    place.directory.grants().is_in_use().then_some(place.directory)
}

fn parent(caller: &Caller) -> Option<ExemptHolder> {
    caller.open.and_then(OpenCaller::by_above)
}
