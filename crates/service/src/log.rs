//! Access and audit log: lanes append compact records to a batch, a thread off the lanes turns them into lines.
//!
//! A lane copies a few hundred bytes per request and hands over a batch at a time through a bounded queue; empty ones
//! come back. When the thread cannot keep up, batches are dropped and counted; a lane never waits for a log. What a
//! record holds and how its line looks is the service's: see [`LogRecord`].
//!
//! Of what failed an audit log has so many lines of each client, and the number of those left out: a client may fail as often as it
//! likes, and what is done is never left out.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::Thread;
use std::time::{Duration, Instant};

use budget::Network;
use crossbeam_queue::ArrayQueue;

use crate::failures::{Failures, Limit};

pub mod audit;
pub mod openafs;
pub mod packed;
pub mod text;

/// Format of a log line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Text that the field's tools read: for HTTP the combined format of Apache and nginx, for AFS the lines
    /// of OpenAFS's audit log. A line for HTTP is
    /// `host - - [time] "request" status bytes "referer" "user agent"`.
    #[default]
    Text,
    /// JSON, one object a line, with the duration in microseconds.
    Json,
}

/// Record of one request for a log.
pub trait LogRecord {
    /// Most bytes that a record takes in a batch; at most [`BATCH_BYTES`].
    const PACKED_MAX: usize;

    /// Appends the packed form. Runs on the lane.
    fn pack(&self, batch: &mut Vec<u8>);

    /// Appends a line for each record of a batch that [`LogRecord::pack`] has filled. Runs beside the lanes.
    /// Whatever a client sent, a line is one line.
    fn put_lines(format: Format, batch: &[u8], lines: &mut Vec<u8>);
}

/// Function [`LogRecord::put_lines`] of the type that filled a batch.
type PutLines = fn(Format, &[u8], &mut Vec<u8>);

/// Makes the queue between any number of lanes and one reader.
pub fn channel(batches_max: usize) -> (LaneLog, LogReader) {
    let shared = Arc::new(LogShared {
        full: ArrayQueue::new(batches_max),
        empty: ArrayQueue::new(batches_max),
        dropped: AtomicU64::new(0),
        left_out: AtomicU64::new(0),
        left_out_of: Mutex::default(),
        reader: std::sync::OnceLock::new(),
    });
    (LaneLog::new(Arc::clone(&shared)), LogReader { shared })
}

/// Lane's end of a log: collects records and hands them over in batches. A clone is another lane's end.
#[derive(Debug)]
pub struct LaneLog {
    shared: Arc<LogShared>,
    batch: Batch,
    /// Records of failures by client.
    failed: Failures<Network>,
}

/// Reader's end of a log, for the thread that writes it.
#[derive(Debug)]
pub struct LogReader {
    shared: Arc<LogShared>,
}

impl LaneLog {
    /// Adds a record, and hands over a batch that is full.
    pub fn push<R: LogRecord>(&mut self, record: &R) {
        let put_lines: PutLines = R::put_lines;
        if self.batch.bytes.len() + R::PACKED_MAX > BATCH_BYTES {
            self.flush();
        }
        // A batch holds the records of one service: each has an end of its own.
        debug_assert!(self.batch.put_lines.is_none_or(|of| std::ptr::fn_addr_eq(of, put_lines)));
        self.batch.put_lines = Some(put_lines);
        if self.batch.bytes.capacity() == 0 {
            self.batch.bytes.reserve_exact(BATCH_BYTES);
        }
        record.pack(&mut self.batch.bytes);
        self.batch.records += 1;
    }

    /// Adds the record of what `peer` was refused, or what failed. When too many of the client's have come lately it is left out and
    /// counted.
    pub fn push_failed<R: LogRecord>(&mut self, peer: IpAddr, now: Instant, record: &R) {
        if self.admits_failed(peer, now) {
            self.push(record);
        }
    }

    fn admits_failed(&mut self, peer: IpAddr, now: Instant) -> bool {
        if self.failed.may_try_at(peer, now) {
            self.failed.note_at(peer, FAILED_LINES, now);
            return true;
        }
        self.shared.left_out.fetch_add(1, Ordering::Relaxed);
        // Another lane that says so at this moment names one as good.
        if let Ok(mut of) = self.shared.left_out_of.try_lock() {
            *of = Some(Network::of_client(peer));
        }
        false
    }

    /// Hands over the records collected so far. Called by a timer too, so that a quiet server's log is not
    /// late.
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

