//! Server's side of a connection: which call a packet is for, and when the client counts as proved.
//!
//! A new address may be spoofed. Until it has answered something only its owner can have seen, a connection
//! sends it no more than three times the bytes it sent us, and (with `check_reach`) delivers none of its calls.
//! A call that comes in the name of a proved address may be spoofed too: until an ACK of that call names a serial of
//! ours, what is sent for it is charged to the address (`Core::may_send`).

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use rand::Rng;

use super::{Channel, Connection, Control, Due};
use crate::ack::{self, Ack, AckReason};
use crate::call::{Call, Delivery};
use crate::event::{CallHandle, DeadReason, Event, Side};
use crate::header::{CHANNELS, Header, PacketType, serial_after};
use crate::shared::Shared;

impl Connection {
    /// Finds or makes the call a packet is for. Returns false when the packet has been dealt with.
    pub(super) fn route_to_call(
        &mut self,
        now: Instant,
        header: &Header,
        payload: &[u8],
        shared: &mut Shared,
    ) -> bool {
        let channel = &mut self.channels[header.channel()];
        if header.call == channel.number && channel.call.is_some() {
            return true;
        }
        match self.core.side {
            // An older call too: the newer one, given up before its first packet, has not told of its end.
            Side::Client if header.call <= channel.number && channel.aborted.is_some() => {
                self.on_packet_for_ended_call(now, header, shared)
            }
            Side::Client => {
                self.on_packet_after_reply(header, payload, shared);
                false
            }
            Side::Server => self.route_to_server_call(now, header, shared),
        }
    }

    /// Handles a packet of a server that missed our last ACK, or its answer to our question about that.
    fn on_packet_after_reply(&mut self, header: &Header, payload: &[u8], shared: &mut Shared) {
        let channel = &mut self.channels[header.channel()];
        if header.call == channel.number
            && header.kind == PacketType::Ack
            && Ack::parse(payload).is_ok_and(|ack| ack.reason == AckReason::PingResponse)
            && let Some(done) = &mut channel.done
        {
            done.due = Due::Implied;
            return;
        }
        self.answer_for_done_call(header, shared);
    }

    /// Repeats the last packet about a call that has ended well, if the packet asks for it.
    fn answer_for_done_call(&mut self, header: &Header, shared: &mut Shared) {
        shared.stats.old_calls += 1;
        let channel = &mut self.channels[header.channel()];
        let reason = match header.kind {
            PacketType::Data => AckReason::Duplicate,
            PacketType::Ack if header.wants_ack() => AckReason::PingResponse,
            _ => return,
        };
        if let Some(done) = channel.done.as_mut().filter(|_| header.call == channel.number) {
            done.prompt = header.serial;
            done.due = Due::Now(reason);
            shared.mark_ready(&mut self.core);
        }
    }

    fn route_to_server_call(&mut self, now: Instant, header: &Header, shared: &mut Shared) -> bool {
        let index = header.channel();
        let channel = &mut self.channels[index];
        if header.call < channel.number {
            shared.stats.old_calls += 1;
            return false;
        }
        if header.call == channel.number {
            return self.on_packet_for_ended_call(now, header, shared);
        }
        // A client that has begun another call, even one it gave up at once, has the reply to this one.
        let replied = channel.call.as_ref().is_some_and(|call| call.finished_writing && call.is_delivered());
        if replied {
            self.finish_call(index, shared);
        }
        // Only DATA near the start makes a call: anything else belongs to one from before we were started.
        if header.kind != PacketType::Data || header.seq == 0 || header.seq > NEW_CALL_SEQ_MAX {
            shared.stats.unknown_calls += 1;
            return false;
        }
        if self.channels[index].call.is_some() {
            self.kill_call(index, DeadReason::Replaced, shared);
            self.queue_control(Control::Busy { channel: index as u8, call: header.call }, shared);
            return false;
        }
        if let Some(code) = shared.refuses {
            self.refuse_call(now, header, code, shared);
            return false;
        }
        let handle = CallHandle { connection: self.core.handle(), channel: index as u8, number: header.call };
        let window = self.channels[index].receive_window;
        let call = Call::new(handle, Side::Server, window, &self.core, shared, now);
        let channel = &mut self.channels[index];
        channel.begin(now, call, &shared.peers[self.core.peer], &shared.config);
        shared.stats.calls_accepted += 1;
        true
    }

