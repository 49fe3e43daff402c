//! Send window of one call: a SACK scoreboard that is a ring indexed by sequence number.
//!
//! A packet is `Queued` until first sent, then `InFlight`, and from there `Acked` or `Lost`; a lost packet is
//! in flight again once resent. Buffers are freed at the hard ACK, since stock peers may take a soft ACK back.

use std::collections::VecDeque;
use std::time::Instant;

use crate::ack::Ack;
use crate::header::serial_after;
use crate::packet::{Packet, PacketPool};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PacketState {
    Queued,
    InFlight,
    Lost,
    Acked,
}

#[derive(Debug)]
struct WindowSlot {
    packet: Packet,
    sent_at: Option<Instant>,
    serial: u32,
    sends: u8,
    /// Transmissions that did not arrive though something sent later did.
    passed_over: u8,
    state: PacketState,
    last: bool,
}

/// Transmission in the log of sends, which loss detection walks in order.
#[derive(Clone, Copy, Debug)]
struct Sent {
    seq: u32,
    serial: u32,
    at: Instant,
}

/// Packet to put on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outgoing {
    pub(crate) seq: u32,
    pub(crate) last: bool,
    pub(crate) resent: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AckOutcome {
    /// Packets acknowledged for the first time.
    pub(crate) newly_acked: u32,
    /// Packets hard-acknowledged, so freed.
    pub(crate) freed: u32,
    /// Serial and send time of the latest transmission known to have arrived.
    pub(crate) delivered: Option<(u32, Instant)>,
    /// Send time of the transmission that prompted the ACK, if that one was acknowledged.
    pub(crate) prompted_by: Option<Instant>,
    /// Resent packets whose first transmission turns out to have arrived.
    pub(crate) spurious: u32,
    /// Packets that were declared lost, wrongly, and not yet resent.
    pub(crate) refuted: u32,
    /// A packet sent once arrived after one sent later.
    pub(crate) reordered: bool,
}

/// Reason why an ACK cannot be true of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AckRefusal {
    /// The ACK was overtaken by a later one.
    Stale,
    /// The ACK acknowledges packets that were never sent.
    NeverSent,
    /// The ACK's ranges overlap the table or each other, or do not ascend.
    Disordered,
}

#[derive(Debug)]
pub(crate) struct SendWindow {
    /// Slots of the packets from `base` on.
    slots: VecDeque<WindowSlot>,
    /// Lowest packet not hard-acknowledged.
    base: u32,
    /// Lowest packet never sent.
    next: u32,
    in_flight: u32,
    acked: u32,
    /// Packets that wait to be resent, in order, and some that have arrived since; empty once none waits.
    lost: VecDeque<u32>,
    lost_count: u32,
    log: VecDeque<Sent>,
    /// First packet number above the highest acknowledged in any way.
    acked_top: u32,
}

impl SendWindow {
    pub(crate) fn new() -> Self {
        Self {
            slots: VecDeque::new(),
            base: 1,
            next: 1,
            in_flight: 0,
            acked: 0,
            lost: VecDeque::new(),
            lost_count: 0,
            log: VecDeque::new(),
            acked_top: 1,
        }
    }

    /// Adds a finished packet behind the others.
    pub(crate) fn queue(&mut self, packet: Packet, last: bool) {
        self.slots.push_back(WindowSlot {
            packet,
            sent_at: None,
            serial: 0,
            sends: 0,
            passed_over: 0,
            state: PacketState::Queued,
            last,
        });
    }

    /// Returns the sequence number that the next queued packet gets.
    pub(crate) fn end(&self) -> u32 {
        self.base + self.slots.len() as u32
    }

    pub(crate) fn base(&self) -> u32 {
        self.base
    }

    pub(crate) fn next(&self) -> u32 {
        self.next
    }

