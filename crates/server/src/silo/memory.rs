//! Figures of the nodes where the memory of the lanes lies. On each request for them a thread beside the
//! lanes looks at a few pages of some lanes of each silo, for the next request. Without requests nothing is
//! looked at. On a machine with one node there is no such thread.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use lane::memory::{LaneMemory, Sample, Samples, Unsampled};
use lane::runtime::LaneInfo;
use lane::topology::Topology;

use crate::metrics::Blocks;

/// Thread that looks at the lanes' memory; it ends with this.
pub(crate) struct MemoryWatch {
    orders: SyncSender<Order>,
    thread: Option<JoinHandle<()>>,
}

/// Sender of requests to the looking thread; by default there is none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Look(Option<SyncSender<Order>>);

#[derive(Debug)]
enum Order {
    Look,
    Stop,
}

impl Look {
    /// Requests a look at the lanes' memory within a second or so, unless one is under way.
    pub(crate) fn ask(&self) {
        if let Some(orders) = &self.0 {
            // Full: one is asked for already.
            let _ = orders.try_send(Order::Look);
        }
    }
}

lane::counter_block! {
    /// Pages of one lane's memory that were looked up, by whether they lie on the lane's node. Each look
    /// counts a page again: the figures are shares, not sizes.
    struct MemoryCounters {
        count pool_local as pool_pages [placement = "local"]: "Pages of buffer pools looked up, by where they lie.",
        count pool_remote as pool_pages [placement = "remote"]: "Pages of buffer pools looked up, by where they lie.",
        count state_local as state_pages [placement = "local"]: "Pages with the state of connections looked up, by where they lie.",
        count state_remote as state_pages [placement = "remote"]: "Pages with the state of connections looked up, by where they lie.",
        count file_local as file_pages [placement = "local"]: "Pages of served files looked up, by where they lie.",
        count file_remote as file_pages [placement = "remote"]: "Pages of served files looked up, by where they lie.",
        count file_absent as file_pages [placement = "absent"]: "Pages of served files looked up, by where they lie.",
        count looks: "Times the lane's memory was looked at.",
        count unknown_refused as unknown [reason = "refused"]: "Looks that told nothing.",
        count unknown_file_system as unknown [reason = "file_system"]: "Looks that told nothing.",
        count unknown_failed as unknown [reason = "failed"]: "Looks that told nothing.",
    }
}

impl MemoryWatch {
    /// Adds counters for every lane, and starts the looking thread on machines of more than one node.
    pub(crate) fn start(
        topology: &Topology,
        lanes: &[LaneInfo],
        blocks: &Blocks,
    ) -> io::Result<Option<Self>> {
        let mut rounds = Rounds::default();
        for lane in lanes {
            let counters = Arc::new(MemoryCounters::default());
            blocks.add("memory", lane.id.0, lane.silo.0, Arc::clone(&counters) as _);
            let Some(node) = lane.node else { continue };
            let watched = Watched { memory: Arc::clone(&lane.memory), node, counters };
            rounds.silo(lane.silo.0.into()).push(watched);
        }
        if topology.nodes.iter().filter(|node| node.memory_bytes > 0).count() < 2 {
            return Ok(None);
        }
        Self::spawn(rounds, LOOK_AFTER).map(Some)
    }

    fn spawn(mut rounds: Rounds, look_after: Duration) -> io::Result<Self> {
        let (orders, ordered) = sync_channel(1);
        let thread = std::thread::Builder::new().name("memory".to_owned()).spawn(move || {
            while let Ok(Order::Look) = ordered.recv() {
                rounds.ask();
                if is_stopped_within(&ordered, look_after) {
                    return;
                }
                rounds.look();
            }
        })?;
        Ok(Self { orders, thread: Some(thread) })
    }

    /// Returns a sender of requests for looks.
    pub(crate) fn asker(&self) -> Look {
        Look(Some(self.orders.clone()))
    }
}

impl Drop for MemoryWatch {
    fn drop(&mut self) {
        // It fails where the thread has ended.
        let _ = self.orders.send(Order::Stop);
        if let Some(thread) = self.thread.take() {
            // It panics only by a defect, which standard error tells.
            let _ = thread.join();
        }
    }
}

/// Waits for `time` or the end. A request for a look meanwhile gets the one that follows.
fn is_stopped_within(ordered: &Receiver<Order>, time: Duration) -> bool {
    let until = Instant::now() + time;
    loop {
        match ordered.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(Order::Look) => {}
            Ok(Order::Stop) | Err(RecvTimeoutError::Disconnected) => return true,
            Err(RecvTimeoutError::Timeout) => return false,
        }
    }
}

/// Order in which lanes are looked at: some of each silo, so that the cost does not grow with their number.
#[derive(Default)]
struct Rounds {
    silos: Vec<Vec<Watched>>,
    number: usize,
    warned: bool,
}

struct Watched {
    memory: Arc<LaneMemory>,
    node: u32,
    counters: Arc<MemoryCounters>,
}

