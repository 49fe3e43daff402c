//! Part of the lane's rate for a transport that divides it over its connections by itself, as Rx does.

use std::cell::Cell;
use std::rc::Rc;

use lane::time::now;

use crate::pacer::Pacer;

/// Part of the lane's rate that one transport takes, beside the connections that queue for [turns](Pacer::ticket). It
/// gets its part by heads, in proportion to its connections that wait; what it sends is no longer there for turns, so
/// that both together keep the rate.
#[derive(Debug)]
pub struct Part {
    pacer: Rc<Pacer>,
    waiting: Cell<usize>,
}

impl Part {
    /// Makes the part of a transport that has sent nothing yet.
    pub fn new(pacer: &Rc<Pacer>) -> Self {
        Self { pacer: Rc::clone(pacer), waiting: Cell::new(0) }
    }

    /// Counts the bytes that the transport has sent under the bound since the last call, and its waiting
    /// connections. Returns the bytes a second that it may send from now on; `None` for no bound. To be
    /// called in each pass.
    pub fn exchange(&self, sent: u64, waiting: usize) -> Option<u64> {
        let before = self.waiting.replace(waiting);
        let rate = self.pacer.sent_beside(now(), sent, before, waiting)?;
        // A transport without waiting connections may have one soon.
        let (own, others) = (waiting.max(1) as u128, self.pacer.waiting_beside(waiting) as u128);
        let part = u128::from(rate) * own / (own + others);
        Some(u64::try_from(part).unwrap_or(rate).max(1))
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.pacer.sent_beside(now(), 0, self.waiting.get(), 0);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use lane::backend::sim::{Config, World};

    use super::*;
    use crate::pacer::RateShare;

    /// Sends at the rate of `part`, for `time`, with a number of connections, and returns the bytes sent. It
    /// looks about as often as a driver's task does.
    async fn transport(part: Part, connections: usize, wanted: u64, time: Duration) -> u64 {
        let (start, mut seen) = (now(), now());
        let (mut total, mut sent, mut tokens) = (0, 0, 0.0);
        while now() < start + time {
            let waits = if total < wanted { connections } else { 0 };
            let rate = part.exchange(sent, waits).expect("there is a bound");
            lane::time::sleep(Duration::from_micros(700)).await;
            tokens += rate as f64 * (now() - std::mem::replace(&mut seen, now())).as_secs_f64();
            sent = if waits > 0 { tokens as u64 } else { 0 };
            tokens -= sent as f64;
            total += sent;
        }
        total
    }

    async fn connection(pacer: Rc<Pacer>, time: Duration) -> u64 {
        let (mut ticket, until) = (pacer.ticket(), now() + time);
        let mut total = 0;
        while now() < until {
            total += ticket.grant(64 * 1024).await as u64;
            lane::time::sleep(Duration::from_micros(50)).await;
        }
        total
    }

    /// Returns what a transport with `own` connections and `others` queueing ones got in 10 s of 10 MB/s, in
    /// MB.
    fn divided(own: usize, wanted: u64, others: usize) -> (f64, f64, Arc<RateShare>) {
        let world = World::new(1, Config::default());
        let host = world.host("10.0.0.1");
        world.block_on(&host, async move {
            let share = Arc::<RateShare>::default();
            share.set(Some(10_000_000));
            let pacer = Pacer::new(Arc::clone(&share));
            let time = Duration::from_secs(10);
            let transport = lane::spawn(transport(Part::new(&pacer), own, wanted, time));
            let others: Vec<_> =
                (0..others).map(|_| lane::spawn(connection(Rc::clone(&pacer), time))).collect();
            let mut by_turns = 0;
            for other in others {
                by_turns += other.await;
            }
            (transport.await as f64 / 1e6, by_turns as f64 / 1e6, share)
        })
    }

    #[test]
    fn both_together_keep_the_rate_and_divide_it_by_heads() {
        for (own, others) in [(1, 1), (3, 1), (1, 3), (50, 50)] {
            let (transport, turns, share) = divided(own, u64::MAX, others);
            let fair = 100.0 * own as f64 / (own + others) as f64;
            assert!(
                (transport + turns - 100.0).abs() < 4.0,
                "{own} and {others}: {transport} and {turns} MB"
            );
            assert!((transport / fair - 1.0).abs() < 0.15, "{own} and {others}: {transport} of {fair} MB");
            let counted = share.usage.bytes.get() as f64 / 1e6;
            assert!((counted - transport - turns).abs() < 1.0, "{counted} MB were counted");
            assert!(share.usage.wait_us.get() > 5_000_000, "connections waited");
            assert_eq!(share.usage.waiting.get(), 0, "all are gone");
        }
    }

    #[test]
    fn what_one_side_leaves_the_other_gets() {
        let (transport, turns, _) = divided(4, 20_000_000, 2);
        assert!(
            (19.0..21.0).contains(&transport) && (76.0..84.0).contains(&turns),
            "{transport}, {turns} MB"
        );
        let (transport, turns, _) = divided(4, u64::MAX, 0);
        assert!((99.0..101.0).contains(&transport) && turns == 0.0, "{transport} MB");
    }

    #[test]
    fn bound_that_sinks_starves_nobody() {
        let world = World::new(1, Config::default());
        let host = world.host("10.0.0.1");
        world.block_on(&host, async {
            let share = Arc::<RateShare>::default();
            share.set(Some(1_000_000_000));
            let pacer = Pacer::new(Arc::clone(&share));
            let part = Part::new(&pacer);
            part.exchange(0, 1);
            lane::time::sleep(Duration::from_secs(60)).await;
            part.exchange(60_000_000_000, 1);
            share.set(Some(100_000));
            part.exchange(500_000_000, 0);
            let asked: Instant = now();
            pacer.ticket().grant(1000).await;
            assert!(now() - asked < Duration::from_millis(300), "{:?}", now() - asked);
            share.set(None);
            assert_eq!(part.exchange(0, 0), None);
        });
    }
}
