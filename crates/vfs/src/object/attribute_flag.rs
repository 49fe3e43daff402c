//! Whether files of a volume may have extended attributes that count as usage: where none have, no look for them is made at a file's
//! removal, nor as the volume is counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use lane::offload::offload;

use super::SharedVolume;
use crate::error::Error;

/// The flag, and how often it was set, in one word.
#[derive(Default)]
pub(super) struct AttributeFlag {
    word: AtomicU64,
    /// Held while the flag changes, so that the index is told in the same order.
    changing: Mutex<()>,
}

impl AttributeFlag {
    pub(super) fn new(is_set: bool) -> Self {
        Self { word: AtomicU64::new(is_set.into()), changing: Mutex::default() }
    }
}

impl SharedVolume {
    /// Returns whether files may have attributes that count.
    pub(crate) fn may_have_attributes(&self) -> bool {
        self.attribute_flag.word.load(Ordering::Acquire) & IS_SET != 0
    }

    /// A file is about to get an attribute that counts. The index knows that before the first is set.
    ///
    /// # Errors
    /// [`Error::Busy`] where the index cannot be written; [`Error::Overloaded`].
    pub(crate) async fn note_attributes(&self) -> Result<(), Error> {
        if self.may_have_attributes() {
            self.found_attributes();
            return Ok(());
        }
        {
            let flag = &self.attribute_flag;
            let _changing = flag.changing.lock().unwrap_or_else(PoisonError::into_inner);
            flag.word.fetch_add(ONCE, Ordering::AcqRel);
            flag.word.fetch_or(IS_SET, Ordering::AcqRel);
            if !self.remembers_attributes() {
                return Ok(());
            }
            self.index.note_attributes(self.id, true);
        }
        let index = Arc::clone(&self.index);
        let kept = offload(None, move || index.flush()).await.map_err(|_| Error::Overloaded)?;
        kept.map_err(|error| self.report_failure(&error))
    }

    /// A file has such an attribute.
    pub(crate) fn found_attributes(&self) {
        self.attribute_flag.word.fetch_add(ONCE, Ordering::AcqRel);
    }

    /// Returns the flag as it is, for [`SharedVolume::note_no_attributes`].
    pub(crate) fn attribute_word(&self) -> u64 {
        self.attribute_flag.word.load(Ordering::Acquire)
    }

    /// All files were looked at `since` the flag was read so, and none has any.
    pub(crate) fn note_no_attributes(&self, since: u64) {
        let flag = &self.attribute_flag;
        let _changing = flag.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let cleared = flag.word.compare_exchange(since, since & !IS_SET, Ordering::AcqRel, Ordering::Acquire);
        if cleared.is_ok() && since & IS_SET != 0 && self.remembers_attributes() {
            self.index.note_attributes(self.id, false);
        }
    }

    fn remembers_attributes(&self) -> bool {
        self.is_numbered && !self.is_sealed()
    }
}

const IS_SET: u64 = 1;
const ONCE: u64 = 2;
