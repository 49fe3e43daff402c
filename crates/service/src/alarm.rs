//! Timer of a connection that all its waits share.
//!
//! Arming and disarming a timer for each request would cost more than parsing it. This one stays armed
//! at the earliest deadline it was ever asked for; when it fires early, it looks at the deadline that
//! counts now and goes on.

use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Instant;

use lane::time::{Elapsed, Sleep, now, sleep_until};

/// Timer of one connection's task.
#[derive(Debug, Default)]
pub struct Alarm {
    armed: Option<Sleep>,
}

impl Alarm {
    /// Returns the output of `future`, or [`Elapsed`] when `deadline` comes first.
    pub async fn race<F: Future>(&mut self, deadline: Instant, future: F) -> Result<F::Output, Elapsed> {
        let mut future = pin!(future);
        std::future::poll_fn(|cx| {
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                return Poll::Ready(Ok(output));
            }
            let now = now();
            if now >= deadline {
                return Poll::Ready(Err(Elapsed));
            }
            // A timer armed for this task at or before the deadline will wake it: nothing to do.
            if self.armed.as_ref().is_some_and(|armed| now < armed.deadline() && armed.deadline() <= deadline)
            {
                return Poll::Pending;
            }
            let sleep = self.armed.insert(sleep_until(deadline));
            Pin::new(sleep).poll(cx).map(|()| Err(Elapsed))
        })
        .await
    }
}
