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
        count refused_not_found as refused [reason = "not_found"]: "Look-ups refused.",
        count refused_hidden as refused [reason = "hidden"]: "Look-ups refused.",
        count refused_access as refused [reason = "access"]: "Look-ups refused.",
        count refused_kind as refused [reason = "kind"]: "Look-ups refused.",
        count refused_escape as refused [reason = "escape"]: "Look-ups refused.",
        count refused_symlink as refused [reason = "symlink"]: "Look-ups refused.",
        count refused_device as refused [reason = "device"]: "Look-ups refused.",
        count refused_name as refused [reason = "name"]: "Look-ups refused.",
        count refused_descriptors as refused [reason = "descriptors"]: "Look-ups refused.",
        count refused_overload as refused [reason = "overload"]: "Look-ups refused.",
        count refused_too_large as refused [reason = "too_large"]: "Look-ups refused.",
        count refused_io as refused [reason = "io"]: "Look-ups refused.",
    }
}

impl VfsCounters {
    /// Counts a refusal under its reason.
    pub(crate) fn refuse(&self, error: &Error) {
        let counter = match error {
            Error::NotFound => &self.refused_not_found,
            Error::Hidden => &self.refused_hidden,
            Error::AccessDenied => &self.refused_access,
            Error::NotADirectory | Error::IsADirectory => &self.refused_kind,
            Error::Escapes => &self.refused_escape,
            Error::SymlinkRefused => &self.refused_symlink,
            Error::NotServable => &self.refused_device,
            Error::Name(_) | Error::NameTooLong | Error::VolumeName(_) => &self.refused_name,
            Error::TooManyOpen => &self.refused_descriptors,
            Error::Overloaded => &self.refused_overload,
            Error::TooLarge { .. } => &self.refused_too_large,
            Error::Changed => &self.changed_while_read,
            Error::Io(_) => &self.refused_io,
        };
        counter.increment();
    }
}
