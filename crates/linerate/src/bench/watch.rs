//! The progress bar of a load: drawn on a terminal by a thread of its own, from counters that the load keeps.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output::{bit_rate, rate};

/// Running totals of a load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Totals {
    pub(crate) done: u64,
    pub(crate) bytes: u64,
    pub(crate) errors: u64,
}

/// Draws the bar until stopped.
pub(crate) struct Watcher {
    ended: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Watcher {
    pub(crate) fn start(duration: Duration, totals: impl Fn() -> Totals + Send + 'static) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&ended);
        let thread = std::thread::spawn(move || draw(duration, totals, &stop));
        Self { ended, thread }
    }

    pub(crate) fn stop(self) {
        self.ended.store(true, Ordering::Relaxed);
        // The bar is decoration: the report does not depend on it.
        let _ = self.thread.join();
    }
}

fn draw(duration: Duration, totals: impl Fn() -> Totals, stop: &AtomicBool) {
    let target = if std::io::stderr().is_terminal() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let length = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let bar = ProgressBar::with_draw_target(Some(length), target);
    let style = ProgressStyle::with_template("{elapsed_precise} {wide_bar} {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let began = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(100));
        let (seconds, totals) = (began.elapsed().as_secs_f64(), totals());
        let (done, bits) = (totals.done as f64 / seconds, totals.bytes as f64 * 8.0 / seconds);
        bar.set_position((seconds * 1000.0) as u64);
        bar.set_message(format!("{}/s  {}  {} failed", rate(done), bit_rate(bits), totals.errors));
    }
    bar.finish_and_clear();
}
