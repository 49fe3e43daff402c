//! Output of a call in a transmit pass: owed ACKs, pings, and DATA as far as the windows allow.

use std::time::{Duration, Instant};

use super::Call;
use crate::ack::{self, AckFields, AckReason, Trailer};
use crate::congestion::{Controller, Pacer};
use crate::connection::Core;
use crate::event::{DeadReason, Side};
use crate::header::{HEADER_LEN, Header, PacketType, flags, restamp};
use crate::packet::{Packet, PacketRef};
use crate::peer::{ASKED_AFTER_SILENCE, Peer};
use crate::pmtud::SAFE_SIZE;
use crate::recovery::Timeout;
use crate::shared::Shared;
use crate::window::Outgoing;

/// Outcome of a call's timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimerOutcome {
    /// The call goes on and may have something to send.
    Alive,
    /// The call is over, for this reason.
    Dead(DeadReason),
    /// The path carries small packets only, and the packet to resend is large.
    TooLarge,
}

impl Call {
    /// Returns the next packet to send, pinned; `None` when there is nothing more now.
    pub(crate) fn next_packet(
        &mut self,
        now: Instant,
        core: &mut Core,
        controller: &mut dyn Controller,
        shared: &mut Shared,
    ) -> Option<PacketRef> {
        // One that may not be sent leaves its turn to what else is due.
        if std::mem::take(&mut self.ping_due)
            && let Some(packet) = self.send_ping(now, core, shared)
        {
            return Some(packet);
        }
        // A reply about to begin acknowledges the whole request.
        let reply_begins = self.side == Side::Server && self.rx.is_complete() && self.tx.next() == 1;
        if reply_begins
            && !self.acks.owes_ping_answer()
            && let Some(packet) = self.next_data(now, core, controller, shared)
        {
            return Some(packet);
        }
        if self.acks.owes_any()
            && let Some((reason, serial)) = self.acks.take(now)
        {
            if let Some(packet) = self.build_ack(now, reason, serial, 0, core, shared) {
                return Some(packet);
            }
            self.acks.give_back(now, reason, serial, &shared.config);
        }
        self.next_data(now, core, controller, shared)
    }

    /// Returns the next DATA packet of the call's burst; `None` ends the burst.
    fn next_data(
        &mut self,
        now: Instant,
        core: &mut Core,
        controller: &mut dyn Controller,
        shared: &mut Shared,
    ) -> Option<PacketRef> {
        let packet = self.take_data(now, core, controller, shared);
        if packet.is_some() {
            self.settle_room(core.peer, shared);
        } else {
            self.bursts.end();
        }
        packet
    }