    /// Refuses a call that is about to begin, and each later packet of it.
    fn refuse_call(&mut self, now: Instant, header: &Header, code: i32, shared: &mut Shared) {
        shared.stats.calls_refused += 1;
        let channel = &mut self.channels[header.channel()];
        channel.number = header.call;
        channel.aborted = Some(code);
        channel.done = None;
        if self.may_abort(now, shared) {
            let channel = header.channel() as u8;
            self.queue_control(Control::Abort { channel, call: header.call, code }, shared);
        }
    }

    /// Handles a packet for a call that has ended, perhaps with an abort that the peer has not received.
    fn on_packet_for_ended_call(&mut self, now: Instant, header: &Header, shared: &mut Shared) -> bool {
        let Channel { number, aborted, .. } = self.channels[header.channel()];
        if let Some(code) = aborted
            && header.kind != PacketType::Abort
            && self.may_abort(now, shared)
        {
            let channel = header.channel() as u8;
            self.queue_control(Control::Abort { channel, call: number, code }, shared);
        }
        self.answer_for_done_call(header, shared);
        false
    }

    /// Notes the serial named by an ACK: if only we and the client's address can know it, the address is
    /// proved. Returns whether it is.
    pub(super) fn note_proof(&mut self, now: Instant, serial: u32, shared: &mut Shared) -> bool {
        let validation = &mut self.core.validation;
        // The floor follows at a distance, or it would be ahead of all serials after half the circle.
        if self.core.serial.wrapping_sub(validation.serial_floor) > SERIALS_REMEMBERED {
            validation.serial_floor = self.core.serial.wrapping_sub(SERIALS_REMEMBERED);
        }
        let seen = serial_after(serial, validation.serial_floor) && !serial_after(serial, self.core.serial);
        if self.core.side == Side::Server && seen {
            self.on_reached(now, shared);
        }
        seen
    }

    pub(super) fn on_reached(&mut self, now: Instant, shared: &mut Shared) {
        let peer = &mut shared.peers[self.core.peer];
        peer.proved_at = Some(now);
        let had_credit = peer.has_credit(now);
        peer.acknowledged_at = Some(now);
        self.core.set_reached(shared);
        if !had_credit {
            shared.credit_returned();
        }
    }

    /// Ends calls before those that the client has stated for its channels. A stated call itself may still be
    /// on its way here, its first packet lost.
    pub(super) fn end_older_calls(&mut self, calls: [u32; 4], shared: &mut Shared) {
        for (channel, number) in calls.into_iter().enumerate() {
            let known = self.channels[channel].number;
            if number <= known {
                continue;
            }
            self.kill_call(channel, DeadReason::Replaced, shared);
            self.channels[channel].number = number - 1;
        }
    }

    pub(super) fn open_held_calls(&mut self, shared: &mut Shared) {
        for channel in 0..CHANNELS {
            let mut opened = Ok(());
            self.with_call(channel, shared, |call, core, _, shared| opened = call.open_held(core, shared));
            if let Err(code) = opened {
                self.abort_call(channel, code, false, shared);
            }
        }
    }

    /// Delivers calls whose client is proved, or begins the proof.
    pub(crate) fn try_deliver(&mut self, now: Instant, shared: &mut Shared) {
        if !self.channels.iter().flat_map(|channel| &channel.call).any(|call| call.may_deliver()) {
            return;
        }
        // The answer to a challenge proves the address as well.
        if !self.core.validation.authentic && !self.core.validation.checking {
            self.core.validation.challenge_at.get_or_insert(now);
        }
        if !self.core.validation.reached
            && shared.peers[self.core.peer].is_proved(now, shared.config.reach_time)
        {
            self.core.set_reached(shared);
        }
        if self.core.validation.authentic && !self.core.validation.reached && shared.config.check_reach {
            self.core.validation.wanted = true;
        }
        if self.core.validation.wanted {
            self.core.validation.probe_at.get_or_insert(now);
        }
        if !self.core.validation.authentic || !self.core.validation.reached && shared.config.check_reach {
            return;
        }
        for channel in &mut self.channels {
            let Some(call) = channel.call.as_mut().filter(|call| call.may_deliver()) else { continue };
            call.delivery = Delivery::Delivered;
            self.core.delivered = true;
            shared.events.push_back(Event::NewCall { call: call.handle, service: self.core.service });
            call.notify_readable(shared);
        }
    }

