//! Connection: four channels of calls between one client and one service, under one security class.

mod allowance;
mod challenge;
mod channel;
mod core;
mod server;
mod transmit;
mod unreachable;

use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use smallvec::SmallVec;

use crate::abort;
use crate::ack::Ack;
use crate::call::{Call, DataOutcome, Delivery};
use crate::config::Priority;
use crate::dscp::Dscp;
use crate::event::{CallHandle, DeadReason, Event, Side};
use crate::header::{CHANNELS, Header, PacketType, serial_after};
use crate::packet::BufferAccount;
use crate::security::{ConnectionContext, Security};
use crate::shared::Shared;

pub(crate) use self::channel::{Channel, Due, FinishedCall};
pub(crate) use self::core::{AMPLIFICATION_MAX, Core, Validation};
pub(crate) use self::server::NEW_CALL_SEQ_MAX;

/// Packet of the connection itself, or the last packet about a call.
#[derive(Debug)]
pub(crate) enum Control {
    Abort { channel: u8, call: u32, code: i32 },
    Busy { channel: u8, call: u32 },
    Challenge(Vec<u8>),
    Response(Vec<u8>),
    ReachProbe,
}

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) core: Core,
    pub(crate) channels: [Channel; CHANNELS],
    pub(crate) control: SmallVec<[Control; 2]>,
    /// True when a client was refused a channel and waits for one.
    pub(crate) channel_wanted: bool,
    /// Channel where the transmit pass goes on.
    turn: usize,
    /// Channel that sent last.
    served: usize,
}

/// Identity of the peer of a new connection.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) index: u32,
    pub(crate) generation: u32,
    pub(crate) side: Side,
    pub(crate) epoch: u32,
    pub(crate) cid: u32,
    pub(crate) remote: SocketAddr,
    pub(crate) local_ip: Option<IpAddr>,
    pub(crate) by_address: bool,
    pub(crate) service: u16,
    pub(crate) security_index: u8,
    pub(crate) wants_upgrade: bool,
    pub(crate) ends_at_closed_port: bool,
}

impl Connection {
    pub(crate) fn new(
        identity: Identity,
        security: Box<dyn Security>,
        peer: usize,
        serial: u32,
        now: Instant,
        shared: &mut Shared,
    ) -> Self {
        let reached =
            identity.side == Side::Client || shared.peers[peer].is_proved(now, shared.config.reach_time);
        shared.peers.add_connection(peer);
        let validation = Validation::new(serial, reached, !security.needs_challenge());
        let mut connection = Self {
            core: Core {
                index: identity.index,
                generation: identity.generation,
                side: identity.side,
                epoch: identity.epoch,
                cid: identity.cid,
                peer,
                remote: identity.remote,
                local_ip: identity.local_ip,
                service: identity.service,
                security_index: identity.security_index,
                security,
                expiry: None,
                wants_upgrade: identity.wants_upgrade,
                serial,
                heard_at: now,
                by_address: identity.by_address,
                asked: None,
                accepted_from: None,
                opened: 0,
                debt: 0,
                rate: None,
                had_share: false,
                waits_for_credit: 0,
                overdue_turns: 0,
                account: match identity.side {
                    Side::Client => BufferAccount::OWN,
                    Side::Server if reached => shared.peers[peer].account,
                    Side::Server => BufferAccount::UNPROVED,
                },
                validation,
                limits: shared.config.limits(identity.side),
                priority: Priority::Normal,
                dscp: Dscp::DEFAULT,
                error: None,
                delivered: false,
                ends_at_closed_port: identity.ends_at_closed_port,
                doubt: None,
                active_at: now,
                queued: false,
                armed: None,
            },
            channels: std::array::from_fn(|_| Channel::default()),
            control: SmallVec::new(),
            channel_wanted: false,
            turn: 0,
            served: 0,
        };
        let context = connection.context();
        connection.core.security.begin(&mut shared.surroundings(now), &context);
        connection.core.expiry = connection.core.security.expiry();
        connection
    }

