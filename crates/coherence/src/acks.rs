//! Acknowledgements of invalidations: the change waits until every receiver has dropped its [`Ack`].

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

/// Future that completes when every [`Ack`] issued from it is dropped.
#[derive(Default)]
pub struct Acks {
    shared: Arc<Mutex<Outstanding>>,
}

/// Acknowledgement owed by a receiver of an invalidation. Dropping it acknowledges; a clone is one more to wait for.
pub struct Ack {
    to: To,
}

#[derive(Clone)]
enum To {
    Waiter(Arc<Mutex<Outstanding>>),
    /// A lane that has ended: no change waits for this one answer, many may for all of them.
    EndedLane {
        _orphaned: Arc<dyn Send + Sync>,
    },
}

#[derive(Default)]
struct Outstanding {
    count: usize,
    waker: Option<Waker>,
}

impl Acks {
    /// Issues one more acknowledgement to wait for.
    pub fn issue(&self) -> Ack {
        self.shared.lock().expect("nobody panics while holding it").count += 1;
        Ack { to: To::Waiter(Arc::clone(&self.shared)) }
    }
}

impl Ack {
    /// Makes the acknowledgement that a lane which has ended owes, until the last holder of `orphaned` is dropped.
    pub(crate) fn orphaned(orphaned: Arc<dyn Send + Sync>) -> Self {
        Self { to: To::EndedLane { _orphaned: orphaned } }
    }
}

impl Clone for Ack {
    fn clone(&self) -> Self {
        if let To::Waiter(shared) = &self.to {
            shared.lock().expect("nobody panics while holding it").count += 1;
        }
        Self { to: self.to.clone() }
    }
}

impl Future for Acks {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut outstanding = self.shared.lock().expect("nobody panics while holding it");
        if outstanding.count == 0 {
            return Poll::Ready(());
        }
        outstanding.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Ack {
    fn drop(&mut self) {
        let To::Waiter(shared) = &self.to else { return };
        let mut outstanding = shared.lock().expect("nobody panics while holding it");
        debug_assert!(outstanding.count > 0, "an acknowledgement is given once");
        outstanding.count -= 1;
        if outstanding.count > 0 {
            return;
        }
        let waker = outstanding.waker.take();
        drop(outstanding);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