    /// Queues the challenge or the probe that is due, if any. The challenge comes first, as its answer says
    /// all that a probe's does; a probe, which is smaller, goes where the client has not sent the bytes for a
    /// challenge.
    pub(super) fn on_proof_timer(&mut self, now: Instant, shared: &mut Shared) {
        let peer = &shared.peers[self.core.peer].rtt;
        let first_retry = if peer.has_sample() { peer.rto() } else { PROOF_RETRY_UNMEASURED };
        let retry = |times: u32| (first_retry * (1 << times.min(PROOF_DOUBLINGS_MAX))).min(PROOF_RETRY_MAX);
        if self.core.validation.challenge_at.is_some_and(|at| now >= at) {
            self.challenge(now, retry(self.core.validation.challenges), shared);
        }
        let validation = &mut self.core.validation;
        let challenged = validation.challenge_at.is_some() || validation.checking;
        if validation.wanted && !challenged && validation.probe_at.is_none_or(|at| now >= at) {
            // Without the bytes for a probe, the next packet that brings some pays for it before anything else.
            let affordable = validation.budget >= PROBE_LEN_MIN;
            validation.probe_at = affordable.then(|| now + retry(validation.probes));
            if affordable {
                validation.probes += 1;
                self.queue_control(Control::ReachProbe, shared);
            }
        }
    }

    /// Moves the client to another address, at which it has answered. A host that knows the serials so far
    /// may not be there: they jump, so that an ACK of what follows is a proof again.
    pub(crate) fn move_to(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        local_ip: Option<IpAddr>,
        shared: &mut Shared,
    ) {
        let peer = shared.peers.find_or_add(remote, now, &shared.config);
        let old = std::mem::replace(&mut self.core.peer, peer);
        for call in self.channels.iter_mut().filter_map(|channel| channel.call.as_mut()) {
            call.leave_room(old, shared);
        }
        shared.peers[old].room.forget(self.core.index);
        shared.peers.remove_connection(old, now);
        shared.peers.add_connection(peer);
        shared.peers.inherit(old, peer);
        let core = &mut self.core;
        (core.remote, core.local_ip, core.heard_at) = (remote, local_ip, now);
        (core.asked, core.accepted_from) = (None, None);
        core.serial = core.serial.wrapping_add(shared.rng.random_range(SERIAL_JUMP_MIN..SERIAL_JUMP_MAX));
        core.validation.serial_floor = core.serial;
        core.validation.budget = 0;
        core.set_reached(shared);
        core.forget_debt();
        let there = &mut shared.peers[peer];
        (there.proved_at, there.acknowledged_at) = (Some(now), Some(now));
        for call in self.channels.iter_mut().filter_map(|channel| channel.call.as_mut()) {
            call.confirmed = false;
            call.serial_floor = core.serial;
            call.ping_due = true;
        }
        shared.stats.connections_rebound += 1;
    }
}

impl Call {
    pub(crate) fn is_delivered(&self) -> bool {
        self.delivery == Delivery::Delivered
    }
}

/// Bytes of a PING ACK of a call with one received packet and our extension, which a bare header pays for.
pub(crate) const PROBE_LEN_MIN: u64 = (ack::packet_len(1) + 8) as u64;
/// Distance that serials jump when a client moves: beyond guessing, and well within the half circle that
/// tells older serials from newer ones.
const SERIAL_JUMP_MIN: u32 = 1 << 20;
const SERIAL_JUMP_MAX: u32 = 1 << 28;
/// Highest sequence number that may begin a call: a peer cannot know a larger window yet.
pub(crate) const NEW_CALL_SEQ_MAX: u32 = 64;
/// Time to the first repetition of a probe or challenge on a path without a known round trip, and the longest
/// time, which is what OpenAFS always waits.
const PROOF_RETRY_UNMEASURED: Duration = Duration::from_millis(250);
const PROOF_RETRY_MAX: Duration = Duration::from_secs(2);
/// Most doublings of the repetition time, more than it takes to reach the longest.
const PROOF_DOUBLINGS_MAX: u32 = 4;
/// Distance back up to which a serial proves that its sender sees our packets.
const SERIALS_REMEMBERED: u32 = 1 << 30;
