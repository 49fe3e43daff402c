//! Congestion control: how many packets one call direction may have in flight.
//!
//! The sender owns a [`Controller`] and tells it what happened; the controller never sees packets, clocks or
//! sockets. [`Auto`], the default, is [`NewReno`] until losses show that the path loses packets without being full, and
//! [`Bbr`] from then on; [`Cubic`] is the choice for long fat paths.

mod auto;
mod bbr;
mod cubic;
mod delivery_rate;
mod new_reno;
mod pacer;
mod slow_start;

use std::fmt;
use std::time::Instant;

pub use self::auto::Auto;
pub use self::bbr::Bbr;
pub use self::cubic::Cubic;
pub use self::new_reno::NewReno;
pub(crate) use self::pacer::Pacer;
use crate::rtt::RttEstimator;

/// Congestion controller. All amounts are packets.
///
/// The sender may put a packet on the wire while `in_flight < window()`, where `in_flight` counts packets
/// sent and neither acknowledged (hard or soft) nor declared lost.
pub trait Controller: Send + fmt::Debug {
    /// Returns the congestion window, at least 1. The peer's receive window is a separate limit.
    fn window(&self) -> u32;

    /// Returns the packets a second to be sent, where the controller sets a pace; else a little more than a
    /// window in a round trip.
    fn pacing_rate(&self) -> Option<f64> {
        None
    }

    /// Notes that a packet was sent; `in_flight` includes it. `serial` is that of its transmission.
    fn on_sent(&mut self, now: Instant, serial: u32, in_flight: u32);

    /// Notes that neither window nor pace ended a burst with `in_flight` packets under way, but a lack of
    /// data or the receive window.
    fn on_app_limited(&mut self, _in_flight: u32) {}

    /// Notes packets that left the network because an ACK covered them for the first time.
    fn on_ack(&mut self, now: Instant, acked: &Acked, rtt: &RttEstimator);

    /// Notes that `packets` packets were declared lost. Losses that begin a recovery episode are told by
    /// [`on_loss`](Self::on_loss) or [`on_rto`](Self::on_rto) next.
    fn on_lost(&mut self, _packets: u32) {}

    /// Notes the begin of a loss episode: packets were declared lost, the last of them sent at
    /// `largest_lost_sent_at`. `in_flight` no longer counts them.
    ///
    /// The window shrinks at most once per recovery episode: a loss of a packet sent before the previous
    /// reduction is part of the same event and is ignored.
    fn on_loss(&mut self, now: Instant, largest_lost_sent_at: Instant, in_flight: u32);

    /// Notes that the retransmission timer expired: everything in flight is presumed gone.
    fn on_rto(&mut self, now: Instant);

    /// Notes that the last [`on_loss`](Self::on_loss) or [`on_rto`](Self::on_rto) was false, as the original
    /// was only late: the reduction is undone (RFC 4015, RFC 9438 4.9).
    fn on_spurious_loss(&mut self, now: Instant);

    /// Returns whether losses here are no sign of congestion to other flows, so that they mislead an endpoint
    /// that takes them for one. `None` if the controller does not ask.
    fn losses_mislead(&self) -> Option<bool> {
        None
    }

    /// Notes that another call direction to the same peer has found that [losses
    /// mislead](Self::losses_mislead): fewer signs then suffice here.
    fn distrust_losses(&mut self) {}

    /// Copies the controller for a new call to the same peer.
    fn clone_box(&self) -> Box<dyn Controller>;
}

/// Effect of an ACK on the packets of one call direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Acked {
    /// Packets that the ACK covers for the first time.
    pub newly_acked: u32,
    /// Set if the sender did not fill the window before this ACK: no data, or a smaller receive window.
    ///
    /// Such ACKs prove nothing about the path, so the window does not grow (RFC 7661).
    pub app_limited: bool,
    /// Serial of the latest transmission known by the ACK to have arrived.
    pub serial: Option<u32>,
    /// Packets that are still in flight.
    pub in_flight: u32,
}

impl Acked {
    /// Makes an ACK of `newly_acked` packets, with nothing else known.
    pub fn new(newly_acked: u32, app_limited: bool) -> Self {
        Self { newly_acked, app_limited, ..Self::default() }
    }
}

impl Clone for Box<dyn Controller> {
    fn clone(&self) -> Self {
        self.clone_box()
    }
}

