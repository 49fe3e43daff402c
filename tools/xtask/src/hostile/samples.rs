//! Latencies of the good client, kept apart by the part of the run in which it asked.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

/// The parts of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Part {
    /// Connections are made and caches filled: nothing counts.
    WarmUp,
    /// Undisturbed.
    Before,
    /// Beside the attack.
    During,
    /// The attackers have gone.
    After,
    /// The clients end.
    Over,
}

/// Samples of clients' latencies.
#[derive(Debug)]
pub(crate) struct Samples {
    /// An answer that takes longer is an error: the client does not wait for it.
    patience: Duration,
    part: AtomicU8,
    kept: Mutex<[Kept; 3]>,
}

#[derive(Debug, Default)]
struct Kept {
    latencies_us: Vec<u32>,
    errors: u64,
    first_error: Option<String>,
}

/// One part in figures.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub(crate) struct Figures {
    pub(crate) requests: usize,
    pub(crate) p50_us: u32,
    pub(crate) p99_us: u32,
    pub(crate) max_us: u32,
    pub(crate) errors: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) first_error: Option<String>,
}

impl Samples {
    pub(crate) fn new(patience: Duration) -> Self {
        Self { patience, part: AtomicU8::new(Part::WarmUp as u8), kept: Mutex::default() }
    }

    /// Returns how long a client waits for an answer.
    pub(crate) fn patience(&self) -> Duration {
        self.patience
    }

    pub(crate) fn enter(&self, part: Part) {
        self.part.store(part as u8, Ordering::Relaxed);
    }

    pub(crate) fn part(&self) -> Part {
        let part = self.part.load(Ordering::Relaxed);
        let parts = [Part::WarmUp, Part::Before, Part::During, Part::After, Part::Over];
        parts.into_iter().find(|&known| known as u8 == part).expect("only parts are stored")
    }

    /// Counts a request that was made in `part`, and how it ended.
    pub(crate) fn record(&self, part: Part, asked: Instant, outcome: Result<(), String>) {
        let Some(index) = index_of(part) else { return };
        let took = asked.elapsed();
        let outcome = outcome.and_then(|()| match took < self.patience {
            true => Ok(()),
            false => Err(format!("an answer took {:.1} s", took.as_secs_f64())),
        });
        let mut kept = self.kept.lock().expect("nobody panics while he holds it");
        let kept = &mut kept[index];
        kept.latencies_us.push(u32::try_from(took.as_micros()).unwrap_or(u32::MAX));
        if let Err(error) = outcome {
            kept.errors += 1;
            kept.first_error.get_or_insert(error);
        }
    }

    /// Waits until a request that was made in this part has ended, for as long as a client waits for an answer.
    pub(crate) fn wait_for(&self, part: Part) {
        let end = Instant::now() + self.patience;
        while !self.has_any(part) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn has_any(&self, part: Part) -> bool {
        let kept = self.kept.lock().expect("nobody panics while he holds it");
        index_of(part).is_some_and(|index| !kept[index].latencies_us.is_empty())
    }

    /// Returns the figures before, during and after the attack.
    pub(crate) fn figures(&self) -> [Figures; 3] {
        let mut kept = self.kept.lock().expect("nobody panics while he holds it");
        kept.each_mut().map(|kept| {
            kept.latencies_us.sort_unstable();
            let last = kept.latencies_us.len().saturating_sub(1);
            let at = |percent: usize| {
                kept.latencies_us
                    .get((kept.latencies_us.len() * percent / 100).min(last))
                    .copied()
                    .unwrap_or(0)
            };
            Figures {
                requests: kept.latencies_us.len(),
                p50_us: at(50),
                p99_us: at(99),
                max_us: at(100),
                errors: kept.errors,
                first_error: kept.first_error.clone(),
            }
        })
    }
}

/// Returns the place of a part's samples; `None` where nothing counts.
fn index_of(part: Part) -> Option<usize> {
    match part {
        Part::Before => Some(0),
        Part::During => Some(1),
        Part::After => Some(2),
        Part::WarmUp | Part::Over => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_part_in_which_was_asked() {
        let samples = Samples::new(Duration::from_secs(3));
        let asked = Instant::now();
        samples.record(Part::WarmUp, asked, Err("not counted".to_owned()));
        for _ in 0..10 {
            samples.record(Part::During, asked, Ok(()));
        }
        samples.record(Part::After, asked.checked_sub(samples.patience()).unwrap(), Ok(()));
        let [before, during, after] = samples.figures();
        assert_eq!((before.requests, before.errors, before.p99_us), (0, 0, 0));
        assert_eq!((during.requests, during.errors), (10, 0));
        assert_eq!((after.requests, after.errors), (1, 1), "late answers are errors");
        assert!(after.p50_us >= 3_000_000);
    }

    #[test]
    fn parts_are_told_as_entered() {
        let samples = Samples::new(Duration::from_secs(3));
        for part in [Part::Before, Part::During, Part::After, Part::Over] {
            samples.enter(part);
            assert_eq!(samples.part(), part);
        }
    }
}
