//! CHANGE_NOTIFY (MS-SMB2 3.3.5.19): what happens in a directory, or anywhere beneath it, whichever service does it.

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures_util::future::LocalBoxFuture;
use identity::Rights;
use smb_wire::Status;
use smb_wire::body::change_notify::{ChangeNotifyRequest, FLAG_WATCH_TREE, filter};
use smb_wire::chain::EntryWriter;
use smb_wire::create::access::rights::READ_DATA;
use smb_wire::info::notify::{self, action};
use vfs::{Error, Event, EventKind, EventMask, RelPath, RelPathBuf, Watch, WatchOptions, WatchReport};

use crate::Answer;
use crate::access::Allowed;
use crate::names;
use crate::open::Open;
use crate::request_context::RequestContext;
use crate::share::Share;

/// The directory watch of an open, and its CHANGE_NOTIFY requests that wait.
#[derive(Debug, Default)]
pub(crate) struct DirectoryWatch {
    /// Watch of the directory from the first request on, so that nothing between two requests is lost.
    watch: Option<Watch>,
    /// Requests that wait, in the order in which they came: the first gets the next events.
    waiting: VecDeque<(u64, Option<Waker>)>,
    /// Events of a request that ended before it could tell them: the next request tells them.
    unsent: Vec<Event>,
    next: u64,
    is_closed: bool,
}

impl DirectoryWatch {
    /// Closes the watch with its open: waiting requests hear of it.
    pub(crate) fn close(&mut self) -> Vec<Waker> {
        self.is_closed = true;
        self.watch = None;
        self.unsent.clear();
        self.waiting.drain(..).filter_map(|(_, waker)| waker).collect()
    }

    fn poll(&mut self, number: u64, cx: &mut Context<'_>) -> Poll<Option<WatchReport>> {
        let Some(watch) = &self.watch else { return Poll::Ready(None) };
        match self.waiting.iter_mut().enumerate().find(|(_, (waiting, _))| *waiting == number) {
            Some((1.., (_, waker))) => {
                *waker = Some(cx.waker().clone());
                Poll::Pending
            }
            first => {
                if let Some((_, (_, waker))) = first {
                    *waker = Some(cx.waker().clone());
                }
                if !self.unsent.is_empty() {
                    return Poll::Ready(Some(WatchReport::Events(std::mem::take(&mut self.unsent))));
                }
                watch.poll(cx).map(Some)
            }
        }
    }
}

/// The visibility of a name to the client that watches its directory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NameVisibility {
    Yes,
    No,
    /// The name does not exist any more.
    Gone,
}

impl From<Result<bool, Error>> for NameVisibility {
    fn from(found: Result<bool, Error>) -> Self {
        match found {
            Ok(true) => Self::Yes,
            Err(Error::NotFound | Error::NotADirectory | Error::Stale) => Self::Gone,
            Ok(false) | Err(_) => Self::No,
        }
    }
}

/// A request that waits. Dropped, it waits no more, and the next is the first.
struct WaitingNotify<'a> {
    open: &'a Open,
    number: u64,
}

impl Drop for WaitingNotify<'_> {
    fn drop(&mut self) {
        let next = {
            let directory_watch = &mut self.open.state().directory_watch;
            directory_watch.waiting.retain(|(number, _)| *number != self.number);
            directory_watch.waiting.front_mut().and_then(|(_, waker)| waker.take())
        };
        next.into_iter().for_each(Waker::wake);
    }
}

/// The events that a request is about to send. Dropped with any left, it leaves them to the next request.
struct UnsentEvents<'a> {
    open: &'a Open,
    events: Vec<Event>,
}

impl Drop for UnsentEvents<'_> {
    fn drop(&mut self) {
        let directory_watch = &mut self.open.state().directory_watch;
        if !directory_watch.is_closed {
            directory_watch.unsent.append(&mut self.events);
        }
    }
}

