//! GetStatistics (146), GetStatistics64 (65542), XStatsVersion (159), GetXStats (160): what stock tools show of a file server. Of each lane
//! its own: tools ask over one connection.

use std::time::{SystemTime, UNIX_EPOCH};

use afs_wire::rxafs::{GetXStats, GetXStatsReply, PROCEDURES, opcode};
use afs_wire::{Collection, Disk, STATISTICS64_MAX, Statistics, Statistics64};
use xdr::List;
use xdr::rpc::ProcedureCounts;

use super::Serving;

/// Of the collections.
pub(super) const VERSION: i32 = 2;

impl Serving {
    pub(super) fn statistics(&self) -> Statistics {
        let words = self.numbers();
        let word = |at: usize| words[at].min(u64::from(u32::MAX)) as u32;
        Statistics {
            current_time: word(CURRENT_TIME),
            boot_time: word(START_TIME),
            start_time: word(START_TIME),
            total_calls: word(TOTAL_CALLS),
            total_fetches: word(TOTAL_FETCHES),
            fetch_datas: word(FETCH_DATAS),
            fetched_bytes: word(FETCHED_BYTES),
            total_stores: word(TOTAL_STORES),
            store_datas: word(STORE_DATAS),
            stored_bytes: word(STORED_BYTES),
            workstations: word(WORKSTATIONS) as i32,
            active_workstations: word(WORKSTATIONS) as i32,
            disks: self.disks(),
            ..Statistics::default()
        }
    }

    /// As many numbers as the client knows; newer servers may know more.
    pub(super) fn statistics64(&self, count: i32) -> Statistics64 {
        let count = usize::try_from(count).unwrap_or_default().min(STATISTICS64_MAX as usize);
        List(self.numbers()[..count].to_vec())
    }

    fn numbers(&self) -> [u64; STATISTICS64_MAX as usize] {
        let (inner, sum) =
            (&self.server.inner, |of: &[u32]| of.iter().map(|of| self.counts(*of).calls).sum());
        let mut words = [0; STATISTICS64_MAX as usize];
        words[CURRENT_TIME] = seconds(lane::time::wall_clock());
        words[START_TIME] = seconds(inner.began);
        words[BOOT_TIME] = seconds(inner.began);
        words[TOTAL_FETCHES] =
            sum(&[opcode::FETCH_DATA, opcode::FETCH_DATA64, opcode::FETCH_ACL, opcode::FETCH_STATUS]);
        words[FETCH_DATAS] = sum(&[opcode::FETCH_DATA, opcode::FETCH_DATA64]);
        words[FETCHED_BYTES] = inner.counters.fetched_bytes.get();
        words[TOTAL_STORES] =
            sum(&[opcode::STORE_DATA, opcode::STORE_DATA64, opcode::STORE_ACL, opcode::STORE_STATUS]);
        words[STORE_DATAS] = sum(&[opcode::STORE_DATA, opcode::STORE_DATA64]);
        words[STORED_BYTES] = inner.counters.stored_bytes.get();
        words[TOTAL_CALLS] = (0..PROCEDURES.len()).map(|at| inner.tally.of(at).calls).sum();
        words[WORKSTATIONS] = inner.hosts.hosts().len() as u64;
        words[ACTIVE_WORKSTATIONS] = words[WORKSTATIONS];
        words
    }

    /// Names of partitions; how full they are the volume server says.
    fn disks(&self) -> [Disk; afs_wire::DISKS as usize] {
        let mut disks: [Disk; afs_wire::DISKS as usize] = Default::default();
        let attached = self.server.inner.attached.borrow();
        for (disk, served) in disks.iter_mut().zip(attached.partitions()) {
            let name = format!("/vicep{}", char::from(b'a' + served.partition % 26));
            disk.name.0[..name.len()].copy_from_slice(name.as_bytes());
        }
        disks
    }

    /// A collection of numbers as its tools know it; one that they do not know, or that has never been told of, is empty.
    pub(super) fn collection(&self, request: &GetXStats) -> GetXStatsReply {
        let data: Vec<i32> = match request.collection {
            PERFORMANCE => self.performance().to_vec(),
            FULL_PERFORMANCE => self.full_performance(),
            _ => Vec::new(),
        };
        let time = seconds(lane::time::wall_clock()) as i32;
        GetXStatsReply { version: VERSION, time, data: List(data) as Collection }
    }

    /// `struct afs_PerfStats` of OpenAFS's `fs_stats.h`, of which what this server has is told.
    fn performance(&self) -> [i32; PERFORMANCE_WORDS] {
        let mut words = [0; PERFORMANCE_WORDS];
        words[0] = clamped(self.counts(opcode::GET_X_STATS).calls);
        let hosts = self.server.inner.hosts.hosts().len() as u64;
        for at in [HOST_ENTRIES, HOST_LIVE, HOST_CLIENTS] {
            words[at] = clamped(hosts);
        }
        words[CAPABILITIES_ASKED] = clamped(self.counts(opcode::GET_CAPABILITIES).calls);
        words
    }

