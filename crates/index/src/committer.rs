//! The thread that commits what lanes have told.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

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
    let mut due = Instant::now() + interval;
    let mut beat_is_due = false;
    while !state.ends {
        let beats = shared.journal.as_ref().filter(|journal| beat_is_due || journal.is_stirred());
        let patience = match beats {
            Some(_) => BEAT,
            None => due.saturating_duration_since(Instant::now()),
        };
        (state, _) = shared.bell.wait_timeout(state, patience).expect("nobody panics while holding it");
        // A change that has just rung is followed by one when its tick is over.
        let beats = beats.or(shared.journal.as_ref().filter(|journal| !journal.is_stirred()));
        beat_is_due = beats.is_some_and(|journal| journal.beat(SystemTime::now()));
        if Instant::now() < due && !shared.is_half_full(&state) {
            continue;
        }
        due = Instant::now() + interval;
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

/// Between two signs of life while files change: what changed longer before a kill is borne out after it.
pub const BEAT: Duration = Duration::from_millis(25);