    fn take_data(
        &mut self,
        now: Instant,
        core: &mut Core,
        controller: &mut dyn Controller,
        shared: &mut Shared,
    ) -> Option<PacketRef> {
        self.paced_until = None;
        if self.reply_must_wait() {
            return None;
        }
        let in_flight = self.tx.in_flight();
        let window = controller.window();
        if in_flight >= window && !(self.timeout_resend && self.tx.has_lost()) {
            self.window_limited = self.tx.has_lost() || self.tx.unsent() > 0;
            return None;
        }
        let edge = self.edge;
        let Some(Outgoing { seq, last, resent }) = self.tx.peek(edge) else {
            controller.on_app_limited(in_flight);
            return None;
        };
        if !resent && !self.may_leave(now, window, core, shared) {
            return None;
        }
        let len = shared.pool.len(self.tx.packet(seq));
        if !self.timeout_resend
            && let Err(until) = core.rate_allows(now, shared)
        {
            self.paced_until = until;
            return None;
        }
        if !self.timeout_resend
            && let Err(until) = self.pacer.take(now, controller, &shared.peers[core.peer].rtt)
        {
            // The window would have let it go, so the path is the limit and not the application (RFC 9002 7.8).
            self.window_limited = true;
            self.paced_until = Some(until);
            return None;
        }
        if !self.confirmed {
            let rto = shared.peers[core.peer].rtt.rto();
            let asked = self.pinged.is_some_and(|(_, at)| now < at + rto);
            if !asked && core.should_ask(now, len, shared) {
                return self.send_ping(now, core, shared);
            }
            if !core.may_send(now, len, false, shared) {
                return if asked || !core.validation.reached {
                    None
                } else {
                    self.send_ping(now, core, shared)
                };
            }
        }
        // A transmit in progress reads the buffer: send a copy, so that its bytes do not change under it.
        let pinned = resent && shared.pool.is_pinned(self.tx.packet(seq));
        let copy = if pinned { Some(shared.copy(self.tx.packet(seq))?) } else { None };
        let serial = core.next_serial();
        let more = in_flight + 1 < window && seq + 1 < edge && self.tx.unsent() > u32::from(!resent);
        let peer = &mut shared.peers[core.peer];
        // A stock peer acknowledges every second packet unasked.
        let stock = peer.acks_unasked(now);
        if !resent && peer.jumbo.is_wanted() {
            self.parts_max = peer.jumbogram_parts(now, &*core.security);
        }
        let wants_ack = self.wants_ack(now, Outgoing { seq, last, resent }, more, stock, window, peer);
        let expects_ack = wants_ack || stock && !last && in_flight > 0;
        let bits = core.side_flag()
            | if last { flags::LAST_PACKET } else { 0 }
            | if wants_ack { flags::REQUEST_ACK } else { 0 }
            | if more { flags::MORE_PACKETS } else { 0 };
        let reference = match copy {
            Some(copy) => {
                restamp(shared.pool.buffer_mut(&copy), serial, bits);
                shared.pin_once(copy)
            }
            None => shared.pool.stamp(self.tx.packet(seq), serial, bits),
        };
        core.spend_rate(now, len, shared);
        self.tx.sent(seq, serial, now);
        self.recovery.on_sent(now, serial, expects_ack, in_flight == 0, resent);
        controller.on_sent(now, serial, in_flight + 1);
        self.window_limited = false;
        self.timeout_resend = false;
        self.bursts.on_sent();
        self.since_request = if wants_ack { 0 } else { self.since_request + 1 };
        if seq == 1 && !resent {
            match self.side {
                Side::Server => self.acks.on_implied(),
                Side::Client => self.heard_at = now,
            }
        }
        shared.stats.data_sent += 1;
        if resent {
            self.remember_resent(serial);
            shared.stats.resends += 1;
            shared.peers[core.peer].counters.resends += 1;
        } else {
            // A client's limit runs from the first packet that it has not acknowledged for good.
            if self.side == Side::Client || self.tx.base() == seq {
                self.progress_at = now;
            }
        }
        Some(reference)
    }

    /// Returns whether a DATA packet asks for an ACK: often enough to keep the sender's clock running and no more.
    ///
    /// Packets ask every quarter of the congestion window up to 64 packets, with every resend, and once a second for
    /// the round trip. They also ask at the end of a burst if no ACK is on its way or the application is held back.
    /// The last packet of a reply never asks: OpenAFS would answer with soft ACKs and forget the hard one.
    fn wants_ack(
        &self,
        now: Instant,
        Outgoing { last, resent, .. }: Outgoing,
        more: bool,
        stock: bool,
        window: u32,
        peer: &mut Peer,
    ) -> bool {
        if last && self.side == Side::Server {
            return false;
        }
        let stale = peer.ask_rtt_at.is_none_or(|at| now >= at);
        // It gives an ACK for every second packet, and answers each request with one more. Only where calls wait for one
        // another an odd packet must not stay unacknowledged for 100 ms: it takes room.
        let asks = if stock {
            resent || stale || peer.room.is_crowded() && self.bursts.ends_now()
        } else {
            let per_window =
                if Pacer::is_for(&peer.rtt) { REQUESTS_PER_PACED_WINDOW } else { REQUESTS_PER_WINDOW };
            let stride = (window / per_window).clamp(1, REQUEST_STRIDE_MAX);
            // The ACK on its way may name too old a packet to let a call go on that is held to its share.
            let burst_ends = !more && !last && (self.write_refused || !self.recovery.awaits_ack());
            resent || stale || burst_ends || self.since_request + 1 >= stride && !last
        };
        if asks {
            peer.ask_rtt_at = Some(now + RTT_REFRESH);
        }
        asks
    }

