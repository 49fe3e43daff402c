//! What lanes do together as a server begins and ends: nobody is let in before one of them has taken up what the last server left, and
//! the last that has nobody left puts down what the next one is to have.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, Waker};

use crate::lane_services::LaneServices;

/// Of all lanes of a process.
pub(crate) struct Threshold {
    /// Lanes that serve somebody, or may.
    serving: AtomicUsize,
    door: Mutex<Door>,
}

#[derive(Default)]
struct Door {
    is_open: bool,
    waiting: Vec<Waker>,
}

/// Opens the door however the lane that takes up comes to its end, so that the others hear that the server fails.
pub(crate) struct Opens(Arc<Threshold>);

impl Threshold {
    pub(crate) fn new(lanes: usize) -> Arc<Self> {
        Arc::new(Self { serving: AtomicUsize::new(lanes), door: Mutex::default() })
    }

    /// For the lane that takes up, and no other: kept until it is done.
    pub(crate) fn keeper(self: &Arc<Self>, lane: usize) -> Option<Opens> {
        (lane == TAKES_UP).then(|| Opens(Arc::clone(self)))
    }

    /// Before this lane listens.
    pub(crate) async fn cross(&self, keeper: Option<Opens>, services: &LaneServices) {
        if let Some(keeper) = keeper {
            services.take_up().await;
            drop(keeper);
        }
        std::future::poll_fn(|cx| {
            let mut door = self.door();
            if door.is_open {
                return Poll::Ready(());
            }
            door.waiting.push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// This lane has drained.
    pub(crate) async fn leave(&self, services: &LaneServices) {
        if self.serving.fetch_sub(1, Ordering::AcqRel) == 1 {
            services.put_down().await;
        }
    }

    fn door(&self) -> MutexGuard<'_, Door> {
        self.door.lock().expect("nobody panics while holding it")
    }
}

impl Drop for Opens {
    fn drop(&mut self) {
        let waiting = {
            let mut door = self.0.door();
            door.is_open = true;
            std::mem::take(&mut door.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }
}

/// The lane that takes up.
const TAKES_UP: usize = 0;
