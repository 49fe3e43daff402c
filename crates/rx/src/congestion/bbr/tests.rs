//! Tests of BBR on an ideal path: so many packets a second, a fixed round trip, and a queue that holds all
//! the rest.

use super::*;

const MS: Duration = Duration::from_millis(1);

/// Ideal path with its clock.
struct Path {
    now: Instant,
    /// Time when the link is free again.
    free_at: Instant,
    per_packet: Duration,
    round_trip: Duration,
    serial: u32,
    /// ACKs under way: time, serial, send time.
    under_way: std::collections::VecDeque<(Instant, u32, Instant)>,
    rtt: RttEstimator,
    delivered: u64,
    next_send: Instant,
}

impl Path {
    fn new(per_second: u32, round_trip: Duration) -> Self {
        let now = Instant::now();
        Self {
            now,
            free_at: now,
            per_packet: Duration::from_secs(1) / per_second,
            round_trip,
            serial: 0,
            under_way: std::collections::VecDeque::new(),
            rtt: RttEstimator::new(),
            delivered: 0,
            next_send: now,
        }
    }

    fn in_flight(&self) -> u32 {
        self.under_way.len() as u32
    }

    fn send(&mut self, bbr: &mut Bbr) {
        self.serial += 1;
        self.free_at = self.free_at.max(self.now) + self.per_packet;
        self.under_way.push_back((self.free_at + self.round_trip, self.serial, self.now));
        bbr.on_sent(self.now, self.serial, self.in_flight());
        if let Some(rate) = bbr.pacing_rate() {
            self.next_send = self.next_send.max(self.now) + Duration::from_secs_f64(1.0 / rate);
        }
    }

    fn ack(&mut self, bbr: &mut Bbr) {
        let Some((at, serial, sent_at)) = self.under_way.pop_front() else { return };
        self.now = self.now.max(at);
        self.rtt.update(self.now, self.now - sent_at, Duration::ZERO);
        self.delivered += 1;
        let acked = Acked { serial: Some(serial), in_flight: self.in_flight(), ..Acked::new(1, false) };
        bbr.on_ack(self.now, &acked, &self.rtt);
    }

    /// Sends without pause for `time`.
    fn fill(&mut self, bbr: &mut Bbr, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            let arrival = self.under_way.front().map(|&(at, ..)| at);
            if self.in_flight() < bbr.window() && arrival.is_none_or(|at| self.next_send <= at) {
                self.now = self.now.max(self.next_send);
                self.send(bbr);
            } else {
                self.ack(bbr);
            }
        }
    }

    /// Sends `packets` every `pause`, `times` times.
    fn trickle(&mut self, bbr: &mut Bbr, packets: u32, pause: Duration, times: u32) {
        for _ in 0..times {
            let start = self.now;
            (0..packets).for_each(|_| self.send(bbr));
            bbr.on_app_limited(self.in_flight());
            while !self.under_way.is_empty() {
                self.ack(bbr);
            }
            self.now = self.now.max(start + pause);
        }
    }

    fn drain(&mut self, bbr: &mut Bbr) {
        bbr.on_app_limited(self.in_flight());
        while !self.under_way.is_empty() {
            self.ack(bbr);
        }
    }
}

fn near(value: f64, wanted: f64, part: f64) -> bool {
    (value / wanted - 1.0).abs() <= part
}

#[test]
fn startup_finds_the_rate_and_drains_its_queue() {
    let (mut path, mut bbr) = (Path::new(10_000, 10 * MS), Bbr::new());
    path.fill(&mut bbr, 500 * MS);
    assert!(near(bbr.bandwidth(), 10_000.0, 0.05), "{}", bbr.bandwidth());
    assert!(!matches!(bbr.mode, BbrMode::Startup | BbrMode::Drain), "{:?}", bbr.mode);
    assert!(path.rtt.latest() < 15 * MS, "{:?}", path.rtt.latest());
}

#[test]
fn steady_state_delivers_what_the_path_carries_with_a_short_queue() {
    let (mut path, mut bbr) = (Path::new(10_000, 10 * MS), Bbr::new());
    path.fill(&mut bbr, 1_000 * MS);
    let before = path.delivered;
    path.fill(&mut bbr, 20_000 * MS);
    let rate = (path.delivered - before) as f64 / 20.0;
    assert!(rate > 9_500.0, "{rate} packets/s");
    assert!(path.rtt.srtt() < 15 * MS, "{:?}", path.rtt.srtt());
}

#[test]
fn application_that_sends_little_does_not_lower_the_estimate() {
    let (mut path, mut bbr) = (Path::new(10_000, 10 * MS), Bbr::new());
    path.fill(&mut bbr, 2_000 * MS);
    path.drain(&mut bbr);
    path.trickle(&mut bbr, 3, 50 * MS, 600);
    assert!(near(bbr.bandwidth(), 10_000.0, 0.1), "{}", bbr.bandwidth());
}

#[test]
fn pause_leaves_rate_and_window_as_they_were() {
    let (mut path, mut bbr) = (Path::new(10_000, 10 * MS), Bbr::new());
    path.fill(&mut bbr, 2_000 * MS);
    path.drain(&mut bbr);
    path.now += 30_000 * MS;
    path.next_send = path.now;
    let before = path.delivered;
    path.fill(&mut bbr, 250 * MS);
    let rate = (path.delivered - before) as f64 / 0.25;
    assert!(rate > 8_500.0, "{rate} packets/s right after");
    assert!(path.rtt.latest() < 20 * MS, "{:?}", path.rtt.latest());
}

#[test]
fn losses_without_a_queue_below_the_threshold_lower_nothing() {
    let (mut path, mut bbr) = (Path::new(10_000, 10 * MS), Bbr::new());
    path.fill(&mut bbr, 2_000 * MS);
    let before = path.delivered;
    for _ in 0..250 {
        bbr.on_lost(1);
        path.fill(&mut bbr, 20 * MS);
    }
    let rate = (path.delivered - before) as f64 / 5.0;
    assert!(rate > 8_000.0, "{rate} packets/s");
}

#[test]
fn losses_beyond_the_threshold_lower_the_bounds_until_they_end() {
    let (mut path, mut bbr) = (Path::new(10_000, 10 * MS), Bbr::new());
    path.fill(&mut bbr, 2_000 * MS);
    let before = bbr.window();
    for _ in 0..40 {
        bbr.on_lost(10);
        path.fill(&mut bbr, 10 * MS);
    }
    assert!(bbr.window() < before, "{} after {before}", bbr.window());
    path.fill(&mut bbr, 5_000 * MS);
    let delivered = path.delivered;
    path.fill(&mut bbr, 2_000 * MS);
    assert!(path.delivered - delivered > 18_000, "{} in two seconds", path.delivered - delivered);
}

#[test]
fn timeout_that_was_false_is_undone() {
    let (mut path, mut bbr) = (Path::new(10_000, 10 * MS), Bbr::new());
    path.fill(&mut bbr, 2_000 * MS);
    let before = bbr.window();
    bbr.on_lost(1);
    bbr.on_rto(path.now);
    bbr.on_spurious_loss(path.now);
    assert_eq!(bbr.window(), before);
}
