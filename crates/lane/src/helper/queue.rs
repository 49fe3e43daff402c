//! Queue for helper threads, by client and file system. Each has its turn, and when there is no room the
//! client that holds most gives way.
//!
//! A client may keep all threads but one busy, so that its slow disk does not keep all others waiting. What a
//! lane does for itself, or for a client it does not name, belongs to no client: it has its turn too, may use
//! every thread, and never gives way.
//!
//! A file system that does not answer keeps every thread that works on it, whichever client asks. It may have
//! three times as many threads as it leaves to others beside the last one, which only a file system without
//! any takes; and three quarters of the places of those that wait.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Account of blocking work: a peer's address, a user, a volume, or another key by which the caller shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Client(u64);

/// File system that work waits for, distinguished as by statfs(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct System(pub(crate) u64);

/// Client of a job, and the file system that the job works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Party {
    pub(crate) client: Option<Client>,
    pub(crate) system: Option<System>,
}

/// Jobs that wait, with counts of those under way by client and file system.
pub(crate) struct FairQueue<J> {
    waiting: BTreeMap<Party, VecDeque<J>>,
    /// Parties with waiting jobs, in the order of their turns.
    turns: VecDeque<Party>,
    running: BTreeMap<Client, usize>,
    /// Counts by file system of jobs that wait, and of those under way.
    systems: BTreeMap<System, OfSystem>,
    running_all: usize,
    threads: usize,
    len: usize,
    len_max: usize,
    running_max: usize,
}

#[derive(Clone, Copy, Default)]
struct OfSystem {
    waiting: usize,
    running: usize,
}

impl Client {
    /// Returns the client of this key.
    pub fn of(key: &impl Hash) -> Self {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        Self(hasher.finish())
    }
}

impl From<Option<Client>> for Party {
    fn from(client: Option<Client>) -> Self {
        Self { client, system: None }
    }
}