    /// Takes one packet that belongs to this connection.
    pub(crate) fn on_packet(&mut self, now: Instant, header: &Header, payload: &[u8], shared: &mut Shared) {
        self.core.active_at = now;
        if let Some(code) = self.core.error {
            if header.kind != PacketType::Abort && self.may_abort(now, shared) {
                self.queue_control(Control::Abort { channel: 0, call: 0, code }, shared);
            }
            return;
        }
        if header.call == 0 {
            self.on_connection_packet(now, header, payload, shared);
            return;
        }
        if !self.route_to_call(now, header, payload, shared) {
            return;
        }
        match header.kind {
            PacketType::Data => self.on_data(now, header, payload, shared),
            PacketType::Ack => self.on_ack(now, header, payload, shared),
            PacketType::AckAll => {
                self.with_call(header.channel(), shared, |call, core, controller, shared| {
                    call.heard_at = now;
                    call.on_ack_all(now, core, controller, shared);
                })
            }
            PacketType::Abort => self.on_abort(header, payload, shared),
            PacketType::Busy => {
                shared.stats.busies_received += 1;
                self.with_call(header.channel(), shared, |call, _, _, _| call.heard_at = now);
            }
            _ => shared.stats.misplaced += 1,
        }
        self.settle(header.channel(), shared);
    }

    fn on_connection_packet(&mut self, now: Instant, header: &Header, payload: &[u8], shared: &mut Shared) {
        match (header.kind, self.core.side) {
            (PacketType::Abort, _) => {
                shared.stats.aborts_received += 1;
                self.fail(abort_code(payload), shared);
            }
            (PacketType::Challenge, Side::Client) => self.on_challenge(now, payload, shared),
            (PacketType::Response, Side::Server) => self.on_response(now, payload, shared),
            _ => shared.stats.misplaced += 1,
        }
    }

    fn on_data(&mut self, now: Instant, header: &Header, payload: &[u8], shared: &mut Shared) {
        let mut outcome = DataOutcome::Done;
        if self.core.side == Side::Client && header.service != self.core.service && self.core.wants_upgrade {
            self.core.service = header.service;
        }
        self.core.wants_upgrade &= self.core.side == Side::Server;
        self.with_call(header.channel(), shared, |call, core, controller, shared| {
            call.heard_at = now;
            outcome = call.on_data(now, *header, payload, core, controller, shared);
        });
        if let DataOutcome::Abort(code) = outcome {
            self.abort_call(header.channel(), code, true, shared);
        }
        // An authenticated client needs nothing more for the calls that are delivered.
        let proved = self.core.validation.authentic && self.core.validation.reached;
        let held = |call: &Call| call.delivery == Delivery::Held;
        if self.core.side == Side::Server
            && (!proved || self.channels[header.channel()].call.as_deref().is_some_and(held))
        {
            self.try_deliver(now, shared);
        }
    }

    fn on_ack(&mut self, now: Instant, header: &Header, payload: &[u8], shared: &mut Shared) {
        shared.stats.acks_received += 1;
        let ack = match Ack::parse(payload) {
            Ok(ack) => ack,
            Err(_) => {
                shared.stats.bad_acks += 1;
                return;
            }
        };
        let seen = self.note_proof(now, ack.serial, shared);
        shared.peers[self.core.peer].note_trailer(ack.trailer.as_ref(), ack.is_extended());
        self.note_mtu_answer(now, &ack, shared);
        self.with_call(header.channel(), shared, |call, core, controller, shared| {
            if header.wants_ack() {
                call.acks.on_ping(header.serial);
            }
            if seen && serial_after(ack.serial, call.serial_floor) {
                call.confirmed = true;
                core.settle_debt(shared);
            }
            call.on_ack(now, header, &ack, core, controller, shared);
        });
        if self.core.side == Side::Server {
            self.try_deliver(now, shared);
        }
    }

