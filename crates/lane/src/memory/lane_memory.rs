//! Parts of a lane's memory that a thread beside the lanes may ask after: pools, tasks and files served.
//!
//! The lane does nothing for it until [`LaneMemory::ask`], and then a bounded little, once: it names some of its
//! tasks and lends a descriptor of what it serves next. [`LaneMemory::sample`] looks all of them up.

use std::fmt;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crossbeam_queue::ArrayQueue;

use super::file_pages::{ServedRange, Unsampled};
use super::pages::nodes_of;

/// Record of where one lane's memory is.
pub struct LaneMemory {
    /// Addresses of the mappings of the lane's pools.
    pools: Mutex<Vec<Range<usize>>>,
    asked: SampleRequest,
    tasks: ArrayQueue<usize>,
    ranges: ArrayQueue<ServedRange>,
}

/// Counts of pages that were looked up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Pages on the node asked about.
    pub local: u64,
    /// Pages on another node than the one asked about.
    pub remote: u64,
    /// Pages that are not in memory: never written, or evicted.
    pub absent: u64,
}

/// Findings of a look at a lane's memory.
#[derive(Debug)]
pub struct Samples {
    /// Pages of the lane's pools, send, read and receive buffers: at most 64.
    pub pools: Result<Sample, Unsampled>,
    /// Pages of living tasks, at most 64: the state of connections, on the heap beside their TLS state.
    pub tasks: Result<Sample, Unsampled>,
    /// Pages of the page cache, for each part of a file served since the lane was asked: at most 2 parts of 8
    /// pages.
    pub files: Vec<Result<Sample, Unsampled>>,
}

/// Words that the lane reads all the time and the watcher writes seldom, away from what the lane writes.
#[repr(align(128))]
#[derive(Default)]
struct SampleRequest {
    tasks: AtomicBool,
    ranges: AtomicU32,
}

impl LaneMemory {
    /// Asks the lane for what [`LaneMemory::sample`] looks up besides the pools. Answers to an earlier
    /// question are dropped.
    pub fn ask(&self) {
        while self.tasks.pop().is_some() {}
        while self.ranges.pop().is_some() {}
        self.asked.tasks.store(true, Ordering::Relaxed);
        self.asked.ranges.store(RANGES, Ordering::Relaxed);
    }

    /// Looks up where memory lies as seen from `node`. `round` varies which pages of the pools are picked. Takes
    /// some hundred microseconds and about fifty system calls: not for a lane.
    pub fn sample(&self, node: u32, round: u64) -> Samples {
        let tasks: Vec<usize> = std::iter::from_fn(|| self.tasks.pop()).collect();
        let ranges = std::iter::from_fn(|| self.ranges.pop());
        let files = ranges.map(|range| Ok(Sample::of(&range.nodes(PAGES_OF_RANGE)?, node)));
        let files = files.collect();
        Samples { pools: look_up(&self.pool_pages(round), node), tasks: look_up(&tasks, node), files }
    }

    pub(crate) fn add_pool(&self, addresses: Range<usize>) {
        self.pools.lock().expect("nothing panics while it holds the list").push(addresses);
    }

    /// Returns whether an observer waits for tasks. The question is answered by the one call of `note_tasks`
    /// that follows.
    pub(crate) fn wants_tasks(&self) -> bool {
        self.asked.tasks.load(Ordering::Relaxed)
    }

    pub(crate) fn note_tasks(&self, addresses: impl Iterator<Item = usize>) {
        self.asked.tasks.store(false, Ordering::Relaxed);
        for address in addresses.take(TASKS) {
            // A full queue has enough.
            let _ = self.tasks.push(address);
        }
    }

    /// Notes that a part of a file was served, if an observer waits for that. `lend` gives a descriptor for
    /// another thread.
    pub(crate) fn note_served(&self, offset: u64, len: usize, lend: impl FnOnce() -> io::Result<OwnedFd>) {
        let wanted = self.asked.ranges.load(Ordering::Relaxed);
        if wanted == 0 || len == 0 {
            return;
        }
        if let Ok(file) = lend() {
            self.asked.ranges.store(wanted - 1, Ordering::Relaxed);
            let _ = self.ranges.push(ServedRange { file, offset, len });
        }
    }

    /// Returns addresses of pages of every pool, denser at the front of each: the buffers there are lent
    /// first.
    fn pool_pages(&self, round: u64) -> Vec<usize> {
        let pools = self.pools.lock().expect("nothing panics while it holds the list");
        let page = rustix::param::page_size();
        let each = POOL_PAGES / pools.len().max(1);
        let picked = |pool: &Range<usize>| {
            let (start, pages) = (pool.start, pool.len() / page);
            let at = move |n: usize| (pages * n * n) / (each * each);
            (0..each).filter_map(move |n| {
                let stretch = at(n + 1) - at(n);
                let within = (round as usize).wrapping_mul(SPREAD).checked_rem(stretch)?;
                Some(start + (at(n) + within) * page)
            })
        };
        pools.iter().flat_map(picked).collect()
    }
}

