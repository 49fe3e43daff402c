//! Waits until all who were asked have answered, whatever became of them.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

/// Waits for the answers of all.
#[derive(Default)]
pub(crate) struct Answers {
    shared: Arc<Mutex<Outstanding>>,
}

/// What one is asked for; dropping it is the answer.
pub(crate) struct Answer {
    shared: Arc<Mutex<Outstanding>>,
}

#[derive(Default)]
struct Outstanding {
    count: usize,
    waker: Option<Waker>,
}

impl Answers {
    /// One more to wait for.
    pub(crate) fn ask(&self) -> Answer {
        self.shared.lock().expect("nobody panics while holding it").count += 1;
        Answer { shared: Arc::clone(&self.shared) }
    }
}

impl Future for Answers {
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

impl Drop for Answer {
    fn drop(&mut self) {
        let mut outstanding = self.shared.lock().expect("nobody panics while holding it");
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
