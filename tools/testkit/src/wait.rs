//! Polling for what a test cannot be notified of.

use std::time::{Duration, Instant};

/// Calls `ask` every few milliseconds until it returns an answer.
///
/// # Panics
/// When there is none for as long as `patience`; `what` says what was waited for.
pub fn wait_for<T>(what: &str, patience: Duration, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + patience;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
