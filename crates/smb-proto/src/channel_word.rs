//! Detection of requests of an open that come too late (MS-SMB2 3.3.5.2.10): one atomic word per open, which
//! channels on different lanes use at once.
//!
//! ```text
//!  63       48 47         38 37            19 18             0
//! +-----------+-------------+----------------+----------------+
//! | sequence  | generation  | outstanding of | outstanding of |
//! | 16 bits   | 10 bits     | older ones     | this sequence  |
//! +-----------+-------------+----------------+----------------+
//! ```
//!
//! The generation counts how often the sequence has come round: with it a request that is answered after that is not taken for one of
//! this sequence. Before both have come round, which takes 2²⁶ lost channels, a client has given up what it waits for.

use std::sync::atomic::{AtomicU64, Ordering};

use smb_wire::Status;

const COUNT_BITS: u32 = 19;
const COUNT_MAX: u32 = (1 << COUNT_BITS) - 1;
const GENERATION_MASK: u16 = (1 << 10) - 1;
/// Distance that a sequence may be ahead before it counts as one of the past.
const AHEAD_MAX: u16 = 0x7fff;

/// The word of an open.
#[derive(Debug, Default)]
pub struct ChannelWord<A = AtomicU64>(A);

/// Storage of a word: the processor's, or that of a test which tries every order of what threads do.
pub trait Atomic {
    /// Loads the word ([`AtomicU64::load`]).
    fn load(&self, order: Ordering) -> u64;

    /// Replaces the word if it is `now` ([`AtomicU64::compare_exchange_weak`]).
    ///
    /// # Errors
    /// What is there instead.
    fn compare_exchange_weak(
        &self,
        now: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64>;
}

impl Atomic for AtomicU64 {
    fn load(&self, order: Ordering) -> u64 {
        self.load(order)
    }

    fn compare_exchange_weak(
        &self,
        now: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64> {
        self.compare_exchange_weak(now, new, success, failure)
    }
}

/// Ticket by which a request is counted until it is answered. Each goes back by [`ChannelWord::leave`], once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a request that is not given back is outstanding for ever"]
pub enum Ticket {
    /// The request is counted in a sequence and generation.
    Counted {
        /// The sequence.
        sequence: u16,
        /// Number of times that it had come round.
        generation: u16,
    },
    /// The request came late, but changes nothing: it goes on and is not counted.
    Uncounted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
struct State {
    sequence: u16,
    generation: u16,
    older: u32,
    current: u32,
}

impl State {
    fn of(word: u64) -> Self {
        Self {
            sequence: (word >> 48) as u16,
            generation: (word >> (2 * COUNT_BITS)) as u16 & GENERATION_MASK,
            older: (word >> COUNT_BITS) as u32 & COUNT_MAX,
            current: word as u32 & COUNT_MAX,
        }
    }

    fn word(self) -> u64 {
        debug_assert!(self.older <= COUNT_MAX && self.current <= COUNT_MAX);
        u64::from(self.sequence) << 48
            | u64::from(self.generation) << (2 * COUNT_BITS)
            | u64::from(self.older) << COUNT_BITS
            | u64::from(self.current)
    }

    fn move_on(mut self, sequence: u16) -> Self {
        self.older += self.current;
        self.current = 0;
        // It only ever goes forward, and so comes round where the number is not a greater one.
        if sequence <= self.sequence {
            self.generation = (self.generation + 1) & GENERATION_MASK;
        }
        self.sequence = sequence;
        self
    }

    fn count(mut self) -> (Self, Ticket) {
        self.current += 1;
        (self, Ticket::Counted { sequence: self.sequence, generation: self.generation })
    }

    fn enter(self, sequence: u16, replay: bool, modifies: bool) -> (Self, Result<Ticket, Status>) {
        if self.older + self.current == COUNT_MAX {
            return (self, Err(Status::INSUFFICIENT_RESOURCES));
        }
        let late = if modifies { Err(Status::FILE_NOT_AVAILABLE) } else { Ok(Ticket::Uncounted) };
        let ahead = sequence.wrapping_sub(self.sequence);
        //= MS-SMB2 3.3.5.2.10
        //# More than 0x7FFF ahead is of the past: what changes the file fails, the rest goes on.
        if ahead > AHEAD_MAX {
            return (self, late);
        }
        let state = if ahead == 0 { self } else { self.move_on(sequence) };
        //= MS-SMB2 3.3.5.2.10
        //# A replay has to wait until nothing of older sequences is outstanding.
        if replay && state.older > 0 {
            return (state, late);
        }
        let (state, ticket) = state.count();
        (state, Ok(ticket))
    }

    fn leave(mut self, sequence: u16, generation: u16) -> Self {
        debug_assert!(self.older + self.current > 0, "each ticket comes back once");
        let is_current = (sequence, generation) == (self.sequence, self.generation);
        // A client whose request waits over 2²⁶ sequences may have one count taken for the other. Nothing is left of either when all is
        // answered.
        if (is_current && self.current > 0) || self.older == 0 {
            self.current = self.current.saturating_sub(1);
        } else {
            self.older -= 1;
        }
        self
    }
}

impl ChannelWord {
    /// Creates the word of an open that was made by a request of this sequence.
    pub fn new(sequence: u16) -> Self {
        Self(AtomicU64::new(State { sequence, ..State::default() }.word()))
    }
}

impl<A: Atomic> ChannelWord<A> {
    /// Counts a request about the open that begins. `modifies` as [`Command::modifies`](smb_wire::Command::modifies)
    /// says.
    ///
    /// # Errors
    /// `STATUS_FILE_NOT_AVAILABLE` for what changes the file and comes too late, or is replayed too early;
    /// `STATUS_INSUFFICIENT_RESOURCES` beyond half a million outstanding, more than any window allows.
    pub fn enter(&self, sequence: u16, replay: bool, modifies: bool) -> Result<Ticket, Status> {
        self.change(|state| state.enter(sequence, replay, modifies))
    }

    /// Gives back the ticket of an answered request, whatever became of it.
    pub fn leave(&self, ticket: Ticket) {
        if let Ticket::Counted { sequence, generation } = ticket {
            self.change(|state| (state.leave(sequence, generation), ()));
        }
    }

    /// Returns whether a request of this sequence was overtaken by word that a channel was lost.
    pub fn is_past(&self, sequence: u16) -> bool {
        let state = State::of(self.0.load(Ordering::Acquire));
        sequence.wrapping_sub(state.sequence) > AHEAD_MAX
    }

    /// Gives the open to a session that did not have it before: its sequence begins wherever its client says.
    pub fn begin_anew(&self, sequence: u16) {
        self.change(|state| (state.move_on(sequence), ()));
    }

    /// Requests that are counted.
    pub fn outstanding(&self) -> u32 {
        let state = State::of(self.0.load(Ordering::Relaxed));
        state.older + state.current
    }

    fn change<T>(&self, change: impl Fn(State) -> (State, T)) -> T {
        let mut word = self.0.load(Ordering::Acquire);
        loop {
            let (state, answer) = change(State::of(word));
            // What a replay finds done must be seen by it: the answer before it released the word.
            match self.0.compare_exchange_weak(word, state.word(), Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return answer,
                Err(other) => word = other,
            }
        }
    }
}

#[cfg(test)]
mod tests;
