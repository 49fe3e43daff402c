//! The word against a plain count of requests by sequences that never wrap: step by step, and in every order of what threads do.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU32;

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
    for sequence in [0, 7, 8, 0x8007] {
        let word = ChannelWord::new(7);
        let lost = word.enter(7, false, true).unwrap();
        word.begin_anew(sequence);
        assert_eq!(word.enter(sequence, true, true), LATE, "what was lost may still be under way");
        let first = word.enter(sequence, false, true).unwrap();
        assert_eq!(word.enter(sequence.wrapping_sub(1), false, true), LATE);
        word.leave(lost);
        word.leave(word.enter(sequence, true, true).unwrap());
        word.leave(first);
        assert_eq!(word.outstanding(), 0);
    }
}

/// A client goes on by one for each channel that it loses, or by more.
#[test]
fn an_answer_after_the_sequence_came_round_is_of_the_past() {
    for step in [1, 3, 0x40, 0x7fff] {
        let word = ChannelWord::new(0);
        let pending = word.enter(0, false, false).unwrap();
        for moved in 1..=0x2_0000_u32 {
            let sequence = (moved * step) as u16;
            let current = word.enter(sequence, false, true).unwrap();
            assert_eq!(word.enter(sequence, true, true), LATE, "what waits may be what it repeats");
            word.leave(current);
            if sequence == 0 {
                break;
            }
        }
        let current = word.enter(0, false, true).unwrap();
        word.leave(pending);
        assert_eq!(counts(&word), (0, 1), "steps of {step}");
        word.leave(word.enter(0, true, true).unwrap());
        word.leave(current);
        assert_eq!(counts(&word), (0, 0), "steps of {step}");
    }
}

#[test]
fn whatever_a_client_makes_of_a_sequence_nothing_is_left_when_all_is_answered() {
    let word = ChannelWord::new(0);
    let pending = [(); 3].map(|()| word.enter(0, false, false).unwrap());
    // By the longest steps that there are, until sequence and generation have both come round.
    let mut sequence = 0u16;
    for _ in 0..2 * (1 << 10) {
        for step in [0x7fff, 1] {
            sequence = sequence.wrapping_add(step);
            word.leave(word.enter(sequence, false, true).unwrap());
        }
    }
    assert_eq!(State::of(word.0.load(Ordering::Relaxed)), State { older: 3, ..State::default() });
    pending.into_iter().for_each(|ticket| word.leave(ticket));
    assert_eq!(counts(&word), (0, 0));
    word.leave(word.enter(0, true, true).unwrap());
}

fn counts<A: Atomic>(word: &ChannelWord<A>) -> (u32, u32) {
    let state = State::of(word.0.load(Ordering::Relaxed));
    (state.older, state.current)
}

/// Model of the word: sequences never wrap, and each has its count.
#[derive(Clone, Debug, Default)]
struct Model {
    now: u64,
    outstanding: BTreeMap<u64, u32>,
}

/// Fate of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Seen {
    Counted,
    Uncounted,
    Late,
}

impl Model {
    /// The request's sequence too, where it is counted.
    fn enter(&mut self, sequence: u16, replay: bool, modifies: bool) -> (Seen, u64) {
        let late = if modifies { Seen::Late } else { Seen::Uncounted };
        let ahead = sequence.wrapping_sub(self.now as u16);
        if ahead > 0x7fff {
            return (late, 0);
        }
        self.now += u64::from(ahead);
        if replay && self.older() > 0 {
            return (late, 0);
        }
        *self.outstanding.entry(self.now).or_default() += 1;
        (Seen::Counted, self.now)
    }

    fn leave(&mut self, of: u64) {
        let count = self.outstanding.get_mut(&of).expect("it was counted");
        *count -= 1;
        if *count == 0 {
            self.outstanding.remove(&of);
        }
    }

    fn begin_anew(&mut self, sequence: u16) {
        self.now += u64::from(sequence.wrapping_sub(self.now as u16).wrapping_sub(1)) + 1;
    }

    fn older(&self) -> u32 {
        self.outstanding.range(..self.now).map(|(_, count)| count).sum()
    }

    fn state(&self) -> State {
        State {
            sequence: self.now as u16,
            generation: (self.now >> 16) as u16 & GENERATION_MASK,
            older: self.older(),
            current: self.outstanding.get(&self.now).copied().unwrap_or(0),
        }
    }
}

fn seen(entered: Result<Ticket, Status>) -> (Seen, Option<Ticket>) {
    match entered {
        Ok(ticket @ Ticket::Counted { .. }) => (Seen::Counted, Some(ticket)),
        Ok(Ticket::Uncounted) => (Seen::Uncounted, None),
        Err(status) => {
            assert_eq!(status, Status::FILE_NOT_AVAILABLE);
            (Seen::Late, None)
        }
    }
}

