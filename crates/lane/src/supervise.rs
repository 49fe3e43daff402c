//! Tasks that a lane cannot do without: those that accept connections, hear of changes, drive a protocol. A
//! task of a client may die alone; of these each is begun again, or its lane ends, for a lane that listens
//! and does not serve swallows clients.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use crate::context::{self, Lane};
use crate::executor::{self, Task};
use crate::time;

/// End of an essential task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The task has nothing left to do.
    Done,
    /// The task ended though the lane depends on it.
    Unexpectedly,
}

/// Spawns a task that is restarted when its future panics or ends unexpectedly. `make` gives the next future,
/// after a pause that doubles each time. A task that has failed eight times, never with a minute's rest, ends
/// its lane.
///
/// Where panics are not contained, as in tests, they go through and nothing is begun again.
///
/// # Panics
/// Off lanes.
pub fn spawn_restarting<F>(name: &'static str, mut make: impl FnMut() -> F + 'static) -> Task<()>
where
    F: Future<Output = Ended> + 'static,
{
    executor::spawn(async move {
        let lane = context::current();
        let mut pauses = Pauses::default();
        loop {
            let began = time::now();
            if contained(&lane, &mut make).await == Some(Ended::Done) {
                return;
            }
            let Some(pause) = pauses.next(time::now() - began) else { return lane.fail(name) };
            lane.counters().essential_restarts.increment();
            time::sleep(pause).await;
        }
    })
}

/// Spawns a task that ends its lane with its own end, a panic included. The state of such a task can be
/// neither trusted nor rebuilt.
///
/// # Panics
/// Off lanes.
pub fn spawn_critical(name: &'static str, future: impl Future<Output = Ended> + 'static) -> Task<()> {
    executor::spawn(async move {
        let lane = context::current();
        let mut future = Some(future);
        let ended = contained(&lane, || future.take().expect("made once")).await;
        if ended != Some(Ended::Done) {
            lane.fail(name);
        }
    })
}

/// Runs the future that `make` gives; returns `None` when the future, or making it, panics.
async fn contained<F: Future>(lane: &Lane, make: impl FnOnce() -> F) -> Option<F::Output> {
    if !lane.executor.contains_panics() {
        return Some(make().await);
    }
    let mut future: Pin<Box<F>> = caught(lane, || Box::pin(make()))?;
    let output = std::future::poll_fn(|cx| match caught(lane, || future.as_mut().poll(cx)) {
        Some(Poll::Pending) => Poll::Pending,
        Some(Poll::Ready(output)) => Poll::Ready(Some(output)),
        None => Poll::Ready(None),
    })
    .await;
    // What it owned may be what is broken.
    caught(lane, || drop(future));
    output
}

fn caught<T>(lane: &Lane, act: impl FnOnce() -> T) -> Option<T> {
    // What a task shares with others is behind cells whose borrows end as the panic unwinds.
    let result = catch_unwind(AssertUnwindSafe(act));
    result.map_err(|_| lane.executor.note_panic()).ok()
}

/// The pauses before each new beginning.
#[derive(Default)]
struct Pauses {
    failures: u32,
}

impl Pauses {
    /// Returns the next pause, after a task that lived this long; `None` when the task has failed too often.
    fn next(&mut self, lived: Duration) -> Option<Duration> {
        if lived >= REST {
            self.failures = 0;
        }
        self.failures += 1;
        (self.failures < FAILURES_MAX).then(|| PAUSE_MIN * (1 << (self.failures - 1)))
    }
}

impl Lane {
    /// Ends the lane as soon as the calling task has had its turn.
    pub(crate) fn fail(&self, what: &'static str) {
        self.failure.set(Some(what));
    }

    /// Takes the name of the task that ended the lane. All its tasks are gone then.
    pub(crate) fn take_failure(self: &Rc<Self>) -> Option<&'static str> {
        let what = self.failure.take()?;
        self.counters.failed.increment();
        self.executor.cancel_all();
        Some(what)
    }
}

//@ limit: failures of essential tasks
//@ section: Lanes
//@ unit: failure within {REST} of the last
//@ all: lane: {}, with pauses of 10 to 640 ms between
//@ empty: the lane ends and its listeners leave their groups; others feel the pause in what the task does
//@ counter: lane_essential_restarts, lane_failed
//@ attack: none, tasks of the server's own: accept loops, hand-over of connections, flush of the log
//@ reach: server
//@ limit: failures of vital tasks
//@ section: Lanes
//@ unit: failure
//@ all: lane: 1 of the Rx driver or of the end of listeners
//@ empty: the lane ends, as above
//@ counter: lane_failed
//@ attack: none, tasks of the server's own
//@ reach: server
/// Failures that end a lane, without a rest in between.
const FAILURES_MAX: u32 = 8;
/// The first pause; the last is 64 times as long.
const PAUSE_MIN: Duration = Duration::from_millis(10);
/// Life of a task after which its failures are counted from one again.
const REST: Duration = Duration::from_secs(60);
