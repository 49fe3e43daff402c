//! A client and an echo server of `rx`, joined by a network in memory with a clock of its own.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rx::header::{HEADER_LEN, Header};
use rx::{CallHandle, ConnectOptions, ConnectionHandle, Endpoint, EndpointConfig, Event, ReadError, Service};
use rxkad::{INDEX, Level, RxkadClient, RxkadServer, Token};

use crate::forge::NOW;

/// The service that sends back what it gets.
pub(crate) const ECHO: u16 = 7;

/// A datagram on its way; a filter may change it, and loses it by returning false.
pub(crate) type Filter = Box<dyn FnMut(&mut Wire) -> bool>;

#[derive(Clone, Debug)]
pub(crate) struct Wire {
    pub(crate) from_client: bool,
    pub(crate) bytes: Vec<u8>,
}

impl Wire {
    pub(crate) fn header(&self) -> Header {
        Header::parse(&self.bytes).expect("endpoints send valid packets").0
    }

    pub(crate) fn payload(&self) -> &[u8] {
        &self.bytes[HEADER_LEN..]
    }
}

/// Bytes of one call at one end.
#[derive(Debug, Default)]
pub(crate) struct Transfer {
    pub(crate) out: VecDeque<u8>,
    pub(crate) taken: Vec<u8>,
    pub(crate) end: Option<Event>,
    is_read: bool,
}

pub(crate) struct Pair {
    pub(crate) now: Instant,
    pub(crate) client: Endpoint,
    pub(crate) server: Endpoint,
    pub(crate) filter: Option<Filter>,
    /// Every datagram sent, in order, as it arrived.
    pub(crate) trace: Vec<Wire>,
    pub(crate) calls: BTreeMap<CallHandle, Transfer>,
    pub(crate) served: BTreeMap<CallHandle, Transfer>,
    pub(crate) server_sleeps: bool,
    in_transit: BTreeMap<(Instant, usize), Wire>,
}

impl Pair {
    pub(crate) fn new(security: RxkadServer) -> Self {
        let now = Instant::now();
        let config = EndpointConfig { packets: 4_096, check_reach: false, ..EndpointConfig::default() };
        let mut client = Endpoint::new(now, config.clone(), [1; 32]);
        let mut server = Endpoint::new(now, config, [2; 32]);
        server.add_service(ECHO, Service::default());
        server.add_security(Box::new(security));
        for endpoint in [&mut client, &mut server] {
            endpoint.set_time_of_day(now, Duration::from_secs(NOW as u64));
        }
        Self {
            now,
            client,
            server,
            filter: None,
            trace: Vec::new(),
            calls: BTreeMap::new(),
            served: BTreeMap::new(),
            server_sleeps: false,
            in_transit: BTreeMap::new(),
        }
    }

    pub(crate) fn connect(&mut self, token: Token, level: Level) -> ConnectionHandle {
        self.connect_by(INDEX, Box::new(RxkadClient::new(token, level)))
    }

    pub(crate) fn connect_by(
        &mut self,
        index: u8,
        security: Box<dyn rx::security::Security>,
    ) -> ConnectionHandle {
        let (now, options) = (self.now, ConnectOptions::default());
        self.client.connect(now, server_address(), ECHO, index, security, options).expect("room")
    }

    /// Opens a call that sends `bytes` and ends its request.
    pub(crate) fn call(&mut self, connection: ConnectionHandle, bytes: Vec<u8>) -> CallHandle {
        let handle = self.client.open_call(self.now, connection).expect("free channel");
        self.calls.insert(handle, Transfer { out: bytes.into(), is_read: true, ..Transfer::default() });
        write(&mut self.client, self.now, handle, self.calls.get_mut(&handle).expect("inserted"));
        handle
    }

    /// Runs until every call of the client has ended; its transfer says how.
    pub(crate) fn run_calls(&mut self) {
        let end = self.now + Duration::from_secs(60);
        while self.now < end && self.calls.values().any(|call| call.end.is_none()) {
            self.step(end);
        }
    }

