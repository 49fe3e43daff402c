//! Rate limit of one kind of message. A client's action may cause a message, but not a million.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tracing::callsite::Identifier;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

/// Limit of [`BURST`] messages at once and [`PER_SECOND`] in the long run for each place in the code. Debug
/// and trace messages pass: an administrator that turns them on wants all, and the queue bounds them.
#[derive(Debug, Default)]
pub(super) struct Limit {
    /// Buckets by place that has logged: their number is bounded by the program's.
    buckets: Mutex<HashMap<Identifier, Bucket>>,
    refused: AtomicU64,
}

#[derive(Debug)]
struct Bucket {
    /// Messages that may still be logged.
    left: f64,
    since: Instant,
}

/// Layer that applies a [`Limit`].
pub(super) struct Limiter(pub(super) std::sync::Arc<Limit>);

impl Limit {
    /// Returns the number of messages left out so far.
    pub(super) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    fn admits(&self, callsite: Identifier, now: Instant) -> bool {
        // Two threads that speak at once are no flood; neither waits.
        let Ok(mut buckets) = self.buckets.try_lock() else { return true };
        let bucket = buckets.entry(callsite).or_insert(Bucket { left: BURST, since: now });
        let earned = now.saturating_duration_since(bucket.since).as_secs_f64() * PER_SECOND;
        (bucket.left, bucket.since) = ((bucket.left + earned).min(BURST), now);
        if bucket.left < 1.0 {
            drop(buckets);
            self.refused.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        bucket.left -= 1.0;
        true
    }
}

impl<S: Subscriber> Layer<S> for Limiter {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let metadata = event.metadata();
        *metadata.level() > Level::INFO || self.0.admits(metadata.callsite(), Instant::now())
    }
}

/// Most messages of one place in the code at once.
const BURST: f64 = 100.0;
/// Messages of a place per second in the long run.
const PER_SECOND: f64 = 5.0;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tracing::Callsite;

    use super::*;

    #[test]
    fn one_place_cannot_flood_and_does_not_silence_another() {
        let [here, there] = [tracing_callsite(), other_callsite()];
        let (limit, start) = (Limit::default(), Instant::now());
        let said =
            |callsite: &Identifier, at| (0..1000).filter(|_| limit.admits(callsite.clone(), at)).count();
        assert_eq!(said(&here, start), 100);
        assert_eq!(limit.refused(), 900);
        assert_eq!(said(&there, start), 100);
        assert_eq!(said(&here, start + Duration::from_secs(2)), 10);
        assert_eq!(said(&here, start + Duration::from_secs(1000)), 100);
    }

    fn tracing_callsite() -> Identifier {
        tracing::callsite! { name: "here", kind: tracing::metadata::Kind::EVENT, fields: message }
            .metadata()
            .callsite()
    }

    fn other_callsite() -> Identifier {
        tracing::callsite! { name: "there", kind: tracing::metadata::Kind::EVENT, fields: message }
            .metadata()
            .callsite()
    }
}
