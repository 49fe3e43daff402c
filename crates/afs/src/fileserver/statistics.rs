//! GetStatistics (146), GetStatistics64 (65542), XStatsVersion (159), GetXStats (160): what stock tools show of a file server: of all lanes
//! together, whichever is asked.

use std::time::{SystemTime, UNIX_EPOCH};

use afs_wire::rxafs::{GetXStats, GetXStatsReply, opcode};
use afs_wire::{Collection, Disk, STATISTICS64_MAX, Statistics, Statistics64};
use xdr::List;
use xdr::rpc::ProcedureCounts;

use super::ServedCall;
use super::totals::{CallBacks, Sum};

/// Version of the collections of GetXStats.
pub(super) const VERSION: i32 = 2;

impl ServedCall {
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

    /// Returns as many numbers as the client knows; newer servers may know more.
    pub(super) fn statistics64(&self, count: i32) -> Statistics64 {
        let count = usize::try_from(count).unwrap_or_default().min(STATISTICS64_MAX as usize);
        List(self.numbers()[..count].to_vec())
    }

    fn numbers(&self) -> [u64; STATISTICS64_MAX as usize] {
        let (inner, all) = (&self.server.inner, self.server.inner.totals.sum());
        let sum = |of: &[u32]| of.iter().map(|of| all.of(*of).calls).sum();
        let mut words = [0; STATISTICS64_MAX as usize];
        words[CURRENT_TIME] = seconds(lane::time::wall_clock());
        words[START_TIME] = seconds(inner.began);
        words[BOOT_TIME] = seconds(inner.began);
        words[TOTAL_FETCHES] =
            sum(&[opcode::FETCH_DATA, opcode::FETCH_DATA64, opcode::FETCH_ACL, opcode::FETCH_STATUS]);
        words[FETCH_DATAS] = sum(&[opcode::FETCH_DATA, opcode::FETCH_DATA64]);
        words[FETCHED_BYTES] = all.fetched_bytes;
        words[TOTAL_STORES] =
            sum(&[opcode::STORE_DATA, opcode::STORE_DATA64, opcode::STORE_ACL, opcode::STORE_STATUS]);
        words[STORE_DATAS] = sum(&[opcode::STORE_DATA, opcode::STORE_DATA64]);
        words[STORED_BYTES] = all.stored_bytes;
        words[TOTAL_CALLS] = all.calls();
        words[WORKSTATIONS] = inner.hosts.hosts().len() as u64;
        words[ACTIVE_WORKSTATIONS] = words[WORKSTATIONS];
        words
    }

    /// Returns the names of partitions; how full they are the volume server says.
    fn disks(&self) -> [Disk; afs_wire::DISKS as usize] {
        let mut disks: [Disk; afs_wire::DISKS as usize] = Default::default();
        let attached = self.server.inner.attached.borrow();
        for (disk, served) in disks.iter_mut().zip(attached.partitions()) {
            let name = format!("/vicep{}", char::from(b'a' + served.partition % 26));
            disk.name.0[..name.len()].copy_from_slice(name.as_bytes());
        }
        disks
    }

    /// Answers a collection of numbers as its tools know it; one that they do not know, or that no server fills, is
    /// empty.
    pub(super) fn collection(&self, request: &GetXStats) -> GetXStatsReply {
        let inner = &self.server.inner;
        let data: Vec<i32> = match request.collection {
            PERFORMANCE => self.performance(&inner.totals.sum()).to_vec(),
            FULL_PERFORMANCE => self.full_performance(&inner.totals.sum()),
            CALL_BACKS => call_backs(&inner.totals.sum().call_backs).to_vec(),
            _ => Vec::new(),
        };
        let time = seconds(lane::time::wall_clock()) as i32;
        GetXStatsReply { version: VERSION, time, data: List(data) as Collection }
    }

