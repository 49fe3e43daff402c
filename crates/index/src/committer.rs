//! The thread that commits what lanes have told.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::index::{Index, Shared};

/// Commits every so often, and at once when half of what may wait is waiting. Ends when dropped.
pub struct Committer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Committer {
    /// Begins. What is told is safe after about `interval`.
    ///
    /// # Errors
    /// When there can be no thread.
    pub fn start(index: &Index, interval: Duration) -> std::io::Result<Self> {
        let shared = Arc::clone(index.shared());
        shared.state().ends = false;
        let worker = Arc::clone(&shared);
        let thread =
            std::thread::Builder::new().name("index".into()).spawn(move || commit(&worker, interval))?;
        Ok(Self { shared, thread: Some(thread) })
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        self.shared.state().ends = true;
        self.shared.bell.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic of it was told by its hook.
            let _ = thread.join();
        }
    }
}

impl std::fmt::Debug for Committer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Committer").finish_non_exhaustive()
    }
}

fn commit(shared: &Shared, interval: Duration) {
    let mut state = shared.state();
    while !state.ends {
        (state, _) = shared.bell.wait_timeout(state, interval).expect("nobody panics while holding it");
        if state.pending.is_empty() {
            continue;
        }
        drop(state);
        // A failure is kept as the index's health, and tried again after the interval.
        if shared.flush().is_err() {
            std::thread::sleep(interval);
        }
        state = shared.state();
    }
}
