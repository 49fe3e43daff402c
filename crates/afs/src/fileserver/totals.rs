//! Statistics of the file servers of all lanes, for tools, which ask one of them.

use std::sync::{Arc, Mutex, MutexGuard};

use afs_wire::rxafs::{PROCEDURES, Tally};
use vfs::VfsCounters;
use xdr::rpc::ProcedureCounts;

use super::FileCounters;
use crate::host::HostCounters;

/// Statistics that the file servers of a process count together. Make one before its lanes; clones are
/// handles to the same. Its lock is taken where a lane begins to serve, and where statistics are asked for.
#[derive(Clone, Default)]
pub struct Totals {
    lanes: Arc<Mutex<Lanes>>,
}

#[derive(Default)]
struct Lanes {
    serving: Vec<Arc<LaneCounts>>,
    /// Counters of lanes' trees, each once, however often its lane began to serve.
    trees: Vec<Arc<VfsCounters>>,
    /// Sum of the lanes and trees that serve no more.
    past: Sum,
}

/// Statistics of one lane's file server.
#[derive(Default)]
pub(super) struct LaneCounts {
    pub(super) calls: Tally,
    pub(super) files: Arc<FileCounters>,
    pub(super) hosts: Arc<HostCounters>,
}

/// Sums over lanes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sum {
    procedures: Vec<ProcedureCounts>,
    pub(super) fetched_bytes: u64,
    pub(super) stored_bytes: u64,
    pub(super) call_backs: CallBacks,
}

/// Statistics of callbacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CallBacks {
    /// Number of callbacks now.
    pub(super) given: u64,
    /// Files and directories that they are of, counted for each lane.
    pub(super) files: u64,
    pub(super) broken: u64,
    pub(super) evicted: u64,
    pub(super) expired: u64,
    /// Clients' words that they rely on a file no more, and on nothing.
    pub(super) gave_up: u64,
    pub(super) gave_up_all: u64,
    /// Calls that broke callbacks.
    pub(super) calls: u64,
}

impl Totals {
    /// Adds a lane that begins to serve.
    pub(super) fn add(&self, counts: LaneCounts, tree: &Arc<VfsCounters>) -> Arc<LaneCounts> {
        let mut lanes = self.lock();
        lanes.settle();
        let counts = Arc::new(counts);
        lanes.serving.push(Arc::clone(&counts));
        if !lanes.trees.iter().any(|known| Arc::ptr_eq(known, tree)) {
            lanes.trees.push(Arc::clone(tree));
        }
        counts
    }

    /// Returns the sum over all lanes, those that serve no more among them.
    pub(super) fn sum(&self) -> Sum {
        let lanes = self.lock();
        let mut sum = lanes.past.clone();
        lanes.serving.iter().for_each(|counts| sum.add(counts));
        lanes.trees.iter().for_each(|tree| sum.add_tree(tree));
        // The callbacks of a lane that is gone are void.
        for tree in lanes.trees.iter().filter(|tree| Arc::strong_count(tree) > 1) {
            sum.call_backs.given += tree.callbacks_held.get();
            sum.call_backs.files += tree.objects_shared.get();
        }
        sum
    }

    fn lock(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock().expect("nobody panics while holding it")
    }
}

impl Lanes {
    /// Keeps the sums alone of counters that are no longer in use.
    fn settle(&mut self) {
        let Self { serving, trees, past } = self;
        serving.retain(|counts| {
            let is_over = Arc::strong_count(counts) == 1;
            if is_over {
                past.add(counts);
            }
            !is_over
        });
        trees.retain(|tree| {
            let is_over = Arc::strong_count(tree) == 1;
            if is_over {
                past.add_tree(tree);
            }
            !is_over
        });
    }
}

impl Sum {
    fn add(&mut self, counts: &LaneCounts) {
        self.procedures.resize(PROCEDURES.len(), ProcedureCounts::default());
        for (at, sum) in self.procedures.iter_mut().enumerate() {
            *sum += counts.calls.of(at);
        }
        self.fetched_bytes += counts.files.fetched_bytes.get();
        self.stored_bytes += counts.files.stored_bytes.get();
        self.call_backs.gave_up += counts.hosts.callbacks_given_up.get();
        self.call_backs.gave_up_all += counts.hosts.callbacks_given_up_all.get();
        self.call_backs.calls += counts.hosts.breaks.get();
    }

    fn add_tree(&mut self, tree: &VfsCounters) {
        self.call_backs.broken += tree.callbacks_broken.get();
        self.call_backs.evicted += tree.callbacks_evicted.get();
        self.call_backs.expired += tree.callbacks_expired.get();
    }

    /// Returns the counts of a procedure.
    pub(super) fn of(&self, opcode: u32) -> ProcedureCounts {
        let at = PROCEDURES.iter().position(|entry| entry.opcode == opcode);
        at.and_then(|at| self.procedures.get(at)).copied().unwrap_or_default()
    }

    /// Calls of all procedures.
    pub(super) fn calls(&self) -> u64 {
        self.procedures.iter().map(|of| of.calls).sum()
    }
}

impl std::fmt::Debug for Totals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Totals").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use afs_wire::rxafs::opcode;

    use super::*;

    #[test]
    fn what_lanes_have_counted_stays_when_they_end_and_trees_count_once() {
        let (totals, first, second) = (Totals::default(), Arc::default(), Arc::<VfsCounters>::default());
        let at = PROCEDURES.iter().position(|entry| entry.opcode == opcode::FETCH_STATUS).unwrap();
        let serve = |calls: usize, tree: &Arc<VfsCounters>| {
            let lane = totals.add(LaneCounts::default(), tree);
            (0..calls).for_each(|_| lane.calls.begin(at));
            lane.files.fetched_bytes.add(10);
            lane
        };
        let lanes = [serve(2, &first), serve(3, &second)];
        for tree in [&first, &second] {
            tree.callbacks_held.set(4);
            tree.callbacks_broken.add(5);
        }
        let found = |sum: &Sum| (sum.of(opcode::FETCH_STATUS).calls, sum.calls(), sum.fetched_bytes);
        let promises = |sum: &Sum| (sum.call_backs.given, sum.call_backs.broken);
        let sum = totals.sum();
        assert_eq!((found(&sum), promises(&sum)), ((5, 5, 20), (8, 10)));
        drop(lanes);
        // The first lane listens elsewhere, the second is gone with its tree.
        drop(second);
        let again = serve(1, &first);
        let sum = totals.sum();
        assert_eq!((found(&sum), promises(&sum)), ((6, 6, 30), (4, 10)));
        assert_eq!(totals.lock().serving.len(), 1);
        drop(again);
    }
}
