//! Output of a connection in a transmit pass, and the time of the next one.

use std::time::{Duration, Instant};

use super::{Connection, Control, Due, FinishedCall};
use crate::abort;
use crate::ack::{self, Ack, AckFields, AckReason};
use crate::call::TimerOutcome;
use crate::event::Side;
use crate::header::{CHANNELS, HEADER_LEN, Header, PacketType, flags};
use crate::jumbo_path::probe_size;
use crate::packet::PacketRef;
use crate::peer::MtuProbe;
use crate::shared::Shared;

/// Packet ready to be sent, pinned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prepared {
    pub(crate) packet: PacketRef,
    /// Set for a probe of the path's MTU, which must not be fragmented.
    pub(crate) probe: bool,
    /// Most packets that the datagram of this one may have.
    pub(crate) parts_max: u8,
}

impl Connection {
    /// Returns the next packet to send; `None` ends the connection's turn.
    pub(crate) fn next_packet(&mut self, now: Instant, shared: &mut Shared) -> Option<Prepared> {
        if self.core.validation.challenge_at.is_some() || self.core.validation.wanted {
            self.on_proof_timer(now, shared);
        }
        while !self.control.is_empty() {
            let control = self.control.remove(0);
            if let Some(packet) = self.build_control(now, control, shared) {
                return Some(Prepared { packet, probe: false, parts_max: 1 });
            }
        }
        for _ in 0..CHANNELS {
            if let Some(prepared) = self.next_channel_packet(now, self.turn, shared) {
                self.served = self.turn;
                return Some(prepared);
            }
            self.turn = (self.turn + 1) % CHANNELS;
        }
        // Where room is short the next one has it first.
        self.turn = (self.served + 1) % CHANNELS;
        let peer = &mut shared.peers[self.core.peer];
        peer.room.pass_on(self.core.index);
        shared.ready.extend(peer.call_next(&shared.config));
        None
    }

    fn next_channel_packet(&mut self, now: Instant, index: usize, shared: &mut Shared) -> Option<Prepared> {
        let channel = &mut self.channels[index];
        if let Some(call) = &mut channel.call {
            let controller = channel.controller.get_or_insert_with(|| shared.config.congestion.build());
            let packet = call.next_packet(now, &mut self.core, &mut **controller, shared);
            if let Some(packet) = packet {
                return Some(Prepared {
                    packet,
                    probe: false,
                    parts_max: std::mem::replace(&mut call.parts_max, 1),
                });
            }
            // A reply may have become complete by its last packet being sent after all ACKs: nothing to settle
            // here. A call that sends in bulk also looks for a larger packet size.
            return if call.tx.in_flight() >= MTU_PROBE_IN_FLIGHT || call.rx.next() > MTU_PROBE_IN_FLIGHT {
                self.probe_mtu(now, index, shared)
            } else {
                None
            };
        }
        let done = channel.done.as_mut()?;
        let (reason, due) = match done.due {
            Due::Now(reason) => (reason, Due::Implied),
            Due::At(at) if now >= at => {
                done.sent += 1;
                let again = Due::At(now + FINAL_ACK_RETRY * (1 << done.sent));
                let reason = if done.sent == 1 { AckReason::Delay } else { AckReason::Ping };
                (reason, if done.sent < FINAL_ACKS_MAX { again } else { Due::Implied })
            }
            _ => return None,
        };
        done.due = due;
        let done = *done;
        let packet = self.final_ack(now, index, done, reason, shared)?;
        Some(Prepared { packet, probe: false, parts_max: 1 })
    }

    /// Builds the final ACK, which tells the peer that all of its stream has arrived. A client sends one by itself,
    /// and then asks a few times whether it was received. A server cannot ask if its last packets went to an address
    /// that a NAT has taken from us.
    fn final_ack(
        &mut self,
        now: Instant,
        index: usize,
        done: FinishedCall,
        reason: AckReason,
        shared: &mut Shared,
    ) -> Option<PacketRef> {
        let fields = AckFields {
            first: done.next,
            previous: done.next.saturating_sub(1),
            serial: done.prompt,
            reason,
            trailer: ack::Trailer {
                window: shared.config.receive_window.min(255),
                ..shared.trailer(now, &self.core)
            },
            extended: shared.config.extensions,
        };
        let packet = shared.alloc_control()?;
        let len = ack::encode(shared.pool.payload_room(&packet), &fields, |_| 0, || None);
        shared.pool.set_payload_len(&packet, len);
        if !self.core.may_send(now, HEADER_LEN + len, reason == AckReason::Ping, shared) {
            shared.pool.free(packet);
            return None;
        }
        let call = self.channels[index].number;
        let bits = flags::SLOW_START_OK | if reason == AckReason::Ping { flags::REQUEST_ACK } else { 0 };
        let header = self.header(index as u8, call, PacketType::Ack, bits);
        header.encode(shared.pool.buffer_mut(&packet).first_chunk_mut().expect("a buffer holds a header"));
        shared.stats.acks_sent += 1;
        Some(shared.pin_once(packet))
    }

