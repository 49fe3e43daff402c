//! What a lane counts about files.

use crate::error::Error;

lane::counter_block! {
    /// Look-ups, caches and refusals of one lane.
    pub struct VfsCounters {
        count lookup_hits as lookups [result = "hit"]: "Look-ups by where the answer came from.",
        count lookup_misses as lookups [result = "miss"]: "Look-ups by where the answer came from.",
        count lookup_absent_hits as lookups [result = "absent"]: "Look-ups by where the answer came from.",
        count opens: "Files and directories opened.",
        count rechecks: "Cached names opened anew because their time to live was over.",
        count listings: "Directories read.",
        count listings_refused: "Directories not read because readers of listings that changed hold too much.",
        count listing_hits: "Listings answered from the cache.",
        gauge open_cached: "Files and directories kept open.",
        gauge absent_cached: "Absent names remembered.",
        gauge listing_entries_cached: "Entries of remembered listings.",
        gauge watches: "Directories watched for changes.",
        count watches_refused: "Directories left unwatched: the limit is reached or the kernel refused.",
        count invalidated_changed as invalidated [cause = "changed"]: "Cached answers dropped.",
        count invalidated_gone as invalidated [cause = "directory_gone"]: "Cached answers dropped.",
        count invalidated_unlinked as invalidated [cause = "unlinked"]: "Cached answers dropped.",
        count invalidated_replaced as invalidated [cause = "replaced"]: "Cached answers dropped.",
        count invalidated_shed as invalidated [cause = "descriptors"]: "Cached answers dropped.",
        count notify_overflows: "Times change events were lost and every cached answer became doubtful.",
        count notify_errors: "Times change events could not be read.",
        count read_errors: "Reads of open files that the disk or file system failed.",
        count grown_while_read: "Files that were appended to while they were served, and sent to the length they had.",
        count changed_while_read: "Files that changed while they were being served.",
        gauge promises: "Files and directories of writable volumes that the lane relies on.",
        count changes: "Changes made.",
        count changes_anew: "Times a change began anew because what its names led to was in use.",
        count breaks_asked: "Times another lane was asked to forget what it knew.",
        count breaks_answered: "Times the lane forgot what it knew because another asked.",
        count reopened_in_use as reopened [by = "place"]: "Files found again without a path.",
        count reopened_found as reopened [by = "search"]: "Files found again without a path.",
        count reopened_by_listing: "Directories read to find the name of a file that was sought without a path.",
        count refused_not_found as refused [reason = "not_found"]: "Look-ups, readings and changes refused.",
        count refused_hidden as refused [reason = "hidden"]: "Look-ups, readings and changes refused.",
        count refused_access as refused [reason = "access"]: "Look-ups, readings and changes refused.",
        count refused_kind as refused [reason = "kind"]: "Look-ups, readings and changes refused.",
        count refused_escape as refused [reason = "escape"]: "Look-ups, readings and changes refused.",
        count refused_symlink as refused [reason = "symlink"]: "Look-ups, readings and changes refused.",
        count refused_device as refused [reason = "device"]: "Look-ups, readings and changes refused.",
        count refused_name as refused [reason = "name"]: "Look-ups, readings and changes refused.",
        count refused_descriptors as refused [reason = "descriptors"]: "Look-ups, readings and changes refused.",
        count refused_overload as refused [reason = "overload"]: "Look-ups, readings and changes refused.",
        count refused_too_large as refused [reason = "too_large"]: "Look-ups, readings and changes refused.",
        count refused_taken as refused [reason = "taken"]: "Look-ups, readings and changes refused.",
        count refused_space as refused [reason = "space"]: "Look-ups, readings and changes refused.",
        count refused_read_only as refused [reason = "read_only"]: "Look-ups, readings and changes refused.",
        count refused_closed as refused [reason = "closed"]: "Look-ups, readings and changes refused.",
        count refused_border as refused [reason = "border"]: "Look-ups, readings and changes refused.",
        count refused_reserved as refused [reason = "reserved"]: "Look-ups, readings and changes refused.",
        count refused_unexpected as refused [reason = "unexpected"]: "Look-ups, readings and changes refused.",
        count refused_stale as refused [reason = "stale"]: "Look-ups, readings and changes refused.",
        count refused_busy as refused [reason = "busy"]: "Look-ups, readings and changes refused.",
        count refused_locked as refused [reason = "locked"]: "Look-ups, readings and changes refused.",
        count refused_io as refused [reason = "io"]: "Look-ups, readings and changes refused.",
    }
}

impl VfsCounters {
    /// Counts a refusal under its reason.
    pub(crate) fn refuse(&self, error: &Error) {
        let counter = match error {
            Error::NotFound => &self.refused_not_found,
            Error::Hidden => &self.refused_hidden,
            Error::AccessDenied | Error::Denied(_) => &self.refused_access,
            Error::NotADirectory | Error::IsADirectory => &self.refused_kind,
            Error::Escapes => &self.refused_escape,
            Error::SymlinkRefused => &self.refused_symlink,
            Error::NotServable => &self.refused_device,
            Error::Name(_) | Error::NameTooLong | Error::VolumeName(_) => &self.refused_name,
            Error::TooManyOpen => &self.refused_descriptors,
            Error::Overloaded => &self.refused_overload,
            Error::TooLarge { .. } => &self.refused_too_large,
            Error::Changed => &self.changed_while_read,
            Error::Exists | Error::NotEmpty => &self.refused_taken,
            Error::NoSpace | Error::Quota | Error::FileTooLarge | Error::TooManyLinks => &self.refused_space,
            Error::ReadOnly => &self.refused_read_only,
            Error::Closed(_) => &self.refused_closed,
            Error::CrossDevice | Error::IntoItself => &self.refused_border,
            Error::Reserved => &self.refused_reserved,
            Error::Unexpected => &self.refused_unexpected,
            Error::Stale => &self.refused_stale,
            Error::Busy => &self.refused_busy,
            Error::Locked => &self.refused_locked,
            Error::Io(_) => &self.refused_io,
        };
        counter.increment();
    }
}