/// Controller that new calls get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// Automatic choice between NewReno and BBR ([`Auto`]).
    #[default]
    Auto,
    /// Controller by losses of RFC 5681 ([`NewReno`]).
    NewReno,
    /// Controller for long fat paths of RFC 9438 ([`Cubic`]).
    Cubic,
    /// Controller by delivery rate and round trip ([`Bbr`]).
    Bbr,
}

impl Algorithm {
    /// Makes a controller in its initial state.
    pub fn build(self) -> Box<dyn Controller> {
        match self {
            Self::NewReno => Box::new(NewReno::new()),
            Self::Cubic => Box::new(Cubic::new()),
            Self::Bbr => Box::new(Bbr::new()),
            Self::Auto => Box::new(Auto::new()),
        }
    }
}

/// Window before the first ACK (RFC 6928: ten segments; a full Rx packet is just under the 1460 octets meant
/// there).
pub const INITIAL_WINDOW: u32 = 10;

/// Smallest window after a loss that was repaired by ACKs (RFC 5681 eq. 4).
pub const MINIMUM_WINDOW: u32 = 2;

/// Window after a retransmission timeout (RFC 5681 3.1, the loss window).
pub const LOSS_WINDOW: u32 = 1;

/// Largest window in packets: no Rx peer offers a larger receive window.
pub const MAXIMUM_WINDOW: u32 = 65_535;

#[cfg(test)]
pub(crate) mod model {
    //! Ideal one-flow path that drives a controller round by round: fixed RTT, a loss of every `n`th packet.

    use std::time::Duration;

    use super::*;

    /// Returns the mean window over the last three quarters of `rounds` round trips, with losses by `lost`.
    pub(crate) fn mean_window(
        cc: &mut dyn Controller,
        rtt: Duration,
        rounds: u32,
        mut lost: impl FnMut() -> bool,
    ) -> f64 {
        let start = Instant::now();
        let mut estimator = RttEstimator::new();
        let mut total = 0u64;
        for round in 0..rounds {
            let sent_at = start + rtt * round;
            let now = sent_at + rtt;
            let window = cc.window();
            cc.on_sent(sent_at, 1, window);
            let losses = (0..window).filter(|_| lost()).count() as u32;
            estimator.update(now, rtt, Duration::ZERO);
            if losses > 0 {
                cc.on_loss(now, sent_at, window - losses);
            }
            if window > losses {
                cc.on_ack(now, &Acked::new(window - losses, false), &estimator);
            }
            if round >= rounds / 4 {
                total += u64::from(window);
            }
        }
        total as f64 / f64::from(rounds - rounds / 4)
    }

