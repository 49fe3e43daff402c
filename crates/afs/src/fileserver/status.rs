//! A file's status as clients get it: 21 words.

use std::sync::Arc;

use afs_wire::{
    FILE_TYPE_DIRECTORY, FILE_TYPE_FILE, FILE_TYPE_INVALID, FILE_TYPE_SYMBOLIC_LINK, SET_MOD_TIME, SET_MODE,
    Status, StoreStatus,
};
use identity::{Principal, Rights};
use lane::fs::{AttributeChange, FileKind, SetTime, Timestamp};
use vfs::{Attributes, Number, Object, Version};

use super::ServedCall;
use super::call_context::CallContext;

/// Builds an AFSFetchStatus from the attributes, version and rights of a file.
pub(super) struct StatusBuilder<'a> {
    pub(super) attributes: &'a Attributes,
    /// Bytes that a fetch gives: a directory's are its pages, a link's what it says.
    pub(super) size: u64,
    pub(super) version: Version,
    pub(super) own: Number,
    /// The directory that it is in; `None` for a volume's own, and where that is not known.
    pub(super) parent: Option<Number>,
    pub(super) caller: Rights,
    pub(super) anonymous: Rights,
    /// A link that clients take for a mount point.
    pub(super) is_mount_point: bool,
    /// Locks for reading, or -1 for one for writing.
    pub(super) lock_count: i32,
}

impl<'a> StatusBuilder<'a> {
    /// Makes the status of what was seen of a file in a directory, with what its object knows; `rights` is
    /// the caller's rights over it. No mount point.
    pub(super) fn of(
        serving: &ServedCall,
        context: &CallContext,
        (object, parent): (Option<&Arc<Object>>, Option<Number>),
        (attributes, version, size): (&'a Attributes, Version, u64),
        rights: impl Fn(&Principal) -> Rights,
    ) -> Self {
        let locks = &serving.server.inner.locks;
        Self {
            attributes,
            size,
            version,
            own: object.map_or(Number::ROOT, |object| object.number()),
            parent,
            caller: context.left_of(rights(&context.caller.principal)),
            anonymous: context.left_of(rights(&serving.server.inner.attached.borrow().anonymous())),
            is_mount_point: false,
            lock_count: object.map_or(0, |object| locks.count(object)),
        }
    }
}

impl StatusBuilder<'_> {
    pub(super) fn status(&self) -> Status {
        let attributes = self.attributes;
        let version = u64::from(self.version);
        // OpenAFS's clients take zeros for a broken reply, and ask again every 15 s.
        let parent = self.parent.unwrap_or(if self.own.vnode % 2 == 1 { self.own } else { Number::ROOT });
        Status {
            interface_version: 1,
            file_type: match attributes.kind {
                FileKind::File => FILE_TYPE_FILE,
                FileKind::Directory => FILE_TYPE_DIRECTORY,
                FileKind::Symlink => FILE_TYPE_SYMBOLIC_LINK,
                FileKind::Other => FILE_TYPE_INVALID,
            },
            link_count: attributes.nlink,
            length_low: self.size as u32,
            length_high: (self.size >> 32) as u32,
            data_version_low: version as u32,
            data_version_high: (version >> 32) as u32,
            author: attributes.uid,
            owner: attributes.uid,
            group: attributes.gid,
            caller_access: self.caller.bits(),
            anonymous_access: self.anonymous.bits(),
            unix_mode_bits: self.mode(),
            parent_vnode: parent.vnode,
            parent_uniquifier: parent.uniquifier,
            residency_mask: 1,
            client_mod_time: seconds(attributes.mtime),
            server_mod_time: seconds(attributes.ctime),
            sync_counter: 0,
            lock_count: self.lock_count as u32,
            error_code: 0,
        }
    }

    /// Links have all bits on disk; to clients one without `x` is a mount point.
    fn mode(&self) -> u32 {
        match (self.attributes.kind, self.is_mount_point) {
            (FileKind::Symlink, true) => 0o644,
            (FileKind::Symlink, false) => 0o755,
            _ => self.attributes.mode & 0o7777,
        }
    }
}

/// Seconds since 1970 as 32 bits have them: none before, and none after 2106.
fn seconds(at: Timestamp) -> u32 {
    u32::try_from(at.secs.max(0)).unwrap_or(u32::MAX)
}

/// Returns what a client wants changed.
pub(super) fn attribute_change(change: &StoreStatus) -> AttributeChange {
    let has = |bit: u32| change.mask & bit != 0;
    let at = Timestamp { secs: i64::from(change.client_mod_time), nanos: 0 };
    AttributeChange {
        uid: has(afs_wire::SET_OWNER).then_some(change.owner),
        gid: has(afs_wire::SET_GROUP).then_some(change.group),
        mode: has(SET_MODE).then_some(change.unix_mode_bits & 0o7777),
        mtime: if has(SET_MOD_TIME) { SetTime::At(at) } else { SetTime::Keep },
        ..AttributeChange::NONE
    }
}