impl Share {
    /// Waits until something happens in the directory, or beneath it, and tells it: with `STATUS_NOTIFY_ENUM_DIR`, and nothing of it, where
    /// it is too much for the client's room or is not known; with `STATUS_NOTIFY_CLEANUP` when the open is closed, with
    /// `STATUS_DELETE_PENDING` when the directory goes.
    ///
    /// # Errors
    /// `STATUS_INVALID_PARAMETER` for what is no directory, or a filter of nothing; `STATUS_ACCESS_DENIED`;
    /// `STATUS_INSUFFICIENT_RESOURCES` where too many wait by one open, or watch in the volume.
    pub fn change_notify<'a>(
        &'a self,
        ctx: &'a RequestContext,
        open: &'a Arc<Open>,
        request: &'a ChangeNotifyRequest,
    ) -> LocalBoxFuture<'a, Result<Answer, Status>> {
        Box::pin(async move {
            //= MS-SMB2 3.3.5.19
            //# An open of something else than a directory fails with STATUS_INVALID_PARAMETER.
            if !open.is_directory() {
                return Err(Status::INVALID_PARAMETER);
            }
            //= MS-SMB2 3.3.5.19
            //# Without FILE_LIST_DIRECTORY the request fails with STATUS_ACCESS_DENIED.
            if !open.may(READ_DATA) {
                return Err(Status::ACCESS_DENIED);
            }
            let handle = self.handle(ctx, open).await?;
            let directory = handle.directory().ok_or(Status::INVALID_PARAMETER)?;
            let waiting = {
                let mut state = open.state();
                let directory_watch = &mut state.directory_watch;
                let is_full = directory_watch.waiting.len() >= WAITING_MAX;
                if directory_watch.watch.is_none() && !directory_watch.is_closed && !is_full {
                    let wanted = request.completion_filter.get();
                    if wanted == 0 {
                        return Err(Status::INVALID_PARAMETER);
                    }
                    //= MS-SMB2 3.3.5.19
                    //# What the first request of an open asks for counts for all of them.
                    let beneath = request.flags.get() & FLAG_WATCH_TREE != 0;
                    let how = WatchOptions { beneath, kinds: kinds(wanted) };
                    directory_watch.watch = directory.watch(how, ctx.consumer());
                }
                if is_full || (directory_watch.watch.is_none() && !directory_watch.is_closed) {
                    self.counters().notify_refused.increment();
                    return Err(Status::INSUFFICIENT_RESOURCES);
                }
                directory_watch.next += 1;
                let number = directory_watch.next;
                directory_watch.waiting.push_back((number, None));
                WaitingNotify { open, number }
            };
            let room = request.output_buffer_length.get() as usize;
            let without = |status| Answer { status, output: Vec::new() };
            loop {
                let told = poll_fn(|cx| open.state().directory_watch.poll(waiting.number, cx)).await;
                return Ok(match told {
                    Some(WatchReport::Events(events)) => {
                        let mut telling = UnsentEvents { open, events };
                        // What the client may know is looked at by paths.
                        self.present_path(open, &handle).await;
                        let answer = self.tell(ctx, open, &telling.events, room).await;
                        telling.events.clear();
                        match answer {
                            Some(answer) => answer,
                            // This client may know none of it.
                            None => continue,
                        }
                    }
                    Some(WatchReport::Lost) => self.overflown(),
                    Some(WatchReport::Going) => without(Status::DELETE_PENDING),
                    None => without(Status::NOTIFY_CLEANUP),
                });
            }
        })
    }

    /// Returns the answer that tells those of the events that the client may know; `None` where it may know none.
    async fn tell(&self, ctx: &RequestContext, open: &Open, events: &[Event], room: usize) -> Option<Answer> {
        let mut output = Vec::new();
        let mut known = BTreeMap::new();
        let mut shown = Vec::with_capacity(events.len());
        for event in events {
            match self.is_told(ctx, open, event.path.as_path(), &mut known).await {
                NameVisibility::Yes => shown.push(event),
                NameVisibility::No => {}
                // It is no longer known which users might list it: the client has to look for itself.
                NameVisibility::Gone => return Some(self.overflown()),
            }
        }
        if shown.is_empty() {
            return None;
        }
        let mut entries = EntryWriter::new(&mut output, 4, room);
        let mut fits = true;
        for event in shown {
            let path: Vec<_> =
                event.path.as_path().components().map(|name| names::to_wire(name.as_bytes())).collect();
            fits = fits && notify::write(&mut entries, action(event.what), &path.join("\\"));
        }
        //= MS-SMB2 3.3.5.19
        //# What does not fit is not told at all: STATUS_NOTIFY_ENUM_DIR, and the client looks for itself.
        Some(if fits { Answer { status: Status::SUCCESS, output } } else { self.overflown() })
    }

    /// Checks whether a client that watches is notified of a name beneath: whether a listing would show it. `known`
    /// holds what was found before.
    async fn is_told(
        &self,
        ctx: &RequestContext,
        open: &Open,
        path: RelPath<'_>,
        known: &mut BTreeMap<Vec<u8>, NameVisibility>,
    ) -> NameVisibility {
        // The open itself may list the directory that it watches.
        if let Some(above) = path.parent().filter(|above| !above.is_root()) {
            let listed = match known.get(above.as_bytes()) {
                Some(listed) => *listed,
                None => {
                    let listed = match self.watched_path(open, above) {
                        Some(path) => self.lists(ctx, path.as_path()).await.into(),
                        None => NameVisibility::Gone,
                    };
                    known.insert(above.as_bytes().to_vec(), listed);
                    listed
                }
            };
            if listed != NameVisibility::Yes {
                return listed;
            }
        }
        if !self.options().hide_unreadable {
            return NameVisibility::Yes;
        }
        match self.watched_path(open, path) {
            Some(path) => self.reads(ctx, path.as_path()).await.into(),
            None => NameVisibility::Gone,
        }
    }

    /// Returns whether the user may list the directory that has this path of the volume.
    async fn lists(&self, ctx: &RequestContext, path: RelPath<'_>) -> Result<bool, Error> {
        let found = self.volume().lookup_with_rights(&ctx.caller, path, Rights::NONE).await?;
        let who = &ctx.caller.principal;
        let allowed = Allowed::of(who, &found, None, true);
        Ok(allowed.mask() & READ_DATA != 0)
    }

    /// Returns the path in the volume of what has this path beneath the watched directory; `None` where that is gone.
    fn watched_path(&self, open: &Open, path: RelPath<'_>) -> Option<RelPathBuf> {
        let mut whole = open.grants().path(self.volume())?;
        path.components().try_for_each(|name| whole.push(name)).ok()?;
        Some(whole)
    }

    fn overflown(&self) -> Answer {
        self.counters().notify_overflows.increment();
        Answer { status: Status::NOTIFY_ENUM_DIR, output: Vec::new() }
    }
}

