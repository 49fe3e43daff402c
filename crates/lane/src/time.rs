//! Timers of a lane: sleeps and deadlines, on the backend's clock.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant, SystemTime};

use crate::context;

/// Returns the monotonic time of the current lane, as of the start of this turn.
pub fn now() -> Instant {
    context::with(|lane| lane.backend().now())
}

/// Returns the monotonic time of the current lane, read now. It costs a look at the clock; [`now`] is cheaper
/// and may be as old as the turn is long.
pub fn clock() -> Instant {
    context::with(|lane| lane.backend().clock())
}

/// Returns the CPU time of the current lane's thread so far, in user code and in the kernel; `None` on
/// simulated lanes. One system call.
pub fn busy() -> Option<Duration> {
    context::with(|lane| lane.backend().busy())
}

/// Returns the time of day of the current lane.
pub fn wall_clock() -> SystemTime {
    context::with(|lane| lane.backend().wall_clock())
}

/// Makes the lane's next park gather arrivals for `wait` before it ends, where the kernel can (Linux 6.12),
/// as NICs gather interrupts. Many arrivals then cost one wake-up. All that the lane does waits with it. A
/// ready task, or a timer that is due earlier, ends the wait as always.
pub fn gather(wait: Duration) {
    context::with(|lane| lane.backend().gather(wait));
}

/// Returns a future that waits until `deadline`.
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep { deadline, key: None }
}

/// Returns a future that waits for `duration` from the start of this turn.
pub fn sleep(duration: Duration) -> Sleep {
    sleep_until(now() + duration)
}

/// Returns `future`'s output, or [`Elapsed`] if `deadline` comes first.
pub async fn timeout_at<F: Future>(deadline: Instant, future: F) -> Result<F::Output, Elapsed> {
    let mut future = std::pin::pin!(future);
    let mut sleep = std::pin::pin!(sleep_until(deadline));
    std::future::poll_fn(|cx| {
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(Ok(output));
        }
        sleep.as_mut().poll(cx).map(|()| Err(Elapsed))
    })
    .await
}

/// Returns `future`'s output, or [`Elapsed`] after `duration`.
pub async fn timeout<F: Future>(duration: Duration, future: F) -> Result<F::Output, Elapsed> {
    timeout_at(now() + duration, future).await
}

/// Error of a future whose deadline came first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the deadline has passed")]
pub struct Elapsed;

/// A timer of the current lane; see [`sleep_until`].
#[derive(Debug)]
#[must_use = "a sleep does nothing until it is awaited"]
pub struct Sleep {
    deadline: Instant,
    key: Option<u64>,
}

impl Sleep {
    /// Returns the time at which the timer fires.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Sets another deadline. The next poll arms the timer anew.
    pub fn reset(&mut self, deadline: Instant) {
        self.disarm();
        self.deadline = deadline;
    }

    fn disarm(&mut self) {
        if let Some(key) = self.key.take() {
            context::try_with(|lane| lane.timers.borrow_mut().disarm(self.deadline, key));
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        context::with(|lane| {
            if lane.backend().now() >= self.deadline {
                self.disarm();
                return Poll::Ready(());
            }
            let mut timers = lane.timers.borrow_mut();
            let key = *self.key.get_or_insert_with(|| timers.new_key());
            timers.arm(self.deadline, key, cx.waker());
            Poll::Pending
        })
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.disarm();
    }
}