    fn probe_mtu(&mut self, now: Instant, index: usize, shared: &mut Shared) -> Option<Prepared> {
        let peer = &mut shared.peers[self.core.peer];
        if peer.probe.is_some() || !shared.config.extensions {
            return None;
        }
        let (size, parts) = match peer.modern {
            true => (usize::from(peer.mtu.poll_probe(now)?), 0),
            false => peer
                .jumbo
                .poll_probe(now)
                .filter(|&parts| peer.is_stock() && peer.has_room(parts.into(), &shared.config))
                .map(|parts| (probe_size(parts), parts))?,
        };
        let call = self.channels[index].call.as_mut()?;
        let prompt = call.acks.prompt();
        let packet = call.build_ack(now, AckReason::Ping, prompt, size, &mut self.core, shared)?;
        let probe = MtuProbe { connection: self.core.index, serial: self.core.serial, sent_at: now, parts };
        shared.peers[self.core.peer].begin_probe(probe);
        shared.stats.pings_sent += 1;
        shared.stats.mtu_probes += 1;
        Some(Prepared { packet, probe: true, parts_max: 1 })
    }

    /// Notes an ACK that may answer the path-MTU probe.
    pub(super) fn note_mtu_answer(&mut self, now: Instant, ack: &Ack<'_>, shared: &mut Shared) {
        let peer = &mut shared.peers[self.core.peer];
        if let Some(probe) = peer.probe
            && probe.connection == self.core.index
            && probe.serial == ack.serial
            && ack.reason == AckReason::PingResponse
        {
            peer.probe_acked(now);
        }
    }

    fn mtu_probe_expires(&self, shared: &Shared) -> Option<Instant> {
        let peer = &shared.peers[self.core.peer];
        let probe = peer.probe.filter(|probe| probe.connection == self.core.index)?;
        // A ping is answered at once, so no delayed ACK is waited for; a late answer costs one of three tries.
        Some(probe.sent_at + peer.rtt.srtt() + 4 * peer.rtt.rttvar() + MTU_PROBE_MARGIN)
    }

    fn build_control(&mut self, now: Instant, control: Control, shared: &mut Shared) -> Option<PacketRef> {
        let mut payload = std::mem::take(&mut shared.scratch);
        let room = payload.len();
        payload.clear();
        let built = self.encode_control(&control, &mut payload);
        let packet = built.and_then(|header| self.control_packet(now, &header, &payload, shared));
        payload.clear();
        payload.resize(room, 0);
        shared.scratch = payload;
        if packet.is_some() {
            self.count_control(&control, now, shared);
        }
        packet
    }

    fn encode_control(&mut self, control: &Control, out: &mut Vec<u8>) -> Option<Header> {
        Some(match *control {
            Control::Abort { channel, call, code } => {
                out.extend(code.to_be_bytes());
                self.header(channel, call, PacketType::Abort, 0)
            }
            Control::Busy { channel, call } => self.header(channel, call, PacketType::Busy, 0),
            Control::Challenge(ref question) => {
                out.extend_from_slice(question);
                self.header(0, 0, PacketType::Challenge, 0)
            }
            Control::Response(ref response) => {
                out.extend_from_slice(response);
                self.header(0, 0, PacketType::Response, 0)
            }
            Control::ReachProbe => {
                self.ask_for_sign_of_life();
                return None;
            }
        })
    }

    /// Asks the client's address for a sign of life: a PING of the call that waits for it. Its answer shows
    /// that the client knows of the call, as an answer to a VERSION question would not.
    fn ask_for_sign_of_life(&mut self) {
        if !self.core.validation.reached
            && let Some(call) = self.channels.iter_mut().find_map(|channel| channel.call.as_mut())
        {
            call.ping_due = true;
        }
    }

    fn control_packet(
        &mut self,
        now: Instant,
        header: &Header,
        payload: &[u8],
        shared: &mut Shared,
    ) -> Option<PacketRef> {
        // After an abort or BUSY there is nothing to ask.
        let last_word = self.core.validation.reached || header.kind == PacketType::Challenge;
        if !self.core.may_send(now, HEADER_LEN + payload.len(), last_word, shared) {
            return None;
        }
        let packet = shared.alloc_control_of(payload.len())?;
        shared.pool.set_payload_len(&packet, payload.len());
        shared.pool.payload_room(&packet)[..payload.len()].copy_from_slice(payload);
        header.encode(shared.pool.buffer_mut(&packet).first_chunk_mut().expect("a buffer holds a header"));
        Some(shared.pin_once(packet))
    }