//= MS-FSCC 2.7.1
//# A rename within the directory is told as the old name and the new, one behind the other.
fn action(what: EventKind) -> u32 {
    match what {
        EventKind::Added => action::ADDED,
        EventKind::Removed => action::REMOVED,
        EventKind::RenamedFrom => action::RENAMED_OLD_NAME,
        EventKind::RenamedTo => action::RENAMED_NEW_NAME,
        EventKind::Modified => action::MODIFIED,
    }
}

/// Returns the kinds of events that a filter asks for; unknown bits ask for nothing.
fn kinds(wanted: u32) -> EventMask {
    let attributes =
        filter::ATTRIBUTES | filter::LAST_WRITE | filter::LAST_ACCESS | filter::CREATION | filter::EA;
    let streams = filter::STREAM_NAME | filter::STREAM_SIZE | filter::STREAM_WRITE;
    let table = [
        (filter::FILE_NAME, EventMask::FILES),
        (filter::DIR_NAME, EventMask::DIRECTORIES),
        (filter::SIZE | filter::LAST_WRITE, EventMask::CONTENT),
        // Streams and DOS attributes lie in extended attributes.
        (attributes | streams, EventMask::ATTRIBUTES),
        (filter::SECURITY, EventMask::RIGHTS),
        // As Windows has it, of which Samba knows.
        (filter::ATTRIBUTES | filter::CREATION, EventMask::MOVED),
    ];
    let asked = table.into_iter().filter(|(bits, _)| wanted & bits != 0);
    asked.fold(EventMask::NONE, |kinds, (_, kind)| kinds | kind)
}

//@ limit: requests that wait for changes of one directory
//@ section: SMB
//@ unit: request
//@ connection: {} by one open
//@ empty: STATUS_INSUFFICIENT_RESOURCES; others feel nothing
//@ counter: smb_notify_refused, smb_waiting
//@ attack: smb-hoards
/// Requests of one open that wait.
const WAITING_MAX: usize = 64;
