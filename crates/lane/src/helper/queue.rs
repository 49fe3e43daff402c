//! What waits for helper threads, by client: each has its turn, and when there is no room who holds most gives way.
//!
//! A client may keep all threads but one busy, so that its slow disk does not keep everybody else's waiting. What a lane
//! does for itself, or for a client it does not name, is nobody's: it has its turn too, may use every thread, and never
//! gives way.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

/// On whose account blocking work is done: a peer's address, a user, a volume; what the caller shares by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Client(u64);

/// Jobs that wait, and which of their clients have some under way.
pub(crate) struct FairQueue<J> {
    waiting: BTreeMap<Option<Client>, VecDeque<J>>,
    /// Those with something waiting, the next first.
    turns: VecDeque<Option<Client>>,
    running: BTreeMap<Client, usize>,
    len: usize,
    len_max: usize,
    running_max: usize,
}

impl Client {
    /// The client of this key.
    pub fn of(key: &impl Hash) -> Self {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        Self(hasher.finish())
    }
}

impl<J> FairQueue<J> {
    /// For this many threads, and at most `len_max` jobs that wait.
    pub(crate) fn new(threads: usize, len_max: usize) -> Self {
        Self {
            waiting: BTreeMap::new(),
            turns: VecDeque::new(),
            running: BTreeMap::new(),
            len: 0,
            len_max,
            running_max: threads.saturating_sub(1).max(1),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Puts a job behind its client's others. When there is no room the newest job of the client with most gives way,
    /// and is returned; the new one is given back when that client is its own.
    pub(crate) fn push(&mut self, client: Option<Client>, job: J) -> Result<Option<J>, J> {
        let mut gives_way = None;
        if self.len >= self.len_max {
            let own = self.waiting.get(&client).map_or(0, VecDeque::len);
            let most =
                self.waiting.iter().filter(|(client, _)| client.is_some()).max_by_key(|(_, jobs)| jobs.len());
            match most {
                Some((&most, jobs)) if jobs.len() > own + 1 => {
                    gives_way = self.take(most, VecDeque::pop_back)
                }
                _ => return Err(job),
            }
        }
        let jobs = self.waiting.entry(client).or_default();
        if jobs.is_empty() {
            self.turns.push_back(client);
        }
        jobs.push_back(job);
        self.len += 1;
        Ok(gives_way)
    }

    /// The job whose turn it is; [`FairQueue::done`] follows.
    pub(crate) fn pop(&mut self) -> Option<(Option<Client>, J)> {
        let may_run = |client: &Option<Client>| {
            client.is_none_or(|client| {
                self.running.get(&client).is_none_or(|&running| running < self.running_max)
            })
        };
        let place = self.turns.iter().position(may_run)?;
        let client = self.turns[place];
        let job = self.take(client, VecDeque::pop_front)?;
        if self.waiting.contains_key(&client) {
            // Behind those who waited.
            self.turns.remove(place);
            self.turns.push_back(client);
        }
        if let Some(client) = client {
            *self.running.entry(client).or_default() += 1;
        }
        Some((client, job))
    }

    /// A job of this client is over.
    pub(crate) fn done(&mut self, client: Option<Client>) {
        let Some(client) = client else { return };
        if let Some(running) = self.running.get_mut(&client) {
            *running -= 1;
            if *running == 0 {
                self.running.remove(&client);
            }
        }
    }

    /// Takes one of a client's jobs, which has some; one without is forgotten.
    fn take(
        &mut self,
        client: Option<Client>,
        which: impl FnOnce(&mut VecDeque<J>) -> Option<J>,
    ) -> Option<J> {
        let jobs = self.waiting.get_mut(&client)?;
        let job = which(jobs)?;
        self.len -= 1;
        if jobs.is_empty() {
            self.waiting.remove(&client);
            self.turns.retain(|other| *other != client);
        }
        Some(job)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Option<Client> = Some(Client(1));
    const B: Option<Client> = Some(Client(2));

    fn popped(queue: &mut FairQueue<u32>) -> Option<u32> {
        let (client, job) = queue.pop()?;
        queue.done(client);
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
        assert_eq!([queue.pop(), queue.pop(), queue.pop()], [Some((A, 0)), Some((A, 1)), None]);
        queue.push(B, 10).unwrap();
        assert_eq!(queue.pop(), Some((B, 10)));
        queue.done(A);
        assert_eq!(queue.pop(), Some((A, 2)));
    }
}