    /// Builds and pins an ACK packet. `padded_to` is the size of a path-MTU probe, or 0.
    pub(crate) fn build_ack(
        &mut self,
        now: Instant,
        reason: AckReason,
        prompt: u32,
        padded_to: usize,
        core: &mut Core,
        shared: &mut Shared,
    ) -> Option<PacketRef> {
        let first = self.rx.hard_ack(self.acks.on_receipt);
        let fields = AckFields {
            first,
            previous: self.rx.highest(),
            serial: prompt,
            reason,
            trailer: Trailer { window: self.rx.window_from(first), ..shared.trailer(now, core) },
            extended: shared.config.extensions,
        };
        let packet = shared.alloc_control_of(padded_to.saturating_sub(HEADER_LEN))?;
        let mut runs = self.rx.runs_from(first + ack::ACKS_MAX as u32);
        let room = shared.pool.payload_room(&packet);
        // To a client that has not answered yet a question tells nothing of its packets: it goes on sending them, and
        // each pays for the next question.
        let tells = core.side == Side::Client || core.validation.reached || reason != AckReason::Ping;
        let fill = |table: &mut [u8]| if tells { self.rx.fill_table(first, table) } else { 0 };
        let len = ack::encode(room, &fields, fill, || runs.next().filter(|_| tells));
        drop(runs);
        let padded = padded_to.saturating_sub(HEADER_LEN).clamp(len, room.len());
        room[len..padded].fill(0);
        shared.pool.set_payload_len(&packet, padded);
        let asks = reason == AckReason::Ping;
        if !self.confirmed && !core.may_send(now, HEADER_LEN + padded, asks, shared) {
            shared.pool.free(packet);
            return None;
        }
        let ping = reason == AckReason::Ping;
        let bits = flags::SLOW_START_OK | if ping { flags::REQUEST_ACK } else { 0 };
        let header = self.header(PacketType::Ack, bits, core);
        header.encode(shared.pool.buffer_mut(&packet).first_chunk_mut().expect("a buffer holds a header"));
        if tells {
            self.acks.on_stated(self.rx.base(), self.rx.edge());
        }
        shared.stats.acks_sent += 1;
        Some(shared.pin_once(packet))
    }

    fn send_ping(&mut self, now: Instant, core: &mut Core, shared: &mut Shared) -> Option<PacketRef> {
        self.last_ping_at = now;
        let reference = self.build_ack(now, AckReason::Ping, self.acks.prompt(), 0, core, shared)?;
        self.pinged = Some((core.serial, now));
        shared.stats.pings_sent += 1;
        Some(reference)
    }

    /// Makes a header for a packet of this call, with the next serial.
    pub(crate) fn header(&self, kind: PacketType, bits: u8, core: &mut Core) -> Header {
        Header {
            epoch: core.epoch,
            cid: core.cid | u32::from(self.handle.channel),
            call: self.handle.number,
            seq: 0,
            serial: core.next_serial(),
            kind,
            flags: core.side_flag() | bits,
            user_status: 0,
            security: core.security_index,
            checksum: 0,
            service: core.service,
        }
    }

    /// Returns when [`on_timer`](Self::on_timer) should run next.
    pub(crate) fn deadline(&self, now: Instant, core: &Core, shared: &Shared) -> Instant {
        let limits = &core.limits;
        let mut earliest = match self.is_unknown_to_peer() {
            true => now + limits.dead_time,
            false => self.keepalive_at(core).min(self.heard_at + limits.dead_time),
        };
        if let Some(idle) = limits.idle_time.filter(|_| self.waits_for_peer()) {
            earliest = earliest.min(self.progress_at + idle);
        }
        if let Some(hard) = limits.hard_time {
            earliest = earliest.min(self.started_at + hard);
        }
        let rtt = &shared.peers[core.peer].rtt;
        let send = self.recovery.deadline(&self.tx, rtt);
        let blocked = self.window_probe_at(core, shared);
        [self.acks.deadline(), send, blocked, self.paced_until]
            .into_iter()
            .flatten()
            .fold(earliest, Instant::min)
    }

