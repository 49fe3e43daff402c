//! Waits until all who were asked have answered, whatever became of them.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use super::Mourning;

/// Waits for the answers of all.
#[derive(Default)]
pub(crate) struct Answers {
    shared: Arc<Mutex<Outstanding>>,
}

/// What one is asked for; dropping it is the answer. A clone is one more to wait for.
pub(crate) struct Answer {
    to: To,
}

#[derive(Clone)]
enum To {
    Asker(Arc<Mutex<Outstanding>>),
    /// A lane that has ended: nobody waits for this one answer, many may for all of them.
    Ended {
        _mourning: Arc<Mourning>,
    },
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
        Answer { to: To::Asker(Arc::clone(&self.shared)) }
    }
}

impl Answer {
    /// For what a lane that has ended is mourned until.
    pub(crate) fn mourning(mourning: &Arc<Mourning>) -> Self {
        Self { to: To::Ended { _mourning: Arc::clone(mourning) } }
    }
}

impl Clone for Answer {
    fn clone(&self) -> Self {
        if let To::Asker(shared) = &self.to {
            shared.lock().expect("nobody panics while holding it").count += 1;
        }
        Self { to: self.to.clone() }
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
        let To::Asker(shared) = &self.to else { return };
        let mut outstanding = shared.lock().expect("nobody panics while holding it");
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