    /// Makes a loss process that loses each `period`-th packet.
    pub(crate) fn every(period: u32) -> impl FnMut() -> bool {
        let mut n = 0;
        move || {
            n += 1;
            if n == period {
                n = 0;
            }
            n == 0
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Returns the controllers that grow by ACKs and shrink by losses.
    fn by_losses() -> [Box<dyn Controller>; 3] {
        [Algorithm::NewReno.build(), Algorithm::Cubic.build(), Algorithm::Auto.build()]
    }

    fn all() -> [Box<dyn Controller>; 4] {
        let [new_reno, cubic, auto] = by_losses();
        [new_reno, cubic, auto, Algorithm::Bbr.build()]
    }

    fn steady_rtt() -> RttEstimator {
        let mut rtt = RttEstimator::new();
        rtt.update(Instant::now(), 10 * MS, Duration::ZERO);
        rtt
    }

    #[test]
    fn first_window_is_ten_packets() {
        for cc in all() {
            assert_eq!(cc.window(), INITIAL_WINDOW, "{cc:?}");
        }
    }

    #[test]
    fn slow_start_doubles_each_round_trip() {
        for mut cc in by_losses() {
            let now = Instant::now();
            cc.on_sent(now, 1, 10);
            cc.on_ack(now + 10 * MS, &Acked::new(10, false), &steady_rtt());
            assert_eq!(cc.window(), 20, "{cc:?}");
        }
    }

    #[test]
    fn window_does_not_grow_while_the_application_is_the_limit() {
        for mut cc in by_losses() {
            let now = Instant::now();
            cc.on_sent(now, 1, 2);
            cc.on_ack(now + 10 * MS, &Acked::new(2, true), &steady_rtt());
            assert_eq!(cc.window(), INITIAL_WINDOW, "{cc:?}");
        }
    }

    #[test]
    fn losses_of_one_flight_reduce_the_window_once() {
        for mut cc in by_losses() {
            let sent = Instant::now();
            cc.on_sent(sent, 1, 10);
            cc.on_ack(sent + 10 * MS, &Acked::new(90, false), &steady_rtt());
            let before = cc.window();
            cc.on_loss(sent + 11 * MS, sent + MS, 80);
            let reduced = cc.window();
            assert!(reduced < before && reduced >= before / 2, "{cc:?}");
            cc.on_loss(sent + 12 * MS, sent + 2 * MS, 70);
            assert_eq!(cc.window(), reduced, "{cc:?}");
            cc.on_loss(sent + 40 * MS, sent + 20 * MS, 40);
            assert!(cc.window() < reduced, "a packet sent after the reduction is a new event: {cc:?}");
        }
    }

    #[test]
    fn timeout_restarts_from_the_loss_window_and_keeps_the_threshold_when_repeated() {
        for mut cc in by_losses() {
            let now = Instant::now();
            cc.on_sent(now, 1, 10);
            cc.on_ack(now + 10 * MS, &Acked::new(90, false), &steady_rtt());
            cc.on_sent(now + 10 * MS, 1, 100);
            cc.on_rto(now + 500 * MS);
            assert_eq!(cc.window(), LOSS_WINDOW, "{cc:?}");
            cc.on_rto(now + 1500 * MS);
            assert_eq!(cc.window(), LOSS_WINDOW, "{cc:?}");
            let mut at = now + 2000 * MS;
            for _ in 0..5 {
                let window = cc.window();
                cc.on_sent(at, 1, window);
                at += 10 * MS;
                cc.on_ack(at, &Acked::new(window, false), &steady_rtt());
            }
            assert_eq!(cc.window(), 32, "slow start runs on to the threshold of the first timeout: {cc:?}");
        }
    }

    #[test]
    fn spurious_loss_restores_the_window() {
        for mut cc in by_losses() {
            let now = Instant::now();
            cc.on_sent(now, 1, 10);
            cc.on_ack(now + 10 * MS, &Acked::new(40, false), &steady_rtt());
            let before = cc.window();
            cc.on_loss(now + 20 * MS, now + 10 * MS, 30);
            assert!(cc.window() < before);
            cc.on_spurious_loss(now + 25 * MS);
            assert_eq!(cc.window(), before, "{cc:?}");
            cc.on_rto(now + 600 * MS);
            cc.on_spurious_loss(now + 601 * MS);
            assert_eq!(cc.window(), before, "{cc:?}");
            cc.on_spurious_loss(now + 602 * MS);
            assert_eq!(cc.window(), before, "an undo happens once: {cc:?}");
        }
    }

    #[test]
    fn window_stays_in_its_bounds_under_any_sequence_of_events() {
        for mut cc in all() {
            let mut now = Instant::now();
            let mut state = 0x9e37_79b9_u32;
            let mut serial = u32::MAX - 1_000;
            for _ in 0..200_000 {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                now += Duration::from_micros(u64::from(state >> 20));
                serial = serial.wrapping_add(1);
                match (state >> 8) % 64 {
                    0 => cc.on_loss(now, now - 5 * MS, state % 100),
                    1 => cc.on_rto(now),
                    2 => cc.on_spurious_loss(now),
                    3..20 => cc.on_sent(now, serial, state % 70_000),
                    20 => cc.on_lost(state % 1_000),
                    21 => cc.on_app_limited(state % 1_000),
                    _ => {
                        let mut acked = Acked::new(state % 5_000, state & 0x80 == 0);
                        acked.serial = (state & 0x40 == 0).then_some(serial.wrapping_sub(state >> 28));
                        acked.in_flight = state % 7_000;
                        let mut rtt = steady_rtt();
                        rtt.update(now, Duration::from_micros(u64::from(state >> 12)), Duration::ZERO);
                        cc.on_ack(now, &acked, &rtt);
                    }
                }
                assert!((LOSS_WINDOW..=MAXIMUM_WINDOW).contains(&cc.window()), "{cc:?}");
            }
        }
    }
}
