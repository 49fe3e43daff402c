//! The audit log of AFS calls: the user, the procedure, its files and its result. A line for each call that
//! reads or changes files, access lists, locks or volumes, whatever came of it.
//!
//! A lane packs a record into a batch of its own and hands batches over to the log's thread ([`service::log`]): no call waits for a
//! log, and no lane for another.

mod event;
mod line;
mod record;
mod trail;

pub use event::Event;
pub use line::put_line;
pub use record::{Files, Record};
pub use trail::{Audit, AuditIdentity, Trail};

use service::log::{Format, LogRecord};

impl LogRecord for Record<'_> {
    const PACKED_MAX: usize = Self::PACKED_MAX;

    fn pack(&self, batch: &mut Vec<u8>) {
        Record::pack(self, batch);
    }

    fn put_lines(format: Format, mut batch: &[u8], lines: &mut Vec<u8>) {
        while let Some(record) = Record::unpack(&mut batch) {
            put_line(format, &record, lines);
        }
    }
}
