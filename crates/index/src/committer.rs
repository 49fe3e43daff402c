//! Thread that commits what lanes have recorded.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use crate::index::{Index, IndexShared};
use crate::journal::Journal;

/// Thread that commits at an interval, and at once when half of `pending_max` is waiting. Ends when dropped.
pub struct Committer {
    shared: Arc<IndexShared>,
    thread: Option<JoinHandle<()>>,
}

impl Committer {
    /// Starts the thread. Changes are safe after about `interval`.
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

fn commit(shared: &IndexShared, interval: Duration) {
    let mut state = shared.state();
    let mut due = Instant::now() + interval;
    let mut beat_at: Option<Instant> = None;
    // Lists that are lost before it is known that there were any let in the users that they kept out.
    let mut lists_due: Option<Instant> = None;
    while !state.ends {
        let now = Instant::now();
        beat_at = beat_at.or_else(|| shared.journal.as_ref()?.is_stirred().then_some(now + BEAT));
        let has_lists = !state.pending.lists.is_empty();
        lists_due = has_lists.then(|| lists_due.unwrap_or(now + LISTS_WAIT));
        let soonest = lists_due.map_or(due, |at| at.min(due));
        let until = beat_at.map_or(soonest, |at| at.min(soonest));
        (state, _) = shared
            .bell
            .wait_timeout(state, until.saturating_duration_since(now))
            .expect("nobody panics while holding it");
        let now = Instant::now();
        beat_at = shared.journal.as_ref().and_then(|journal| beat(journal, beat_at, now));
        let is_due = now >= due || lists_due.is_some_and(|at| now >= at);
        if !is_due && !shared.is_half_full(&state) {
            continue;
        }
        (due, lists_due) = (now + interval, None);
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

/// Notes a sign of life in the journal if one is due, and returns when the next is; `None` when nothing has
/// changed since.
fn beat(journal: &Journal, at: Option<Instant>, now: Instant) -> Option<Instant> {
    match at {
        // However often lanes ring meanwhile: each sign costs the one that rings a wake-up.
        Some(at) if now < at => Some(at),
        // A change that has just rung: one follows when its tick is over.
        None if journal.is_stirred() => Some(now + BEAT),
        _ => journal.beat(SystemTime::now()).then_some(now + BEAT),
    }
}

/// Time for which records of directories with lists of their own wait for others.
const LISTS_WAIT: Duration = Duration::from_millis(100);
/// Time between two signs of life while files change: a change that is older than this at a kill is known
/// after it.
pub const BEAT: Duration = Duration::from_millis(25);
