//! Congestion controllers on an ideal transport: every loss known one round trip later, nothing resent in
//! vain, no timer. The figure that the real transport is held against.

use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rx::congestion::{Acked, Controller};
use rx::rtt::RttEstimator;

/// Returns the packets per second that `controller` gets through a path of fixed `rtt` that loses each packet
/// with chance `loss`, over `rounds` round trips.
pub(crate) fn packets_per_second(
    mut controller: Box<dyn Controller>,
    rtt: Duration,
    loss: f64,
    rounds: u32,
) -> f64 {
    let mut rng = SmallRng::seed_from_u64(1);
    let mut estimator = RttEstimator::new();
    let mut now = Instant::now();
    let mut delivered = 0u64;
    for round in 0..rounds {
        let window = controller.window();
        controller.on_sent(now, round, window);
        let lost = (0..window).filter(|_| rng.random_bool(loss)).count() as u32;
        let sent_at = now;
        now += rtt;
        estimator.update(now, rtt, Duration::ZERO);
        if lost > 0 {
            controller.on_loss(now, sent_at, window - lost);
        }
        if lost < window {
            controller.on_ack(now, &Acked::new(window - lost, false), &estimator);
        }
        if round >= rounds / 4 {
            delivered += u64::from(window - lost);
        }
    }
    delivered as f64 / (rtt * (rounds - rounds / 4)).as_secs_f64()
}

/// Returns the share of a link that `controller` fills. A round trip without queue holds `path` packets, and
/// the drop-tail queue before the link another `queue`.
pub(crate) fn share_of_link(
    mut controller: Box<dyn Controller>,
    rtt: Duration,
    path: f64,
    queue: f64,
) -> f64 {
    let mut estimator = RttEstimator::new();
    let mut now = Instant::now();
    let (mut delivered, mut measured) = (0.0, Duration::ZERO);
    for round in 0..ROUNDS {
        let window = controller.window();
        controller.on_sent(now, round, window);
        let sent_at = now;
        let arrived = f64::from(window).min(path + queue);
        let round_trip = rtt.mul_f64((arrived / path).max(1.0));
        now += round_trip;
        estimator.update(now, round_trip, Duration::ZERO);
        let lost = window - arrived as u32;
        if lost > 0 {
            controller.on_loss(now, sent_at, window - lost);
        }
        controller.on_ack(now, &Acked::new(window - lost, false), &estimator);
        if round >= ROUNDS / 4 {
            delivered += arrived;
            measured += round_trip;
        }
    }
    delivered / path * rtt.as_secs_f64() / measured.as_secs_f64()
}

/// Round trips of a run, enough for hundreds of a controller's cycles of growth and loss.
const ROUNDS: u32 = 100_000;
