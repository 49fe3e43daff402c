//! Loss detection of one call: RACK (RFC 8985) on Rx serials, a tail probe, and the Rx retransmission
//! timeout.
//!
//! Every Rx packet has its own serial and every ACK names the serial that prompted it, so which transmission
//! arrived is known exactly and RACK needs no guess about resent packets. A tail loss is probed with a PING
//! ACK, whose answer carries the whole scoreboard: nothing is resent that has been received. Only when the
//! peer stays silent does the timeout resend the lowest outstanding packet.

use std::time::{Duration, Instant};

use crate::rtt::RttEstimator;
use crate::window::{AckOutcome, SendWindow};

#[derive(Debug)]
pub(crate) struct Recovery {
    /// Serial and send time of the latest transmission known to have arrived, and its round trip.
    delivered: Option<(u32, Instant, Duration)>,
    reordering_seen: bool,
    /// Set if other calls of the peer can learn something new about reordering.
    lesson: bool,
    /// Reordering window in quarters of the smallest round trip; grows with each spurious resend.
    reorder_quarters: u32,
    /// First packet number that does not belong to the loss episode under repair.
    episode_end: Option<u32>,
    episode_resends: u32,
    episode_spurious: u32,
    /// Time when the earliest packet still inside the reordering window becomes lost.
    reorder_at: Option<Instant>,
    /// Start of the retransmission timeout: last progress, or first packet into an idle window.
    rto_base: Option<Instant>,
    backoff: u32,
    /// Time when something was last acknowledged, or first sent after all was.
    moved_at: Option<Instant>,
    last_sent_at: Option<Instant>,
    /// Serial of the last packet that asked for an ACK, until an ACK of that or a later serial comes.
    requested: Option<u32>,
    /// Set if a tail probe was sent since the last progress.
    probed: bool,
    /// True on the server's side, where the call exists because the client sent DATA for it.
    peer_knows_call: bool,
}

/// Action that a timer of the send side asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timeout {
    /// The timer asks for nothing yet.
    None,
    /// The timer asks to look for losses again: the reordering window of some packet has passed.
    Reorder,
    /// The timer asks to send a PING ACK.
    Probe,
    /// The timer asks to resend the lowest outstanding packet.
    Resend,
}

impl Recovery {
    /// Makes the state of a new call; `reordering` is what other calls of the peer have learnt, in quarters
    /// of the smallest round trip.
    pub(crate) fn new(peer_knows_call: bool, reordering: Option<u32>) -> Self {
        Self {
            delivered: None,
            reordering_seen: reordering.is_some(),
            lesson: false,
            reorder_quarters: reordering.unwrap_or(1),
            episode_end: None,
            episode_resends: 0,
            episode_spurious: 0,
            reorder_at: None,
            rto_base: None,
            backoff: 0,
            moved_at: None,
            last_sent_at: None,
            requested: None,
            probed: false,
            peer_knows_call,
        }
    }

    /// Notes a DATA packet that was sent. `was_idle`: nothing was in flight before it.
    pub(crate) fn on_sent(
        &mut self,
        now: Instant,
        serial: u32,
        wants_ack: bool,
        was_idle: bool,
        resent: bool,
    ) {
        if was_idle || self.rto_base.is_none() {
            self.rto_base = Some(now);
        }
        self.last_sent_at = Some(now);
        if was_idle && !resent {
            self.moved_at = Some(now);
        }
        if wants_ack {
            self.requested = Some(serial);
        }
        if resent {
            self.episode_resends += 1;
        } else {
            self.probed = false;
        }
    }

    /// Returns whether an ACK that was asked for is still due.
    pub(crate) fn awaits_ack(&self) -> bool {
        self.requested.is_some()
    }

