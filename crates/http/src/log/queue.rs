//! From the lanes to the log's thread: batches through a bounded queue, empty ones back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::Thread;

use crossbeam_queue::ArrayQueue;

use super::{Format, Record, put_line};

/// Makes the queue between any number of lanes and one reader.
pub fn channel(batches_max: usize) -> (LaneLog, LogReader) {
    let shared = Arc::new(Shared {
        full: ArrayQueue::new(batches_max),
        empty: ArrayQueue::new(batches_max),
        dropped: AtomicU64::new(0),
        reader: std::sync::OnceLock::new(),
    });
    (LaneLog::new(Arc::clone(&shared)), LogReader { shared })
}

/// A lane's end: collects records and hands them over in batches. A clone is another lane's end.
#[derive(Debug)]
pub struct LaneLog {
    shared: Arc<Shared>,
    batch: Batch,
}

/// The thread's end.
#[derive(Debug)]
pub struct LogReader {
    shared: Arc<Shared>,
}

impl LaneLog {
    /// Adds a record; hands the batch over when it is full.
    pub fn push(&mut self, record: &Record<'_>) {
        if self.batch.bytes.len() + Record::PACKED_MAX > BATCH_BYTES {
            self.flush();
        }
        if self.batch.bytes.capacity() == 0 {
            self.batch.bytes.reserve_exact(BATCH_BYTES);
        }
        record.pack(&mut self.batch.bytes);
        self.batch.records += 1;
    }

    /// Hands over what there is. Called by a timer too, so that a quiet server's log is not late.
    pub fn flush(&mut self) {
        if self.batch.records == 0 {
            return;
        }
        let next = self.shared.empty.pop().unwrap_or_default();
        let batch = std::mem::replace(&mut self.batch, next);
        if let Err(refused) = self.shared.full.push(batch) {
            self.shared.dropped.fetch_add(refused.records, Ordering::Relaxed);
        }
        if let Some(reader) = self.shared.reader.get() {
            reader.unpark();
        }
    }

    /// Records lost because the reader was too slow, of all lanes.
    pub fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }

    fn new(shared: Arc<Shared>) -> Self {
        Self { shared, batch: Batch::default() }
    }
}

impl Clone for LaneLog {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.shared))
    }
}

impl Drop for LaneLog {
    fn drop(&mut self) {
        self.flush();
    }
}

impl LogReader {
    /// Makes the calling thread the one that `std::thread::park` wakes when a batch arrives.
    pub fn attach(&self) {
        // A second call comes from the same thread, so the first handle stays right.
        let _ = self.shared.reader.set(std::thread::current());
    }

    /// Appends the lines of one batch; `false` when there is none.
    pub fn read(&self, format: Format, lines: &mut Vec<u8>) -> bool {
        let Some(mut batch) = self.shared.full.pop() else { return false };
        let mut rest = &batch.bytes[..];
        while let Some(record) = Record::unpack(&mut rest) {
            put_line(format, &record, lines);
        }
        batch.bytes.clear();
        batch.records = 0;
        // When there are enough spare ones this batch is freed.
        let _ = self.shared.empty.push(batch);
        true
    }

    /// Records lost because this end was too slow, of all lanes.
    pub fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
struct Shared {
    full: ArrayQueue<Batch>,
    empty: ArrayQueue<Batch>,
    dropped: AtomicU64,
    reader: std::sync::OnceLock<Thread>,
}

#[derive(Debug, Default)]
struct Batch {
    bytes: Vec<u8>,
    records: u64,
}

/// Bytes of a batch: a few hundred ordinary records.
pub const BATCH_BYTES: usize = 32 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Protocol;
    use crate::request::Method;

    fn record() -> Record<'static> {
        Record {
            peer: "::1".parse().unwrap(),
            unix_us: 0,
            duration_us: 0,
            status: 200,
            body_bytes: 0,
            method: Method::Get,
            protocol: Protocol::Http11,
            tls: false,
            target: b"/",
            host: b"",
            referer: b"",
            user_agent: b"",
        }
    }

    fn lines(reader: &LogReader) -> usize {
        let mut out = Vec::new();
        while reader.read(Format::Combined, &mut out) {}
        out.iter().filter(|byte| **byte == b'\n').count()
    }

    #[test]
    fn every_record_becomes_a_line_once() {
        let (mut first, reader) = channel(64);
        let mut second = first.clone();
        for _ in 0..5_000 {
            first.push(&record());
            second.push(&record());
        }
        drop(first);
        second.flush();
        assert_eq!(lines(&reader), 10_000);
        assert_eq!(reader.dropped(), 0);
    }

    #[test]
    fn slow_reader_loses_whole_batches_and_knows_how_many_records() {
        let (mut lane, reader) = channel(2);
        for _ in 0..10_000 {
            lane.push(&record());
        }
        lane.flush();
        let kept = lines(&reader);
        assert!(kept > 0 && reader.dropped() > 0);
        assert_eq!(kept as u64 + reader.dropped(), 10_000);
    }
}
