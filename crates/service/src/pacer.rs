//! Lane's part of the rate that a server may send at, divided fairly over the lane's connections.
//!
//! The parts come from a thread beside the lanes, which reads what each lane sent and how long its connections
//! waited. Each side writes cache lines of its own. Within a lane connections queue for turns of equal size, so one
//! that takes less than its part leaves the rest to others.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use lane::time::{Sleep, now, sleep_until};

use crate::bucket::{BURST_AWAITED, Bucket};

lane::counter_block! {
    /// Usage of the server's rate by one lane.
    pub struct RateUsage {
        count bytes: "Bytes sent under the server's rate.",
        count waits: "Times a connection waited for its turn at the server's rate.",
        count wait_us: "Time that connections waited for their turn, all together, microseconds.",
        gauge waiting: "Connections that wait for their turn.",
        gauge share_bytes_per_second: "The lane's part of the server's rate; 0 while there is none.",
    }
}

/// Part of the server's rate that one lane has, with its usage.
#[derive(Debug, Default)]
pub struct RateShare {
    bound: Bound,
    /// Usage counters, written by the lane.
    pub usage: Arc<RateUsage>,
}

/// Bound in bytes per second, written beside the lanes: on a cache line of its own.
#[derive(Debug)]
#[repr(align(128))]
struct Bound(AtomicU64);

