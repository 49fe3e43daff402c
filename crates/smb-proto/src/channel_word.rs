//! Which of an open's requests come too late (MS-SMB2 3.3.5.2.10): one atomic word per open, which channels on different
//! lanes use at once.
//!
//! ```text
//!  63       48 47         38 37            19 18             0
//! +-----------+-------------+----------------+----------------+
//! | sequence  | generation  | outstanding of | outstanding of |
//! | 16 bits   | 10 bits     | older ones     | this sequence  |
//! +-----------+-------------+----------------+----------------+
//! ```
//!
//! The generation counts how often the sequence moved on, so that an answer that comes after the sequence has come round
//! is not taken for one of this sequence.

use std::sync::atomic::{AtomicU64, Ordering};

use smb_wire::Status;

const COUNT_BITS: u32 = 19;
const COUNT_MAX: u32 = (1 << COUNT_BITS) - 1;
const GENERATION_MASK: u16 = (1 << 10) - 1;
/// How far ahead a sequence may be before it counts as one of the past.
const AHEAD_MAX: u16 = 0x7fff;

/// The word of an open.
#[derive(Debug, Default)]
pub struct ChannelWord<A = AtomicU64>(A);

/// What a word is kept in: the processor's, or that of a test which tries every order of what threads do.
pub trait Atomic {
    /// As [`AtomicU64::load`].
    fn load(&self, order: Ordering) -> u64;

    /// As [`AtomicU64::compare_exchange_weak`].
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

/// What a request is counted by until it is answered. Each goes back by [`ChannelWord::leave`], once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a request that is not given back is outstanding for ever"]
pub enum Ticket {
    /// Of a sequence and generation.
    Counted {
        /// The sequence.
        sequence: u16,
        /// How often it had moved on.
        generation: u16,
    },
    /// It came late, but changes nothing: it goes on and is not counted.
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
        self.sequence = sequence;
        self.generation = (self.generation + 1) & GENERATION_MASK;
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
        let count = if (sequence, generation) == (self.sequence, self.generation) {
            &mut self.current
        } else {
            &mut self.older
        };
        debug_assert!(*count > 0, "each ticket comes back once");
        *count = count.saturating_sub(1);
        self
    }
}

impl ChannelWord {
    /// Of an open that was made by a request of this sequence.
    pub fn new(sequence: u16) -> Self {
        Self(AtomicU64::new(State { sequence, ..State::default() }.word()))
    }
}

impl<A: Atomic> ChannelWord<A> {
    /// A request about the open begins. `modifies` as [`Command::modifies`](smb_wire::Command::modifies) says.
    ///
    /// # Errors
    /// `STATUS_FILE_NOT_AVAILABLE` for what changes the file and comes too late, or is replayed too early;
    /// `STATUS_INSUFFICIENT_RESOURCES` beyond half a million outstanding, more than any window allows.
    pub fn enter(&self, sequence: u16, replay: bool, modifies: bool) -> Result<Ticket, Status> {
        self.change(|state| state.enter(sequence, replay, modifies))
    }

    /// The request is answered, whatever became of it.
    pub fn leave(&self, ticket: Ticket) {
        if let Ticket::Counted { sequence, generation } = ticket {
            self.change(|state| (state.leave(sequence, generation), ()));
        }
    }

    /// Whether a request of this sequence was overtaken by word that a channel was lost.
    pub fn is_past(&self, sequence: u16) -> bool {
        let state = State::of(self.0.load(Ordering::Acquire));
        sequence.wrapping_sub(state.sequence) > AHEAD_MAX
    }

    /// A session that was not the open's before has it from now on: its sequence begins wherever its client says.
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
mod tests {
    use std::collections::BTreeMap;

    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    const LATE: Result<Ticket, Status> = Err(Status::FILE_NOT_AVAILABLE);

    #[test]
    fn writes_of_the_past_fail_and_reads_go_on() {
        let word = ChannelWord::new(5);
        let old = word.enter(5, false, true).unwrap();
        let new = word.enter(6, false, true).unwrap();
        assert_eq!(word.enter(5, false, true), LATE);
        assert_eq!(word.enter(5, false, false), Ok(Ticket::Uncounted));
        assert_eq!(word.enter(6 + 0x8000, false, true), LATE);
        assert_eq!(word.outstanding(), 2);
        word.leave(old);
        word.leave(new);
        word.leave(Ticket::Uncounted);
        assert_eq!(word.outstanding(), 0);
        word.leave(word.enter(6 + 0x7fff, false, true).unwrap());
    }

    #[test]
    fn a_replay_waits_for_what_it_repeats() {
        let word = ChannelWord::new(0);
        let first = word.enter(0, false, true).unwrap();
        assert_eq!(word.enter(1, true, true), LATE, "the first may still be under way");
        assert_eq!(word.enter(1, true, false), Ok(Ticket::Uncounted));
        word.leave(first);
        let again = word.enter(1, true, true).unwrap();
        word.leave(again);
        assert_eq!(word.outstanding(), 0);
    }

    #[test]
    fn another_session_begins_where_it_likes_and_what_was_outstanding_is_of_the_past() {
        let word = ChannelWord::new(7);
        let lost = word.enter(7, false, true).unwrap();
        word.begin_anew(0);
        let first = word.enter(0, false, true).unwrap();
        assert_eq!(word.enter(7 + 0x8000, false, true), LATE);
        word.leave(lost);
        word.leave(first);
        assert_eq!(word.outstanding(), 0);
    }

