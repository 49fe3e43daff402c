//! The status of a file and the callback that a reply carries with it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use afs_wire::code::{EAGAIN, VBUSY};
use afs_wire::directory::PAGE_SIZE;
use afs_wire::{CALL_BACK_SHARED, CALL_BACK_VERSION, CallBack, Fid, Status};
use identity::{Principal, Rights};
use vfs::{
    Confirmed, InFlightReply, LinkWithCallback, LookupWithCallback, Number, Object, Resolved, Version,
};

use super::call_context::{ATTEMPTS_MAX, CallContext};
use super::status::StatusBuilder;
use super::{CallFailure, ServedCall};
use crate::host::CallbackPromise;

/// A file that was looked up under a callback of the client. A symbolic link is not followed.
pub(super) enum FileLookup {
    Node(LookupWithCallback),
    Link(LinkWithCallback),
}

/// Number of bytes that a fetch gives.
#[derive(Clone, Copy)]
pub(super) struct Size {
    pub(super) bytes: u64,
    /// The version that has so many, where that is not the one that was looked at by itself.
    pub(super) of: Option<Version>,
}

/// The AFSFetchStatus and AFSCallBack of one file, as a reply carries them.
pub(super) struct StatusAndCallback {
    pub(super) status: Status,
    pub(super) call_back: CallBack,
}