    fn on_abort(&mut self, header: &Header, payload: &[u8], shared: &mut Shared) {
        shared.stats.aborts_received += 1;
        let Some(mut call) = self.channels[header.channel()].call.take() else { return };
        call.clear(self.core.peer, shared);
        shared.stats.calls_aborted += 1;
        self.end_channel(header.channel(), None, shared);
        if call.is_delivered() {
            shared.events.push_back(Event::Aborted { call: call.handle, code: abort_code(payload) });
        }
    }

    pub(crate) fn context(&self) -> ConnectionContext {
        ConnectionContext {
            epoch: self.core.epoch,
            cid: self.core.cid,
            security: self.core.security_index,
            calls: std::array::from_fn(|channel| self.channels[channel].number),
        }
    }

    /// Ends a call that has nothing left to do, and notifies its application of changes.
    pub(crate) fn settle(&mut self, channel: usize, shared: &mut Shared) {
        let Some(call) = &mut self.channels[channel].call else { return };
        if call.is_over() && call.is_delivered() {
            self.finish_call(channel, shared);
            return;
        }
        if !call.awaits_room() {
            return;
        }
        let limit = self.channels[channel].send_limit(&shared.config);
        if let Some(call) = &mut self.channels[channel].call {
            call.notify_writable(limit, shared);
        }
    }

    pub(crate) fn finish_call(&mut self, channel: usize, shared: &mut Shared) {
        let Some(mut call) = self.channels[channel].call.take() else { return };
        shared.stats.calls_finished += 1;
        shared.events.push_back(Event::Finished(call.handle));
        let due = if call.side == Side::Client { Due::Later } else { Due::Implied };
        let done = Some(FinishedCall { next: call.rx.next(), prompt: call.acks.prompt(), due, sent: 0 });
        call.clear(self.core.peer, shared);
        self.end_channel(channel, done, shared);
    }

    /// Aborts a call from our side: frees it, tells the peer, and the application if `tell`.
    pub(crate) fn abort_call(&mut self, channel: usize, code: i32, tell: bool, shared: &mut Shared) {
        let Some(mut call) = self.channels[channel].call.take() else { return };
        call.clear(self.core.peer, shared);
        shared.stats.calls_aborted += 1;
        if tell && call.is_delivered() {
            shared.events.push_back(Event::Aborted { call: call.handle, code });
        }
        self.end_channel(channel, None, shared);
        self.channels[channel].aborted = Some(code);
        let number = call.handle.number;
        self.queue_control(Control::Abort { channel: channel as u8, call: number, code }, shared);
    }

    pub(crate) fn kill_call(&mut self, channel: usize, reason: DeadReason, shared: &mut Shared) {
        let Some(mut call) = self.channels[channel].call.take() else { return };
        call.clear(self.core.peer, shared);
        shared.stats.calls_dead += 1;
        if call.is_delivered() {
            shared.events.push_back(Event::Dead { call: call.handle, reason });
        }
        self.end_channel(channel, None, shared);
        let number = call.handle.number;
        if matches!(reason, DeadReason::Idle | DeadReason::HardLimit) {
            self.channels[channel].aborted = Some(abort::CALL_TIMEOUT);
            let code = abort::CALL_TIMEOUT;
            self.queue_control(Control::Abort { channel: channel as u8, call: number, code }, shared);
        }
    }

    /// Fails the whole connection: every call ends with `code`.
    pub(crate) fn fail(&mut self, code: i32, shared: &mut Shared) {
        self.core.error = Some(code);
        self.end_check(shared);
        self.control.clear();
        for channel in 0..CHANNELS {
            self.channels[channel].done = None;
            let Some(mut call) = self.channels[channel].call.take() else { continue };
            call.clear(self.core.peer, shared);
            shared.stats.calls_aborted += 1;
            if call.is_delivered() {
                shared.events.push_back(Event::Aborted { call: call.handle, code });
            }
        }
        let connection = self.core.handle();
        shared.events.push_back(Event::ConnectionAborted { connection, code });
    }