impl Rounds {
    fn silo(&mut self, silo: usize) -> &mut Vec<Watched> {
        if self.silos.len() <= silo {
            self.silos.resize_with(silo + 1, Vec::new);
        }
        &mut self.silos[silo]
    }

    /// Returns the lanes whose turn it is.
    fn turn(&self) -> impl Iterator<Item = &Watched> {
        let number = self.number;
        self.silos.iter().flat_map(move |lanes| {
            let count = lanes.len().min(LANES_PER_SILO);
            (0..count).map(move |n| &lanes[(number * count + n) % lanes.len()])
        })
    }

    fn ask(&self) {
        self.turn().for_each(|lane| lane.memory.ask());
    }

    fn look(&mut self) {
        let refusals: Vec<Unsampled> = self.turn().filter_map(|lane| lane.look(self.number as u64)).collect();
        if let Some(refusal) = refusals.first().filter(|_| !self.warned) {
            //@ cause: The kernel or the container does not allow the system call move_pages, which says on which NUMA node memory is.
            //@ remedy: Allow move_pages in the container's seccomp profile if you want these figures. Serving does not need them.
            tracing::warn!(
                "memory: {refusal}; all is served, but metrics and `linerate stat` cannot tell local from remote memory [memory-unknown]"
            );
            self.warned = true;
        }
        self.number += 1;
    }
}

impl Watched {
    /// Counts the sampled pages. Returns a refusal that all lanes would meet.
    fn look(&self, round: u64) -> Option<Unsampled> {
        let counters = &*self.counters;
        counters.looks.increment();
        let Samples { pools, tasks, files } = self.memory.sample(self.node, round);
        let mut refused = None;
        let mut known = |sample: Result<Sample, Unsampled>| match sample {
            Ok(sample) => sample,
            Err(unknown) => {
                match unknown {
                    Unsampled::Refused(_) => counters.unknown_refused.increment(),
                    Unsampled::FileSystem => counters.unknown_file_system.increment(),
                    Unsampled::Failed(_) => counters.unknown_failed.increment(),
                }
                if let Unsampled::Refused(_) = unknown {
                    refused = Some(unknown);
                }
                Sample::default()
            }
        };
        let pools = known(pools);
        counters.pool_local.add(pools.local);
        counters.pool_remote.add(pools.remote);
        let tasks = known(tasks);
        counters.state_local.add(tasks.local);
        counters.state_remote.add(tasks.remote);
        for file in files.into_iter().map(known) {
            counters.file_local.add(file.local);
            counters.file_remote.add(file.remote);
            counters.file_absent.add(file.absent);
        }
        refused
    }
}

/// Time between asking lanes and looking at the pages they named. Descriptors that they lend live as long.
const LOOK_AFTER: Duration = Duration::from_secs(1);
/// Lanes of each silo in a round: some 600 pages, 64 of them of files.
const LANES_PER_SILO: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn watched() -> Watched {
        Watched { memory: Arc::default(), node: 0, counters: Arc::default() }
    }

    #[test]
    fn every_lane_has_its_turn_and_no_round_has_more_than_a_few_of_a_silo() {
        let mut rounds = Rounds::default();
        for (silo, lanes) in [(0, 13), (1, 1), (3, 4)] {
            (0..lanes).for_each(|_| rounds.silo(silo).push(watched()));
        }
        for _ in 0..13 {
            assert_eq!(rounds.turn().count(), LANES_PER_SILO + 1 + 4);
            rounds.look();
        }
        assert!(rounds.silos.iter().flatten().all(|lane| lane.counters.looks.get() > 0));
    }

    #[test]
    fn lanes_are_looked_at_when_somebody_asks_and_never_else() {
        let memory: Vec<Arc<LaneMemory>> = (0..2).map(|_| Arc::default()).collect();
        let counters: Vec<Arc<MemoryCounters>> = (0..2).map(|_| Arc::default()).collect();
        let mut rounds = Rounds::default();
        for (silo, (memory, counters)) in memory.iter().zip(&counters).enumerate() {
            let (memory, counters) = (Arc::clone(memory), Arc::clone(counters));
            rounds.silo(silo).push(Watched { memory, node: 0, counters });
        }
        let watch = MemoryWatch::spawn(rounds, Duration::from_millis(1)).unwrap();
        let looks = || counters.iter().map(|counters| counters.looks.get()).sum::<u64>();
        let asker = watch.asker();
        asker.ask();
        while looks() < 2 {
            std::thread::yield_now();
        }
        // The thread waits for the next question; the lanes are asked nothing meanwhile.
        let looked = looks();
        drop(watch);
        assert_eq!(looks(), looked);
        asker.ask();
        Look::default().ask();
    }

    #[test]
    fn one_node_is_not_watched() {
        let topology = Topology::default();
        let blocks = Blocks::default();
        assert!(MemoryWatch::start(&topology, &[], &blocks).unwrap().is_none());
        assert!(blocks.samples().is_empty());
    }
}
