//! The part of a check that is about what a volume holds.

use super::walk::Walked;
use super::{Check, CheckError, ProblemKind};

impl Check {
    /// Compares what the walk has found with what the next opening would take for valid; where it would count anew
    /// nothing is wrong.
    pub(super) fn look_at_usage(&mut self, walked: &Walked) -> Result<(), CheckError> {
        if walked.unread.is_some() {
            return Ok(());
        }
        let held = walked.tally.used();
        self.report.holds = Some(held);
        let record = self.index.volume_of(self.volume);
        if self.options.repair && walked.has_attributes {
            self.index.note_attributes(self.volume, true);
            self.index.flush()?;
        }
        let Some(record) = record.filter(|record| record.usage_is_settled && record.usage != held) else {
            return Ok(());
        };
        if self.options.repair {
            self.index.record_usage(self.volume, held, true)?;
        }
        self.report.add(ProblemKind::Usage { recorded: record.usage, held }, self.options.repair);
        Ok(())
    }
}
