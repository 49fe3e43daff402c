//! Delivery rate of a path: samples of packets delivered over time
//! (draft-cheng-iccrg-delivery-rate-estimation).
//!
//! Every transmission remembers what had been delivered when it left; the ACK that covers it tells what has been since.
//! All packets of a transmit pass leave at one time with one memory, so a pass is stored and not a packet.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::header::serial_after;

/// Counter of what a call direction delivers, with the passes under way.
#[derive(Clone, Debug)]
pub(super) struct DeliveryRate {
    delivered: u64,
    delivered_at: Option<Instant>,
    /// Send time of the packet that the last sample is of.
    first_sent_at: Option<Instant>,
    lost: u64,
    /// Delivered count from which samples are of the path again and not of the application; 0 if they are.
    app_limited_until: u64,
    flights: VecDeque<Flight>,
}

/// Packets that left in one transmit pass.
#[derive(Clone, Copy, Debug)]
struct Flight {
    first: u32,
    last: u32,
    sent_at: Instant,
    first_sent_at: Instant,
    delivered_at: Instant,
    delivered: u64,
    lost: u64,
    /// Packets in flight with the first of the pass, and with the last.
    in_flight: (u32, u32),
    app_limited: bool,
}

/// Sample of the path by the ACK of one transmission.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sample {
    /// Packets per second; `None` where the time is too short for a figure.
    pub(super) rate: Option<f64>,
    /// Packets delivered since the transmission left, and before it left.
    pub(super) delivered: u64,
    pub(super) prior_delivered: u64,
    /// Packets lost since the transmission left.
    pub(super) lost: u64,
    /// Packets in flight when the transmission left, itself included.
    pub(super) in_flight: u32,
    /// Set if the application, not the path, set the pace.
    pub(super) app_limited: bool,
}

impl DeliveryRate {
    pub(super) fn new() -> Self {
        Self {
            delivered: 0,
            delivered_at: None,
            first_sent_at: None,
            lost: 0,
            app_limited_until: 0,
            flights: VecDeque::new(),
        }
    }

    /// Returns the number of packets delivered so far.
    pub(super) fn delivered(&self) -> u64 {
        self.delivered
    }

    pub(super) fn is_app_limited(&self) -> bool {
        self.app_limited_until > 0
    }

    /// Notes a packet that was sent; `in_flight` includes it.
    pub(super) fn on_sent(&mut self, now: Instant, serial: u32, in_flight: u32) {
        if let Some(flight) = self.flights.back_mut()
            && flight.sent_at == now
            && flight.delivered == self.delivered
            && flight.lost == self.lost
        {
            flight.last = serial;
            flight.in_flight.1 = in_flight;
            return;
        }
        if in_flight <= 1 {
            self.first_sent_at = Some(now);
            self.delivered_at = Some(now);
        }
        if self.flights.len() == FLIGHTS_MAX {
            self.flights.pop_front();
        }
        self.flights.push_back(Flight {
            first: serial,
            last: serial,
            sent_at: now,
            first_sent_at: *self.first_sent_at.get_or_insert(now),
            delivered_at: *self.delivered_at.get_or_insert(now),
            delivered: self.delivered,
            lost: self.lost,
            in_flight: (in_flight, in_flight),
            app_limited: self.is_app_limited(),
        });
    }

    /// Notes that the application has nothing more to send while `in_flight` packets are under way.
    pub(super) fn on_app_limited(&mut self, in_flight: u32) {
        self.app_limited_until = (self.delivered + u64::from(in_flight)).max(1);
    }

    pub(super) fn on_lost(&mut self, packets: u32) {
        self.lost += u64::from(packets);
    }

    /// Notes that `newly_acked` packets have arrived, and returns the sample of `serial`, the latest
    /// transmission known to be among them.
    pub(super) fn on_ack(
        &mut self,
        now: Instant,
        newly_acked: u32,
        serial: Option<u32>,
        min_rtt: Option<Duration>,
    ) -> Option<Sample> {
        self.delivered += u64::from(newly_acked);
        self.delivered_at = Some(now);
        if self.app_limited_until > 0 && self.delivered > self.app_limited_until {
            self.app_limited_until = 0;
        }
        let serial = serial?;
        while self.flights.front().is_some_and(|flight| serial_after(serial, flight.last)) {
            self.flights.pop_front();
        }
        let flight = self.flights.front().filter(|flight| !serial_after(flight.first, serial))?;
        self.first_sent_at = Some(flight.sent_at);
        let delivered = self.delivered - flight.delivered;
        let sending = flight.sent_at.saturating_duration_since(flight.first_sent_at);
        let acking = now.saturating_duration_since(flight.delivered_at);
        let interval = sending.max(acking);
        // Shorter than any round trip: the packets were counted before they can have arrived.
        let sound = !interval.is_zero() && min_rtt.is_none_or(|min| interval >= min);
        Some(Sample {
            rate: sound.then(|| delivered as f64 / interval.as_secs_f64()),
            delivered,
            prior_delivered: flight.delivered,
            lost: self.lost - flight.lost,
            in_flight: flight.in_flight_with(serial),
            app_limited: flight.app_limited,
        })
    }
}

