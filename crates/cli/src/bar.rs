//! A progress bar on the terminal, drawn by a thread of its own from counters that the work keeps.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Draws until it is stopped; nothing where there is no [terminal for it](target).
pub struct Bar {
    ended: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Bar {
    /// Shows a bar of this template of `indicatif`, which `update` brings up to date ten times a second.
    pub fn start(template: &'static str, update: impl Fn(&ProgressBar) + Send + 'static) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&ended);
        Self { ended, thread: std::thread::spawn(move || draw(template, update, &stop)) }
    }

    /// Takes it from the terminal.
    pub fn stop(self) {
        self.ended.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        // The bar is decoration: the outcome does not depend on it.
        let _ = self.thread.join();
    }
}

/// Returns where progress is drawn: on standard error if that is a terminal, unless the user wants
/// [plain](crate::is_plain) text.
pub fn target() -> ProgressDrawTarget {
    match std::io::stderr().is_terminal() && !crate::is_plain() {
        true => ProgressDrawTarget::stderr(),
        false => ProgressDrawTarget::hidden(),
    }
}

fn draw(template: &str, update: impl Fn(&ProgressBar), stop: &AtomicBool) {
    let bar = ProgressBar::with_draw_target(Some(0), target());
    bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
    while !stop.load(Ordering::Relaxed) {
        std::thread::park_timeout(Duration::from_millis(100));
        update(&bar);
    }
    bar.finish_and_clear();
}
