//! Handling of a call's received packets. Nothing is sent from here: the next transmit pass does that.

use std::time::Instant;

use super::{Call, Delivery};
use crate::ack::{Ack, AckReason};
use crate::congestion::{Acked, Controller};
use crate::connection::Core;
use crate::event::Side;
use crate::header::{HEADER_LEN, Header};
use crate::jumbo::SubPackets;
use crate::packet::PacketPool;
use crate::receive::{Chunk, Verdict};
use crate::security::PacketContext;
use crate::shared::Shared;
use crate::window::{AckOutcome, AckRefusal};

/// Outcome of a DATA datagram beyond the call's own state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DataOutcome {
    /// The datagram was taken or dropped, with nothing else to do.
    Done,
    /// The call has to be aborted with this code.
    Abort(i32),
}

impl Call {
    /// Takes the DATA packets of one datagram.
    pub(crate) fn on_data(
        &mut self,
        now: Instant,
        header: Header,
        payload: &[u8],
        core: &mut Core,
        controller: &mut dyn Controller,
        shared: &mut Shared,
    ) -> DataOutcome {
        if self.side == Side::Client {
            self.on_reply_begun(now, core, controller, shared);
        }
        for part in SubPackets::new(header, payload) {
            let Ok((part, bytes)) = part else {
                shared.stats.bad_jumbograms += 1;
                break;
            };
            shared.stats.data_received += 1;
            if let DataOutcome::Abort(code) = self.on_data_packet(now, &part, bytes, core, shared) {
                return DataOutcome::Abort(code);
            }
        }
        self.discard_unwanted_request(&mut shared.pool);
        self.notify_readable(shared);
        DataOutcome::Done
    }

    fn on_data_packet(
        &mut self,
        now: Instant,
        header: &Header,
        bytes: &[u8],
        core: &mut Core,
        shared: &mut Shared,
    ) -> DataOutcome {
        if header.seq == 0 || header.seq > SEQ_MAX || bytes.len() > shared.pool.payload_max() {
            shared.stats.bad_data += 1;
            return DataOutcome::Done;
        }
        let peer = &shared.peers[core.peer];
        if !self.acks.on_receipt && peer.takes_large_windows() {
            self.acks.on_receipt = true;
            self.rx.set_window(shared.first_window(0));
        }
        let modern = (peer.modern || peer.extended) && shared.config.extensions;
        let verdict = self.rx.classify(header.seq, header.is_last());
        match verdict {
            Verdict::AfterLast => {
                shared.stats.bad_data += 1;
                return DataOutcome::Done;
            }
            Verdict::Duplicate => {
                shared.stats.duplicates += 1;
                self.acks.on_oddity(header.serial, AckReason::Duplicate);
                return DataOutcome::Done;
            }
            Verdict::BeyondWindow => {
                shared.stats.beyond_window += 1;
                self.acks.on_oddity(header.serial, AckReason::ExceedsWindow);
                return DataOutcome::Done;
            }
            Verdict::InOrder | Verdict::Ahead => {}
        }
        // A request of many packets is a reason to have the address proved, so that more of it may be held.
        core.validation.wanted |= core.holds_many(self.rx.held());
        // What fills the gap at the front sets others free: it may have buffers that the rest may not.
        let in_order = verdict == Verdict::InOrder;
        let reserve = if in_order { shared.reserved_from_readers } else { shared.reserved_from_readers * 2 };
        if shared.pool.free_count() <= reserve {
            shared.stats.no_buffers += 1;
            core.validation.wanted |= !core.validation.reached;
            return DataOutcome::Done;
        }
        // A reader that waits for it may have it whatever lies ahead, and whatever its host holds.
        let held = if in_order { self.rx.in_order() } else { self.rx.held() };
        if !(in_order && held == 0 && core.validation.reached || core.may_hold(held, shared)) {
            shared.stats.over_share += 1;
            core.validation.wanted |= !core.validation.reached;
            return DataOutcome::Done;
        }
        let Some(packet) = shared.pool.alloc_for(core.account()) else {
            shared.stats.no_buffers += 1;
            return DataOutcome::Done;
        };
        shared.pool.payload_room(&packet)[..bytes.len()].copy_from_slice(bytes);
        shared.pool.set_payload_len(&packet, bytes.len());
        let mut chunk = Chunk { packet, start: 0, end: bytes.len() as u32, sealed: Some(header.checksum) };
        if core.is_authentic()
            && let Err(code) = open(&mut chunk, header.seq, self.context(core), core, shared)
        {
            shared.pool.free(chunk.packet);
            return DataOutcome::Abort(code);
        }
        let (had_gap, empty) = (self.rx.has_gap(), chunk.start == chunk.end);
        self.rx.store(header.seq, header.is_last(), chunk);
        if empty {
            // No reader will come for it.
            self.rx.drop_used(&mut shared.pool);
        }
        // What lies ahead of a gap for ever is no progress.
        if in_order || self.side == Side::Client {
            self.progress_at = now;
        }
        if verdict == Verdict::Ahead || had_gap {
            self.acks.on_oddity(header.serial, AckReason::OutOfSequence);
            if !modern && self.rx.has_gap() {
                self.acks.on_packet_beyond_gap();
            }
        } else {
            self.acks.on_in_order(now, header.serial, header.wants_ack(), modern, &shared.config);
        }
        if self.rx.is_complete() {
            self.acks.on_complete();
        } else if !modern {
            self.acks.repeat_if_silent(now, &shared.peers[core.peer].rtt, self.rx.has_gap());
        }
        DataOutcome::Done
    }

