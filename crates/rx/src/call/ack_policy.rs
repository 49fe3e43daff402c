//! Acknowledgement policy of a call (OpenAFS `rxi_ReceiveDataPacket`; `docs/design/rx.md`, "ACK frequency").

use std::time::{Duration, Instant};

use crate::ack::AckReason;
use crate::config::EndpointConfig;
use crate::event::Side;
use crate::header::serial_after;
use crate::receive::ReceiveWindow;
use crate::rtt::RttEstimator;

/// ACKs that a call owes. At most one ordinary ACK and one ping answer go out in a transmit pass, however
/// many packets the batch before it held.
#[derive(Debug)]
pub(crate) struct AckPolicy {
    due: Option<AckReason>,
    at: Option<Instant>,
    /// Serial to name in the next ACK.
    prompt: u32,
    /// Serial of a ping to answer.
    ping: Option<u32>,
    unacked: u32,
    /// Number of packets that came behind a gap, each of which a stock sender wants to hear of.
    beyond_gap: u8,
    /// Time to repeat an ACK if nothing comes, and the number of repeats left.
    repeat: Option<Repeat>,
    /// Time to retry an ACK that could not be sent, if no packet comes before.
    retry_at: Option<Instant>,
    /// Number of times in a row that the ACK could not be sent.
    refusals: u8,
    /// First packet not acknowledged, as last stated.
    stated_base: u32,
    stated_edge: u32,
    /// Set for hard ACKs on receipt; see `ReceiveWindow::hard_ack`.
    pub(crate) on_receipt: bool,
}

impl AckPolicy {
    pub(crate) fn new(on_receipt: bool) -> Self {
        Self {
            due: None,
            at: None,
            prompt: 0,
            ping: None,
            unacked: 0,
            beyond_gap: 0,
            repeat: None,
            retry_at: None,
            refusals: 0,
            stated_base: 1,
            stated_edge: 0,
            on_receipt,
        }
    }

    /// Notes an in-order packet. Stock peers get an ACK for every second packet; modern ones ask for theirs.
    pub(crate) fn on_in_order(
        &mut self,
        now: Instant,
        serial: u32,
        wants_ack: bool,
        modern: bool,
        config: &EndpointConfig,
    ) {
        self.name(serial);
        self.unacked += 1;
        let stride = if modern { MODERN_STRIDE } else { STOCK_STRIDE };
        if wants_ack {
            self.due = Some(AckReason::Requested);
        } else if self.unacked >= stride {
            self.due.get_or_insert(AckReason::Idle);
        } else {
            self.at.get_or_insert(now + config.ack_delay);
        }
    }

    /// Notes a packet that must be answered at once: out of order, twice, or beyond the window.
    pub(crate) fn on_oddity(&mut self, serial: u32, reason: AckReason) {
        if reason == AckReason::Duplicate && self.due.is_none() {
            self.prompt = serial;
        } else {
            self.name(serial);
        }
        if reason != AckReason::Duplicate || self.due.is_none() {
            self.due = Some(reason);
        }
    }

    /// Notes a packet of a stock peer's stream that came behind a gap. Its sender counts the ACKs that show
    /// the gap and resends on the third (RFC 5681 4.2; OpenAFS `rx_nackThreshold`), so packets that came in
    /// one batch have theirs one by one, as if they had come apart.
    pub(crate) fn on_packet_beyond_gap(&mut self) {
        self.beyond_gap = (self.beyond_gap + 1).min(NACK_THRESHOLD);
    }

    /// Schedules repeats of an ACK after a packet of a stock peer's stream that goes on.
    ///
    /// Should the path fall silent now, a packet or an ACK was lost. So few are under way then that no third ACK would
    /// ever show the gap, and the ACK is repeated. A sender that has had three resends at once, where its own timeout
    /// takes 220 ms and doubles (OpenAFS `rxi_rto_startTimer`).
    pub(crate) fn repeat_if_silent(&mut self, now: Instant, rtt: &RttEstimator, has_gap: bool) {
        let wait = (rtt.srtt() * 3 / 2).clamp(REPEAT_WAIT_MIN, REPEAT_WAIT_MAX);
        let left = if has_gap { REPEATS_OF_GAP } else { REPEATS_IN_ORDER };
        self.repeat = Some(Repeat { at: now + wait, wait, left });
    }

    /// Notes that the stream is complete, so that no ACK is repeated.
    pub(crate) fn on_complete(&mut self) {
        self.repeat = None;
    }

    pub(crate) fn on_ping(&mut self, serial: u32) {
        self.ping = Some(serial);
    }

    /// Notes that the reader used up packets: the peer is told once a fair part of the window has opened.
    pub(crate) fn on_consumed(
        &mut self,
        now: Instant,
        rx: &ReceiveWindow,
        side: Side,
        modern: bool,
        config: &EndpointConfig,
    ) {
        if rx.is_complete() && side == Side::Server {
            return;
        }
        let opened = if self.on_receipt {
            rx.edge().saturating_sub(self.stated_edge)
        } else {
            rx.base() - self.stated_base
        };
        let enough = if modern { (rx.window() / 4).max(2) } else { STOCK_HARD_ACK };
        if opened >= enough && (self.stated_edge > 0 || !modern) {
            self.due.get_or_insert(AckReason::Idle);
        } else if opened > 0 {
            self.at.get_or_insert(now + config.ack_delay);
        }
    }