    /// Notes an ACK prompted by `serial` that was applied to `window`. Returns whether this episode has lost
    /// nothing after all, so that the window reduction should be undone.
    pub(crate) fn on_ack(
        &mut self,
        now: Instant,
        serial: u32,
        outcome: &AckOutcome,
        window: &SendWindow,
    ) -> bool {
        if self.requested.is_some_and(|requested| !crate::header::serial_after(requested, serial)) {
            self.requested = None;
        }
        if let Some((serial, sent_at)) = outcome.delivered {
            self.note_delivered(now, serial, sent_at);
        }
        if outcome.newly_acked > 0 {
            self.rto_base = Some(now);
            self.moved_at = Some(now);
            self.backoff = 0;
            self.probed = false;
        }
        if outcome.reordered {
            self.reordering_seen = true;
            self.lesson = true;
        }
        let refuted = outcome.spurious + outcome.refuted > 0;
        let undo = refuted && self.note_false_losses(outcome.spurious, window);
        if self.episode_end.is_some_and(|end| window.base() >= end) {
            self.end_episode();
        }
        undo
    }

    /// Returns how much reordering there is, if an ACK has just shown more.
    pub(crate) fn take_lesson(&mut self) -> Option<u32> {
        std::mem::take(&mut self.lesson).then_some(self.reorder_quarters)
    }

    /// Returns the reordering that is allowed for, once any is known.
    #[cfg(test)]
    pub(crate) fn reordering(&self) -> Option<u32> {
        self.reordering_seen.then_some(self.reorder_quarters)
    }

    /// Notes a transmission that has arrived, by an ACK of data or the answer to a ping.
    pub(crate) fn note_delivered(&mut self, now: Instant, serial: u32, sent_at: Instant) {
        if self.delivered.is_none_or(|(known, ..)| crate::header::serial_after(serial, known)) {
            self.delivered = Some((serial, sent_at, now.saturating_duration_since(sent_at)));
        }
    }

    /// Notes that packets counted as lost were only late, `resent` of them after they had been sent again.
    /// Returns whether that holds for the whole episode.
    pub(crate) fn note_false_losses(&mut self, resent: u32, window: &SendWindow) -> bool {
        self.reordering_seen = true;
        self.lesson = true;
        self.reorder_quarters = (self.reorder_quarters + 1).min(REORDER_QUARTERS_MAX);
        self.episode_spurious += resent;
        self.episode_end.is_some() && self.episode_spurious >= self.episode_resends && !window.has_lost()
    }

    /// Marks packets lost that were sent before one that arrived, and longer ago than the reordering window.
    /// Returns the send time of the latest of them, when they begin a new episode.
    pub(crate) fn detect(
        &mut self,
        now: Instant,
        window: &mut SendWindow,
        rtt: &RttEstimator,
    ) -> Option<Instant> {
        self.reorder_at = None;
        let (delivered, _, delivered_rtt) = self.delivered?;
        let allowance = delivered_rtt + self.reorder_window(window, rtt);
        let (largest, stopped) = window.detect_losses(|serial, at| {
            crate::header::serial_after(delivered, serial) && now >= at + allowance
        });
        if let Some((serial, at)) = stopped
            && crate::header::serial_after(delivered, serial)
        {
            self.reorder_at = Some(at + allowance);
        }
        largest.filter(|_| self.begin_episode(window.next()))
    }

    fn reorder_window(&self, window: &SendWindow, rtt: &RttEstimator) -> Duration {
        let sure = self.episode_end.is_some() || window.soft_acked() >= DUPLICATE_THRESHOLD;
        if !self.reordering_seen && sure {
            return Duration::ZERO;
        }
        (rtt.min_rtt() * self.reorder_quarters / 4).min(rtt.srtt()).max(REORDER_WINDOW_MIN)
    }

    /// Begins an episode that ends when everything sent so far is acknowledged; false inside one.
    fn begin_episode(&mut self, end: u32) -> bool {
        if self.episode_end.is_some() {
            return false;
        }
        self.episode_end = Some(end);
        self.episode_resends = 0;
        self.episode_spurious = 0;
        true
    }

    fn end_episode(&mut self) {
        self.episode_end = None;
    }

    /// Returns when [`on_timeout`](Self::on_timeout) should look next.
    pub(crate) fn deadline(&self, window: &SendWindow, rtt: &RttEstimator) -> Option<Instant> {
        if window.outstanding() == 0 {
            return None;
        }
        let resend = self.rto_base.map(|base| base + self.rto(rtt));
        [self.reorder_at, self.probe_at(window, rtt), resend].into_iter().flatten().min()
    }