impl Default for LaneMemory {
    fn default() -> Self {
        Self {
            pools: Mutex::default(),
            asked: SampleRequest::default(),
            tasks: ArrayQueue::new(TASKS),
            ranges: ArrayQueue::new(RANGES as usize),
        }
    }
}

impl fmt::Debug for LaneMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LaneMemory")
    }
}

impl Sample {
    fn of(nodes: &[Option<u32>], here: u32) -> Self {
        let count = |wanted: fn(u32, u32) -> bool| {
            nodes.iter().flatten().filter(|&&node| wanted(node, here)).count() as u64
        };
        let (local, remote) = (count(|node, here| node == here), count(|node, here| node != here));
        Self { local, remote, absent: nodes.len() as u64 - local - remote }
    }
}

fn look_up(addresses: &[usize], node: u32) -> Result<Sample, Unsampled> {
    Ok(Sample::of(&nodes_of(addresses).map_err(Unsampled::Refused)?, node))
}

const POOL_PAGES: usize = 64;
const TASKS: usize = 64;
const RANGES: u32 = 2;
const PAGES_OF_RANGE: usize = 8;
/// Prime far from page counts, so that rounds differ in the page picked of a stretch.
const SPREAD: usize = 7919;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_pools_are_within_them_and_each_is_picked_once() {
        let memory = LaneMemory::default();
        let page = rustix::param::page_size();
        let pools = [0..100_000 * page, 1 << 40..(1 << 40) + 3 * page, 1 << 41..(1 << 41) + page];
        pools.iter().for_each(|pool| memory.add_pool(pool.clone()));
        for round in 0..50 {
            let mut picked = memory.pool_pages(round);
            assert!(picked.iter().all(|at| pools.iter().any(|pool| pool.contains(at))));
            let all = picked.len();
            assert!((5..=POOL_PAGES).contains(&all), "{all} pages");
            picked.dedup();
            assert_eq!(picked.len(), all);
        }
    }

    #[test]
    fn nobody_lends_a_file_unless_asked_and_then_only_a_few() {
        let memory = LaneMemory::default();
        let lent = std::cell::Cell::new(0);
        let serve = || {
            memory.note_served(0, 4096, || {
                lent.set(lent.get() + 1);
                Ok(std::fs::File::open("/proc/self/exe")?.into())
            });
        };
        serve();
        assert_eq!(lent.get(), 0);
        memory.ask();
        (0..10).for_each(|_| serve());
        assert_eq!(lent.get(), RANGES);
        assert_eq!(memory.sample(0, 0).files.len(), RANGES as usize);
    }

    #[test]
    fn a_container_that_forbids_to_ask_is_told_from_an_empty_sample() {
        let refused = std::thread::spawn(|| {
            forbid(&[libc::SYS_move_pages, libc::SYS_get_mempolicy, libc::SYS_set_mempolicy]).ok()?;
            let memory = LaneMemory::default();
            memory.add_pool(0..1 << 20);
            memory.ask();
            memory.note_served(0, 4096, || Ok(std::fs::File::open("/proc/self/exe")?.into()));
            let samples = memory.sample(0, 0);
            assert!(crate::memory::allocate_where_running().is_err());
            Some(samples)
        });
        let Some(samples) = refused.join().unwrap() else { return };
        assert!(matches!(samples.pools, Err(Unsampled::Refused(_))), "{samples:?}");
        // Some file systems cannot tell what is in memory, and then nothing is asked.
        let told = |file: &Result<Sample, Unsampled>| matches!(file, Ok(sample) if sample.absent == 0);
        assert!(samples.files.len() == 1 && !samples.files.iter().any(told), "{samples:?}");
    }

    /// Makes the system calls `calls` fail with EPERM on the calling thread, as the default profile of Docker
    /// does.
    fn forbid(calls: &[libc::c_long]) -> io::Result<()> {
        let op = |code: u32, jt, k: u32| libc::sock_filter { code: code as u16, jt, jf: 0, k };
        let mut program = vec![op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0)];
        for (at, &call) in calls.iter().enumerate() {
            let to_refusal = u8::try_from(calls.len() - at).map_err(io::Error::other)?;
            let call = u32::try_from(call).map_err(io::Error::other)?;
            program.push(op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, to_refusal, call));
        }
        program.push(op(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW));
        program.push(op(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32));
        let len = u16::try_from(program.len()).map_err(io::Error::other)?;
        let program = libc::sock_fprog { len, filter: program.as_mut_ptr() };
        // SAFETY: both calls change this thread alone; the program lives across the second, which copies it.
        let set = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program)
        };
        if set < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    #[test]
    fn pages_are_counted_by_where_they_lie() {
        let sample = Sample::of(&[Some(1), None, Some(0), Some(1), Some(3)], 1);
        assert_eq!(sample, Sample { local: 2, remote: 2, absent: 1 });
    }
}
