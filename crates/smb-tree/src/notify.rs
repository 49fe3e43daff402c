//! CHANGE_NOTIFY (MS-SMB2 3.3.5.19): names that come and go in a directory, whichever service makes the change. What is told is names of
//! the directory itself; a watch of a whole subtree, or of anything but names, is refused.

use std::sync::Arc;
use std::task::{Poll, Waker};

use smb_wire::Status;
use smb_wire::body::change_notify::{ChangeNotifyRequest, FLAG_WATCH_TREE, filter};
use smb_wire::chain::EntryWriter;
use smb_wire::create::access::rights::READ_DATA;
use smb_wire::info::notify::{self, action};
use vfs::{Edit, NameChanges};

use crate::Answer;
use crate::asker::Asker;
use crate::names;
use crate::open::Open;
use crate::share::Share;

/// What an open watches.
#[derive(Debug, Default)]
pub(crate) struct Watching {
    /// From its first request on, so that nothing between two of them is lost.
    changes: Option<NameChanges>,
    /// Requests that wait.
    waiting: Vec<(u64, Waker)>,
    next: u64,
    is_closed: bool,
}

impl Watching {
    /// The open is closed: who waits hears of it.
    pub(crate) fn close(&mut self) -> Vec<Waker> {
        self.is_closed = true;
        self.changes = None;
        self.waiting.drain(..).map(|(_, waker)| waker).collect()
    }
}

/// A request that waits. Dropped, it waits no more.
struct Waiting<'a> {
    open: &'a Open,
    number: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.open.state().watching.waiting.retain(|(number, _)| *number != self.number);
    }
}

impl Share {
    /// Waits until names come or go, and tells them: with `STATUS_NOTIFY_ENUM_DIR`, and none of them, where they are too many for the
    /// client's room; with `STATUS_NOTIFY_CLEANUP` when the open is closed.
    ///
    /// # Errors
    /// `STATUS_INVALID_PARAMETER` for what is no directory, or a filter of nothing; `STATUS_ACCESS_DENIED`; `STATUS_NOT_SUPPORTED` for a
    /// subtree, or a filter without names; `STATUS_INSUFFICIENT_RESOURCES` where too many wait by one open.
    pub async fn change_notify(
        &self,
        asker: &Asker,
        open: &Arc<Open>,
        request: &ChangeNotifyRequest,
    ) -> Result<Answer, Status> {
        let wanted = request.completion_filter.get();
        //= MS-SMB2 3.3.5.19
        //# An open of something else than a directory, or a filter without any known bit, fails with STATUS_INVALID_PARAMETER.
        if !open.is_directory() || wanted & FILTERS == 0 {
            return Err(Status::INVALID_PARAMETER);
        }
        //= MS-SMB2 3.3.5.19
        //# Without FILE_LIST_DIRECTORY the request fails with STATUS_ACCESS_DENIED.
        if !open.may(READ_DATA) {
            return Err(Status::ACCESS_DENIED);
        }
        let has_names = wanted & (filter::FILE_NAME | filter::DIR_NAME) != 0;
        if !has_names || request.flags.get() & FLAG_WATCH_TREE != 0 {
            self.counters().notify_refused.increment();
            return Err(Status::NOT_SUPPORTED);
        }
        let hand = self.hand(asker, open).await?;
        let directory = hand.directory().ok_or(Status::INVALID_PARAMETER)?;
        let waiting = {
            let mut state = open.state();
            if state.watching.waiting.len() >= WAITING_MAX {
                self.counters().notify_refused.increment();
                return Err(Status::INSUFFICIENT_RESOURCES);
            }
            if state.watching.changes.is_none() && !state.watching.is_closed {
                state.watching.changes = directory.name_changes();
            }
            state.watching.next += 1;
            Waiting { open, number: state.watching.next }
        };
        let room = request.output_buffer_length.get() as usize;
        let changes = std::future::poll_fn(|cx| {
            let mut state = open.state();
            let watching = &mut state.watching;
            let Some(changes) = &mut watching.changes else {
                return Poll::Ready(Err(Status::NOTIFY_CLEANUP));
            };
            if let Poll::Ready(changes) = changes.poll(cx) {
                return Poll::Ready(Ok(changes));
            }
            watching.waiting.retain(|(number, _)| *number != waiting.number);
            watching.waiting.push((waiting.number, cx.waker().clone()));
            Poll::Pending
        });
        match changes.await {
            Ok(changes) => Ok(self.tell(changes, room)),
            Err(status) => Ok(Answer { status, output: Vec::new() }),
        }
    }

    fn tell(&self, changes: Option<Vec<Vec<Edit>>>, room: usize) -> Answer {
        let mut output = Vec::new();
        let mut entries = EntryWriter::new(&mut output, 4, room);
        let actions =
            changes.map(|changes| changes.iter().flat_map(|edits| actions(edits)).collect::<Vec<_>>());
        let mut fits = actions.is_some();
        for (action, name) in actions.into_iter().flatten() {
            // What clients cannot spell they cannot hear of.
            let Some(name) = names::to_wire(&name) else { continue };
            fits = fits && notify::write(&mut entries, action, &name);
        }
        //= MS-SMB2 3.3.5.19
        //# What does not fit is not told at all: STATUS_NOTIFY_ENUM_DIR, and the client looks for itself.
        if fits {
            return Answer { status: Status::SUCCESS, output };
        }
        self.counters().notify_overflows.increment();
        Answer { status: Status::NOTIFY_ENUM_DIR, output: Vec::new() }
    }
}

/// What one change of names is to those who watch.
fn actions(edits: &[Edit]) -> Vec<(u32, Box<[u8]>)> {
    let removed = |edit: &Edit| match edit {
        Edit::Removed { name } => Some(name.clone()),
        Edit::Added { .. } => None,
    };
    let added = edits.iter().find_map(|edit| match edit {
        Edit::Added { name, .. } => Some(name.clone()),
        Edit::Removed { .. } => None,
    });
    let gone: Vec<_> = edits.iter().filter_map(removed).collect();
    match (gone.as_slice(), added) {
        // Another file has taken the name.
        ([name], Some(new)) if *name == new => vec![(action::MODIFIED, new)],
        //= MS-FSCC 2.7.1
        //# A rename within the directory is told as the old name and the new, one behind the other.
        ([old, replaced @ ..], Some(new)) => {
            let replaced = replaced.iter().map(|name| (action::REMOVED, name.clone()));
            let renamed = [(action::RENAMED_OLD_NAME, old.clone()), (action::RENAMED_NEW_NAME, new)];
            replaced.chain(renamed).collect()
        }
        (gone, added) => {
            let gone = gone.iter().map(|name| (action::REMOVED, name.clone()));
            gone.chain(added.map(|name| (action::ADDED, name))).collect()
        }
    }
}

/// Bits that there are.
const FILTERS: u32 = 0xfff;
/// Requests of one open that wait.
const WAITING_MAX: usize = 64;
