//! Knowledge of a volume whether its files have extended attributes that count as usage.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use lane::offload::offload;

use super::SharedVolume;
use crate::error::Error;

impl SharedVolume {
    /// Returns whether files may have attributes that count.
    pub(crate) fn may_have_attributes(&self) -> bool {
        self.attribute_flag.word.load(Ordering::Acquire) & IS_SET != 0
    }

    /// Notes that a file is about to get an attribute that counts. The index knows that before the first is set.
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

    /// Notes that a file has such an attribute.
    pub(crate) fn found_attributes(&self) {
        self.attribute_flag.word.fetch_add(ONCE, Ordering::AcqRel);
    }

    /// Returns the flag as it is, for [`SharedVolume::note_no_attributes`].
    pub(crate) fn attribute_word(&self) -> u64 {
        self.attribute_flag.word.load(Ordering::Acquire)
    }

    /// Notes that all files were looked at `since` the flag was read so, and none has any.
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

/// Bit of the flag's word that files may have attributes.
const IS_SET: u64 = 1;
/// Added to the flag's word each time that it is set.
const ONCE: u64 = 2;
