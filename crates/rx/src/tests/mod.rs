//! Pairs of endpoints joined by a network in memory with a clock of its own.

mod draining;
mod floods;
mod holding;
mod hooks;
mod hostile;
mod loss;
mod lossless;
mod rates;
mod rules;
mod security;
mod sharing;
mod sizes;
mod strays;
mod tickets;
mod unreachable;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::ack::AckReason;
use crate::header::{HEADER_LEN, Header, PacketType, flags};
use crate::security::{NullSecurity, SECURITY_NULL};
use crate::{CallHandle, ConnectionHandle, Endpoint, EndpointConfig, Event, ReadError, Service, WriteError};

/// Offset of the security class in a header.
const SECURITY_AT: usize = 23;

/// Id of the test server's service, which sends back what it gets.
pub(super) const ECHO: u16 = 7;

/// Filter of datagrams in the network; returns false to lose one.
pub(super) type Filter = Box<dyn FnMut(&Wire) -> bool>;

/// Datagram on its way.
#[derive(Clone, Debug)]
pub(super) struct Wire {
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
    pub(super) bytes: Vec<u8>,
}

impl Wire {
    pub(super) fn header(&self) -> Header {
        Header::parse(&self.bytes).expect("endpoints send valid packets").0
    }

    pub(super) fn payload(&self) -> &[u8] {
        &self.bytes[HEADER_LEN..]
    }
}

/// Bytes that one call of the test client has sent and received.
#[derive(Debug, Default)]
pub(super) struct Transfer {
    pub(super) request: VecDeque<u8>,
    pub(super) reply: Vec<u8>,
    pub(super) done: bool,
    pub(super) sent_end: bool,
}

/// Client and echo server, joined by the network.
pub(super) struct Pair {
    pub(super) now: Instant,
    pub(super) client: Endpoint,
    pub(super) server: Endpoint,
    pub(super) client_address: SocketAddr,
    pub(super) server_address: SocketAddr,
    pub(super) latency: Duration,
    pub(super) filter: Option<Filter>,
    /// Every datagram sent, in order.
    pub(super) trace: Vec<Wire>,
    pub(super) keep_trace: bool,
    in_transit: BTreeMap<(Instant, u64), Wire>,
    sent: u64,
    pub(super) transfers: BTreeMap<CallHandle, Transfer>,
    pub(super) served: BTreeMap<CallHandle, Transfer>,
    pub(super) client_events: Vec<Event>,
    pub(super) server_events: Vec<Event>,
    /// True when the server's application leaves calls alone.
    pub(super) server_sleeps: bool,
    pub(super) client_sleeps: bool,
}

impl Pair {
    pub(super) fn new() -> Self {
        Self::with(small_config(), small_config())
    }

    pub(super) fn with(client: EndpointConfig, server: EndpointConfig) -> Self {
        let now = Instant::now();
        let mut server = Endpoint::new(now, server, [2; 32]);
        server.add_service(ECHO, Service::default());
        Self {
            now,
            client: Endpoint::new(now, client, [1; 32]),
            server,
            client_address: "10.0.0.1:7001".parse().expect("address"),
            server_address: "10.0.0.2:7000".parse().expect("address"),
            latency: Duration::from_millis(5),
            filter: None,
            trace: Vec::new(),
            keep_trace: false,
            in_transit: BTreeMap::new(),
            sent: 0,
            transfers: BTreeMap::new(),
            served: BTreeMap::new(),
            client_events: Vec::new(),
            server_events: Vec::new(),
            server_sleeps: false,
            client_sleeps: false,
        }
    }

    pub(super) fn connect(&mut self) -> ConnectionHandle {
        let (now, server) = (self.now, self.server_address);
        self.client
            .connect(
                now,
                server,
                ECHO,
                SECURITY_NULL,
                Box::new(NullSecurity),
                crate::ConnectOptions::default(),
            )
            .expect("room for a connection")
    }

    /// Opens a call that sends `request`.
    pub(super) fn call(&mut self, connection: ConnectionHandle, request: Vec<u8>) -> CallHandle {
        let handle = self.client.open_call(self.now, connection).expect("free channel");
        self.transfers.insert(handle, Transfer { request: request.into(), ..Transfer::default() });
        pump_writes(
            &mut self.client,
            self.now,
            handle,
            self.transfers.get_mut(&handle).expect("inserted"),
            true,
        );
        handle
    }

    /// Runs everything that is due now, without moving the clock.
    pub(super) fn settle(&mut self) {
        loop {
            self.client.handle_timeout(self.now);
            self.server.handle_timeout(self.now);
            self.run_applications();
            let sent = self.transmit();
            self.client.handle_checks(self.now);
            self.server.handle_checks(self.now);
            if !self.deliver_due() && !sent {
                return;
            }
        }
    }