    /// Runs the timers that are due.
    pub(crate) fn on_timer(
        &mut self,
        now: Instant,
        core: &mut Core,
        controller: &mut dyn Controller,
        shared: &mut Shared,
    ) -> TimerOutcome {
        if let Some(reason) = self.dead_reason(now, core) {
            return TimerOutcome::Dead(reason);
        }
        if self.is_too_large(now, core, shared) {
            shared.peers[core.peer].mtu.on_black_hole(now);
            shared.stats.calls_too_large += 1;
            return TimerOutcome::TooLarge;
        }
        if now >= self.keepalive_at(core) && !self.is_unknown_to_peer() {
            self.ping_due = true;
            self.last_ping_at = now;
        }
        if self.window_probe_at(core, shared).is_some_and(|at| now >= at) {
            self.ping_due = true;
            self.last_ping_at = now;
        }
        match self.recovery.on_timeout(now, &self.tx, &shared.peers[core.peer].rtt) {
            Timeout::None => {}
            Timeout::Reorder => {
                self.look_for_losses(now, core, controller, shared);
                self.settle_room(core.peer, shared);
            }
            Timeout::Probe => {
                self.ping_due = true;
                shared.stats.tail_probes += 1;
                if self.tx.in_flight() > STOCK_UNACKED_MAX {
                    shared.peers[core.peer].ask_until = Some(now + ASKED_AFTER_SILENCE);
                }
            }
            Timeout::Resend => {
                shared.stats.timeouts += 1;
                if !self.confirmed {
                    shared.peers[core.peer].on_unanswered(now);
                }
                let lost = self.recovery.on_rto(now, &mut self.tx);
                self.settle_room(core.peer, shared);
                if lost {
                    self.timeout_resend = true;
                    controller.on_lost(1);
                    controller.on_rto(now);
                    self.note_black_hole(now, core, shared);
                }
            }
        }
        TimerOutcome::Alive
    }

    /// Notes timeouts in a row with large packets: the path may have stopped carrying them. New packets are
    /// smaller from then on.
    fn note_black_hole(&mut self, now: Instant, core: &Core, shared: &mut Shared) {
        if self.recovery.backoff() == BLACK_HOLE_TIMEOUTS {
            let peer = &mut shared.peers[core.peer];
            peer.mtu.on_black_hole(now);
            peer.jumbo.on_black_hole(now);
        }
    }

    /// Returns whether a large packet does not get through, however often it is sent, while small ones do.
    /// The packet cannot be made smaller: had its first transmission arrived after all, its bytes and those
    /// of the smaller packets would overlap. So the call ends, as OpenAFS ends it (RX_MSGSIZE), and the next
    /// one has small packets from the start.
    fn is_too_large(&self, now: Instant, core: &Core, shared: &Shared) -> bool {
        if self.recovery.stalled_for(now, &self.tx) < HOPELESS_AFTER {
            return false;
        }
        let heard = now.saturating_duration_since(self.heard_at) < core.limits.dead_time / 2;
        let stuck = self.tx.first_outstanding();
        let large = stuck.is_some_and(|(packet, passed_over)| {
            passed_over >= HOPELESS_SENDS && shared.pool.len(packet) > usize::from(SAFE_SIZE)
        });
        heard && large
    }

    fn dead_reason(&self, now: Instant, core: &Core) -> Option<DeadReason> {
        let limits = &core.limits;
        if now >= self.heard_at + limits.dead_time && !self.is_unknown_to_peer() {
            return Some(DeadReason::Silent);
        }
        if limits.hard_time.is_some_and(|hard| now >= self.started_at + hard) {
            return Some(DeadReason::HardLimit);
        }
        let idle = limits.idle_time.is_some_and(|idle| now >= self.progress_at + idle);
        (idle && self.waits_for_peer()).then_some(DeadReason::Idle)
    }

    /// Returns whether nothing was sent of a client call: the peer owes it nothing, not even a sign of life.
    pub(crate) fn is_unknown_to_peer(&self) -> bool {
        self.side == Side::Client && self.tx.next() == 1
    }