/// By how much a request's sequence is ahead of the last one that there was, or behind it.
fn drift(manner: u64, rng: &mut StdRng) -> u16 {
    match manner {
        // As channels are lost one by one, and what was on its way comes late.
        0 => rng.random_range(0..3_u16).wrapping_sub(rng.random_range(0..3)),
        // Steps of any length, forward.
        1 => rng.random_range(0..=0x7fff),
        // Anything.
        2 => rng.random(),
        // Around the edge between what is ahead and what is past.
        _ => [0, 1, 2, 0x7ffe, 0x7fff, 0x8000, 0x8001, 0xfffe, 0xffff][rng.random_range(0..9)],
    }
}

/// Histories of one open, two million steps of them in all.
#[test]
fn any_history_is_that_of_a_plain_count() {
    // How often the sequence came round, and the generation, and a request came late by more than half of all sequences.
    let (mut rounds, mut generations, mut edges) = (0, 0, 0);
    for seed in 0..100 {
        let mut rng = StdRng::seed_from_u64(seed);
        let begun = rng.random();
        let word = ChannelWord::new(begun);
        let mut model = Model { now: u64::from(begun), ..Model::default() };
        let mut tickets: Vec<(Ticket, u64)> = Vec::new();
        for _ in 0..20_000 {
            let is_long_over = |&(_, of): &(Ticket, u64)| model.now - of > PENDING_MAX;
            let over = tickets.iter().position(is_long_over);
            if over.is_some() || (!tickets.is_empty() && rng.random_range(0..64) < 24 + tickets.len()) {
                let at = over.unwrap_or_else(|| rng.random_range(0..tickets.len()));
                let (ticket, of) = tickets.swap_remove(at);
                word.leave(ticket);
                model.leave(of);
            } else if rng.random_range(0..200) == 0 {
                let sequence = rng.random();
                word.begin_anew(sequence);
                model.begin_anew(sequence);
            } else {
                let drift = drift(seed % 4, &mut rng);
                let sequence = (model.now as u16).wrapping_add(drift);
                let (replay, modifies) = (rng.random(), rng.random());
                let (expected, of) = model.enter(sequence, replay, modifies);
                let (came, ticket) = seen(word.enter(sequence, replay, modifies));
                assert_eq!(came, expected, "seed {seed}: {drift:#x}, {replay}, {modifies}, {model:?}");
                tickets.extend(ticket.map(|ticket| (ticket, of)));
                edges += u32::from((0x8000..0x8002).contains(&drift));
            }
            assert_eq!(State::of(word.0.load(Ordering::Relaxed)), model.state(), "seed {seed}");
            assert_eq!(word.outstanding() as usize, tickets.len(), "seed {seed}");
        }
        rounds += model.now >> 16;
        generations += model.now >> 26;
    }
    assert!(rounds > 50_000 && generations > 50 && edges > 10_000, "{rounds} {generations} {edges}");
}

/// Operation of a script on a word.
#[derive(Clone, Copy, Debug)]
enum Op {
    /// Sequence, whether it is a replay, whether it modifies.
    Enter(u16, bool, bool),
    /// The oldest request of this script that was counted is answered.
    Leave,
    BeginAnew(u16),
}

/// Results of the scripts, and the word in the end.
type Outcome = (Vec<Vec<Seen>>, (u16, u32, u32));

/// Every outcome that there is where one operation comes after the other.
fn orders(scripts: &[&[Op]]) -> BTreeSet<Outcome> {
    fn go_on(
        model: &Model,
        scripts: &[&[Op]],
        held: &[Vec<u64>],
        seen: &[Vec<Seen>],
        all: &mut BTreeSet<Outcome>,
    ) {
        if scripts.iter().all(|script| script.is_empty()) {
            let state = model.state();
            all.insert((seen.to_vec(), (state.sequence, state.older, state.current)));
        }
        for at in 0..scripts.len() {
            let Some((op, rest)) = scripts[at].split_first() else { continue };
            let (mut model, mut held, mut seen) = (model.clone(), held.to_vec(), seen.to_vec());
            match *op {
                Op::Enter(sequence, replay, modifies) => {
                    let (came, of) = model.enter(sequence, replay, modifies);
                    seen[at].push(came);
                    held[at].extend((came == Seen::Counted).then_some(of));
                }
                Op::Leave if held[at].is_empty() => {}
                Op::Leave => model.leave(held[at].remove(0)),
                Op::BeginAnew(sequence) => model.begin_anew(sequence),
            }
            let mut scripts = scripts.to_vec();
            scripts[at] = rest;
            go_on(&model, &scripts, &held, &seen, all);
        }
    }
    let (nothing, none) = (vec![Vec::new(); scripts.len()], vec![Vec::new(); scripts.len()]);
    let mut all = BTreeSet::new();
    go_on(&Model::default(), scripts, &nothing, &none, &mut all);
    all
}