    #[test]
    fn an_answer_after_the_sequence_came_round_is_of_the_past() {
        let word = ChannelWord::new(0);
        let pending = word.enter(0, false, false).unwrap();
        for sequence in [0x7fff, 0xfffe, 0] {
            word.leave(word.enter(sequence, false, true).unwrap());
        }
        assert_eq!(State::of(word.0.load(Ordering::Relaxed)).older, 1);
        let current = word.enter(0, false, true).unwrap();
        word.leave(pending);
        let state = State::of(word.0.load(Ordering::Relaxed));
        assert_eq!((state.older, state.current), (0, 1));
        word.leave(current);
    }

    /// Against counts by sequence that never wrap: histories of one open, three million steps of them in all.
    #[test]
    fn any_history_is_that_of_a_plain_count() {
        for seed in 0..1000 {
            let mut rng = StdRng::seed_from_u64(seed);
            let word = ChannelWord::new(0);
            let mut now = 0u64;
            let mut outstanding: BTreeMap<u64, u32> = BTreeMap::new();
            let mut tickets = Vec::new();
            for _ in 0..3000 {
                if !tickets.is_empty() && rng.random_range(0..64) < 24 + tickets.len() {
                    let (ticket, of) = tickets.swap_remove(rng.random_range(0..tickets.len()));
                    word.leave(ticket);
                    let count = outstanding.get_mut(&of).unwrap();
                    *count -= 1;
                    if *count == 0 {
                        outstanding.remove(&of);
                    }
                    continue;
                }
                let of = (now + 3).saturating_sub(rng.random_range(0..6));
                let (replay, modifies) = (rng.random(), rng.random());
                let late = of < now || replay && outstanding.range(..now.max(of)).next().is_some();
                now = now.max(of);
                match word.enter(of as u16, replay, modifies) {
                    Ok(ticket @ Ticket::Counted { .. }) => {
                        assert!(!late, "seed {seed}");
                        *outstanding.entry(of).or_default() += 1;
                        tickets.push((ticket, of));
                    }
                    Ok(Ticket::Uncounted) => assert!(late && !modifies, "seed {seed}"),
                    Err(status) => {
                        assert!(late && modifies && status == Status::FILE_NOT_AVAILABLE, "seed {seed}")
                    }
                }
                assert_eq!(word.outstanding() as usize, tickets.len(), "seed {seed}");
            }
        }
    }

    /// Loom's, for every order in which threads may run and see each other's memory.
    type Tried = ChannelWord<loom::sync::atomic::AtomicU64>;

    impl Atomic for loom::sync::atomic::AtomicU64 {
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

    fn tried() -> loom::sync::Arc<Tried> {
        loom::sync::Arc::new(ChannelWord(loom::sync::atomic::AtomicU64::new(0)))
    }

    /// The file is a cell that loom lets nobody touch beside, or without having seen, who touched it before.
    #[test]
    fn in_every_order_a_write_and_its_replay_are_never_at_the_file_at_once() {
        loom::model(|| {
            let word = tried();
            let file = loom::sync::Arc::new(loom::cell::UnsafeCell::new(()));
            let write = |sequence: u16, replay: bool| {
                let (word, file) = (loom::sync::Arc::clone(&word), loom::sync::Arc::clone(&file));
                loom::thread::spawn(move || {
                    let entered = word.enter(sequence, replay, true);
                    entered.map(|ticket| {
                        file.with_mut(|_| ());
                        word.leave(ticket);
                    })
                })
            };
            let (first, again) = (write(0, false), write(1, true));
            let (first, again) = (first.join().unwrap(), again.join().unwrap());
            assert!(first.is_ok() || again.is_ok(), "one of them is always written");
            assert_eq!(word.outstanding(), 0);
        });
    }

    /// In every order of up to three interruptions.
    #[test]
    fn in_every_order_what_channels_count_is_given_back() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let word = tried();
            let channel = |sequence: u16| {
                let word = loom::sync::Arc::clone(&word);
                loom::thread::spawn(move || {
                    let changing = word.enter(sequence, false, true);
                    changing.into_iter().for_each(|ticket| word.leave(ticket));
                })
            };
            let other = channel(1);
            word.begin_anew(3);
            let pending = word.enter(3, false, false).expect("it changes nothing");
            word.leave(pending);
            other.join().unwrap();
            assert_eq!(word.outstanding(), 0);
            assert_eq!(word.enter(2, false, true), LATE, "it never goes back");
        });
    }

    /// Channels of four threads at once: all that is counted is given back, and no write passes the barrier while an
    /// older one is under way and a replay asks.
    #[test]
    fn threads_leave_nothing_behind() {
        let word = ChannelWord::new(0);
        std::thread::scope(|scope| {
            for seed in 0..4 {
                let word = &word;
                scope.spawn(move || {
                    let mut rng = StdRng::seed_from_u64(seed);
                    let mut tickets = Vec::new();
                    for at in 0..20_000u32 {
                        let sequence = (at / 100) as u16;
                        tickets.extend(word.enter(sequence, rng.random_bool(0.1), rng.random()).ok());
                        if tickets.len() > 16 || rng.random_bool(0.4) {
                            let at = rng.random_range(0..tickets.len().max(1));
                            (at < tickets.len()).then(|| word.leave(tickets.swap_remove(at)));
                        }
                    }
                    tickets.into_iter().for_each(|ticket| word.leave(ticket));
                });
            }
        });
        assert_eq!(word.outstanding(), 0);
    }
}