    pub(crate) fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Returns the number of packets held: queued, in flight, or waiting for their hard ACK.
    pub(crate) fn held(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Returns the number of packets queued but never sent.
    pub(crate) fn unsent(&self) -> u32 {
        self.end() - self.next
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Returns the number of packets sent and not acknowledged in any way.
    pub(crate) fn outstanding(&self) -> u32 {
        self.in_flight + self.lost_count
    }

    pub(crate) fn has_lost(&self) -> bool {
        self.lost_count > 0
    }

    /// Returns the lowest packet that has been sent and not acknowledged, and how many of its transmissions
    /// did not arrive though something sent later did.
    pub(crate) fn first_outstanding(&self) -> Option<(&Packet, u8)> {
        let waits = |slot: &&WindowSlot| matches!(slot.state, PacketState::Lost | PacketState::InFlight);
        self.slots.iter().find(waits).map(|slot| (&slot.packet, slot.passed_over))
    }

    /// Returns whether any packet of the call has been acknowledged.
    pub(crate) fn any_acked(&self) -> bool {
        self.acked_top > 1
    }

    pub(crate) fn soft_acked(&self) -> u32 {
        self.acked
    }

    /// Returns the packet to send next: a lost one first, then a new one below `edge`.
    #[inline]
    pub(crate) fn peek(&mut self, edge: u32) -> Option<Outgoing> {
        if !self.lost.is_empty()
            && let Some(lost) = self.peek_lost()
        {
            return Some(lost);
        }
        if self.next >= edge {
            return None;
        }
        let slot = self.slots.get((self.next - self.base) as usize)?;
        Some(Outgoing { seq: self.next, last: slot.last, resent: false })
    }

    fn peek_lost(&mut self) -> Option<Outgoing> {
        while let Some(&seq) = self.lost.front() {
            if seq >= self.base {
                let slot = &self.slots[(seq - self.base) as usize];
                if slot.state == PacketState::Lost {
                    return Some(Outgoing { seq, last: slot.last, resent: true });
                }
            }
            self.lost.pop_front();
        }
        None
    }

    /// Returns the buffer of packet `seq`, as returned by [`peek`](Self::peek).
    #[inline]
    pub(crate) fn packet(&self, seq: u32) -> &Packet {
        &self.slots[(seq - self.base) as usize].packet
    }

    /// Records that `seq`, as returned by [`peek`](Self::peek), went out.
    pub(crate) fn sent(&mut self, seq: u32, serial: u32, now: Instant) {
        let slot = &mut self.slots[(seq - self.base) as usize];
        debug_assert!(slot.state != PacketState::Acked, "what was acknowledged is not sent");
        match slot.state {
            PacketState::Queued => self.next += 1,
            PacketState::Lost => {
                self.lost_count -= 1;
                if self.lost_count == 0 {
                    self.lost.clear();
                } else if self.lost.front() == Some(&seq) {
                    self.lost.pop_front();
                }
            }
            PacketState::InFlight | PacketState::Acked => {
                debug_assert!(false, "only queued and lost packets are sent")
            }
        }
        slot.state = PacketState::InFlight;
        slot.sends = slot.sends.saturating_add(1);
        slot.serial = serial;
        slot.sent_at = Some(now);
        self.in_flight += 1;
        self.log.push_back(Sent { seq, serial, at: now });
    }

    /// Checks an ACK against what was sent, before any of it is believed.
    pub(crate) fn check(&self, ack: &Ack<'_>) -> Result<(), AckRefusal> {
        if ack.first < self.base {
            return Err(AckRefusal::Stale);
        }
        if ack.first > self.next {
            return Err(AckRefusal::NeverSent);
        }
        let known = ((self.next - ack.first) as usize).min(ack.table.len());
        if ack.table[known..].iter().any(|entry| entry & 1 == 1) {
            return Err(AckRefusal::NeverSent);
        }
        // Above the table, ascending, apart: so all of them together name no packet twice, and applying them costs no
        // more than the packets under way.
        let mut above = ack.first + ack.table.len() as u32;
        for (first, count) in ack.ranges() {
            if first < above || count == 0 {
                return Err(AckRefusal::Disordered);
            }
            above = first.checked_add(count).filter(|&end| end <= self.next).ok_or(AckRefusal::NeverSent)?;
        }
        Ok(())
    }

    /// Applies a [checked](Self::check) ACK. `newest` says no later ACK was seen, so it may also take soft
    /// ACKs back.
    pub(crate) fn on_ack(&mut self, ack: &Ack<'_>, newest: bool, pool: &mut PacketPool) -> AckOutcome {
        let mut outcome = AckOutcome::default();
        self.hard_ack_below(ack.first, ack.serial, pool, &mut outcome);
        let top_before = self.acked_top;
        for (index, entry) in ack.table.iter().enumerate().take((self.next - self.base) as usize) {
            let seq = ack.first + index as u32;
            if entry & 1 == 1 {
                if self.slots[(seq - self.base) as usize].state != PacketState::Acked {
                    self.soft_ack(seq, ack.serial, top_before, &mut outcome);
                }
            } else if newest && self.slots[(seq - self.base) as usize].state == PacketState::Acked {
                self.take_back(seq);
            }
        }
        for (first, count) in ack.ranges() {
            for seq in first.max(self.base)..first + count {
                if self.slots[(seq - self.base) as usize].state != PacketState::Acked {
                    self.soft_ack(seq, ack.serial, top_before, &mut outcome);
                }
            }
        }
        outcome
    }

    /// Acknowledges everything sent: an ACKALL, or a reply that shows the whole request arrived.
    pub(crate) fn on_ack_all(&mut self, pool: &mut PacketPool) -> AckOutcome {
        let mut outcome = AckOutcome::default();
        // The serial that prompted it is unknown: half the circle back makes no resend look spurious.
        let serial = self.log.back().map_or(0, |sent| sent.serial);
        self.hard_ack_below(self.next, serial, pool, &mut outcome);
        outcome
    }

    fn hard_ack_below(&mut self, first: u32, serial: u32, pool: &mut PacketPool, outcome: &mut AckOutcome) {
        let top_before = self.acked_top;
        while self.base < first {
            if self.slots[0].state != PacketState::Acked {
                self.soft_ack(self.base, serial, top_before, outcome);
            }
            let Some(slot) = self.slots.pop_front() else { break };
            debug_assert!(self.acked > 0, "each packet below the window was acknowledged");
            self.acked -= 1;
            self.base += 1;
            outcome.freed += 1;
            pool.free(slot.packet);
        }
        self.acked_top = self.acked_top.max(self.base);
    }

    fn soft_ack(&mut self, seq: u32, ack_serial: u32, top_before: u32, outcome: &mut AckOutcome) {
        let slot = &mut self.slots[(seq - self.base) as usize];
        let was = std::mem::replace(&mut slot.state, PacketState::Acked);
        match was {
            PacketState::InFlight => self.in_flight -= 1,
            PacketState::Lost => {
                self.lost_count -= 1;
                if self.lost_count == 0 {
                    self.lost.clear();
                }
                outcome.refuted += 1;
            }
            PacketState::Queued | PacketState::Acked => {}
        }
        self.acked += 1;
        self.acked_top = self.acked_top.max(seq + 1);
        outcome.newly_acked += 1;
        let Some(sent_at) = slot.sent_at else { return };
        // An ACK prompted by a serial before the latest resend can only speak of an earlier transmission.
        let of_earlier = serial_after(slot.serial, ack_serial);
        if was == PacketState::InFlight {
            if slot.sends > 1 {
                outcome.spurious += u32::from(of_earlier);
            } else {
                outcome.reordered |= seq + 1 < top_before;
            }
        }
        if !of_earlier && outcome.delivered.is_none_or(|(serial, _)| serial_after(slot.serial, serial)) {
            outcome.delivered = Some((slot.serial, sent_at));
        }
        if slot.serial == ack_serial {
            outcome.prompted_by = Some(sent_at);
        }
    }

    fn take_back(&mut self, seq: u32) {
        let slot = &mut self.slots[(seq - self.base) as usize];
        debug_assert!(slot.state == PacketState::Acked, "what a peer takes back it had acknowledged");
        slot.state = PacketState::Lost;
        self.acked -= 1;
        self.lost_count += 1;
        self.lost.push_back(seq);
    }

    /// Walks transmissions in sending order and marks those lost for which `is_lost(serial, sent at)` holds,
    /// up to the first for which it does not. Returns the send time of the last one marked, and the serial and
    /// send time at which the walk stopped.
    pub(crate) fn detect_losses(
        &mut self,
        mut is_lost: impl FnMut(u32, Instant) -> bool,
    ) -> (Option<Instant>, Option<(u32, Instant)>) {
        let mut largest = None;
        while let Some(sent) = self.log.front().copied() {
            if self.is_current(&sent) {
                if !is_lost(sent.serial, sent.at) {
                    return (largest, Some((sent.serial, sent.at)));
                }
                let slot = &mut self.slots[(sent.seq - self.base) as usize];
                slot.passed_over = slot.passed_over.saturating_add(1);
                self.mark_lost(sent.seq);
                largest = Some(sent.at);
            }
            self.log.pop_front();
        }
        (largest, None)
    }

    /// Marks the lowest packet in flight as lost, as a timeout does.
    pub(crate) fn lose_first(&mut self) -> Option<Instant> {
        let count = (self.next - self.base) as usize;
        let index = self.slots.iter().take(count).position(|slot| slot.state == PacketState::InFlight)?;
        let sent_at = self.slots[index].sent_at;
        self.mark_lost(self.base + index as u32);
        sent_at
    }

    fn is_current(&self, sent: &Sent) -> bool {
        sent.seq >= self.base && {
            let slot = &self.slots[(sent.seq - self.base) as usize];
            slot.state == PacketState::InFlight && slot.serial == sent.serial
        }
    }

    fn mark_lost(&mut self, seq: u32) {
        let slot = &mut self.slots[(seq - self.base) as usize];
        debug_assert!(slot.state == PacketState::InFlight, "what is in flight gets lost");
        slot.state = PacketState::Lost;
        self.in_flight -= 1;
        self.lost_count += 1;
        // Resend in order: a timeout may mark a packet below those already waiting.
        if self.lost.front().is_some_and(|&front| seq < front) {
            self.lost.push_front(seq);
        } else {
            self.lost.push_back(seq);
        }
    }

    /// Frees every packet.
    pub(crate) fn clear(&mut self, pool: &mut PacketPool) {
        self.next = self.end();
        self.base = self.next;
        for slot in self.slots.drain(..) {
            pool.free(slot.packet);
        }
        self.lost.clear();
        self.log.clear();
        self.in_flight = 0;
        self.acked = 0;
        self.lost_count = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::ack::{AckReason, Trailer};

    const MS: Duration = Duration::from_millis(1);

    /// Makes a window with packets 1 to `count` sent at `now`, serials 101 and up.
    fn sent(pool: &mut PacketPool, count: u32, now: Instant) -> SendWindow {
        let mut window = SendWindow::new();
        for seq in 1..=count {
            window.queue(pool.alloc().expect("pool is large enough"), seq == count);
        }
        for seq in 1..=count {
            assert_eq!(window.peek(u32::MAX).map(|outgoing| outgoing.seq), Some(seq));
            window.sent(seq, 100 + seq, now);
        }
        window
    }

    fn ack_bytes(first: u32, serial: u32, table: &[u8], ranges: &[(u32, u32)]) -> Vec<u8> {
        let trailer = Trailer { max_mtu: 1444, if_mtu: 1444, window: 32, jumbo_max: 0 };
        let fields = crate::ack::AckFields {
            first,
            previous: 0,
            serial,
            reason: AckReason::Idle,
            trailer,
            extended: true,
        };
        let mut out = vec![0; crate::ack::ACK_PAYLOAD_MAX];
        let mut ranges = ranges.iter().copied();
        let fill = |room: &mut [u8]| {
            room[..table.len()].copy_from_slice(table);
            table.len()
        };
        let len = crate::ack::encode(&mut out, &fields, fill, || ranges.next());
        out.truncate(len);
        out
    }

    fn apply(window: &mut SendWindow, pool: &mut PacketPool, bytes: &[u8], newest: bool) -> AckOutcome {
        let ack = Ack::parse(bytes).expect("valid");
        assert_eq!(window.check(&ack), Ok(()));
        window.on_ack(&ack, newest, pool)
    }

    #[test]
    fn hard_and_soft_acks_and_ranges_are_counted_once() {
        let (mut pool, now) = (PacketPool::new(16, 10), Instant::now());
        let mut window = sent(&mut pool, 10, now);
        let bytes = ack_bytes(3, 109, &[0, 1], &[(8, 2)]);
        let outcome = apply(&mut window, &mut pool, &bytes, true);
        assert_eq!((outcome.newly_acked, outcome.freed), (5, 2));
        assert_eq!(outcome.delivered, Some((109, now)));
        assert_eq!((window.in_flight(), window.soft_acked(), pool.in_use()), (5, 3, 8));
        assert_eq!(apply(&mut window, &mut pool, &bytes, true).newly_acked, 0);
        window.clear(&mut pool);
        assert!(pool.is_empty());
    }

    #[test]
    fn soft_ack_taken_back_is_resent_unless_the_ack_is_old() {
        let (mut pool, now) = (PacketPool::new(16, 10), Instant::now());
        let mut window = sent(&mut pool, 4, now);
        apply(&mut window, &mut pool, &ack_bytes(1, 104, &[1, 1, 1, 1], &[]), true);
        apply(&mut window, &mut pool, &ack_bytes(1, 103, &[1, 0, 1], &[]), false);
        assert_eq!((window.soft_acked(), window.has_lost()), (4, false));
        apply(&mut window, &mut pool, &ack_bytes(1, 104, &[1, 0, 1], &[]), true);
        assert_eq!(window.peek(u32::MAX).map(|outgoing| (outgoing.seq, outgoing.resent)), Some((2, true)));
        window.clear(&mut pool);
    }

    #[test]
    fn acks_of_packets_never_sent_are_refused_whole() {
        let (mut pool, now) = (PacketPool::new(16, 10), Instant::now());
        let mut window = sent(&mut pool, 4, now);
        for bytes in [
            ack_bytes(6, 1, &[], &[]),
            ack_bytes(1, 1, &[1, 1, 1, 1, 1], &[]),
            ack_bytes(5, 1, &[1], &[]),
            ack_bytes(1, 1, &[], &[(4, 2)]),
        ] {
            assert_eq!(window.check(&Ack::parse(&bytes).expect("valid")), Err(AckRefusal::NeverSent));
        }
        // A table may be longer than what was sent, as long as it claims nothing there.
        assert_eq!(
            window.check(&Ack::parse(&ack_bytes(1, 1, &[1, 0, 0, 0, 0, 0], &[])).expect("valid")),
            Ok(())
        );
        window.clear(&mut pool);
    }

    #[test]
    fn ranges_that_overlap_repeat_or_descend_are_refused() {
        let (mut pool, now) = (PacketPool::new(16, 10), Instant::now());
        let mut window = sent(&mut pool, 10, now);
        for bytes in [
            ack_bytes(3, 1, &[], &[(2, 1)]),
            ack_bytes(1, 1, &[0, 1], &[(2, 3)]),
            ack_bytes(1, 1, &[], &[(3, 4), (3, 4)]),
            ack_bytes(1, 1, &[], &[(3, 4), (6, 2)]),
            ack_bytes(1, 1, &[], &[(6, 2), (3, 1)]),
            ack_bytes(1, 1, &[], &[(3, 0)]),
        ] {
            assert_eq!(window.check(&Ack::parse(&bytes).expect("valid")), Err(AckRefusal::Disordered));
        }
        apply(&mut window, &mut pool, &ack_bytes(1, 110, &[0], &[(3, 2), (5, 1), (8, 3)]), true);
        assert_eq!(window.soft_acked(), 6);
        window.clear(&mut pool);
    }

    #[test]
    fn ack_prompted_before_a_resend_makes_the_resend_spurious() {
        let (mut pool, now) = (PacketPool::new(16, 10), Instant::now());
        let mut window = sent(&mut pool, 3, now);
        assert_eq!(window.lose_first(), Some(now));
        window.sent(1, 200, now + 50 * MS);
        let outcome = apply(&mut window, &mut pool, &ack_bytes(4, 103, &[], &[]), true);
        assert_eq!((outcome.spurious, outcome.newly_acked), (1, 3));
        assert_eq!(outcome.delivered, Some((103, now)), "the resend is not known to have arrived");
        assert!(window.is_empty());
    }

    #[test]
    fn ack_prompted_by_the_resend_makes_it_real() {
        let (mut pool, now) = (PacketPool::new(16, 10), Instant::now());
        let mut window = sent(&mut pool, 3, now);
        window.lose_first();
        window.sent(1, 200, now + 50 * MS);
        let outcome = apply(&mut window, &mut pool, &ack_bytes(4, 200, &[], &[]), true);
        assert_eq!(outcome.spurious, 0);
        assert_eq!(outcome.prompted_by, Some(now + 50 * MS));
        assert!(pool.is_empty());
    }

    #[test]
    fn losses_are_found_in_sending_order_and_resent_lowest_first() {
        let (mut pool, now) = (PacketPool::new(16, 10), Instant::now());
        let mut window = sent(&mut pool, 6, now);
        apply(&mut window, &mut pool, &ack_bytes(1, 106, &[0, 1, 0, 0, 1, 1], &[]), true);
        let (largest, stopped) = window.detect_losses(|serial, _| serial < 104);
        assert_eq!((largest, stopped), (Some(now), Some((104, now))));
        let mut resent = Vec::new();
        while let Some(seq) = window.peek(0).map(|outgoing| outgoing.seq) {
            window.sent(seq, 300 + seq, now + MS);
            resent.push(seq);
        }
        assert_eq!(resent, [1, 3]);
        assert_eq!((window.in_flight(), window.outstanding()), (3, 3));
        window.clear(&mut pool);
    }

    #[test]
    fn peer_window_bounds_new_packets_but_not_resends() {
        let (mut pool, now) = (PacketPool::new(16, 10), Instant::now());
        let mut window = sent(&mut pool, 2, now);
        window.queue(pool.alloc().expect("free"), false);
        assert!(window.peek(3).is_none());
        window.lose_first();
        assert_eq!(window.peek(3).map(|outgoing| outgoing.seq), Some(1));
        window.clear(&mut pool);
    }
}