    fn count_control(&self, control: &Control, _now: Instant, shared: &mut Shared) {
        let stats = &mut shared.stats;
        match control {
            Control::Abort { .. } => stats.aborts_sent += 1,
            Control::Busy { .. } => stats.busies_sent += 1,
            Control::Challenge(_) => stats.challenges_sent += 1,
            Control::Response(_) => stats.responses_sent += 1,
            Control::ReachProbe => {}
        }
    }

    fn header(&mut self, channel: u8, call: u32, kind: PacketType, bits: u8) -> Header {
        Header {
            epoch: self.core.epoch,
            cid: self.core.cid | u32::from(channel),
            call,
            seq: 0,
            serial: self.core.next_serial(),
            kind,
            flags: self.core.side_flag() | bits,
            user_status: 0,
            security: self.core.security_index,
            checksum: 0,
            service: self.core.service,
        }
    }

    /// Runs the timers that are due; the next transmit pass sends the packets.
    pub(crate) fn on_timer(&mut self, now: Instant, shared: &mut Shared) {
        if self.mtu_probe_expires(shared).is_some_and(|at| now >= at) {
            let peer = &mut shared.peers[self.core.peer];
            peer.probe_lost(now);
            shared.stats.mtu_probes_lost += 1;
        }
        self.expire(now, shared);
        self.confirm(now);
        for channel in 0..CHANNELS {
            let mut outcome = TimerOutcome::Alive;
            self.with_call(channel, shared, |call, core, controller, shared| {
                outcome = call.on_timer(now, core, controller, shared);
            });
            match outcome {
                TimerOutcome::Alive => {}
                TimerOutcome::Dead(reason) => self.kill_call(channel, reason, shared),
                TimerOutcome::TooLarge => self.abort_call(channel, abort::MESSAGE_SIZE, true, shared),
            }
        }
    }

    /// Sets the timers at the end of a turn, and returns the earliest.
    pub(crate) fn deadline(&mut self, now: Instant, shared: &Shared) -> Instant {
        let idle_until = self.reap_at(shared).filter(|_| !self.has_calls());
        let mut earliest = idle_until.unwrap_or(now + shared.config.reap_time);
        for channel in &mut self.channels {
            if let Some(call) = &channel.call {
                earliest = earliest.min(call.deadline(now, &self.core, shared));
            } else if let Some(done) = &mut channel.done {
                if done.due == Due::Later {
                    done.due = Due::At(now + shared.config.final_ack_delay);
                }
                if let Due::At(at) = done.due {
                    earliest = earliest.min(at);
                }
            }
        }
        earliest = self.confirm_at().map_or(earliest, |at| earliest.min(at));
        let validation = &self.core.validation;
        let probes = validation.wanted && validation.challenge_at.is_none() && !validation.checking;
        let waits = [
            validation.probe_at.filter(|_| probes),
            validation.challenge_at,
            self.mtu_probe_expires(shared),
            self.expires_at(shared),
        ];
        waits.into_iter().flatten().fold(earliest, Instant::min)
    }

    /// Returns when the connection may be removed if it stays as it is. One that we opened is its opener's to
    /// close: it may rest for as long as it likes, and a server that has forgotten it takes it up again.
    pub(crate) fn reap_at(&self, shared: &Shared) -> Option<Instant> {
        if self.core.side == Side::Client {
            return None;
        }
        let validation = &self.core.validation;
        let failed = self.core.error.is_some_and(|code| code != abort::CALL_DEAD);
        let wait = match (validation.reached && validation.authentic, failed) {
            (false, _) => self.core.limits.dead_time,
            (_, true) => shared.config.reach_time,
            _ => shared.config.reap_time,
        };
        Some(self.core.active_at + wait)
    }
}

/// Most ACKs that a client sends unasked after a call, and the base of the doubling time between them.
const FINAL_ACKS_MAX: u8 = 5;
const FINAL_ACK_RETRY: Duration = Duration::from_millis(500);
/// Scheduling allowance before a path-MTU probe counts as lost.
const MTU_PROBE_MARGIN: Duration = Duration::from_millis(10);
/// Packets in flight that make a call worth a path-MTU probe.
const MTU_PROBE_IN_FLIGHT: u32 = 8;
