//! Records of the access log, and the form of their lines.

mod line;
mod record;

pub use line::put_line;
pub use record::{Protocol, Record};
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