    /// `struct fs_stats_FullPerfStats` as machines of 32 bits have it: 424 words, which tools tell from the 666 of others.
    fn full_performance(&self) -> Vec<i32> {
        let mut words = self.performance().to_vec();
        words.extend([seconds(self.server.inner.began) as i32, 0]);
        for codes in TIMED {
            let counts: Vec<_> = codes.iter().map(|code| self.counts(*code)).collect();
            let (calls, replied) = (sum(&counts, |of| of.calls), sum(&counts, |of| of.replied));
            words.extend([clamped(calls), clamped(replied)]);
            words.extend(times(&counts));
        }
        let inner = &self.server.inner;
        for (codes, bytes) in
            [(TIMED[0], &inner.counters.fetched_bytes), (TIMED[3], &inner.counters.stored_bytes)]
        {
            let counts: Vec<_> = codes.iter().map(|code| self.counts(*code)).collect();
            let (calls, replied) = (sum(&counts, |of| of.calls), sum(&counts, |of| of.replied));
            words.extend([clamped(calls), clamped(replied)]);
            words.extend(times(&counts));
            // Kibibytes; sizes of single ones are not kept.
            words.extend([clamped(bytes.get() >> 10), 0, 0]);
            words.extend([0; BUCKETS]);
        }
        words
    }

    fn counts(&self, opcode: u32) -> ProcedureCounts {
        let at = PROCEDURES.iter().position(|entry| entry.opcode == opcode);
        at.map(|at| self.server.inner.tally.of(at)).unwrap_or_default()
    }
}

fn sum(counts: &[ProcedureCounts], of: impl Fn(&ProcedureCounts) -> u64) -> u64 {
    counts.iter().map(of).sum()
}

/// Sum, sum of squares, least and greatest, seconds and microseconds of each; squares and the least are not kept.
fn times(counts: &[ProcedureCounts]) -> [i32; 8] {
    let pair = |us: u64| [clamped(us / 1_000_000), clamped(us % 1_000_000)];
    let [sum_s, sum_us] = pair(sum(counts, |of| of.took_us));
    let [max_s, max_us] = pair(counts.iter().map(|of| of.took_us_max).max().unwrap_or_default());
    [sum_s, sum_us, 0, 0, 0, 0, max_s, max_us]
}

fn clamped(number: u64) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

fn seconds(at: SystemTime) -> u64 {
    at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

// Places among the numbers of GetStatistics64.
const CURRENT_TIME: usize = 0;
const BOOT_TIME: usize = 1;
const START_TIME: usize = 2;
const TOTAL_FETCHES: usize = 4;
const FETCH_DATAS: usize = 5;
const FETCHED_BYTES: usize = 6;
const TOTAL_STORES: usize = 8;
const STORE_DATAS: usize = 9;
const STORED_BYTES: usize = 10;
const TOTAL_CALLS: usize = 12;
const WORKSTATIONS: usize = 13;
const ACTIVE_WORKSTATIONS: usize = 14;

// Collections.
const PERFORMANCE: i32 = 1;
const FULL_PERFORMANCE: i32 = 2;

// Words of the collections.
const PERFORMANCE_WORDS: usize = 98;
const HOST_ENTRIES: usize = 58;
const HOST_LIVE: usize = 60;
const HOST_CLIENTS: usize = 64;
const CAPABILITIES_ASKED: usize = 69;
const BUCKETS: usize = 9;

/// Procedures whose times are told, in the order of the collection, each with its twins of other numbers. Two are of procedures that no
/// server has any more.
const TIMED: [&[u32]; 28] = [
    &[opcode::FETCH_DATA, opcode::FETCH_DATA64],
    &[opcode::FETCH_ACL],
    &[opcode::FETCH_STATUS],
    &[opcode::STORE_DATA, opcode::STORE_DATA64],
    &[opcode::STORE_ACL, opcode::OLD_STORE_ACL],
    &[opcode::STORE_STATUS],
    &[opcode::REMOVE_FILE],
    &[opcode::CREATE_FILE],
    &[opcode::RENAME],
    &[opcode::SYMLINK],
    &[opcode::LINK],
    &[opcode::MAKE_DIR],
    &[opcode::REMOVE_DIR],
    &[opcode::SET_LOCK, opcode::OLD_SET_LOCK],
    &[opcode::EXTEND_LOCK, opcode::OLD_EXTEND_LOCK],
    &[opcode::RELEASE_LOCK, opcode::OLD_RELEASE_LOCK],
    &[opcode::GET_STATISTICS, opcode::GET_STATISTICS64],
    &[opcode::GIVE_UP_CALL_BACKS],
    &[],
    &[opcode::GET_VOLUME_STATUS],
    &[opcode::SET_VOLUME_STATUS],
    &[opcode::GET_ROOT_VOLUME],
    &[opcode::CHECK_TOKEN],
    &[opcode::GET_TIME],
    &[],
    &[opcode::BULK_STATUS, opcode::INLINE_BULK_STATUS],
    &[opcode::X_STATS_VERSION],
    &[opcode::GET_X_STATS],
];