    pub(crate) fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.step(end);
        }
        self.settle();
    }

    fn step(&mut self, end: Instant) {
        self.settle();
        let arrival = self.in_transit.keys().next().map(|key| key.0);
        let due = [arrival, self.client.poll_timeout(), self.server.poll_timeout()];
        self.now = due.into_iter().flatten().min().unwrap_or(end).min(end);
    }

    fn settle(&mut self) {
        loop {
            self.client.handle_timeout(self.now);
            self.server.handle_timeout(self.now);
            while let Some(event) = self.client.poll_event() {
                on_event(&mut self.client, self.now, &mut self.calls, event, false);
            }
            while let Some(event) = self.server.poll_event() {
                on_event(&mut self.server, self.now, &mut self.served, event, self.server_sleeps);
            }
            let sent = self.transmit();
            if !self.deliver() && !sent {
                return;
            }
        }
    }

    fn transmit(&mut self) -> bool {
        let mut any = false;
        for (from_client, endpoint) in [(true, &mut self.client), (false, &mut self.server)] {
            while let Some(transmit) = endpoint.poll_transmit(self.now) {
                any = true;
                for bytes in transmit.datagrams(endpoint.pool()) {
                    let mut wire = Wire { from_client, bytes: bytes.to_vec() };
                    if self.filter.as_mut().is_none_or(|filter| filter(&mut wire)) {
                        let at = (self.now + Duration::from_millis(5), self.trace.len());
                        self.in_transit.insert(at, wire.clone());
                    }
                    self.trace.push(wire);
                }
                endpoint.transmit_done(transmit);
            }
        }
        any
    }

    fn deliver(&mut self) -> bool {
        let mut any = false;
        while let Some(entry) = self.in_transit.first_entry()
            && entry.key().0 <= self.now
        {
            let wire = entry.remove();
            any = true;
            let (to, from) = if wire.from_client {
                (&mut self.server, client_address())
            } else {
                (&mut self.client, server_address())
            };
            to.handle_datagram(self.now, from, None, &wire.bytes);
        }
        any
    }
}

fn client_address() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 7_001))
}

fn server_address() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 2], 7_000))
}

fn on_event(
    endpoint: &mut Endpoint,
    now: Instant,
    transfers: &mut BTreeMap<CallHandle, Transfer>,
    event: Event,
    sleeps: bool,
) {
    match event {
        Event::NewCall { call, .. } => {
            transfers.insert(call, Transfer::default());
        }
        Event::Readable(call) | Event::Writable(call) if !sleeps => {
            let Some(transfer) = transfers.get_mut(&call) else { return };
            read(endpoint, now, call, transfer);
            write(endpoint, now, call, transfer);
        }
        Event::Finished(call) | Event::Aborted { call, .. } | Event::Dead { call, .. } => {
            if let Some(transfer) = transfers.get_mut(&call) {
                transfer.end = Some(event);
            }
        }
        _ => {}
    }
}

fn read(endpoint: &mut Endpoint, now: Instant, handle: CallHandle, transfer: &mut Transfer) {
    while let Some(mut call) = endpoint.call(now, handle) {
        match call.read() {
            Ok(bytes) => {
                let count = bytes.len();
                transfer.taken.extend_from_slice(bytes);
                if call.side() == rx::Side::Server {
                    transfer.out.extend(bytes_of(&transfer.taken, count));
                }
                call.consume(count);
            }
            Err(ReadError::End) => {
                transfer.is_read = true;
                return;
            }
            Err(_) => return,
        }
    }
}

fn bytes_of(taken: &[u8], count: usize) -> impl Iterator<Item = u8> + use<'_> {
    taken[taken.len() - count..].iter().copied()
}

/// Writes what waits; the end follows once the request has been read, which a client's own has.
fn write(endpoint: &mut Endpoint, now: Instant, handle: CallHandle, transfer: &mut Transfer) {
    let Some(mut call) = endpoint.call(now, handle) else { return };
    while !transfer.out.is_empty() {
        let Ok(count) = call.write(transfer.out.as_slices().0) else { return };
        transfer.out.drain(..count);
    }
    if transfer.is_read {
        let _ = call.finish();
    }
}
