//! Start line where the lanes of a load wait for one another, so that all of them measure the same stretch of
//! time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Start line, which opens once every lane has arrived: the clock starts then.
#[derive(Debug)]
pub(crate) struct StartLine {
    missing: AtomicUsize,
    began: OnceLock<Instant>,
}

/// A lane on its way; it arrives when this is dropped, so that one that fails holds no other up.
#[derive(Debug)]
pub(crate) struct Arrival(Arc<StartLine>);

impl StartLine {
    /// Makes a line for so many lanes, at least one.
    pub(crate) fn new(lanes: usize) -> Arc<Self> {
        Arc::new(Self { missing: AtomicUsize::new(lanes), began: OnceLock::new() })
    }

    /// Returns the arrival of one lane; each lane asks for one.
    pub(crate) fn arrival(self: &Arc<Self>) -> Arrival {
        Arrival(Arc::clone(self))
    }

    /// Waits for the other lanes and says when the last one came.
    pub(crate) async fn wait(&self) -> Instant {
        loop {
            if let Some(began) = self.began() {
                return began;
            }
            lane::time::sleep(LOOK_INTERVAL).await;
        }
    }

    /// Returns when the last lane came, if all have.
    pub(crate) fn began(&self) -> Option<Instant> {
        self.began.get().copied()
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        if self.0.missing.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.began.get_or_init(Instant::now);
        }
    }
}

/// Short beside the seconds that a load runs.
const LOOK_INTERVAL: Duration = Duration::from_micros(500);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_starts_with_the_last_lane_even_if_it_failed() {
        let line = StartLine::new(2);
        let (first, second) = (line.arrival(), line.arrival());
        drop(first);
        assert_eq!(line.began(), None);
        let failed: Result<(), Arrival> = Err(second);
        drop(failed);
        assert!(line.began().is_some());
    }
}