impl ServedCall {
    /// Looks up a file by its FID under a callback, and waits until no change of it is under way.
    pub(super) async fn lookup(
        &self,
        context: &CallContext,
        fid: Fid,
        need: Rights,
        until: Instant,
    ) -> Result<FileLookup, CallFailure> {
        let (volume, number) = (&context.volume.volume, context.number(fid)?);
        let (caller, client) = (&context.caller, context.host.client());
        match volume.find_with_callback(caller, client, number, need, until).await {
            Ok(promised) => Ok(FileLookup::Node(promised)),
            Err(error) if may_be_link(fid, &error) => {
                match volume.find_link_with_callback(caller, client, number, until).await {
                    Ok(link) => Ok(FileLookup::Link(link)),
                    Err(_) if matches!(error, vfs::Error::AccessDenied) => Err(error.into()),
                    Err(error) => Err(error.into()),
                }
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Looks a file up if all is at hand and nothing changes ([`ServedCall::lookup`]); never waits.
    pub(super) fn try_lookup(
        &self,
        context: &CallContext,
        fid: Fid,
        need: Rights,
        until: Instant,
    ) -> Option<FileLookup> {
        let (volume, number) = (&context.volume.volume, context.number(fid).ok()?);
        let (caller, client) = (&context.caller, context.host.client());
        volume.try_find_with_callback(caller, client, number, need, until).map(FileLookup::Node)
    }

    /// Reads the status of a file and gives a callback; looks the file up again while it changes.
    pub(super) async fn status_and_callback(
        &self,
        context: &CallContext,
        fid: Fid,
    ) -> Result<StatusAndCallback, CallFailure> {
        for _ in 0..ATTEMPTS_MAX {
            let promise = self.server.inner.hosts.promise();
            let lookup = self.lookup(context, fid, need_for_status(fid), promise.until).await?;
            let size = self.size_of(context, &lookup).await?;
            if let Some(status_and_callback) = lookup.status_and_callback(self, context, &promise, size) {
                self.hold_in_flight(context, &lookup);
                return Ok(status_and_callback);
            }
            self.server.inner.counters.replies_rebuilt.increment();
        }
        Err(vfs::Error::Busy.into())
    }

    /// Reads the status and callback of a file that this call has changed, however often others change it too. It waits
    /// rather than answer EAGAIN: a client that tried again would find its name taken.
    pub(super) async fn status_after_change(
        &self,
        context: &CallContext,
        fid: Fid,
    ) -> Result<StatusAndCallback, CallFailure> {
        self.patiently(|| self.status_and_callback(context, fid)).await
    }

    /// Asks again while the answer is to ask again.
    pub(super) async fn patiently<T, F: Future<Output = Result<T, CallFailure>>>(
        &self,
        ask: impl Fn() -> F,
    ) -> Result<T, CallFailure> {
        let until = lane::time::now() + PATIENCE;
        let mut pause = PAUSE_MIN;
        loop {
            match ask().await {
                Err(CallFailure::Code(VBUSY | EAGAIN)) if lane::time::now() < until => {}
                status_and_callback => return status_and_callback,
            }
            self.server.inner.counters.changes_told_late.increment();
            lane::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Holds breaks of a callback back until the client has the reply that carries it, if the client would lose them.
    pub(super) fn hold_in_flight(&self, context: &CallContext, lookup: &FileLookup) {
        if context.host.loses_overtaking_breaks() {
            self.in_flight_reply.borrow_mut().extend(lookup.in_flight_reply());
        }
    }

    /// Returns the number of bytes that a fetch gives: a page of a directory that cannot be fetched. Linux's client
    /// takes a size for that of all later replies with the same version, and lists no more than that.
    async fn size_of(&self, context: &CallContext, lookup: &FileLookup) -> Result<Size, CallFailure> {
        let inner = &self.server.inner;
        let FileLookup::Node(promised) = lookup else { return Ok(lookup.size_by_itself()) };
        let Resolved::Directory(directory, _) = promised.resolved() else {
            return Ok(lookup.size_by_itself());
        };
        let known = inner.dir_pages.size_of(&context.caller, directory, &inner.counters).await?;
        let unknown = Size { bytes: PAGE_SIZE as u64, of: None };
        Ok(known.map_or(unknown, |(bytes, version)| Size { bytes, of: Some(version) }))
    }

    /// Returns the size from the cache; `None` of a directory that would have to be read.
    pub(super) fn cached_size(&self, lookup: &FileLookup) -> Option<Size> {
        let inner = &self.server.inner;
        let FileLookup::Node(promised) = lookup else { return Some(lookup.size_by_itself()) };
        let Resolved::Directory(directory, _) = promised.resolved() else {
            return Some(lookup.size_by_itself());
        };
        let (bytes, version) = inner.dir_pages.cached_size(directory.object()?, &inner.counters)?;
        Some(Size { bytes, of: Some(version) })
    }
}

impl FileLookup {
    pub(super) fn object(&self) -> Option<&Arc<Object>> {
        match self {
            Self::Node(promised) => promised.resolved().object(),
            Self::Link(link) => Some(&link.link().object),
        }
    }

    pub(super) fn confirm(&self) -> Option<Confirmed<'_>> {
        match self {
            Self::Node(promised) => promised.confirm(),
            Self::Link(link) => link.confirm(),
        }
    }

    /// Returns the number of bytes of what is no directory.
    fn size_by_itself(&self) -> Size {
        let bytes = match self {
            Self::Node(promised) => promised.resolved().attributes().size,
            Self::Link(link) => link.link().target.len() as u64,
        };
        Size { bytes, of: None }
    }

    fn above(&self) -> Option<Number> {
        match self {
            Self::Node(promised) => promised.above(),
            Self::Link(link) => link.above(),
        }
    }

    fn rights(&self, who: &Principal) -> Rights {
        match self {
            Self::Node(promised) => promised.rights(who),
            Self::Link(link) => link.rights(who),
        }
    }

    fn in_flight_reply(&self) -> Option<InFlightReply> {
        match self {
            Self::Node(promised) => promised.in_flight_reply(),
            Self::Link(link) => link.in_flight_reply(),
        }
    }

    /// Makes the part of a reply with status and callback: `None` where it has changed since.
    pub(super) fn status_and_callback(
        &self,
        serving: &ServedCall,
        context: &CallContext,
        promise: &CallbackPromise,
        size: Size,
    ) -> Option<StatusAndCallback> {
        let confirmed = self.confirm()?;
        if size.of.is_some_and(|of| of != confirmed.version) {
            return None;
        }
        let status = self.status(serving, context, &confirmed, size.bytes);
        let call_back =
            CallBack { version: CALL_BACK_VERSION, expires: promise.seconds, r#type: CALL_BACK_SHARED };
        Some(StatusAndCallback { status, call_back })
    }

    pub(super) fn status(
        &self,
        serving: &ServedCall,
        context: &CallContext,
        confirmed: &Confirmed<'_>,
        size: u64,
    ) -> Status {
        let Confirmed { attributes, version, .. } = *confirmed;
        let rights = |who: &Principal| self.rights(who);
        let file = (self.object(), self.above());
        let facts = StatusBuilder::of(serving, context, file, (attributes, version, size), rights);
        StatusBuilder { is_mount_point: self.is_mount_point(), ..facts }.status()
    }

    fn is_mount_point(&self) -> bool {
        match self {
            Self::Link(link) => is_mount_point(&link.link().target),
            Self::Node(_) => false,
        }
    }
}

/// Returns whether what cannot be found or opened by its number is a link, or nothing.
fn may_be_link(fid: Fid, error: &vfs::Error) -> bool {
    use vfs::Error::{AccessDenied, Escapes, NotServable, Stale, SymlinkRefused};
    !fid.is_directory() && matches!(error, Stale | NotServable | SymlinkRefused | Escapes | AccessDenied)
}

/// Returns the rights to see a status: of a directory that one may pass to, none.
pub(super) fn need_for_status(fid: Fid) -> Rights {
    if fid.is_directory() { Rights::NONE } else { Rights::LOOKUP }
}

/// Time for which a call that has changed something waits to learn its status, while others change it again
/// and again. Less than clients wait.
const PATIENCE: Duration = Duration::from_secs(30);
/// Shortest pause between two attempts.
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// Returns whether a link says what a mount point says: a volume, by name or number, perhaps of a cell,
/// between `#` or `%` (the volume itself rather than its copy) and a dot.
fn is_mount_point(target: &[u8]) -> bool {
    match target {
        [b'#' | b'%', name @ .., b'.'] => !name.is_empty() && !name.contains(&b'/'),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_name_a_volume_are_mount_points() {
        for target in ["#root.cell.", "%root.cell.", "#example.org:root.cell.", "#536870912."] {
            assert!(is_mount_point(target.as_bytes()), "{target}");
        }
        for target in ["#.", "#a", "a.", "#a/b.", "", "../#a.", "%."] {
            assert!(!is_mount_point(target.as_bytes()), "{target}");
        }
    }
}