impl<J> FairQueue<J> {
    /// Makes a queue for this many threads, with at most `len_max` jobs that wait.
    pub(crate) fn new(threads: usize, len_max: usize) -> Self {
        Self {
            waiting: BTreeMap::new(),
            turns: VecDeque::new(),
            running: BTreeMap::new(),
            systems: BTreeMap::new(),
            running_all: 0,
            threads,
            len: 0,
            len_max,
            running_max: threads.saturating_sub(1).max(1),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Puts a job behind its party's others. When there is no room the newest job of the client's party with
    /// most gives way, and is returned. The new one is given back when that party is its own, or its file
    /// system has its part of the places.
    pub(crate) fn push(&mut self, party: impl Into<Party>, job: J) -> Result<Option<J>, J> {
        let party = party.into();
        if let Some(system) = party.system
            && self.systems.get(&system).is_some_and(|of| of.waiting >= (self.len_max / 4 * 3).max(1))
        {
            return Err(job);
        }
        let mut gives_way = None;
        if self.len >= self.len_max {
            let own = self.waiting.get(&party).map_or(0, VecDeque::len);
            let most = self
                .waiting
                .iter()
                .filter(|(party, _)| party.client.is_some())
                .max_by_key(|(_, jobs)| jobs.len());
            match most {
                Some((&most, jobs)) if jobs.len() > own + 1 => {
                    gives_way = self.take(most, VecDeque::pop_back)
                }
                _ => return Err(job),
            }
        }
        let jobs = self.waiting.entry(party).or_default();
        if jobs.is_empty() {
            self.turns.push_back(party);
        }
        jobs.push_back(job);
        self.len += 1;
        if let Some(system) = party.system {
            self.systems.entry(system).or_default().waiting += 1;
        }
        Ok(gives_way)
    }

    /// Takes the job with the next turn; [`FairQueue::done`] follows.
    pub(crate) fn pop(&mut self) -> Option<(Party, J)> {
        let place = self.turns.iter().position(|party| self.may_run(*party))?;
        let party = self.turns[place];
        let job = self.take(party, VecDeque::pop_front)?;
        if self.waiting.contains_key(&party) {
            // Behind those that waited.
            self.turns.remove(place);
            self.turns.push_back(party);
        }
        self.running_all += 1;
        if let Some(client) = party.client {
            *self.running.entry(client).or_default() += 1;
        }
        if let Some(system) = party.system {
            self.systems.entry(system).or_default().running += 1;
        }
        Some((party, job))
    }

    fn may_run(&self, party: Party) -> bool {
        let of_client =
            party.client.and_then(|client| self.running.get(&client)).copied().unwrap_or_default();
        if of_client >= self.running_max {
            return false;
        }
        let of_system = party.system.and_then(|system| self.systems.get(&system)).map_or(0, |of| of.running);
        // Beside the thread that asks.
        let left = self.threads.saturating_sub(self.running_all + 1);
        of_system == 0 || of_system < SYSTEM_TIMES * left
    }

    /// Notes the end of a job of this party.
    pub(crate) fn done(&mut self, party: Party) {
        self.running_all = self.running_all.saturating_sub(1);
        if let Some(system) = party.system {
            self.change(system, |of| of.running -= 1);
        }
        let Some(client) = party.client else { return };
        if let Some(running) = self.running.get_mut(&client) {
            *running -= 1;
            if *running == 0 {
                self.running.remove(&client);
            }
        }
    }

    fn change(&mut self, system: System, change: impl FnOnce(&mut OfSystem)) {
        if let Some(of) = self.systems.get_mut(&system) {
            change(of);
            if of.running == 0 && of.waiting == 0 {
                self.systems.remove(&system);
            }
        }
    }

    /// Takes one of the jobs of a party that has some; a party without any left is forgotten.
    fn take(&mut self, party: Party, which: impl FnOnce(&mut VecDeque<J>) -> Option<J>) -> Option<J> {
        let jobs = self.waiting.get_mut(&party)?;
        let job = which(jobs)?;
        self.len -= 1;
        if jobs.is_empty() {
            self.waiting.remove(&party);
            self.turns.retain(|other| *other != party);
        }
        if let Some(system) = party.system {
            self.change(system, |of| of.waiting -= 1);
        }
        Some(job)
    }
}

//@ limit: helper threads that one file system may use
//@ section: Lanes
//@ unit: thread
//@ address: all but one busy, in turn with each other client
//@ all: process: {} times what is left to others, and three quarters of the places in line
//@ empty: the job waits; others wait for at most one job of each other client
//@ counter: lane_helper_jobs
//@ attack: http-link-chains
/// Most jobs of a file system under way, as a multiple of the threads left to others.
const SYSTEM_TIMES: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    const A: Option<Client> = Some(Client(1));
    const B: Option<Client> = Some(Client(2));

    fn popped(queue: &mut FairQueue<u32>) -> Option<u32> {
        let (party, job) = queue.pop()?;
        queue.done(party);
        Some(job)
    }

    #[test]
    fn clients_take_turns_however_much_one_has_waiting() {
        let mut queue = FairQueue::new(2, 100);
        (0..4).for_each(|n| assert_eq!(queue.push(A, n), Ok(None)));
        queue.push(B, 10).unwrap();
        queue.push(None, 20).unwrap();
        queue.push(B, 11).unwrap();
        let order: Vec<u32> = std::iter::from_fn(|| popped(&mut queue)).collect();
        assert_eq!(order, [0, 10, 20, 1, 11, 2, 3]);
        assert!(queue.is_empty());
    }

    #[test]
    fn who_holds_most_gives_way_first_and_gets_no_more() {
        let mut queue = FairQueue::new(2, 4);
        (0..4).for_each(|n| assert_eq!(queue.push(A, n), Ok(None)));
        assert_eq!(queue.push(A, 4), Err(4));
        assert_eq!(queue.push(B, 10), Ok(Some(3)), "its newest");
        assert_eq!(queue.push(B, 11), Ok(Some(2)));
        assert_eq!(queue.push(B, 12), Err(12), "as much as the other");
        assert_eq!(queue.push(None, 20), Ok(Some(11)));
        let order: Vec<u32> = std::iter::from_fn(|| popped(&mut queue)).collect();
        assert_eq!(order, [0, 10, 20, 1]);
    }

    #[test]
    fn a_lanes_own_work_never_gives_way() {
        let mut queue = FairQueue::new(2, 2);
        queue.push(None, 1).unwrap();
        queue.push(None, 2).unwrap();
        assert_eq!(queue.push(A, 3), Err(3));
        assert_eq!(queue.push(None, 4), Err(4));
    }

    #[test]
    fn a_client_leaves_one_thread_to_others() {
        let mut queue = FairQueue::new(3, 100);
        (0..5).for_each(|n| assert_eq!(queue.push(A, n), Ok(None)));
        assert_eq!([queue.pop(), queue.pop(), queue.pop()], [Some((A.into(), 0)), Some((A.into(), 1)), None]);
        queue.push(B, 10).unwrap();
        assert_eq!(queue.pop(), Some((B.into(), 10)));
        queue.done(A.into());
        assert_eq!(queue.pop(), Some((A.into(), 2)));
    }

    fn on(client: u64, system: u64) -> Party {
        Party { client: Some(Client(client)), system: Some(System(system)) }
    }

    #[test]
    fn a_file_system_that_does_not_answer_leaves_threads_to_others_whoever_asks() {
        for threads in [2, 4, 8, 32] {
            let mut queue = FairQueue::new(threads, 1000);
            // A hundred clients of one that hangs: nothing of it is ever done.
            (0..100).for_each(|client| assert_eq!(queue.push(on(client, 7), 0), Ok(None)));
            let mut hung = 0;
            while queue.pop().is_some() {
                hung += 1;
            }
            assert!(hung < threads && hung >= threads / 2, "{hung} of {threads}");
            // Another's work is done one after the other, and what is no file system's.
            for client in 0..50 {
                queue.push(on(100 + client, 8), 1).unwrap();
                queue.push(A, 2).unwrap();
            }
            for _ in 0..100 {
                let (party, _) = queue.pop().expect("a thread is left to others");
                assert!(party.system != Some(System(7)));
                queue.done(party);
            }
            // A second one that hangs leaves what is left to a third only where there is as much.
            if threads >= 8 {
                (0..100).for_each(|client| assert_eq!(queue.push(on(client, 9), 3), Ok(None)));
                while queue.pop().is_some() {}
                queue.push(on(1, 10), 4).unwrap();
                assert!(matches!(queue.pop(), Some((_, 4))));
            }
        }
    }

    #[test]
    fn a_file_system_has_a_part_of_the_places_of_those_that_wait() {
        let mut queue = FairQueue::new(4, 100);
        let taken = (0..200).filter(|&client| queue.push(on(client, 7), client).is_ok()).count();
        assert_eq!(taken, 75);
        assert_eq!(queue.push(on(1, 8), 0), Ok(None));
        queue.push(on(1, 7), 0).unwrap_err();
        let (first, _) = queue.pop().unwrap();
        queue.done(first);
        assert_eq!(queue.push(on(1, 7), 0), Ok(None));
    }
}
