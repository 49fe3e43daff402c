//! Durable opens over a restart of the server: as the last lane ends they are written down with all that they
//! hold, and the next server has them again, without a session, before the first request of a client.
//! docs/design/smb.md tells what is kept and what is not.

mod fields;
mod record;
mod restore;
mod save;

pub use self::restore::{DamagedPage, RestoredOpens};
pub use self::save::SavedOpens;

use self::fields::{RecordReader, RecordWriter};
use self::record::OpenRecord;

/// The opens that a server has written down, and when.
#[derive(Debug, PartialEq, Eq)]
struct SavedPage {
    /// Milliseconds since 1970.
    written_ms: u64,
    records: Vec<OpenRecord>,
}

/// Appends records to a page, up to its longest length.
struct PageWriter {
    out: RecordWriter,
    records: u32,
}

impl PageWriter {
    fn new(written_ms: u64) -> Self {
        let mut out = RecordWriter::default();
        out.u64(written_ms);
        Self { out, records: 0 }
    }

    /// Appends a record; `false` where there is no room for it.
    fn push(&mut self, record: &OpenRecord) -> bool {
        let mut out = RecordWriter::default();
        record.write(&mut out);
        let bytes = out.into_bytes();
        if self.out.len() + bytes.len() + 4 > PAGE_MAX {
            return false;
        }
        self.out.bytes(&bytes);
        self.records += 1;
        true
    }
}

impl SavedPage {
    /// Reads a page; `None` where a server has written no such thing.
    fn read(bytes: &[u8]) -> Option<Self> {
        if bytes.len() > PAGE_MAX {
            return None;
        }
        let mut fields = RecordReader::new(bytes);
        let written_ms = fields.u64()?;
        let mut records = Vec::new();
        while !fields.is_empty() {
            let mut of_record = RecordReader::new(fields.bytes(PAGE_MAX)?);
            records.push(OpenRecord::read(&mut of_record).filter(|_| of_record.is_empty())?);
        }
        Some(Self { written_ms, records })
    }
}

//@ limit: durable opens kept for the next server
//@ section: SMB
//@ unit: byte of `smb.left`
//@ connection: as durable opens whose session has ended
//@ all: process: {:b}; 3 s to write, 10 s to take up
//@ empty: the rest is left out; a start waits 10 s at most
//@ counter: smb_durable_kept, smb_durable_restored, smb_durable_lost
//@ attack: none, only the end of a server writes them, within its time
//@ reach: server
/// All that is written down: 65,536 opens of a few locks each.
const PAGE_MAX: usize = 64 << 20;