    /// Drops packets ahead of a gap, as buffers run short and this call's host holds most of them.
    pub(crate) fn drop_ahead(&mut self, shared: &mut Shared) -> u32 {
        let dropped = self.rx.drop_ahead(&mut shared.pool);
        if dropped > 0 {
            self.acks.on_oddity(self.acks.prompt(), AckReason::NoSpace);
        }
        dropped
    }

    /// Discards the rest of a request when the server has finished its reply: it reads no more, but the reply
    /// leaves only once the request is complete.
    pub(super) fn discard_unwanted_request(&mut self, pool: &mut PacketPool) {
        if self.side == Side::Server && self.finished_writing {
            self.rx.consume(usize::MAX, pool);
        }
    }

    fn context(&self, core: &Core) -> PacketContext {
        PacketContext {
            epoch: core.epoch,
            cid: core.cid | u32::from(self.handle.channel),
            call: self.handle.number,
            seq: 0,
            from_client: self.side == Side::Server,
        }
    }

    /// Opens the packets that came before the client had proved itself.
    pub(crate) fn open_held(&mut self, core: &mut Core, shared: &mut Shared) -> Result<(), i32> {
        let context = self.context(core);
        for (seq, chunk) in self.rx.held_mut() {
            open(chunk, seq, context, core, shared)?;
        }
        Ok(())
    }

    /// Notes that a reply has begun, which shows that all of the finished request arrived.
    fn on_reply_begun(
        &mut self,
        now: Instant,
        core: &Core,
        controller: &mut dyn Controller,
        shared: &mut Shared,
    ) {
        if self.finished_writing && self.tx.unsent() == 0 && !self.tx.is_empty() {
            self.on_ack_all(now, core, controller, shared);
        }
    }

    /// Notes that everything sent has arrived.
    pub(crate) fn on_ack_all(
        &mut self,
        now: Instant,
        core: &Core,
        controller: &mut dyn Controller,
        shared: &mut Shared,
    ) {
        let in_flight = self.tx.in_flight();
        let serial = core.serial;
        let outcome = self.tx.on_ack_all(&mut shared.pool);
        self.recovery.on_ack(now, serial, &AckOutcome { delivered: None, ..outcome }, &self.tx);
        self.note_acked(now, &outcome);
        if outcome.newly_acked > 0 {
            let acked = self.acked(in_flight, &outcome, controller);
            controller.on_ack(now, &acked, &shared.peers[core.peer].rtt);
        }
        self.settle_room(core.peer, shared);
    }

    /// Applies an ACK packet.
    pub(crate) fn on_ack(
        &mut self,
        now: Instant,
        header: &Header,
        ack: &Ack<'_>,
        core: &Core,
        controller: &mut dyn Controller,
        shared: &mut Shared,
    ) {
        match self.tx.check(ack) {
            Ok(()) => self.heard_at = now,
            Err(AckRefusal::Stale) => {
                self.heard_at = now;
                shared.stats.acks_stale += 1;
                return;
            }
            Err(AckRefusal::NeverSent) => {
                shared.stats.acks_never_sent += 1;
                return;
            }
            Err(AckRefusal::Disordered) => {
                shared.stats.acks_disordered += 1;
                return;
            }
        }
        let newest = self.newest_ack.is_none_or(|serial| crate::header::serial_after(header.serial, serial));
        if newest {
            self.newest_ack = Some(header.serial);
        }
        let own_queue = shared.own_queue();
        let peer = &mut shared.peers[core.peer];
        if newest || ack.first > self.tx.base() {
            let window = ack.trailer.map_or(crate::ack::WINDOW_WITHOUT_TRAILER, |trailer| trailer.window);
            self.edge = ack.first.saturating_add(window);
        }
        let in_flight = self.tx.in_flight();
        let outcome = self.tx.on_ack(ack, newest, &mut shared.pool);
        if let Some((serial, sent_at)) = self.pinged
            && ack.reason == AckReason::PingResponse
            && ack.serial == serial
        {
            self.pinged = None;
            peer.introduced = true;
            peer.rtt.update(now, now.saturating_duration_since(sent_at), own_queue);
            self.recovery.note_delivered(now, serial, sent_at);
        }
        // Our abilities travel in ACKs only; a peer that understands them may not have had one yet.
        let asked = self.pinged.is_some_and(|(_, at)| now < at + peer.rtt.rto());
        self.ping_due |= ack.is_extended() && !peer.introduced && !asked;
        if let Some(sent_at) = outcome.prompted_by.filter(|_| ack.reason != AckReason::Delay) {
            peer.rtt.update(now, now.saturating_duration_since(sent_at), own_queue);
        }
        let mut undo = self.recovery.on_ack(now, ack.serial, &outcome, &self.tx);
        shared.stats.resends_spurious += u64::from(outcome.spurious);
        if ack.reason == AckReason::Duplicate && self.forget_resent(ack.serial) {
            shared.stats.resends_spurious += 1;
            undo |= self.recovery.note_false_losses(1, &self.tx);
        }
        if undo {
            controller.on_spurious_loss(now);
        }
        if let Some(quarters) = self.recovery.take_lesson() {
            peer.note_reordering(now, quarters);
        }
        self.note_acked(now, &outcome);
        if outcome.newly_acked > 0 {
            let acked = self.acked(in_flight, &outcome, controller);
            controller.on_ack(now, &acked, &peer.rtt);
        }
        self.look_for_losses(now, core, controller, shared);
        self.settle_room(core.peer, shared);
    }

