//! Schedules the CPU time that long replies take of a lane for reading, signing and sealing. A connection with a turn does one step;
//! turns go round by address ([`service::turns`]). When steps have cost enough, the lane's other tasks have a round before the next.

use std::cell::Cell;

use service::memory::Account;
use service::turns::{Turn, Turns};

/// The scheduler of a lane's CPU time for long replies.
#[derive(Default)]
pub(crate) struct CpuScheduler {
    turns: Turns,
    /// Cost of steps since others had their round.
    spent: Cell<usize>,
    /// The most that one has cost.
    #[cfg(test)]
    pub(crate) most: Cell<usize>,
}

/// A connection's turn at one step of a long reply. Dropped, the turn is over.
#[must_use = "it is over when this is dropped"]
pub(crate) struct CpuTurn<'a> {
    of: &'a CpuScheduler,
    turn: Turn<'a>,
}

impl CpuScheduler {
    /// Takes the next turn of the connection's address.
    pub(crate) async fn take(&self, account: &Account) -> CpuTurn<'_> {
        CpuTurn { of: self, turn: self.turns.take(account.last_round()).await }
    }
}

impl CpuTurn<'_> {
    /// Ends it after a step that cost as much as signing so many bytes does by SHA-256 or AES-CMAC.
    pub(crate) async fn end(self, cost: usize) {
        #[cfg(test)]
        self.of.most.update(|most| most.max(cost));
        let spent = self.of.spent.get() + cost;
        if spent < ROUND_COST {
            self.of.spent.set(spent);
            return;
        }
        self.of.spent.set(0);
        self.turn.end().await;
    }
}

//@ limit: a lane's time for long replies
//@ section: SMB
//@ unit: byte signed, or as much work
//@ connection: a step: 1 MiB read or 256 KiB signed
//@ address: its connections take turns, and so do addresses
//@ all: lane: {:b} before everything else has its round
//@ empty: the next step waits; others wait for a step
//@ counter: smb_long_steps
//@ attack: smb-unread
/// Cost of steps before others have their round: a quarter of a millisecond at a gigabyte a second. No step
/// costs more, but that AES-GCM takes a message whole.
pub(crate) const ROUND_COST: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use std::rc::Rc;
    use std::sync::Arc;

    use lane::backend::sim::{Config, World};
    use service::counters::ConnectionCounters;
    use service::memory::ReplyMemory;

    use super::*;

    /// Two hundred connections of one address with eight steps each, and a task of another client that is ready all the while: the
    /// most steps between two of its turns.
    fn most_steps_at_once(cost: usize) -> usize {
        const WAITING: usize = 200;
        const STEPS: usize = 8;
        let world = World::new(1, Config::clean());
        let host = world.host("10.0.0.1");
        world.block_on(&host, async move {
            let (turns, done) = (Rc::new(CpuScheduler::default()), Rc::new(Cell::new(0)));
            let (memory, counters) = (ReplyMemory::new(1), Arc::<ConnectionCounters>::default());
            for _ in 0..WAITING {
                let account = memory.account("10.0.0.2".parse().unwrap(), &counters);
                let (turns, done) = (Rc::clone(&turns), Rc::clone(&done));
                lane::spawn(async move {
                    for _ in 0..STEPS {
                        let turn = turns.take(&account).await;
                        done.set(done.get() + 1);
                        turn.end(cost).await;
                    }
                })
                .detach();
            }
            let (mut most, mut before) = (0, 0);
            while done.get() < WAITING * STEPS {
                lane::yield_now().await;
                most = most.max(done.get() - before);
                before = done.get();
            }
            most
        })
    }

    #[test]
    fn however_many_wait_others_of_the_lane_have_their_turn_after_each_long_step() {
        assert_eq!(most_steps_at_once(ROUND_COST), 1);
    }

    #[test]
    fn short_steps_go_together_and_no_more_of_them_than_a_long_one_costs() {
        assert!(most_steps_at_once(ROUND_COST / 16) <= 16);
    }
}
