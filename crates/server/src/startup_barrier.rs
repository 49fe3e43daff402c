//! Steps that lanes take together as a server begins and ends.
//!
//! No client is let in before one of them has restored the last server's state, and the last lane without
//! clients saves the state for the next one.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, Waker};

use crate::lane_services::LaneServices;

/// Barrier of all lanes: no lane listens before one of them has restored the state that the last server
/// saved.
pub(crate) struct StartupBarrier {
    /// Number of lanes that serve clients, or may.
    serving: AtomicUsize,
    state: Mutex<BarrierState>,
}

#[derive(Default)]
struct BarrierState {
    is_open: bool,
    waiting: Vec<Waker>,
}

/// Guard whose drop opens the barrier, so that no lane waits for ever for the one that restores state.
pub(crate) struct BarrierKeeper(Arc<StartupBarrier>);

impl StartupBarrier {
    pub(crate) fn new(lanes: usize) -> Arc<Self> {
        Arc::new(Self { serving: AtomicUsize::new(lanes), state: Mutex::default() })
    }

    /// Returns the guard for the lane that restores state, and for no other.
    pub(crate) fn keeper(self: &Arc<Self>, lane: usize) -> Option<BarrierKeeper> {
        (lane == TAKES_UP).then(|| BarrierKeeper(Arc::clone(self)))
    }

    /// Waits until state is restored; called before this lane listens.
    pub(crate) async fn wait(&self, keeper: Option<BarrierKeeper>, services: &LaneServices) {
        if let Some(keeper) = keeper {
            services.restore_state().await;
            drop(keeper);
        }
        std::future::poll_fn(|cx| {
            let mut state = self.state();
            if state.is_open {
                return Poll::Ready(());
            }
            state.waiting.push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Notes that this lane has drained; the last lane saves the state.
    pub(crate) async fn leave(&self, services: &LaneServices) {
        if self.serving.fetch_sub(1, Ordering::AcqRel) == 1 {
            services.save_state().await;
        }
    }

    fn state(&self) -> MutexGuard<'_, BarrierState> {
        self.state.lock().expect("nobody panics while holding it")
    }
}

impl Drop for BarrierKeeper {
    fn drop(&mut self) {
        let waiting = {
            let mut state = self.0.state();
            state.is_open = true;
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }
}

/// Number of the lane that restores state.
const TAKES_UP: usize = 0;