    /// Returns whether the next move is the peer's: the idle limit does not punish a slow application on our
    /// side.
    fn waits_for_peer(&self) -> bool {
        // Nor one whose reader is busy with packets that it holds.
        let reads = self.rx.lent() == 0 || self.reader_waits;
        let peer_sends = !self.rx.is_complete() && !self.rx.is_readable() && reads;
        match self.side {
            Side::Client => self.finished_writing && peer_sends || self.tx.outstanding() > 0,
            Side::Server => {
                let shut = self.tx.unsent() > 0 && self.tx.next() >= self.edge && !self.reply_must_wait();
                peer_sends || self.tx.next() > self.tx.base() || shut
            }
        }
    }

    fn keepalive_at(&self, core: &Core) -> Instant {
        self.heard_at.max(self.last_ping_at) + core.limits.dead_time / KEEPALIVES_PER_DEAD_TIME
    }

    /// Returns when to ask for a lost window update: all that was sent has arrived, more is waiting, and the
    /// peer's window is shut.
    fn window_probe_at(&self, core: &Core, shared: &Shared) -> Option<Instant> {
        let shut = self.tx.outstanding() == 0 && self.tx.unsent() > 0 && self.tx.next() >= self.edge;
        let wait = shared.peers[core.peer].rtt.rto();
        shut.then(|| self.heard_at.max(self.last_ping_at) + wait)
    }
}

impl Shared {
    /// Allocates a buffer for a packet that lives only until it is sent.
    pub(crate) fn alloc_control(&mut self) -> Option<Packet> {
        let packet = self.pool.alloc();
        if packet.is_none() {
            self.stats.transmit_starved += 1;
        }
        packet
    }

    /// Allocates a control packet for a payload that may be larger than a packet's.
    pub(crate) fn alloc_control_of(&mut self, payload_len: usize) -> Option<Packet> {
        if payload_len <= self.pool.payload_max() {
            return self.alloc_control();
        }
        let packet = self.pool.alloc_large(payload_len);
        self.stats.transmit_starved += u64::from(packet.is_none());
        packet
    }

    /// Pins a packet for one transmit, and frees it with that.
    pub(crate) fn pin_once(&mut self, packet: Packet) -> PacketRef {
        let reference = self.pool.pin(&packet);
        self.pool.free(packet);
        reference
    }

    fn copy(&mut self, packet: &Packet) -> Option<Packet> {
        let copy = self.alloc_control()?;
        let len = self.pool.len(packet);
        self.pool.copy_own(packet, &mut self.scratch[..len]);
        self.pool.buffer_mut(&copy)[..len].copy_from_slice(&self.scratch[..len]);
        self.pool.set_payload_len(&copy, len - HEADER_LEN);
        Some(copy)
    }
}

/// Requests for an ACK in one congestion window. Where pacing matters, each ACK should release no more than a shallow
/// queue can take. Slow start wants eight samples of the round trip in a round (RFC 9406 4.2).
const REQUESTS_PER_WINDOW: u32 = 4;
const REQUESTS_PER_PACED_WINDOW: u32 = 16;
/// Most DATA packets between two that ask for an ACK.
const REQUEST_STRIDE_MAX: u32 = 64;
/// Packets that a stock peer may leave unacknowledged for a while, and as many more that may be lost.
const STOCK_UNACKED_MAX: u32 = 4;
/// Age of the last request for an ACK from which the next DATA packet asks, for the round trip's sake.
const RTT_REFRESH: Duration = Duration::from_secs(1);
/// Pings within one dead time (OpenAFS: deadtime / 6).
const KEEPALIVES_PER_DEAD_TIME: u32 = 6;
/// Timeouts in a row that count as a black hole.
const BLACK_HOLE_TIMEOUTS: u32 = 3;
/// Lost transmissions from which a packet counts as one that will not get through.
///
/// Pings sent after them have arrived, and nothing at all was acknowledged for so long. Chance does the first
/// to one of 3,000 packets where every fifth is lost, and not without letting others through.
const HOPELESS_SENDS: u8 = 5;
const HOPELESS_AFTER: Duration = Duration::from_secs(10);
