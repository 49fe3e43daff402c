//! Steps that changes of names share.

use afs_wire::code::EFBIG;
use afs_wire::directory::PAGE_SIZE;
use afs_wire::{Fid, Status, StoreStatus};
use identity::Rights;
use lane::fs::AttributeChange;
use vfs::{Directory, Name, Number, Resolved};

use super::call_context::CallContext;
use super::status::{StatusBuilder, attribute_change};
use super::status_and_callback::StatusAndCallback;
use super::{CallFailure, ServedCall};

/// A file that a call has created, its status and callback, and the status of its directory.
pub(super) struct CreatedFile {
    pub(super) fid: Fid,
    pub(super) file: StatusAndCallback,
    pub(super) directory: Status,
}

impl ServedCall {
    /// Refuses a name with which clients could not read the directory any more.
    pub(super) fn check_room(&self, directory: &Directory, name: Name<'_>) -> Result<(), CallFailure> {
        let inner = &self.server.inner;
        let has_room = |object| inner.dir_pages.has_room(object, name.as_bytes(), &inner.counters);
        if directory.object().is_none_or(|object| has_room(object)) {
            return Ok(());
        }
        inner.counters.directories_full.increment();
        Err(EFBIG.into())
    }

    /// Makes the reply of a call that made something of this number in the directory.
    pub(super) async fn created(
        &self,
        context: &CallContext,
        number: Number,
        directory: Fid,
    ) -> Result<CreatedFile, CallFailure> {
        let fid = context.fid(number);
        let file = self.status_after_change(context, fid).await?;
        Ok(CreatedFile { fid, file, directory: self.directory_status(context, directory).await? })
    }

    /// Returns a directory's status after a change in it: as it is, with no callback but the one that the client may
    /// have, which its own changes spare. Where many make names, each would else have to break the callbacks of all the
    /// others.
    pub(super) async fn directory_status(
        &self,
        context: &CallContext,
        fid: Fid,
    ) -> Result<Status, CallFailure> {
        let (volume, number) = (&context.volume.volume, context.number(fid)?);
        let found = self.patiently(|| async {
            Ok(volume.find_with_rights(&context.caller, number, Rights::NONE).await?)
        });
        let found = found.await?;
        let object = found.resolved.object().ok_or(vfs::Error::Stale)?;
        let inner = &self.server.inner;
        // The size is that of this version of it: clients keep both together.
        let known = match &found.resolved {
            Resolved::Directory(directory, _) => {
                let sized = || inner.dir_pages.size_of(&context.caller, directory, &inner.counters);
                self.patiently(sized).await?
            }
            Resolved::File(..) => None,
        };
        let (size, version) = known.unwrap_or_else(|| (PAGE_SIZE as u64, object.version()));
        let seen = (found.resolved.attributes(), version, size);
        let facts =
            StatusBuilder::of(self, context, (Some(object), found.above()), seen, |who| found.rights(who));
        Ok(facts.status())
    }
}

/// Returns the permission bits of something new, before what the process's umask takes is put back.
pub(super) fn mode_of(change: &StoreStatus, default: u32) -> u32 {
    attribute_change(change).mode.unwrap_or(default) & 0o777
}

/// Returns the attributes that a client wants for a new file and that its making has not set yet. The owner
/// is set by its maker alone.
pub(super) fn left_to_do(change: &StoreStatus, mode: u32) -> Option<AttributeChange> {
    let attribute_change = AttributeChange { uid: None, gid: None, ..attribute_change(change) };
    let is_done = attribute_change.mode.is_none_or(|attribute_change| attribute_change == mode & 0o7777);
    let left =
        AttributeChange { mode: if is_done { None } else { attribute_change.mode }, ..attribute_change };
    (left != AttributeChange::NONE).then_some(left)
}
