//! Share of a turn for strangers: answers to packets of no client's connection, and new connections for
//! unproved addresses. Beyond the share packets are dropped before anything is looked up, made or sent for
//! them. An honest client sends again.
//!
//! A turn is what comes in between two transmit passes. The busier a lane, the more comes in one turn, so a share for
//! each turn bounds the part of a lane's time that a flood takes from clients.

/// Counts of a turn's strangers and the answers to them.
#[derive(Debug)]
pub(super) struct Strangers {
    turn: u32,
    /// Number of strangers of this turn, and of the last one.
    came: u32,
    came_before: u32,
    answered: u32,
    /// Set if packets of proved clients came in this turn.
    has_clients: bool,
    /// Turns to go in which clients that had packets lately come first.
    beside: u32,
    /// Answers by a hash of the source: the turn of the last one, and the number in that turn.
    of_source: Box<[(u32, u32)]>,
}

impl Strangers {
    pub(super) fn new() -> Self {
        Self {
            turn: 0,
            came: 0,
            came_before: 0,
            answered: 0,
            has_clients: false,
            beside: 0,
            of_source: vec![(0, 0); SOURCES].into_boxed_slice(),
        }
    }

    /// Notes a packet of a proved client.
    #[inline]
    pub(super) fn note_client(&mut self) {
        self.has_clients = true;
    }

    /// Returns whether the stranger with this source hash is answered. Where more come than are answered, the first
    /// half of the share goes to those that come first. The rest goes evenly to all of a turn, so that none takes it
    /// all by coming in bursts. Beside clients one source has half of a share at most.
    pub(super) fn may_answer(&mut self, source: u64) -> bool {
        self.came += 1;
        let beside = self.has_clients || self.beside > 0;
        let share = if beside { SHARE_BESIDE_CLIENTS } else { SHARE_ALONE };
        if self.answered >= share {
            return false;
        }
        if self.came_before > share && self.answered >= share / 2 {
            let every = self.came_before.div_ceil(share / 2);
            if !self.came.wrapping_add(self.turn).is_multiple_of(every) {
                return false;
            }
        }
        let (turn, count) = &mut self.of_source[source as usize % SOURCES];
        if *turn != self.turn {
            (*turn, *count) = (self.turn, 0);
        }
        if *count >= if beside { share / 2 } else { share } {
            return false;
        }
        *count += 1;
        self.answered += 1;
        true
    }

    /// Ends the turn, once all was sent.
    pub(super) fn end_turn(&mut self) {
        if self.came == 0 && !self.has_clients {
            return;
        }
        self.turn = self.turn.wrapping_add(1);
        self.came_before = std::mem::take(&mut self.came);
        self.answered = 0;
        let quiet = !std::mem::take(&mut self.has_clients);
        self.beside = if quiet { self.beside.saturating_sub(1) } else { TURNS_BESIDE };
    }
}

//@ limit: packets of strangers
//@ section: Rx
//@ unit: answer or new connection
//@ connection: a call that begins
//@ address: beside clients half of the share
//@ all: lane: {} in a turn with packets of clients and the four after it, {SHARE_ALONE} in another
//@ empty: dropped before anything is looked up; clients send again, and a turn is longer by 8 answers at most
//@ counter: rx_refused{reason="strangers"}
//@ attack: rx-spoofed-flood
/// Strangers answered in a turn that brings packets of clients, and in the next ones.
const SHARE_BESIDE_CLIENTS: u32 = 8;
/// Number of turns after one with packets of clients in which the smaller share holds.
const TURNS_BESIDE: u32 = 4;
/// Strangers answered in any other turn: as many as a driver receives in one.
const SHARE_ALONE: u32 = 64;
/// Number of sources told apart.
const SOURCES: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(strangers: &mut Strangers, came: u64, client: bool) -> usize {
        if client {
            strangers.note_client();
        }
        let answered = (0..came).filter(|&source| strangers.may_answer(source)).count();
        strangers.end_turn();
        answered
    }

    #[test]
    fn strangers_have_few_answers_beside_clients_and_more_alone() {
        let mut strangers = Strangers::new();
        assert_eq!(answered(&mut strangers, 1_000, false), SHARE_ALONE as usize);
        assert_eq!(answered(&mut strangers, 1_000, true), SHARE_BESIDE_CLIENTS as usize);
        for _ in 0..TURNS_BESIDE {
            assert!(answered(&mut strangers, 1_000, false) <= SHARE_BESIDE_CLIENTS as usize);
        }
        assert!(answered(&mut strangers, 1_000, false) > SHARE_BESIDE_CLIENTS as usize);
    }

    #[test]
    fn beside_clients_one_source_has_half_of_a_share() {
        let mut strangers = Strangers::new();
        strangers.note_client();
        let count = (0..1_000).filter(|_| strangers.may_answer(7)).count();
        assert_eq!(count, SHARE_BESIDE_CLIENTS as usize / 2);
        assert!(strangers.may_answer(8));
    }

    #[test]
    fn the_last_of_every_turn_is_answered_now_and_then() {
        let mut strangers = Strangers::new();
        let mut last = 0;
        for _ in 0..1_000 {
            strangers.note_client();
            let others = (0..99).filter(|&source| strangers.may_answer(source)).count();
            assert!(others <= SHARE_BESIDE_CLIENTS as usize);
            last += u32::from(strangers.may_answer(200));
            strangers.end_turn();
        }
        assert!(last >= 5, "{last} of 1,000");
    }
}