    fn name(&mut self, serial: u32) {
        if self.due.is_none() && self.unacked == 0 || serial_after(serial, self.prompt) {
            self.prompt = serial;
        }
    }

    /// Returns whether there may be an ACK to send, now or later.
    #[inline]
    pub(crate) fn owes_any(&self) -> bool {
        self.due.is_some()
            || self.ping.is_some()
            || self.at.is_some()
            || self.beyond_gap > 0
            || self.repeat.is_some()
    }

    /// Takes the ACK to send now: its reason and the serial to name.
    pub(crate) fn take(&mut self, now: Instant) -> Option<(AckReason, u32)> {
        self.retry_at = None;
        if let Some(serial) = self.ping.take() {
            return Some((AckReason::PingResponse, serial));
        }
        if let Some(reason) = self.due.take() {
            self.beyond_gap = self.beyond_gap.saturating_sub(1);
            return Some((reason, self.prompt));
        }
        if self.beyond_gap > 0 {
            self.beyond_gap -= 1;
            return Some((AckReason::OutOfSequence, self.prompt));
        }
        if self.at.take_if(|at| now >= *at).is_some() || self.take_repeat(now) {
            return Some((AckReason::Delay, self.prompt));
        }
        None
    }

    fn take_repeat(&mut self, now: Instant) -> bool {
        let Some(repeat) = self.repeat.take_if(|repeat| now >= repeat.at) else { return false };
        let left = repeat.left - 1;
        self.repeat = (left > 0).then(|| Repeat { at: now + repeat.wait, left, ..repeat });
        true
    }

    /// Takes back an ACK that was [taken](Self::take) and could not be sent. The ACK is still owed, by the
    /// next packet that finds the budget or a buffer, or by the timer. No other ACK wakes the call before
    /// that: none could be sent either.
    pub(crate) fn give_back(
        &mut self,
        now: Instant,
        reason: AckReason,
        serial: u32,
        config: &EndpointConfig,
    ) {
        match reason {
            AckReason::PingResponse => self.ping = Some(serial),
            reason => self.due = Some(reason),
        }
        let wait = config.ack_delay.max(RETRY_MIN) * (1 << self.refusals);
        self.refusals = (self.refusals + 1).min(RETRY_DOUBLINGS_MAX);
        self.retry_at = Some(now + wait);
    }

    /// Returns whether a ping waits for an answer.
    pub(crate) fn owes_ping_answer(&self) -> bool {
        self.ping.is_some()
    }

    /// Notes that an ACK with this `base` and window edge was built.
    pub(crate) fn on_stated(&mut self, base: u32, edge: u32) {
        self.stated_base = base;
        self.stated_edge = edge;
        self.unacked = 0;
        self.due = None;
        self.at = None;
        self.retry_at = None;
        self.refusals = 0;
    }

    /// Drops delayed ACKs, as DATA in the other direction has acknowledged all.
    pub(crate) fn on_implied(&mut self) {
        self.unacked = 0;
        self.beyond_gap = 0;
        self.repeat = None;
        self.due = None;
        self.at = None;
        self.retry_at = None;
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        let repeat = self.repeat.as_ref().map(|repeat| repeat.at);
        self.retry_at.or_else(|| [self.at, repeat].into_iter().flatten().min())
    }

    pub(crate) fn prompt(&self) -> u32 {
        self.prompt
    }
}

/// Repeats of an ACK.
#[derive(Debug)]
struct Repeat {
    at: Instant,
    wait: Duration,
    /// Number of repeats left, at least one.
    left: u8,
}

/// Packets that a stock peer sends before it expects an ACK.
const STOCK_STRIDE: u32 = 2;
/// Packets after which a modern peer gets an ACK unasked. Such peers set REQUEST_ACK where they want one;
/// this is a bound for those that forget.
const MODERN_STRIDE: u32 = 64;
/// ACKs that show a gap after which a stock sender resends the missing packet.
const NACK_THRESHOLD: u8 = 3;
/// Packets used up before a stock peer is told.
const STOCK_HARD_ACK: u32 = 3;
/// Repeats of an ACK that shows a gap: two bring the number to three, the others replace those that the path
/// loses.
const REPEATS_OF_GAP: u8 = 4;
/// Repeats of an ACK without a gap: only the ACK itself can have been lost, if the sender has not simply
/// paused.
const REPEATS_IN_ORDER: u8 = 1;
/// Least silence before a repeat, which comes after one and a half round trips: longer than scheduling takes,
/// and short enough for three ACKs before a stock sender's timeout.
const REPEAT_WAIT_MIN: Duration = Duration::from_millis(10);
const REPEAT_WAIT_MAX: Duration = Duration::from_millis(60);
/// Least time until an ACK that could not be sent is tried again.
const RETRY_MIN: Duration = Duration::from_millis(20);
/// Most doublings of the retry time: many calls must not keep the server busy by retries alone.
const RETRY_DOUBLINGS_MAX: u8 = 6;