    /// Returns the action that is due at `now`.
    pub(crate) fn on_timeout(&mut self, now: Instant, window: &SendWindow, rtt: &RttEstimator) -> Timeout {
        if window.outstanding() == 0 {
            return Timeout::None;
        }
        if self.rto_base.is_some_and(|base| now >= base + self.rto(rtt)) {
            return Timeout::Resend;
        }
        if self.probe_at(window, rtt).is_some_and(|at| now >= at) {
            self.probed = true;
            return Timeout::Probe;
        }
        if self.reorder_at.is_some_and(|at| now >= at) { Timeout::Reorder } else { Timeout::None }
    }

    /// Applies a retransmission timeout: the lowest packet in flight counts as lost and the timer backs off.
    pub(crate) fn on_rto(&mut self, now: Instant, window: &mut SendWindow) -> bool {
        self.rto_base = Some(now);
        self.backoff = (self.backoff + 1).min(BACKOFF_MAX);
        let lost = window.lose_first().is_some();
        self.episode_end = None;
        self.begin_episode(window.next());
        lost
    }

    /// Returns how long packets have been under way without any acknowledgement.
    pub(crate) fn stalled_for(&self, now: Instant, window: &SendWindow) -> Duration {
        let since = self.moved_at.filter(|_| window.outstanding() > 0);
        since.map_or(Duration::ZERO, |at| now.saturating_duration_since(at))
    }

    /// Returns the number of timeouts in a row without progress.
    pub(crate) fn backoff(&self) -> u32 {
        self.backoff
    }

    /// Returns the retransmission timeout with its back-off. To a peer that has never answered the first few are not
    /// doubled, as TCP's are for a SYN (Linux, `tcp_syn_linear_timeouts`). Each puts one packet on the path, and until
    /// the server has our address proved each brings it the bytes for one more probe.
    pub(crate) fn rto(&self, rtt: &RttEstimator) -> Duration {
        let free = if rtt.has_sample() { 0 } else { UNDOUBLED_TIMEOUTS };
        (rtt.rto() * (1 << self.backoff.saturating_sub(free))).min(RTO_MAX.max(rtt.rto()))
    }

    /// Returns when to send a tail probe, only where the peer knows the call: a server ignores pings for
    /// calls of which it has seen no DATA. Where no ACK was asked for, the peer may hold one back for its
    /// delay.
    fn probe_at(&self, window: &SendWindow, rtt: &RttEstimator) -> Option<Instant> {
        if self.probed || !(window.any_acked() || self.peer_knows_call) || !rtt.has_sample() {
            return None;
        }
        let delay = if self.requested.is_some() { PROBE_MARGIN } else { PEER_ACK_DELAY };
        let wait = (rtt.srtt() * 2).max(rtt.srtt() + rtt.rttvar() * 4) + delay;
        self.last_sent_at.map(|at| at + wait)
    }
}