    /// Fills `struct afs_PerfStats` of OpenAFS's `fs_stats.h` with what this server has of it.
    fn performance(&self, all: &Sum) -> [i32; PERFORMANCE_WORDS] {
        let mut words = [0; PERFORMANCE_WORDS];
        words[0] = clamped(all.of(opcode::GET_X_STATS).calls);
        let hosts = self.server.inner.hosts.hosts().len() as u64;
        for at in [HOST_ENTRIES, HOST_LIVE, HOST_CLIENTS] {
            words[at] = clamped(hosts);
        }
        words[CAPABILITIES_ASKED] = clamped(all.of(opcode::GET_CAPABILITIES).calls);
        words
    }

    /// Returns `struct fs_stats_FullPerfStats` as machines of 32 bits have it: 424 words, which tools tell from the 666
    /// of others.
    fn full_performance(&self, all: &Sum) -> Vec<i32> {
        let mut words = self.performance(all).to_vec();
        words.extend([seconds(self.server.inner.began) as i32, 0]);
        for codes in TIMED {
            let counts: Vec<_> = codes.iter().map(|code| all.of(*code)).collect();
            let (calls, replied) = (sum(&counts, |of| of.calls), sum(&counts, |of| of.replied));
            words.extend([clamped(calls), clamped(replied)]);
            words.extend(times(&counts));
        }
        for (codes, bytes) in [(TIMED[0], all.fetched_bytes), (TIMED[3], all.stored_bytes)] {
            let counts: Vec<_> = codes.iter().map(|code| all.of(*code)).collect();
            let (calls, replied) = (sum(&counts, |of| of.calls), sum(&counts, |of| of.replied));
            words.extend([clamped(calls), clamped(replied)]);
            words.extend(times(&counts));
            // Kibibytes; sizes of single ones are not kept.
            words.extend([clamped(bytes >> 10), 0, 0]);
            words.extend([0; BUCKETS]);
        }
        words
    }
}

/// Fills `struct cbcounters` of OpenAFS's `viced/callback.c` with what this server has of it.
fn call_backs(callbacks: &CallBacks) -> [i32; CALL_BACK_WORDS] {
    let mut words = [0; CALL_BACK_WORDS];
    let ended = callbacks.broken + callbacks.evicted + callbacks.expired;
    for (at, count) in [
        (DELETED, callbacks.gave_up),
        (BROKEN, callbacks.broken),
        // Those that clients gave up all at once are not counted one by one.
        (ADDED, callbacks.given + ended),
        (EVICTED, callbacks.evicted),
        (DELETED_ALL, callbacks.gave_up_all),
        (FILES, callbacks.files),
        (GIVEN, callbacks.given),
        (EXPIRED, callbacks.expired),
        (BREAKERS, callbacks.calls),
    ] {
        words[at] = clamped(count);
    }
    words
}

fn sum(counts: &[ProcedureCounts], of: impl Fn(&ProcedureCounts) -> u64) -> u64 {
    counts.iter().map(of).sum()
}

/// Returns the sum, sum of squares, least and greatest, seconds and microseconds of each; squares and the least are not
/// kept.
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
const CALL_BACKS: i32 = 3;

// Words of the collections.
const PERFORMANCE_WORDS: usize = 98;
const HOST_ENTRIES: usize = 58;
const HOST_LIVE: usize = 60;
const HOST_CLIENTS: usize = 64;
const CAPABILITIES_ASKED: usize = 69;
const BUCKETS: usize = 9;
const CALL_BACK_WORDS: usize = 16;
const DELETED: usize = 1;
const BROKEN: usize = 2;
const ADDED: usize = 3;
const EVICTED: usize = 4;
const DELETED_ALL: usize = 5;
const FILES: usize = 6;
const GIVEN: usize = 7;
const EXPIRED: usize = 9;
const BREAKERS: usize = 10;

/// Procedures whose times are reported, in the order of the collection, each with its twins of other numbers. Two are
/// of procedures that no server has any more.
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