fn play<A: Atomic>(word: &ChannelWord<A>, script: &[Op]) -> Vec<Seen> {
    let (mut held, mut all) = (Vec::new(), Vec::new());
    for op in script {
        match *op {
            Op::Enter(sequence, replay, modifies) => {
                let (came, ticket) = seen(word.enter(sequence, replay, modifies));
                all.push(came);
                held.extend(ticket);
            }
            Op::Leave if held.is_empty() => {}
            Op::Leave => word.leave(held.remove(0)),
            Op::BeginAnew(sequence) => word.begin_anew(sequence),
        }
    }
    all
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

/// Two channels, each of which does what its script says: in every order of up to three interruptions they see, and leave, what they
/// would one operation after the other in some order.
#[test]
fn in_every_order_channels_see_what_a_plain_count_would_have_them_see() {
    use Op::{BeginAnew, Enter, Leave};
    const WRITE: Op = Enter(0, false, true);
    const SCRIPTS: [[&[Op]; 2]; 5] = [
        // A write, and its replay by another channel.
        [&[WRITE, Leave], &[Enter(1, true, true), Leave]],
        // What is of the past already, and what waits over it.
        [&[WRITE, Enter(0, false, false), Leave], &[Enter(2, false, true), Leave, Enter(1, false, true)]],
        // As far ahead as can be, and half way round from there.
        [&[Enter(0x7fff, false, true), Leave], &[Enter(0xfffe, false, true), Enter(0, false, false), Leave]],
        // Another session takes the open over.
        [&[WRITE, Leave, WRITE], &[BeginAnew(0), Enter(0, true, true), Leave]],
        // Two channels lost at once.
        [&[Enter(1, true, true), Leave, Enter(2, false, true)], &[WRITE, Enter(2, true, false), Leave]],
    ];
    for scripts in SCRIPTS {
        let expected = std::sync::Arc::new(orders(&scripts));
        assert!(expected.len() > 1, "the order matters: {scripts:?}");
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(move || {
            let word = tried();
            let other = {
                let word = loom::sync::Arc::clone(&word);
                loom::thread::spawn(move || play(&word, scripts[1]))
            };
            let one = play(&word, scripts[0]);
            let other = other.join().unwrap();
            let state = State::of(word.0.load(Ordering::Relaxed));
            let came = (vec![one, other], (state.sequence, state.older, state.current));
            assert!(expected.contains(&came), "{came:?} is none of {expected:?}");
        });
    }
}

/// The file is a cell that loom lets no thread touch at once with another, or without having seen the touch
/// before.
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

/// Channels of four threads at once. A request stands at the file from its admission to its answer: no replay is admitted while one of
/// an older sequence stands there, no older one while a replay does, and all that is counted is given back.
#[test]
fn no_thread_passes_the_barrier_and_none_leaves_anything_behind() {
    let word = ChannelWord::new(0);
    let at_the_file: Vec<AtomicU32> = (0..SEQUENCES).map(|_| AtomicU32::new(0)).collect();
    let (admitted, refused) = (AtomicU32::new(0), AtomicU32::new(0));
    let older = |sequence: u16| -> u32 {
        at_the_file[..usize::from(sequence)].iter().map(|count| count.load(Ordering::Acquire)).sum()
    };
    let answer = |(ticket, sequence): (Ticket, u16)| {
        at_the_file[usize::from(sequence)].fetch_sub(1, Ordering::AcqRel);
        word.leave(ticket);
    };
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let (word, at_the_file, admitted, refused) = (&word, &at_the_file, &admitted, &refused);
            scope.spawn(move || {
                let mut rng = StdRng::seed_from_u64(seed);
                let mut tickets: Vec<(Ticket, u16)> = Vec::new();
                for at in 0..20_000u32 {
                    let (sequence, replay) = ((at / 100) as u16, rng.random_bool(0.2));
                    match word.enter(sequence, replay, true) {
                        Ok(ticket @ Ticket::Counted { .. }) => {
                            at_the_file[usize::from(sequence)].fetch_add(1, Ordering::AcqRel);
                            tickets.push((ticket, sequence));
                            if replay {
                                assert_eq!(
                                    older(sequence),
                                    0,
                                    "a replay of {sequence} stands beside older ones"
                                );
                                admitted.fetch_add(1, Ordering::Relaxed);
                            }
                        }
                        _ => {
                            refused.fetch_add(u32::from(replay), Ordering::Relaxed);
                        }
                    }
                    let most = if at % 100 < 50 { 8 } else { 1 };
                    while tickets.len() > most || (!tickets.is_empty() && rng.random_bool(0.3)) {
                        answer(tickets.swap_remove(rng.random_range(0..tickets.len())));
                    }
                }
                tickets.into_iter().for_each(answer);
            });
        }
    });
    assert_eq!(word.outstanding(), 0);
    let (admitted, refused) = (admitted.into_inner(), refused.into_inner());
    assert!(admitted > 100 && refused > 100, "{admitted} replays were admitted, {refused} not");
}

/// Sequences that the threads of a test go through.
const SEQUENCES: usize = 200;
/// No history has a request wait for longer: the word takes what is 2²⁶ sequences old for what is new.
const PENDING_MAX: u64 = 1 << 25;