/// Soft ACKs above a hole that make it a loss while no reordering has been seen.
const DUPLICATE_THRESHOLD: u32 = 3;
/// Largest reordering window, in quarters of the smallest round trip.
const REORDER_QUARTERS_MAX: u32 = 16;
/// Shortest reordering window: shorter ones cannot be told from scheduling noise.
const REORDER_WINDOW_MIN: Duration = Duration::from_millis(1);
/// Scheduling allowance before an asked-for ACK counts as missing.
const PROBE_MARGIN: Duration = Duration::from_millis(2);
/// Time for which a peer may hold back an ACK that was not requested, with the margin.
const PEER_ACK_DELAY: Duration = Duration::from_millis(110);
/// Timeouts without doubling towards a peer that has never answered.
const UNDOUBLED_TIMEOUTS: u32 = 3;
/// Most doublings of the retransmission timeout.
const BACKOFF_MAX: u32 = 6;
/// Upper bound of the backed-off timeout.
const RTO_MAX: Duration = Duration::from_secs(8);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::PacketPool;

    const MS: Duration = Duration::from_millis(1);

    fn rtt_of(sample: Duration) -> RttEstimator {
        let mut rtt = RttEstimator::new();
        for _ in 0..20 {
            rtt.update(Instant::now(), sample, Duration::ZERO);
        }
        rtt
    }

    fn sent(
        recovery: &mut Recovery,
        pool: &mut PacketPool,
        at: Instant,
        count: u32,
        ask: bool,
    ) -> SendWindow {
        let mut window = SendWindow::new();
        for seq in 1..=count {
            window.queue(pool.alloc().expect("pool is large enough"), false);
            let _ = window.peek(u32::MAX);
            window.sent(seq, seq, at);
            recovery.on_sent(at, seq, ask && seq == count, seq == 1, false);
        }
        window
    }

    #[test]
    fn timeout_has_the_floors_of_rx_and_doubles() {
        let (mut pool, now, rtt) = (PacketPool::new(8, 10), Instant::now(), rtt_of(MS));
        let mut recovery = Recovery::new(false, None);
        let mut window = sent(&mut recovery, &mut pool, now, 1, false);
        assert_eq!(recovery.deadline(&window, &rtt), Some(now + 220 * MS));
        assert_eq!(recovery.on_timeout(now + 219 * MS, &window, &rtt), Timeout::None);
        assert_eq!(recovery.on_timeout(now + 220 * MS, &window, &rtt), Timeout::Resend);
        assert!(recovery.on_rto(now + 220 * MS, &mut window));
        assert_eq!(recovery.deadline(&window, &rtt), Some(now + 660 * MS));
        window.clear(&mut pool);
    }

    #[test]
    fn first_timeouts_to_a_peer_never_heard_are_not_doubled() {
        let (mut pool, mut now, rtt) = (PacketPool::new(8, 10), Instant::now(), RttEstimator::new());
        let mut recovery = Recovery::new(false, None);
        let mut window = sent(&mut recovery, &mut pool, now, 1, false);
        let mut waits = Vec::new();
        for serial in 2..9 {
            let at = recovery.deadline(&window, &rtt).expect("armed");
            assert_eq!(recovery.on_timeout(at, &window, &rtt), Timeout::Resend);
            assert!(recovery.on_rto(at, &mut window));
            window.sent(1, serial, at);
            recovery.on_sent(at, serial, true, false, true);
            waits.push((at - now).as_secs());
            now = at;
        }
        assert_eq!(waits, [1, 1, 1, 1, 2, 4, 8]);
        window.clear(&mut pool);
    }

    #[test]
    fn asked_for_ack_that_is_late_is_probed_for_once() {
        let (mut pool, now, rtt) = (PacketPool::new(8, 10), Instant::now(), rtt_of(10 * MS));
        let mut recovery = Recovery::new(true, None);
        let mut window = sent(&mut recovery, &mut pool, now, 4, true);
        let at = recovery.deadline(&window, &rtt).expect("armed");
        assert!(at >= now + 20 * MS && at < now + 40 * MS);
        assert_eq!(recovery.on_timeout(at, &window, &rtt), Timeout::Probe);
        assert!(recovery.deadline(&window, &rtt) > Some(at));
        assert_eq!(recovery.on_timeout(at, &window, &rtt), Timeout::None);
        window.clear(&mut pool);
    }

    #[test]
    fn client_does_not_probe_for_a_call_its_server_may_not_know() {
        let (mut pool, now, rtt) = (PacketPool::new(8, 10), Instant::now(), rtt_of(10 * MS));
        let mut recovery = Recovery::new(false, None);
        let mut window = sent(&mut recovery, &mut pool, now, 4, true);
        assert_eq!(recovery.deadline(&window, &rtt), Some(now + rtt.rto()));
        window.clear(&mut pool);
    }

    #[test]
    fn packets_sent_before_a_delivered_one_are_lost_after_the_reordering_window() {
        let (mut pool, now, rtt) = (PacketPool::new(8, 10), Instant::now(), rtt_of(10 * MS));
        let mut recovery = Recovery::new(false, None);
        let mut window = sent(&mut recovery, &mut pool, now, 5, true);
        recovery.note_delivered(now + 10 * MS, 3, now);
        assert_eq!(recovery.detect(now + 10 * MS, &mut window, &rtt), None);
        let at = recovery.reorder_at.expect("armed");
        assert_eq!(at, now + 10 * MS + rtt.min_rtt() / 4);
        assert_eq!(recovery.on_timeout(at, &window, &rtt), Timeout::Reorder);
        assert_eq!(recovery.detect(at, &mut window, &rtt), Some(now));
        assert_eq!(window.in_flight(), 3, "packets 3 to 5 are not older than the delivered one");
        assert_eq!(recovery.detect(at, &mut window, &rtt), None, "one episode");
        window.clear(&mut pool);
    }

    #[test]
    fn reordering_window_grows_with_spurious_resends_up_to_a_round_trip() {
        let (window, rtt) = (SendWindow::new(), rtt_of(100 * MS));
        let mut recovery = Recovery::new(false, None);
        let before = recovery.reorder_window(&window, &rtt);
        recovery.note_false_losses(1, &window);
        assert!(recovery.reorder_window(&window, &rtt) > before);
        for _ in 0..100 {
            recovery.note_false_losses(1, &window);
        }
        assert_eq!(recovery.reorder_window(&window, &rtt), rtt.srtt());
    }

    /// Sends five packets of which the third is known to have arrived and the first two count as lost.
    fn two_lost(recovery: &mut Recovery, pool: &mut PacketPool, now: Instant) -> SendWindow {
        let rtt = rtt_of(10 * MS);
        let mut window = sent(recovery, pool, now, 5, true);
        recovery.note_delivered(now + 10 * MS, 3, now);
        assert_eq!(recovery.detect(now + 20 * MS, &mut window, &rtt), Some(now));
        window
    }

    fn ack_of(first: u32, serial: u32) -> Vec<u8> {
        let trailer = crate::ack::Trailer { max_mtu: 1444, if_mtu: 1444, window: 64, jumbo_max: 0 };
        let reason = crate::ack::AckReason::Requested;
        let fields =
            crate::ack::AckFields { first, previous: first, serial, reason, trailer, extended: false };
        let mut payload = vec![0; crate::ack::ACK_PAYLOAD_MAX];
        let len = crate::ack::encode(&mut payload, &fields, |_| 0, || None);
        payload.truncate(len);
        payload
    }

    fn acknowledge(
        recovery: &mut Recovery,
        window: &mut SendWindow,
        pool: &mut PacketPool,
        now: Instant,
        first: u32,
        serial: u32,
    ) -> bool {
        let payload = ack_of(first, serial);
        let ack = crate::ack::Ack::parse(&payload).expect("valid");
        let outcome = window.on_ack(&ack, true, pool);
        recovery.on_ack(now, serial, &outcome, window)
    }

    #[test]
    fn losses_refuted_before_they_were_resent_undo_the_reduction() {
        let (mut pool, now) = (PacketPool::new(8, 10), Instant::now());
        let mut recovery = Recovery::new(false, None);
        let mut window = two_lost(&mut recovery, &mut pool, now);
        assert!(
            !acknowledge(&mut recovery, &mut window, &mut pool, now + 21 * MS, 2, 1),
            "one is still lost"
        );
        assert!(acknowledge(&mut recovery, &mut window, &mut pool, now + 22 * MS, 3, 2));
        window.clear(&mut pool);
    }

    #[test]
    fn one_real_loss_in_an_episode_keeps_the_reduction() {
        let (mut pool, now) = (PacketPool::new(8, 10), Instant::now());
        let mut recovery = Recovery::new(false, None);
        let mut window = two_lost(&mut recovery, &mut pool, now);
        window.sent(1, 6, now + 20 * MS);
        recovery.on_sent(now + 20 * MS, 6, true, false, true);
        assert!(!acknowledge(&mut recovery, &mut window, &mut pool, now + 40 * MS, 3, 6));
        window.clear(&mut pool);
    }
}