impl Flight {
    /// Returns the packets in flight once the one with `serial` had left: those of other calls take serials
    /// too, evenly.
    fn in_flight_with(&self, serial: u32) -> u32 {
        let (first, last) = self.in_flight;
        let span = u64::from(self.last.wrapping_sub(self.first)).max(1);
        let into = u64::from(serial.wrapping_sub(self.first));
        first + (u64::from(last.saturating_sub(first)) * into / span) as u32
    }
}

/// Most passes that are remembered. One that is forgotten costs a sample.
const FLIGHTS_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn rate_is_that_of_the_acks_and_not_of_the_burst() {
        let (mut rate, start) = (DeliveryRate::new(), Instant::now());
        for n in 1..=100 {
            rate.on_sent(start, n, n);
        }
        assert_eq!(rate.flights.len(), 1, "one pass");
        let mut last = None;
        for n in 1..=100 {
            last = rate.on_ack(start + 10 * MS + n * MS / 10, 1, Some(n), None);
        }
        let sample = last.expect("a transmission that is known");
        assert_eq!((sample.delivered, sample.in_flight, sample.app_limited), (100, 100, false));
        let per_second = sample.rate.expect("20 ms");
        assert!((per_second - 5_000.0).abs() < 1.0, "100 packets in 20 ms, not {per_second}");
    }

    #[test]
    fn acks_that_come_together_count_no_faster_than_the_packets_were_sent() {
        let (mut rate, start) = (DeliveryRate::new(), Instant::now());
        for n in 0..20 {
            rate.on_sent(start + n * MS, n, n + 1);
        }
        let samples: Vec<_> =
            (0..20).filter_map(|n| rate.on_ack(start + 25 * MS, 1, Some(n), None)?.rate).collect();
        assert!(samples.iter().all(|&rate| rate <= 20.0 / 0.019 + 1.0), "{samples:?}");
    }

    #[test]
    fn samples_of_a_silent_application_are_marked_until_its_packets_are_through() {
        let (mut rate, start) = (DeliveryRate::new(), Instant::now());
        rate.on_sent(start, 1, 1);
        rate.on_sent(start, 2, 2);
        rate.on_app_limited(2);
        let first = rate.on_ack(start + 10 * MS, 1, Some(1), None).expect("known");
        assert!(!first.app_limited, "it left before the application fell silent");
        rate.on_sent(start + 10 * MS, 3, 2);
        rate.on_ack(start + 11 * MS, 1, Some(2), None);
        assert!(rate.is_app_limited());
        assert!(rate.on_ack(start + 20 * MS, 1, Some(3), None).is_some_and(|sample| sample.app_limited));
        assert!(!rate.is_app_limited());
    }

    #[test]
    fn pause_before_a_burst_is_not_part_of_its_sample() {
        let (mut rate, start) = (DeliveryRate::new(), Instant::now());
        rate.on_sent(start, 1, 1);
        rate.on_ack(start + 10 * MS, 1, Some(1), None);
        let again = start + 5_000 * MS;
        for n in 2..=11 {
            rate.on_sent(again, n, n - 1);
        }
        let sample = rate.on_ack(again + 10 * MS, 10, Some(11), None).expect("known");
        assert_eq!((sample.rate, sample.delivered), (Some(1_000.0), 10));
    }

    #[test]
    fn time_shorter_than_a_round_trip_gives_no_rate() {
        let (mut rate, start) = (DeliveryRate::new(), Instant::now());
        rate.on_sent(start, 1, 1);
        let sample = rate.on_ack(start + MS, 1, Some(1), Some(10 * MS)).expect("known");
        assert_eq!(sample.rate, None);
    }

    #[test]
    fn serials_wrap_and_those_never_sent_give_nothing() {
        let (mut rate, start) = (DeliveryRate::new(), Instant::now());
        rate.on_sent(start, u32::MAX, 1);
        rate.on_sent(start + MS, 0, 2);
        assert!(rate.on_ack(start + 10 * MS, 1, Some(u32::MAX), None).is_some());
        assert!(rate.on_ack(start + 11 * MS, 1, Some(0), None).is_some());
        assert!(rate.on_ack(start + 12 * MS, 0, Some(7), None).is_none());
    }

    #[test]
    fn memory_of_passes_is_bounded() {
        let (mut rate, start) = (DeliveryRate::new(), Instant::now());
        for n in 0..2 * FLIGHTS_MAX as u32 {
            rate.on_sent(start + n * MS, n, n + 1);
        }
        assert_eq!(rate.flights.len(), FLIGHTS_MAX);
    }
}