    /// Returns the number of records of all lanes that were lost because the reader was too slow.
    pub fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }

    fn new(shared: Arc<LogShared>) -> Self {
        Self { shared, batch: Batch::default(), failed: Failures::new(NETWORKS_MAX) }
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

    /// Appends the lines of one batch; `false` when no batch waits.
    pub fn read(&self, format: Format, lines: &mut Vec<u8>) -> bool {
        let Some(mut batch) = self.shared.full.pop() else { return false };
        if let Some(put_lines) = batch.put_lines.take() {
            put_lines(format, &batch.bytes, lines);
        }
        batch.bytes.clear();
        batch.records = 0;
        // When there are enough spare ones this batch is freed.
        let _ = self.shared.empty.push(batch);
        true
    }

    /// Returns the number of records of all lanes that were lost because this end was too slow.
    pub fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }

    /// Returns the number of records of all lanes that were [left out](LaneLog::push_failed), and a client that had too many: the
    /// last.
    pub fn left_out(&self) -> (u64, Option<Network>) {
        let of = self.shared.left_out_of.lock().map_or(None, |of| *of);
        (self.shared.left_out.load(Ordering::Relaxed), of)
    }
}

#[derive(Debug)]
struct LogShared {
    full: ArrayQueue<Batch>,
    empty: ArrayQueue<Batch>,
    dropped: AtomicU64,
    left_out: AtomicU64,
    left_out_of: Mutex<Option<Network>>,
    reader: std::sync::OnceLock<Thread>,
}

#[derive(Debug, Default)]
struct Batch {
    bytes: Vec<u8>,
    records: u64,
    put_lines: Option<PutLines>,
}

/// Bytes of a batch: a few hundred ordinary records.
pub const BATCH_BYTES: usize = 32 * 1024;
//@ limit: lines of the audit log about what failed
//@ section: Logs, control and descriptors
//@ unit: line of a request or sign-in that failed or was refused
//@ address: 100 at once, then 5 a second on each lane; an IPv6 /56 4 times that, a /48 16 times
//@ all: lane: {} networks are remembered, the oldest is forgotten
//@ empty: its lines are left out, and one of the server's own messages says how many; others feel nothing
//@ counter: audit_log_lines_limited
//@ attack: smb-unread-audit-log
/// Networks whose failures are remembered.
const NETWORKS_MAX: usize = 4096;
/// As the server's own messages of one kind.
const FAILED_LINES: Limit = Limit { at_once: 100, forgiven_after: Duration::from_millis(200) };

#[cfg(test)]
mod tests {
    use super::*;

    /// Record of one byte, with that byte as its line.
    struct Byte(u8);

    impl LogRecord for Byte {
        const PACKED_MAX: usize = 100;

        fn pack(&self, batch: &mut Vec<u8>) {
            batch.push(self.0);
        }

        fn put_lines(_: Format, batch: &[u8], lines: &mut Vec<u8>) {
            batch.iter().for_each(|byte| lines.extend_from_slice(&[*byte, b'\n']));
        }
    }

    fn record() -> Byte {
        Byte(b'r')
    }

    fn lines(reader: &LogReader) -> usize {
        let mut out = Vec::new();
        while reader.read(Format::Text, &mut out) {}
        out.iter().filter(|byte| **byte == b'\n').count()
    }

    #[test]
    fn every_record_becomes_a_line_once() {
        let (mut first, reader) = channel(64);
        let mut second = first.clone();
        for _ in 0..50_000 {
            first.push(&record());
            second.push(&record());
        }
        drop(first);
        second.flush();
        assert_eq!(lines(&reader), 100_000);
        assert_eq!(reader.dropped(), 0);
    }

    #[test]
    fn a_client_that_fails_without_end_has_so_many_lines_and_others_have_theirs() {
        let (mut log, reader) = channel(4);
        let (start, peers) = (Instant::now(), ["192.0.2.1", "2001:db8::1", "192.0.2.2"]);
        let [crowd, six, other] = peers.map(|peer| peer.parse::<IpAddr>().unwrap());
        let mut admitted = |peer: IpAddr, at| (0..1000).filter(|_| log.admits_failed(peer, at)).count();
        assert_eq!(admitted(crowd, start), 100);
        assert_eq!(admitted(other, start), 100);
        assert_eq!(admitted(crowd, start + Duration::from_secs(2)), 10);
        assert_eq!(reader.left_out(), (2790, Some(Network::of_client(crowd))));
        // Wherever in its network it comes from.
        let others = (0..500).map(|n| IpAddr::from((0x2001_0db8_u128 << 96 | n).to_be_bytes()));
        assert_eq!(others.filter(|peer| log.admits_failed(*peer, start)).count(), 100);
        assert!(!log.admits_failed(six, start));
        assert_eq!(reader.left_out().1.unwrap().to_string(), "2001:db8::/64");
    }

    #[test]
    fn slow_reader_loses_whole_batches_and_knows_how_many_records() {
        let (mut lane, reader) = channel(2);
        for _ in 0..200_000 {
            lane.push(&record());
        }
        lane.flush();
        let kept = lines(&reader);
        assert!(kept > 0 && reader.dropped() > 0);
        assert_eq!(kept as u64 + reader.dropped(), 200_000);
    }
}
