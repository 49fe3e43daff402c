//! Connections that have something to send, in the order of their turns.
//!
//! Those of higher priority go first. So that none waits for ever, a connection behind them has a burst after
//! every few of theirs. As long as all have the same priority, which is nearly always, there is one list and
//! nothing to choose.

use std::collections::{HashMap, VecDeque};

use crate::config::Priority;

/// Connections to look at in the next transmit pass, each at most once.
#[derive(Debug, Default)]
pub(crate) struct Ready {
    normal: VecDeque<u32>,
    high: VecDeque<u32>,
    low: VecDeque<u32>,
    /// Priorities of the connections that have another than the normal one.
    priorities: HashMap<u32, Priority>,
    /// Priority of the connection whose turn it is.
    turn: Priority,
    /// Packets that have gone ahead of a waiting connection since its last burst.
    ahead: u32,
    /// Packets of the present burst.
    burst: u32,
    /// Set if the last burst of a waiting connection was of low priority.
    low_had: bool,
}

impl Ready {
    /// Adds a connection at the end of those of its priority.
    pub(crate) fn push(&mut self, index: u32) {
        // As a rule no connection has another.
        let priority = if self.priorities.is_empty() { Priority::Normal } else { self.priority(index) };
        self.list(priority).push_back(index);
    }

    pub(crate) fn extend(&mut self, indexes: impl IntoIterator<Item = u32>) {
        indexes.into_iter().for_each(|index| self.push(index));
    }

    /// Sets the priority of a connection, and moves it in the list.
    pub(crate) fn set_priority(&mut self, index: u32, priority: Priority) {
        let lists = [&self.high, &self.normal, &self.low];
        let waits = lists.iter().any(|list| list.contains(&index));
        match priority {
            Priority::Normal => self.priorities.remove(&index),
            other => self.priorities.insert(index, other),
        };
        if waits {
            self.take_out(index);
            self.push(index);
        }
    }

    /// Removes a connection that is gone.
    pub(crate) fn forget(&mut self, index: u32, is_queued: bool) {
        self.priorities.remove(&index);
        if is_queued {
            self.take_out(index);
        }
    }

    /// Returns the connection whose turn it is.
    #[inline]
    pub(crate) fn front(&mut self) -> Option<u32> {
        if self.high.is_empty() && self.low.is_empty() {
            self.turn = Priority::Normal;
            return self.normal.front().copied();
        }
        self.choose();
        let turn = self.turn;
        self.list(turn).front().copied()
    }

    /// Ends the turn of [`front`](Self::front).
    pub(crate) fn pop(&mut self) {
        let turn = self.turn;
        self.list(turn).pop_front();
    }

    /// Counts a packet of [`front`](Self::front) that leaves.
    #[inline]
    pub(crate) fn sent(&mut self) {
        if !self.high.is_empty() || !self.low.is_empty() {
            self.count();
        }
    }

    fn priority(&self, index: u32) -> Priority {
        self.priorities.get(&index).copied().unwrap_or_default()
    }

    fn take_out(&mut self, index: u32) {
        for list in [&mut self.normal, &mut self.high, &mut self.low] {
            list.retain(|&queued| queued != index);
        }
    }

    fn list(&mut self, priority: Priority) -> &mut VecDeque<u32> {
        match priority {
            Priority::Normal => &mut self.normal,
            Priority::High => &mut self.high,
            Priority::Low => &mut self.low,
        }
    }

    /// Chooses the first list that has any connection, or a later one whose connections have waited for long.
    fn choose(&mut self) {
        let [high, normal, low] = [&self.high, &self.normal, &self.low].map(|list| !list.is_empty());
        self.turn = if high {
            Priority::High
        } else if normal {
            Priority::Normal
        } else {
            Priority::Low
        };
        if self.ahead < AHEAD_MAX {
            return;
        }
        match (high && normal, (high || normal) && low) {
            (true, true) => self.turn = if self.low_had { Priority::Normal } else { Priority::Low },
            (true, false) => self.turn = Priority::Normal,
            (false, true) => self.turn = Priority::Low,
            (false, false) => self.ahead = 0,
        }
    }

    fn count(&mut self) {
        let waits = match self.turn {
            Priority::High => !self.normal.is_empty() || !self.low.is_empty(),
            Priority::Normal => !self.low.is_empty(),
            Priority::Low => false,
        };
        if self.ahead < AHEAD_MAX {
            self.ahead = if waits { self.ahead + 1 } else { 0 };
            return;
        }
        self.burst += 1;
        if self.burst >= BURST {
            (self.ahead, self.burst) = (0, 0);
            self.low_had = self.turn == Priority::Low;
        }
    }
}

//@ limit: packets of connections with less priority
//@ section: Rx
//@ unit: packet
//@ all: lane: a burst of {BURST} for every {} that go before
//@ empty: they wait that long
//@ counter: none
//@ attack: none, no client sets a priority
//@ reach: server
/// Packets that may go ahead of a waiting connection.
const AHEAD_MAX: u32 = 512;
/// Packets that a waiting connection may send in one burst.
const BURST: u32 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the shares of `packets` that connections of `priorities` get, all with more to send than they
    /// may.
    fn shares(priorities: &[Priority], packets: u32) -> Vec<u32> {
        let mut ready = Ready::default();
        let mut sent = vec![0; priorities.len()];
        for (index, &priority) in priorities.iter().enumerate() {
            ready.set_priority(index as u32, priority);
            ready.push(index as u32);
        }
        for packet in 0..packets {
            let index = ready.front().expect("all have something to send");
            sent[index as usize] += 1;
            ready.sent();
            if packet % 10 == 9 {
                ready.pop();
                ready.push(index);
            }
        }
        sent
    }

    #[test]
    fn same_priority_takes_turns() {
        for priority in [Priority::High, Priority::Normal, Priority::Low] {
            assert_eq!(shares(&[priority; 4], 4000), [1000; 4], "{priority:?}");
        }
    }

    #[test]
    fn who_has_less_priority_gets_a_ninth_and_never_nothing() {
        let (high, normal, low) = (Priority::High, Priority::Normal, Priority::Low);
        assert_eq!(shares(&[high, low], 576 * 100), [51_200, 6_400]);
        assert_eq!(shares(&[high, normal], 576 * 100), [51_200, 6_400]);
        assert_eq!(shares(&[low, normal], 576 * 100), [6_400, 51_200]);
        assert_eq!(shares(&[low, normal, high], 576 * 100), [3_200, 3_200, 51_200]);
    }

    #[test]
    fn few_packets_of_high_priority_go_before_all_others() {
        let mut ready = Ready::default();
        ready.set_priority(1, Priority::Low);
        ready.set_priority(3, Priority::High);
        ready.extend([1, 2]);
        assert_eq!(ready.front(), Some(2));
        ready.sent();
        ready.extend([3]);
        assert_eq!(ready.front(), Some(3), "in the middle of the other's turn");
        ready.sent();
        ready.pop();
        assert_eq!(ready.front(), Some(2));
        ready.pop();
        assert_eq!(ready.front(), Some(1));
        ready.forget(1, true);
        assert_eq!(ready.front(), None);
        ready.extend([1, 2]);
        assert_eq!(ready.front(), Some(1), "who has its place now has no priority of its own");
        ready.set_priority(1, Priority::Low);
        assert_eq!(ready.front(), Some(2), "it goes where it belongs at once");
    }
}
