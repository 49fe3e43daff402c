//! Virtual time: the clock, the events to come in order, the random numbers, and the trace that tells two
//! runs apart.

use std::collections::BTreeMap;
use std::ops::Range;
use std::task::Waker;
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::fs::Cut;
use super::net::{HostId, NetEvent};
use super::ops::OpKey;
use crate::backend::KeepAlive;
use crate::helper::queue::Party;

/// Event at a time to come.
#[derive(Debug)]
pub(super) enum Event {
    /// An operation takes its next step.
    Step(OpKey),
    /// An operation that was given up is cancelled.
    Cancel(OpKey),
    /// A packet or signal of the network reaches a host.
    Net(NetEvent),
    /// A doorbell of one lane reaches another.
    Bell(Bell),
    /// A helper thread of a host has ended its job.
    Helped(HostId, Party, Bell),
}

/// Function that rings, and returns the waker to call.
pub(super) struct Bell(pub(super) Box<dyn FnOnce() -> Option<Waker>>);

impl std::fmt::Debug for Bell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Bell")
    }
}

/// Engine that drives a world. Times are durations since its begin.
pub(crate) struct Engine {
    now: Duration,
    queue: BTreeMap<(Duration, u64), Event>,
    scheduled: u64,
    pub(super) rng: SmallRng,
    /// Random numbers for what hosts ask the kernel for: what they draw changes nothing of what happens to
    /// them.
    pub(super) secrets: SmallRng,
    trace: u64,
    traced: u64,
    print_trace: bool,
    woken: Vec<Waker>,
    let_go: Vec<KeepAlive>,
    bells: Vec<Bell>,
    cuts: Vec<(HostId, Cut)>,
    rounds_at_this_moment: u32,
}

impl Engine {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            now: Duration::ZERO,
            queue: BTreeMap::new(),
            scheduled: 0,
            rng: SmallRng::seed_from_u64(seed),
            secrets: SmallRng::seed_from_u64(!seed),
            trace: FNV_OFFSET,
            traced: 0,
            print_trace: std::env::var_os("LANE_SIM_TRACE").is_some(),
            woken: Vec::new(),
            let_go: Vec::new(),
            bells: Vec::new(),
            cuts: Vec::new(),
            rounds_at_this_moment: 0,
        }
    }

    pub(super) fn now(&self) -> Duration {
        self.now
    }

    /// Moves the clock to `moment`. Time never goes back.
    pub(super) fn advance_to(&mut self, moment: Duration) {
        assert!(moment >= self.now, "the clock stands at {:?} and was to go back to {moment:?}", self.now);
        if moment > self.now {
            self.rounds_at_this_moment = 0;
        }
        self.now = moment;
    }

    /// Counts a round of the lanes, and returns how many there were without time passing.
    pub(super) fn count_round(&mut self) -> u32 {
        self.rounds_at_this_moment += 1;
        self.rounds_at_this_moment
    }

    /// Schedules `event`; of events at the same moment the one scheduled first comes first.
    pub(super) fn at(&mut self, moment: Duration, event: Event) {
        self.queue.insert((moment.max(self.now), self.scheduled), event);
        self.scheduled += 1;
    }

    pub(super) fn after(&mut self, delay: Duration, event: Event) {
        self.at(self.now + delay, event);
    }

    /// Returns the time of the next event.
    pub(super) fn next_event_at(&self) -> Option<Duration> {
        self.queue.first_key_value().map(|(&(moment, _), _)| moment)
    }

    /// Takes the next event that is due now.
    pub(super) fn pop_due(&mut self) -> Option<Event> {
        let entry = self.queue.first_entry()?;
        if entry.key().0 > self.now {
            return None;
        }
        Some(entry.remove())
    }

    pub(super) fn events_pending(&self) -> usize {
        self.queue.len()
    }

    /// Returns whether a fault of this rate strikes now.
    #[inline]
    pub(super) fn chance(&mut self, rate: f64) -> bool {
        rate > 0.0 && self.rng.random_bool(rate.min(1.0))
    }

    /// Returns a random duration in `range`; its start when it is empty.
    pub(super) fn between(&mut self, range: Range<Duration>) -> Duration {
        if range.is_empty() {
            return range.start;
        }
        let span = u64::try_from((range.end - range.start).as_nanos()).expect("delays are below 500 years");
        range.start + Duration::from_nanos(self.rng.random_range(0..span))
    }

    pub(super) fn up_to(&mut self, most: Duration) -> Duration {
        self.between(Duration::ZERO..most)
    }

    /// Returns a random part of `n`, at least one, at the given rate; else all.
    #[inline]
    pub(super) fn cut_short(&mut self, n: usize, rate: f64) -> usize {
        if n > 1 && self.chance(rate) { self.rng.random_range(1..=n) } else { n }
    }

    /// Schedules another step of an operation after `delay`.
    pub(crate) fn look_again(&mut self, op: OpKey, delay: Duration) {
        self.after(delay, Event::Step(op));
    }

    /// Wakes a task once nothing of the world is borrowed.
    pub(crate) fn wake(&mut self, waker: Option<Waker>) {
        self.woken.extend(waker);
    }

    /// Drops what an operation held once nothing of the world is borrowed.
    pub(super) fn let_go(&mut self, held: Option<KeepAlive>) {
        self.let_go.extend(held);
    }

    /// Returns whether anything is to be done once nothing of the world is borrowed.
    pub(super) fn has_left_over(&self) -> bool {
        !(self.woken.is_empty() && self.bells.is_empty() && self.let_go.is_empty())
    }

    pub(super) fn take_let_go(&mut self) -> Vec<KeepAlive> {
        std::mem::take(&mut self.let_go)
    }

    /// Schedules steps of operations that wait.
    pub(super) fn wake_ops(&mut self, waiting: &mut Vec<OpKey>) {
        for op in waiting.drain(..) {
            self.after(Duration::ZERO, Event::Step(op));
        }
    }

    pub(super) fn take_woken(&mut self) -> Vec<Waker> {
        std::mem::take(&mut self.woken)
    }

    /// Rings once nothing of the world is borrowed, as objects dropped by it may belong to the world.
    pub(super) fn ring(&mut self, bell: Bell) {
        self.note("bell", &[]);
        self.bells.push(bell);
    }

    pub(super) fn take_bells(&mut self) -> Vec<Bell> {
        std::mem::take(&mut self.bells)
    }

    /// Ends a host, or its process, once the world has nothing under way.
    pub(super) fn cut(&mut self, host: HostId, cut: Cut) {
        self.cuts.push((host, cut));
    }

    pub(super) fn take_cuts(&mut self) -> Vec<(HostId, Cut)> {
        std::mem::take(&mut self.cuts)
    }

    /// Adds to the trace: what happened, and the numbers that tell it from its like.
    pub(super) fn note(&mut self, what: &'static str, numbers: &[u64]) {
        if self.print_trace {
            eprintln!("{:>14.6?} {what} {numbers:?}", self.now);
        }
        self.traced += 1;
        let now = u64::try_from(self.now.as_nanos()).expect("worlds last less than 500 years");
        self.trace = fnv(self.trace, what.as_bytes());
        self.trace = fnv(self.trace, &now.to_le_bytes());
        for number in numbers {
            self.trace = fnv(self.trace, &number.to_le_bytes());
        }
    }

    /// Returns a hash that two runs share only if they did the same, and how many notes it covers.
    pub(super) fn trace(&self) -> (u64, u64) {
        (self.trace, self.traced)
    }
}

/// Computes FNV-1a, the same on every machine and in every release.
pub(super) fn fnv(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

pub(super) const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