    fn end_channel(&mut self, channel: usize, done: Option<FinishedCall>, shared: &mut Shared) {
        self.channels[channel].done = done;
        if std::mem::take(&mut self.channel_wanted) {
            shared.events.push_back(Event::ChannelFree(self.core.handle()));
        }
        shared.mark_ready(&mut self.core);
    }

    /// Runs `body` on the channel's call, if there is one.
    pub(crate) fn with_call(
        &mut self,
        channel: usize,
        shared: &mut Shared,
        body: impl FnOnce(&mut Call, &mut Core, &mut dyn crate::congestion::Controller, &mut Shared),
    ) {
        let Channel { call, controller, .. } = &mut self.channels[channel];
        let Some(call) = call else { return };
        let controller = controller.get_or_insert_with(|| shared.config.congestion.build());
        body(call, &mut self.core, &mut **controller, shared);
    }

    /// Queues a packet of the connection's own; at most [`CONTROL_MAX`] wait.
    pub(crate) fn queue_control(&mut self, control: Control, shared: &mut Shared) {
        if self.control.len() < CONTROL_MAX {
            self.control.push(control);
        }
        shared.mark_ready(&mut self.core);
    }

    pub(crate) fn may_abort(&self, now: Instant, shared: &mut Shared) -> bool {
        let allowed = shared.peers[self.core.peer].abort_tokens.take(now);
        shared.stats.aborts_limited += u64::from(!allowed);
        allowed
    }

    /// Returns whether the connection has no calls, and no packets of its own to send.
    pub(crate) fn is_silent(&self) -> bool {
        !self.has_calls() && self.control.is_empty()
    }

    pub(crate) fn has_calls(&self) -> bool {
        self.channels.iter().any(|channel| channel.call.is_some())
    }

    /// Returns whether every channel has had its last call.
    pub(crate) fn is_used_up(&self) -> bool {
        self.channels.iter().all(|channel| channel.number >= CALL_NUMBER_MAX)
    }

    /// Opens a call on a free channel.
    pub(crate) fn open_call(&mut self, now: Instant, shared: &mut Shared) -> Option<CallHandle> {
        let is_free = |channel: &Channel| channel.call.is_none() && channel.number < CALL_NUMBER_MAX;
        let free = self.channels.iter().position(is_free)?;
        let number = self.channels[free].number + 1;
        let handle = CallHandle { connection: self.core.handle(), channel: free as u8, number };
        self.core.active_at = now;
        let window = self.channels[free].receive_window;
        let call = Call::new(handle, Side::Client, window, &self.core, shared, now);
        let channel = &mut self.channels[free];
        channel.begin(now, call, &shared.peers[self.core.peer], &shared.config);
        // The new call's first packet tells the server that the last reply has arrived.
        if let Some(done) = &mut channel.done {
            done.due = Due::Implied;
        }
        shared.stats.calls_opened += 1;
        shared.mark_ready(&mut self.core);
        Some(handle)
    }

    /// Frees every packet, without events.
    pub(crate) fn clear(&mut self, shared: &mut Shared) {
        self.end_check(shared);
        for channel in &mut self.channels {
            if let Some(mut call) = channel.call.take() {
                call.clear(self.core.peer, shared);
                shared.stats.calls_dead += 1;
            }
        }
    }
}

pub(crate) fn abort_code(payload: &[u8]) -> i32 {
    payload.first_chunk().map_or(abort::PROTOCOL_ERROR, |bytes| i32::from_be_bytes(*bytes))
}

//@ limit: call numbers
//@ section: Rx
//@ unit: call
//@ connection: 4 times 2,147,483,647
//@ empty: no further call (`UsedUp`): a client opens another connection
//@ counter: none
//@ attack: none, it takes years at any rate that a connection has
//@ reach: server
/// Highest call number: Linux accepts no higher in a RESPONSE, and a channel that began again at 1 would seem
/// to repeat old calls.
const CALL_NUMBER_MAX: u32 = i32::MAX as u32;
/// Most control packets that wait on one connection.
const CONTROL_MAX: usize = 8;