    /// Moves the clock to the next event. Returns false if none will ever come.
    pub(super) fn step(&mut self) -> bool {
        self.settle();
        let arrival = self.in_transit.keys().next().map(|key| key.0);
        let next =
            [arrival, self.client.poll_timeout(), self.server.poll_timeout()].into_iter().flatten().min();
        let Some(next) = next else { return false };
        assert!(next > self.now, "a due timer was handled but is set again for the same time");
        self.now = next;
        true
    }

    /// Runs until `done` or until `limit` has passed on the clock, and returns whether `done`.
    pub(super) fn run_until(&mut self, limit: Duration, mut done: impl FnMut(&Self) -> bool) -> bool {
        let end = self.now + limit;
        while self.now < end {
            self.settle();
            if done(self) {
                return true;
            }
            if !self.step() {
                break;
            }
        }
        self.settle();
        done(self)
    }

    /// Runs until every client call has ended.
    pub(super) fn run_calls(&mut self, limit: Duration) -> bool {
        self.run_until(limit, |pair| pair.transfers.values().all(|transfer| transfer.done))
    }

    /// Runs both endpoints for `time`.
    pub(super) fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        self.run_until(time, |_| false);
        self.now = self.now.max(end);
        self.settle();
    }

    /// Runs for exactly `time`, a millisecond at a time.
    pub(super) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        self.settle();
        while self.now < end {
            self.now += Duration::from_millis(1).min(end - self.now);
            self.settle();
        }
    }

    /// Gives a datagram to the server as if it came from `from`.
    pub(super) fn inject(&mut self, from: SocketAddr, bytes: &[u8]) {
        self.server.handle_datagram(self.now, from, None, bytes);
    }

    /// Sends the server a newcomer's first packet, and an invented answer to its challenge.
    pub(super) fn inject_made_up_response(
        &mut self,
        from: SocketAddr,
        cid: u32,
        security: u8,
        answer: &[u8],
    ) {
        let mut data = data_packet(0x8000_1234, cid, 1, 1, 1, true);
        data[SECURITY_AT] = security;
        data.resize(200, 0);
        self.inject(from, &data);
        self.settle();
        let mut header = Header::parse(&data).expect("valid").0;
        (header.kind, header.call, header.seq, header.flags) =
            (PacketType::Response, 0, 0, flags::CLIENT_INITIATED);
        self.inject(from, &packet(&header, answer));
        self.settle();
    }

    /// Makes a pair whose server gets hand-made packets of a stock client, which has proved its address by
    /// answering the server's probe. The client's first call, with packets from 1 on, is `call`.
    pub(super) fn stock(epoch: u32, cid: u32, last: bool) -> Self {
        let mut pair = Self::with(small_config(), EndpointConfig { check_reach: true, ..small_config() });
        pair.server_sleeps = true;
        pair.keep_trace = true;
        let from = pair.client_address;
        pair.inject(from, &data_packet(epoch, cid, 1, 1, 1, last));
        pair.settle();
        pair.answer_ping();
        pair.settle();
        assert_eq!(pair.served.len(), 1);
        pair
    }

    /// Answers the server's latest PING in the client's name, as a stock client does.
    pub(super) fn answer_ping(&mut self) {
        let (from, to) = (self.client_address, self.client_address);
        let asked = |wire: &&Wire| wire.to == to && wire.header().wants_ack();
        let ping = self.trace.iter().rev().find(asked).expect("the server asks").header();
        self.inject(from, &ping_answer(&ping));
    }

    /// Checks that no packet is held anywhere once all calls have ended.
    pub(super) fn assert_no_leaks(&mut self) {
        self.run_for(Duration::from_secs(2));
        for endpoint in [&self.client, &self.server] {
            let pool = endpoint.pool();
            assert_eq!(pool.allocated(), pool.free_count() + pool.in_use());
            assert_eq!(pool.in_use(), 0, "packets leaked");
        }
    }

    fn transmit(&mut self) -> bool {
        let mut any = false;
        for server in [false, true] {
            let (endpoint, from) = if server {
                (&mut self.server, self.server_address)
            } else {
                (&mut self.client, self.client_address)
            };
            while let Some(transmit) = endpoint.poll_transmit(self.now) {
                any = true;
                let sizes: Vec<_> = transmit.datagrams(endpoint.pool()).map(|bytes| bytes.len()).collect();
                let (last, full) = sizes.split_last().expect("a transmit has packets");
                assert!(
                    full.iter().all(|&size| size == transmit.segment_size) && *last <= transmit.segment_size
                );
                for bytes in transmit.datagrams(endpoint.pool()) {
                    let wire = Wire { from, to: transmit.destination, bytes: bytes.to_vec() };
                    self.sent += 1;
                    if self.filter.as_mut().is_none_or(|filter| filter(&wire)) {
                        self.in_transit.insert((self.now + self.latency, self.sent), wire.clone());
                    }
                    if self.keep_trace {
                        self.trace.push(wire);
                    }
                }
                endpoint.transmit_done(transmit);
            }
        }
        any
    }

    fn deliver_due(&mut self) -> bool {
        let mut any = false;
        while let Some(entry) = self.in_transit.first_entry()
            && entry.key().0 <= self.now
        {
            let wire = entry.remove();
            any = true;
            if wire.to == self.server_address {
                self.server.handle_datagram(self.now, wire.from, None, &wire.bytes);
            } else if wire.to == self.client_address {
                self.client.handle_datagram(self.now, wire.from, None, &wire.bytes);
            }
        }
        any
    }

    fn run_applications(&mut self) {
        while let Some(event) = self.client.poll_event() {
            self.client_events.push(event);
            on_event(&mut self.client, self.now, &mut self.transfers, event, self.client_sleeps, true);
        }
        while let Some(event) = self.server.poll_event() {
            self.server_events.push(event);
            if let Event::NewCall { call, .. } = event {
                self.served.insert(call, Transfer::default());
            }
            on_event(&mut self.server, self.now, &mut self.served, event, self.server_sleeps, false);
        }
    }
}

