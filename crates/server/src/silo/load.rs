//! Overloaded lanes: each measures itself, and all may read the results.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lane::Ended;

use super::counters::SiloCounters;

/// Flags of the process's lanes that are full. Written by the lane alone, a few times a second at most.
#[derive(Clone, Debug)]
pub(crate) struct Loads {
    lanes: Arc<[Flag]>,
}

/// Flag on a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Flag(AtomicBool);

/// Meter of one lane, by the part of its time that its thread has run.
#[derive(Debug)]
pub(crate) struct Meter {
    seen: Option<(Instant, Duration)>,
    full: bool,
}

impl Loads {
    /// Makes the flags of `lanes` lanes, none of them full.
    pub(crate) fn new(lanes: usize) -> Self {
        Self { lanes: (0..lanes).map(|_| Flag::default()).collect() }
    }

    pub(crate) fn is_full(&self, lane: usize) -> bool {
        self.lanes[lane].0.load(Ordering::Relaxed)
    }

    pub(crate) fn set_full(&self, lane: usize, full: bool) {
        self.lanes[lane].0.store(full, Ordering::Relaxed);
    }

    /// Measures the current lane for as long as it lives.
    pub(crate) async fn keep_measuring(self, lane: usize, counters: Arc<SiloCounters>) -> Ended {
        let mut meter = Meter::new();
        loop {
            // A simulated lane has no thread of its own to measure.
            let Some(busy) = lane::time::busy() else { return Ended::Done };
            let full = meter.look(lane::time::clock(), busy);
            self.set_full(lane, full);
            counters.full.set(u64::from(full));
            lane::time::sleep(LOOK_PERIOD).await;
        }
    }
}

impl Meter {
    pub(crate) fn new() -> Self {
        Self { seen: None, full: false }
    }

    /// Takes the time that the lane's thread has run until now, and returns whether the lane is full. It is
    /// full from 90 % of the time between two looks on, and no more below 70 %.
    pub(crate) fn look(&mut self, now: Instant, busy: Duration) -> bool {
        let Some((before, busy_before)) = self.seen.replace((now, busy)) else { return self.full };
        let (time, ran) = ((now - before).as_nanos(), busy.saturating_sub(busy_before).as_nanos());
        let percent = if self.full { NO_MORE_FULL_PERCENT } else { FULL_PERCENT };
        if time > 0 {
            self.full = ran * 100 >= time * percent;
        }
        self.full
    }
}

//@ limit: time of lanes, where another node has no NIC
//@ section: Lanes
//@ unit: 90 % of a lane's time, in two looks {} apart
//@ all: lane: its time
//@ empty: new connections go to lanes without a NIC (`nodes_without_nic = "assist"`); others get their answers sooner
//@ counter: silo_accepts{placement="helped"}, silo_full
//@ attack: none, a measure of load on machines of several nodes, which refuses nothing
//@ reach: server
/// Interval of measurements: long enough that a large answer or a stalled host does not count, short enough
/// that a rush does.
const LOOK_PERIOD: Duration = Duration::from_millis(200);
const FULL_PERCENT: u128 = 90;
const NO_MORE_FULL_PERCENT: u128 = 70;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_is_full_from_nine_tenths_of_its_time_on_until_below_seven_tenths() {
        let (mut meter, mut now, mut busy) = (Meter::new(), Instant::now(), Duration::ZERO);
        let mut after = |percent: u32| {
            now += LOOK_PERIOD;
            busy += LOOK_PERIOD * percent / 100;
            meter.look(now, busy)
        };
        assert!(!after(100), "the first look compares with nothing");
        assert!(!after(89));
        assert!(after(90));
        assert!(after(70), "it stays full");
        assert!(!after(69));
        assert!(!after(89), "and stays what it is");
    }

    #[test]
    fn flags_are_each_lanes_own() {
        let loads = Loads::new(3);
        loads.clone().set_full(1, true);
        assert_eq!([0, 1, 2].map(|lane| loads.is_full(lane)), [false, true, false]);
    }
}
