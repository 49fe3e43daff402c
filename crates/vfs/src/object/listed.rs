//! Whether what a listing shows of the files in a directory is still so, as far as this server changes them: on whatever lane the listing was
//! read, and whether or not anything tells that lane.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use super::Object;

/// Readings of the attributes of a directory's files, and which of them are from before a change.
#[derive(Debug, Default)]
pub(super) struct Listed {
    readings: AtomicU64,
    /// Last reading that was under way, or over, when one of the files was changed.
    overtaken: AtomicU64,
}

/// A reading of the attributes of all files in a directory, begun before the first was looked at.
#[derive(Debug)]
pub(crate) struct ListedAt {
    directory: Weak<Object>,
    reading: u64,
}

impl Listed {
    /// Notes that one of the files was changed. Most that do so write nothing: it is so already.
    fn overtake(&self) {
        let now = self.readings.load(Ordering::SeqCst);
        if self.overtaken.load(Ordering::SeqCst) < now {
            self.overtaken.fetch_max(now, Ordering::SeqCst);
        }
    }
}

impl Object {
    /// Begins a reading of the attributes of what is in this directory.
    pub(crate) fn begin_listing(self: &Arc<Self>) -> ListedAt {
        let reading = self.used.get_or_init(Box::default).listed.readings.fetch_add(1, Ordering::SeqCst) + 1;
        ListedAt { directory: Arc::downgrade(self), reading }
    }

    /// Notes that something in this directory has changed, or has got another name elsewhere by which it is changed.
    pub(super) fn shows_change(&self) {
        self.used.get().into_iter().for_each(|used| used.listed.overtake());
    }
}

impl ListedAt {
    /// Returns whether this server has changed nothing since that was read.
    pub(crate) fn holds(&self) -> bool {
        let used = |directory: &Arc<Object>| {
            directory
                .used
                .get()
                .is_some_and(|used| used.listed.overtaken.load(Ordering::SeqCst) < self.reading)
        };
        self.directory.upgrade().as_ref().is_some_and(used)
    }
}