fn on_event(
    endpoint: &mut Endpoint,
    now: Instant,
    transfers: &mut BTreeMap<CallHandle, Transfer>,
    event: Event,
    sleeps: bool,
    is_client: bool,
) {
    match event {
        Event::Readable(handle) if !sleeps => {
            let Some(transfer) = transfers.get_mut(&handle) else { return };
            pump_reads(endpoint, now, handle, transfer, is_client);
            pump_writes(endpoint, now, handle, transfer, is_client);
        }
        Event::Writable(handle) => {
            let Some(transfer) = transfers.get_mut(&handle) else { return };
            pump_writes(endpoint, now, handle, transfer, is_client);
        }
        Event::Finished(call) | Event::Aborted { call, .. } | Event::Dead { call, .. } => {
            if let Some(transfer) = transfers.get_mut(&call) {
                transfer.done = true;
            }
        }
        _ => {}
    }
}

pub(super) fn pump_reads(
    endpoint: &mut Endpoint,
    now: Instant,
    handle: CallHandle,
    transfer: &mut Transfer,
    is_client: bool,
) {
    while let Some(mut call) = endpoint.call(now, handle) {
        match call.read() {
            Ok(bytes) => {
                let count = bytes.len();
                if is_client {
                    transfer.reply.extend_from_slice(bytes);
                } else {
                    transfer.request.extend(bytes);
                }
                call.consume(count);
            }
            Err(ReadError::End) => {
                transfer.sent_end = true;
                return;
            }
            Err(ReadError::Blocked | ReadError::Held) => return,
        }
    }
}

/// Writes what waits; the client then ends its request, the server its reply once the request has ended.
pub(super) fn pump_writes(
    endpoint: &mut Endpoint,
    now: Instant,
    handle: CallHandle,
    transfer: &mut Transfer,
    is_client: bool,
) {
    let Some(mut call) = endpoint.call(now, handle) else { return };
    while !transfer.request.is_empty() {
        let (head, _) = transfer.request.as_slices();
        match call.write(head) {
            Ok(count) => drop(transfer.request.drain(..count)),
            Err(WriteError::Blocked) => return,
            Err(_) => return,
        }
    }
    if is_client || transfer.sent_end {
        let _ = call.finish();
    }
}

/// Returns a small endpoint's configuration, without the reachability check.
pub(super) fn small_config() -> EndpointConfig {
    EndpointConfig { packets: 4096, check_reach: false, ..EndpointConfig::default() }
}

/// Returns bytes that differ from packet to packet.
pub(super) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect()
}

/// Makes a client's DATA packet as a stock peer would send it.
pub(super) fn data_packet(epoch: u32, cid: u32, call: u32, seq: u32, serial: u32, last: bool) -> Vec<u8> {
    let header = Header {
        epoch,
        cid,
        call,
        seq,
        serial,
        kind: PacketType::Data,
        flags: flags::CLIENT_INITIATED | if last { flags::LAST_PACKET } else { 0 },
        user_status: 0,
        security: SECURITY_NULL,
        checksum: 0,
        service: ECHO,
    };
    packet(&header, b"0123456789abcdef")
}

/// Returns a stock client's answer to a PING of a call whose reply has not begun.
pub(super) fn ping_answer(ping: &Header) -> Vec<u8> {
    let mut payload = [0; 21];
    payload[4..8].copy_from_slice(&1u32.to_be_bytes());
    payload[12..16].copy_from_slice(&ping.serial.to_be_bytes());
    payload[16] = AckReason::PingResponse as u8;
    let header = Header { flags: flags::CLIENT_INITIATED | flags::SLOW_START_OK, serial: 2, ..*ping };
    packet(&header, &payload)
}

pub(super) fn packet(header: &Header, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_LEN];
    header.encode(bytes.first_chunk_mut().expect("room"));
    bytes.extend_from_slice(payload);
    bytes
}
