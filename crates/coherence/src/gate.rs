//! The gate of a writable volume: every change passes it, and closing it waits until no change is inside any
//! more.
//!
//! Each lane counts its changes on a line of memory of its own, and reads a word that hardly ever changes. A
//! change counts itself, then reads the word; closing the gate writes the word, then reads the counts: one of
//! them sees the other.

use std::future::poll_fn;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use lane::mesh::Member;

/// A volume whose changes pass a gate.
pub trait GatedVolume: Send + Sync + 'static {
    /// Returns the gate that every change of the volume passes.
    fn gate(&self) -> &Gate;
}

/// Reason why nothing can be changed in a volume that could be written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Closed {
    /// The volume is served read-only by now.
    ReadOnly = 1,
    /// The volume is closed for a moment, as while it is copied: try later.
    Frozen = 2,
    /// The volume is served by another server by now.
    Moved = 3,
    /// The volume is no longer served.
    Offline = 4,
}

/// Gate of one volume.
pub struct Gate {
    /// Reason why the gate is closed; 0 while it is open, and [`PAUSED`] for a moment in which changes wait before it.
    closed: AtomicU8,
    inside: Box<[Inside]>,
    /// Tasks that wait until no change is inside, or until they are let in.
    waiting: Mutex<Vec<Waker>>,
}

/// Changes of one lane that are inside, on a cache line of their own.
#[derive(Default)]
#[repr(align(64))]
struct Inside(AtomicUsize);

/// Guard that keeps changes waiting before the gate until it is dropped; those inside go on.
pub struct GatePause<V: GatedVolume>(Arc<V>);

/// Reason why a change does not pass the gate.
pub enum GateRefusal {
    /// The gate is closed.
    Closed(Closed),
    /// Changes wait for a moment: it is to be tried again.
    Paused,
}

/// One change inside the gate of its volume, until this is dropped.
pub struct GatePass<V: GatedVolume> {
    volume: Arc<V>,
    lane: Member,
}

impl Gate {
    /// Makes an open gate for `lanes_max` lanes.
    pub fn new(lanes_max: usize) -> Self {
        let inside = (0..lanes_max).map(|_| Inside::default()).collect();
        Self { closed: AtomicU8::new(0), inside, waiting: Mutex::default() }
    }

    /// Returns why the gate is closed, if it is.
    pub fn closed(&self) -> Option<Closed> {
        let all = [Closed::ReadOnly, Closed::Frozen, Closed::Moved, Closed::Offline];
        let closed = self.closed.load(Ordering::SeqCst) & !PAUSED;
        all.into_iter().find(|why| *why as u8 == closed)
    }

    /// Lets no more changes in; each is refused with this reason. Those that are inside go on. `None` opens it.
    pub fn set_closed(&self, why: Option<Closed>) {
        let why = why.map_or(0, |why| why as u8);
        let keep_paused = |closed: u8| Some(closed & PAUSED | why);
        let _ = self.closed.fetch_update(Ordering::SeqCst, Ordering::SeqCst, keep_paused);
        self.wake();
    }

    /// Waits until the condition holds, which is looked at when a change leaves and when the gate is closed or
    /// opened. On any thread.
    pub async fn when(&self, is_so: impl Fn() -> bool) {
        poll_fn(|cx| {
            // Before the look: a change that leaves after it finds the waker.
            let mut waiting = self.lock();
            if !waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
                waiting.push(cx.waker().clone());
            }
            drop(waiting);
            if is_so() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Returns whether no change is inside.
    pub fn is_empty(&self) -> bool {
        self.inside.iter().all(|inside| inside.0.load(Ordering::SeqCst) == 0)
    }

    fn leave(&self, lane: Member) {
        let before = self.inside[lane.index()].0.fetch_sub(1, Ordering::SeqCst);
        debug_assert!(before > 0, "who leaves has come in");
        if self.closed.load(Ordering::SeqCst) != 0 {
            self.wake();
        }
    }

    fn wake(&self) {
        let waiting = std::mem::take(&mut *self.lock());
        waiting.into_iter().for_each(Waker::wake);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Waker>> {
        self.waiting.lock().expect("nobody panics while holding it")
    }
}

impl<V: GatedVolume> GatePause<V> {
    /// Has changes wait before the gate; `None` where they do already.
    pub fn begin(volume: &Arc<V>) -> Option<Self> {
        let before = volume.gate().closed.fetch_or(PAUSED, Ordering::SeqCst);
        (before & PAUSED == 0).then(|| Self(Arc::clone(volume)))
    }
}

impl<V: GatedVolume> GatePass<V> {
    /// Lets a change of this lane in.
    ///
    /// # Errors
    /// Why it is not let in.
    pub fn enter(volume: &Arc<V>, lane: Member) -> Result<Self, GateRefusal> {
        let gate = volume.gate();
        gate.inside[lane.index()].0.fetch_add(1, Ordering::SeqCst);
        let pass = Self { volume: Arc::clone(volume), lane };
        match gate.closed.load(Ordering::SeqCst) {
            0 => Ok(pass),
            _ => Err(gate.closed().map_or(GateRefusal::Paused, GateRefusal::Closed)),
        }
    }
}

impl<V: GatedVolume> Drop for GatePause<V> {
    fn drop(&mut self) {
        self.0.gate().closed.fetch_and(!PAUSED, Ordering::SeqCst);
    }
}

impl<V: GatedVolume> Drop for GatePass<V> {
    fn drop(&mut self) {
        self.volume.gate().leave(self.lane);
    }
}

impl std::fmt::Display for Closed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::ReadOnly => "the volume is read-only by now",
            Self::Frozen => "the volume is not changed for a moment: try later",
            Self::Moved => "the volume is served by another server",
            Self::Offline => "the volume is no longer served",
        })
    }
}

/// Set beside the reason, if there is one.
const PAUSED: u8 = 0x80;
