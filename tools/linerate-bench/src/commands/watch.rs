//! A load under a progress bar.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bench::{Progress, Totals};

use cli::bar::Bar;
use cli::output::{bit_rate, rate};

/// Runs a load that takes about so long, and draws how it goes.
pub(crate) fn watched<T>(duration: Duration, load: impl FnOnce(&Arc<Progress>) -> T) -> T {
    let progress = Arc::new(Progress::default());
    let (counted, began) = (Arc::clone(&progress), Instant::now());
    let length = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let bar = Bar::start("{elapsed_precise} {wide_bar} {msg}", move |bar| {
        let (seconds, Totals { done, bytes, errors }) = (began.elapsed().as_secs_f64(), counted.totals());
        let (done, bits) = (done as f64 / seconds, bytes as f64 * 8.0 / seconds);
        bar.set_length(length);
        bar.set_position((seconds * 1000.0) as u64);
        bar.set_message(format!("{}/s  {}  {errors} failed", rate(done), bit_rate(bits)));
    });
    let result = load(&progress);
    bar.stop();
    result
}