impl RateShare {
    /// Sets the lane's rate in bytes per second; `None` removes the bound.
    pub fn set(&self, bytes_per_second: Option<u64>) {
        self.bound.0.store(bytes_per_second.unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn get(&self) -> Option<u64> {
        Some(self.bound.0.load(Ordering::Relaxed)).filter(|&rate| rate != u64::MAX)
    }
}

impl Default for Bound {
    fn default() -> Self {
        Self(AtomicU64::new(u64::MAX))
    }
}

/// Turns of one lane's connections at its rate.
#[derive(Debug)]
pub struct Pacer {
    share: Arc<RateShare>,
    bucket: RefCell<Bucket>,
    /// Waiters, in the order of coming.
    queue: RefCell<BTreeMap<u64, Waker>>,
    next_place: Cell<u64>,
    /// Time up to which waiting is counted.
    counted_until: Cell<Instant>,
    /// Time until which a late refill is made up, as a connection that waited and now sends will ask again
    /// soon.
    in_demand_until: Cell<Instant>,
    /// Number of connections that took turns when the last one ended.
    in_demand: Cell<usize>,
    /// Number of connections of transports that wait for their part.
    beside: Cell<usize>,
}

/// Claim of a connection to turns.
#[derive(Debug)]
pub struct Ticket {
    pacer: Rc<Pacer>,
    waiting: Option<Box<PacerWaiter>>,
}

#[derive(Debug)]
struct PacerWaiter {
    place: u64,
    alarm: Sleep,
}

impl Pacer {
    /// Makes the turns at `share`, on the current lane.
    pub fn new(share: Arc<RateShare>) -> Rc<Self> {
        let now = now();
        Rc::new(Self {
            share,
            bucket: RefCell::new(Bucket::new(now)),
            queue: RefCell::default(),
            next_place: Cell::new(0),
            counted_until: Cell::new(now),
            in_demand_until: Cell::new(now),
            in_demand: Cell::new(0),
            beside: Cell::new(0),
        })
    }

    /// Makes a claim for a new connection.
    pub fn ticket(self: &Rc<Self>) -> Ticket {
        Ticket { pacer: Rc::clone(self), waiting: None }
    }

    /// Brings the time waited up to date; to be called before the queue's length changes.
    fn count_waiting(&self, now: Instant) {
        let waiting = self.waiting() as u64;
        let since = now.saturating_duration_since(self.counted_until.get()).as_micros() as u64;
        if waiting > 0 {
            self.share.usage.wait_us.add(waiting * since);
        }
        if waiting == 0 || since > 0 {
            self.counted_until.set(now);
        }
    }

    /// Returns the number of connections that wait, for turns or for their transport's part.
    fn waiting(&self) -> usize {
        self.queue.borrow().len() + self.beside.get()
    }

    /// Counts bytes that a transport has sent without a turn, and its waiting connections, now and before.
    /// Returns the lane's rate if it is bounded.
    pub(crate) fn sent_beside(&self, now: Instant, bytes: u64, before: usize, waiting: usize) -> Option<u64> {
        self.count_waiting(now);
        self.beside.set(self.beside.get() - before + waiting);
        let usage = &self.share.usage;
        usage.waits.add(waiting.saturating_sub(before) as u64);
        usage.waiting.set(self.waiting() as u64);
        usage.bytes.add(bytes);
        let rate = self.share.get()?;
        usage.share_bytes_per_second.set(rate);
        let mut bucket = self.bucket.borrow_mut();
        bucket.refill(now, rate, self.is_awaited(now));
        bucket.charge(bytes);
        Some(rate)
    }

    /// Returns the number of connections that want to send, without the `own` ones of a transport.
    pub(crate) fn waiting_beside(&self, own: usize) -> usize {
        let turns = self.queue.borrow().len();
        let turns = if now() < self.in_demand_until.get() { turns.max(self.in_demand.get()) } else { turns };
        turns + self.beside.get() - own
    }

    /// Returns whether a connection waits for what a late refill brings.
    fn is_awaited(&self, now: Instant) -> bool {
        !self.queue.borrow().is_empty() || now < self.in_demand_until.get()
    }

    fn wake_first(&self) {
        if let Some((_, waker)) = self.queue.borrow().first_key_value() {
            waker.wake_by_ref();
        }
    }
}

impl Ticket {
    /// Returns a grant to send some of `want` bytes, at least one, once the turn has come. Bytes that are
    /// then not sent should be [given back](Ticket::give_back).
    pub fn poll_grant(&mut self, cx: &mut Context<'_>, want: usize) -> Poll<usize> {
        let Some(rate) = self.pacer.share.get() else {
            self.leave();
            return Poll::Ready(want.min(GRANT_MAX));
        };
        let now = now();
        self.pacer.count_waiting(now);
        self.pacer.share.usage.share_bytes_per_second.set(rate);
        let awaited = self.pacer.is_awaited(now);
        self.pacer.bucket.borrow_mut().refill(now, rate, awaited);
        let first = match (&self.waiting, self.pacer.queue.borrow().first_key_value()) {
            (_, None) => true,
            (Some(waiting), Some((first, _))) => waiting.place == *first,
            (None, Some(_)) => false,
        };
        if first {
            let granted = self.pacer.bucket.borrow_mut().take(want);
            if let Some(granted) = granted {
                self.pacer.share.usage.bytes.add(granted as u64);
                self.leave();
                return Poll::Ready(granted);
            }
        }
        self.wait(cx, now, first);
        Poll::Pending
    }

    /// Waits for a grant once ([`Ticket::poll_grant`]).
    pub async fn grant(&mut self, want: usize) -> usize {
        std::future::poll_fn(|cx| self.poll_grant(cx, want)).await
    }

    /// Returns whether the lane's rate is bounded, so that grants are needed.
    pub fn is_bounded(&self) -> bool {
        self.pacer.share.get().is_some()
    }

    /// Gives back what was granted and not sent.
    pub fn give_back(&self, bytes: usize) {
        if bytes > 0 && self.is_bounded() {
            self.pacer.bucket.borrow_mut().give_back(bytes);
            self.pacer.share.usage.bytes.sub(bytes as u64);
        }
    }

    /// Queues up, or stays in place. The first in the queue watches the clock for all.
    fn wait(&mut self, cx: &mut Context<'_>, now: Instant, first: bool) {
        let pacer = &self.pacer;
        let deadline = now + pacer.bucket.borrow().patience();
        let waiting = self.waiting.get_or_insert_with(|| {
            pacer.share.usage.waits.increment();
            let place = pacer.next_place.replace(pacer.next_place.get() + 1);
            Box::new(PacerWaiter { place, alarm: sleep_until(deadline) })
        });
        let mut queue = pacer.queue.borrow_mut();
        queue.entry(waiting.place).or_insert_with(|| cx.waker().clone()).clone_from(cx.waker());
        pacer.share.usage.waiting.set((queue.len() + pacer.beside.get()) as u64);
        if first {
            waiting.alarm.reset(deadline);
            // Not due: the deadline lies ahead.
            let _ = Pin::new(&mut waiting.alarm).poll(cx);
        }
    }

    /// Leaves the queue, and wakes the next waiter.
    fn leave(&mut self) {
        let Some(waiting) = self.waiting.take() else { return };
        let now = now();
        self.pacer.count_waiting(now);
        self.pacer.in_demand_until.set(now + BURST_AWAITED);
        let mut queue = self.pacer.queue.borrow_mut();
        self.pacer.in_demand.set(queue.len());
        queue.remove(&waiting.place);
        drop(queue);
        self.pacer.share.usage.waiting.set(self.pacer.waiting() as u64);
        self.pacer.wake_first();
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.leave();
    }
}

//@ limit: turns of a lane that a long file takes
//@ section: Files and listings
//@ unit: part
//@ connection: {:b}, and what its socket takes
//@ all: lane: one at a time
//@ empty: others have their turn after each part
//@ counter: lane_cold_reads, lane_helper_jobs
//@ attack: http-stalled-files
/// Bytes that are granted at once without a bound, so that a bound set during a long transfer soon counts.
const GRANT_MAX: usize = 1 << 20;