    /// Notes an ACK as progress. A client's counts only if it is hard, since soft-acknowledged packets stay
    /// held here, and if it frees a fair part of what the call holds.
    fn note_acked(&mut self, now: Instant, outcome: &AckOutcome) {
        self.freed += outcome.freed;
        let progress = match self.side {
            Side::Client => outcome.newly_acked > 0,
            Side::Server => self.freed > self.tx.held() / FREED_SHARE,
        };
        if progress {
            self.progress_at = now;
            self.freed = 0;
        }
    }

    /// Returns the ACK's effect for the controller; `in_flight` packets were under way before.
    fn acked(&self, in_flight: u32, outcome: &AckOutcome, controller: &dyn Controller) -> Acked {
        Acked {
            newly_acked: outcome.newly_acked,
            app_limited: !(self.window_limited || in_flight >= controller.window()),
            serial: outcome.delivered.map(|(serial, _)| serial),
            in_flight: self.tx.in_flight(),
        }
    }

    /// Marks losses and tells the controller of a new episode.
    pub(crate) fn look_for_losses(
        &mut self,
        now: Instant,
        core: &Core,
        controller: &mut dyn Controller,
        shared: &mut Shared,
    ) {
        let in_flight = self.tx.in_flight();
        let episode = self.recovery.detect(now, &mut self.tx, &shared.peers[core.peer].rtt);
        let lost = in_flight - self.tx.in_flight();
        if lost > 0 {
            controller.on_lost(lost);
        }
        if let Some(sent_at) = episode {
            controller.on_loss(now, sent_at, self.tx.in_flight());
            if let Some(mislead) = controller.losses_mislead() {
                shared.peers[core.peer].note_losses(now, mislead);
            }
        }
    }

    pub(super) fn remember_resent(&mut self, serial: u32) {
        self.resent[self.resent_at] = serial;
        self.resent_at = (self.resent_at + 1) % self.resent.len();
    }

    /// Returns whether `serial` was a resend not yet known as needless, and forgets it. Its packet may have been
    /// counted by the ACK table already, which removes nothing here. Both ways of counting exclude each other by the
    /// receiver's order: the table speaks first only if the resend had not arrived.
    fn forget_resent(&mut self, serial: u32) -> bool {
        let found = self.resent.iter_mut().find(|known| **known == serial && serial != 0);
        found.map(|known| *known = 0).is_some()
    }

    /// Returns whether the application may see the call: a server's, not delivered yet, with its first packet
    /// there.
    pub(crate) fn may_deliver(&self) -> bool {
        self.side == Side::Server && self.delivery == Delivery::Held && self.rx.next() > 1
    }
}

fn open(
    chunk: &mut Chunk,
    seq: u32,
    context: PacketContext,
    core: &mut Core,
    shared: &mut Shared,
) -> Result<(), i32> {
    let Some(checksum) = chunk.sealed.take() else { return Ok(()) };
    let len = shared.pool.len(&chunk.packet) - HEADER_LEN;
    let payload = &mut shared.pool.payload_room(&chunk.packet)[..len];
    match core.security.open(&PacketContext { seq, ..context }, checksum, payload) {
        Ok(data) if data.start <= data.end && data.end <= len => {
            core.opened += 1;
            chunk.start = data.start as u32;
            chunk.end = data.end as u32;
            Ok(())
        }
        Ok(_) => Err(crate::abort::PROTOCOL_ERROR),
        Err(error) => {
            shared.stats.security_refusals += 1;
            Err(error.code)
        }
    }
}

/// Divisor of the held packets that hard ACKs have to free within the idle limit.
const FREED_SHARE: u32 = 64;
/// Highest sequence number, well before a wrap; a stream that long is not a call.
const SEQ_MAX: u32 = 0xffff_0000;
