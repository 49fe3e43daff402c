//! Rx endpoint as a node of a world, with a small application on top.
//!
//! Every call carries a request and a reply of known bytes, and both ends check what they get.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rx::security::NullSecurity;
use rx::{
    CallHandle, ConnectionHandle, DeadReason, Endpoint, EndpointConfig, Event, OpenError, ReadError, Service,
    WriteError,
};

use crate::sim::network::Outgoing;
use crate::sim::pattern::Pattern;
use crate::sim::scenario::CallPlan;
use crate::sim::world::Node;

/// Endpoint with its application.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) endpoint: Endpoint,
    pub(crate) role: Role,
}

#[derive(Debug)]
pub(crate) enum Role {
    Client(Client),
    Server(Server),
}

/// Application that makes the calls of a plan.
#[derive(Debug, Default)]
pub(crate) struct Client {
    connections: Vec<ConnectionHandle>,
    /// Calls not begun, latest first.
    waiting: Vec<(Instant, CallPlan)>,
    running: BTreeMap<CallHandle, Transfer>,
    planned: usize,
    pub(crate) finished: usize,
    /// Calls given up as planned.
    pub(crate) given_up: usize,
    /// Reply bytes that were checked.
    pub(crate) bytes_read: u64,
    /// Times between two arrivals of a call's bytes.
    pub(crate) gaps: Vec<Duration>,
    pub(crate) failures: Vec<String>,
}

/// Application that answers calls.
#[derive(Debug, Default)]
pub(crate) struct Server {
    running: BTreeMap<CallHandle, Transfer>,
    pub(crate) finished: usize,
    /// Calls whose reply was sent and never acknowledged.
    pub(crate) unheard: usize,
    /// Calls that the client gave up by an ABORT.
    pub(crate) aborted: usize,
    /// Calls that were given up in silence, or by the next call on the channel.
    pub(crate) abandoned: usize,
    pub(crate) failures: Vec<String>,
}

/// Progress of one call, seen from one side.
#[derive(Debug, Default)]
struct Transfer {
    to_write: Stream,
    to_read: Stream,
    /// Header of the request, as far as it has come (server side).
    header: Vec<u8>,
    write_finished: bool,
    /// Time when bytes of the reply last came (client side).
    read_at: Option<Instant>,
    /// Bytes after which the client gives up; see [`CallPlan::abort_after`].
    abort_after: Option<u64>,
}

/// Direction of a call: a prefix and then pattern bytes.
#[derive(Debug, Default)]
struct Stream {
    prefix: Vec<u8>,
    pattern: Option<Pattern>,
    len: u64,
    done: u64,
}

impl Host {
    pub(crate) fn client(
        now: Instant,
        config: EndpointConfig,
        seed: u64,
        server: SocketAddr,
        connections: usize,
        calls: &[CallPlan],
    ) -> Self {
        let mut endpoint = Endpoint::new(now, config, endpoint_seed(seed, 1));
        let connections = (0..connections)
            .map(|_| {
                let security = Box::new(NullSecurity);
                endpoint
                    .connect(now, server, SERVICE, 0, security, rx::ConnectOptions::default())
                    .expect("within connections_max")
            })
            .collect();
        let mut waiting: Vec<_> = calls.iter().map(|&plan| (now + plan.at, plan)).collect();
        waiting.sort_by_key(|&(at, _)| std::cmp::Reverse(at));
        let client = Client { connections, planned: waiting.len(), waiting, ..Client::default() };
        Self { endpoint, role: Role::Client(client) }
    }

    pub(crate) fn server(now: Instant, config: EndpointConfig, seed: u64) -> Self {
        let mut endpoint = Endpoint::new(now, config, endpoint_seed(seed, 2));
        endpoint.add_service(SERVICE, Service::default());
        Self { endpoint, role: Role::Server(Server::default()) }
    }

    /// Returns the client's progress. Panics on a server.
    pub(crate) fn as_client(&self) -> &Client {
        match &self.role {
            Role::Client(client) => client,
            Role::Server(_) => panic!("not a client"),
        }
    }

    /// Returns the server's record. Panics on a client.
    pub(crate) fn as_server(&self) -> &Server {
        match &self.role {
            Role::Server(server) => server,
            Role::Client(_) => panic!("not a server"),
        }
    }

    pub(crate) fn failures(&self) -> &[String] {
        match &self.role {
            Role::Client(client) => &client.failures,
            Role::Server(server) => &server.failures,
        }
    }

    /// Returns whether all planned calls have ended, or none is under way on a server.
    pub(crate) fn is_idle(&self) -> bool {
        match &self.role {
            Role::Client(client) => {
                client.finished + client.given_up + client.failures.len() == client.planned
            }
            Role::Server(server) => server.running.is_empty(),
        }
    }

    fn run_application(&mut self, now: Instant) {
        if let Role::Client(client) = &mut self.role {
            client.begin_due(now, &mut self.endpoint);
        }
        while let Some(event) = self.endpoint.poll_event() {
            match &mut self.role {
                Role::Client(client) => client.on_event(now, event, &mut self.endpoint),
                Role::Server(server) => server.on_event(now, event, &mut self.endpoint),
            }
        }
    }
}

impl Node for Host {
    fn receive(&mut self, now: Instant, from: SocketAddr, datagram: &mut [u8]) {
        self.endpoint.handle_datagram(now, from, None, datagram);
    }

    fn expire(&mut self, now: Instant) {
        if self.endpoint.poll_timeout().is_some_and(|at| at <= now) {
            self.endpoint.handle_timeout(now);
        }
    }

    fn transmit(&mut self, now: Instant, send: &mut dyn FnMut(Outgoing<'_>)) {
        self.run_application(now);
        while let Some(transmit) = self.endpoint.poll_transmit(now) {
            for bytes in transmit.datagrams(self.endpoint.pool()) {
                let (to, dont_fragment) = (transmit.destination, transmit.dont_fragment);
                send(Outgoing { to, bytes: &bytes, dont_fragment });
            }
            self.endpoint.transmit_done(transmit);
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let next_call = match &self.role {
            Role::Client(client) => client.next_begin(),
            Role::Server(_) => None,
        };
        [self.endpoint.poll_timeout(), next_call].into_iter().flatten().min()
    }
}

impl Client {
    /// Returns when the next call begins, unless all that are due wait for a channel.
    fn next_begin(&self) -> Option<Instant> {
        self.waiting.last().map(|&(at, _)| at)
    }

    /// Begins calls that are due. One that finds its connection busy moves in the queue: behind the next call
    /// to end.
    fn begin_due(&mut self, now: Instant, endpoint: &mut Endpoint) {
        let mut busy = Vec::new();
        while let Some((_, plan)) = self.waiting.pop_if(|(at, _)| *at <= now) {
            match endpoint.open_call(now, self.connections[plan.connection]) {
                Ok(call) => {
                    self.running.insert(call, Transfer::of_client(&plan));
                    self.pump(now, call, endpoint);
                }
                Err(OpenError::Busy) => busy.push((now + BUSY_RETRY, plan)),
                Err(error) => self.failures.push(format!("{plan:?}: {error}")),
            }
        }
        self.waiting.extend(busy);
        self.waiting.sort_by_key(|&(at, _)| std::cmp::Reverse(at));
    }

    fn on_event(&mut self, now: Instant, event: Event, endpoint: &mut Endpoint) {
        match event {
            Event::Readable(call) | Event::Writable(call) => self.pump(now, call, endpoint),
            Event::Finished(call) => {
                let transfer = self.running.remove(&call).expect("a call finishes once");
                assert!(transfer.write_finished, "{call:?} finished before its request was written");
                assert!(transfer.to_read.is_done(), "{call:?} finished early: {transfer:?}");
                self.finished += 1;
            }
            Event::Aborted { call, code } => self.fail(call, &format!("aborted with {code}")),
            Event::Dead { call, reason } => self.fail(call, &format!("dead: {reason:?}")),
            Event::ChannelFree(_) => self.begin_due(now, endpoint),
            Event::NewCall { .. }
            | Event::ConnectionAborted { .. }
            | Event::ConnectionEnded { .. }
            | Event::ProofRefused { .. } => {
                self.failures.push(format!("unexpected {event:?}"));
            }
        }
    }

    fn fail(&mut self, call: CallHandle, why: &str) {
        let transfer = self.running.remove(&call);
        self.failures.push(format!("{call:?} {why}: {transfer:?}"));
    }

    fn pump(&mut self, now: Instant, call: CallHandle, endpoint: &mut Endpoint) {
        let Some(transfer) = self.running.get_mut(&call) else { return };
        transfer.write(now, call, endpoint);
        while let Some(mut open) = endpoint.call(now, call) {
            if transfer.is_given_up() {
                open.abort(GIVEN_UP);
                self.running.remove(&call);
                self.given_up += 1;
                return;
            }
            let Ok(bytes) = open.read() else { break };
            let count = bytes.len();
            transfer.to_read.check(bytes);
            open.consume(count);
            self.bytes_read += count as u64;
            if let Some(last) = transfer.read_at.replace(now).filter(|&last| last < now) {
                self.gaps.push(now - last);
            }
        }
    }
}

impl Server {
    fn has_replied(&self, call: CallHandle) -> bool {
        self.running.get(&call).is_some_and(|transfer| transfer.write_finished)
    }

    fn on_event(&mut self, now: Instant, event: Event, endpoint: &mut Endpoint) {
        match event {
            Event::NewCall { call, service } => {
                assert_eq!(service, SERVICE);
                let known = self.running.insert(call, Transfer::default());
                assert!(known.is_none(), "{call:?} delivered twice");
                self.pump(now, call, endpoint);
            }
            Event::Readable(call) | Event::Writable(call) => self.pump(now, call, endpoint),
            Event::Finished(call) => {
                let transfer = self.running.remove(&call).expect("a call finishes once");
                assert!(transfer.write_finished && transfer.to_read.is_done(), "{call:?} finished early");
                self.finished += 1;
            }
            Event::Dead { call, reason: DeadReason::Silent } if self.has_replied(call) => {
                self.running.remove(&call);
                self.unheard += 1;
            }
            Event::Dead { call, reason: DeadReason::Silent | DeadReason::Replaced } => {
                self.running.remove(&call);
                self.abandoned += 1;
            }
            Event::Aborted { call, code: GIVEN_UP } => {
                self.running.remove(&call).expect("a call ends once");
                self.aborted += 1;
            }
            Event::Aborted { call, code } => self.fail(call, &format!("aborted with {code}")),
            Event::Dead { call, reason } => self.fail(call, &format!("dead: {reason:?}")),
            Event::ConnectionEnded { .. } => {}
            Event::ChannelFree(_) | Event::ConnectionAborted { .. } | Event::ProofRefused { .. } => {
                self.failures.push(format!("unexpected {event:?}"));
            }
        }
    }

    fn fail(&mut self, call: CallHandle, why: &str) {
        let transfer = self.running.remove(&call);
        self.failures.push(format!("{call:?} {why}: {transfer:?}"));
    }

    fn pump(&mut self, now: Instant, call: CallHandle, endpoint: &mut Endpoint) {
        let Some(transfer) = self.running.get_mut(&call) else { return };
        loop {
            let Some(mut open) = endpoint.call(now, call) else { return };
            match open.read() {
                Ok(bytes) => {
                    let count = bytes.len();
                    transfer.take_request(bytes);
                    open.consume(count);
                }
                Err(ReadError::Blocked | ReadError::Held) => return,
                Err(ReadError::End) => break,
            }
        }
        assert!(transfer.to_read.is_done(), "{call:?} request ends early: {transfer:?}");
        transfer.write(now, call, endpoint);
    }
}

impl Transfer {
    fn of_client(plan: &CallPlan) -> Self {
        let mut prefix = plan.pattern.to_be_bytes().to_vec();
        prefix.extend(plan.request_len.to_be_bytes());
        prefix.extend(plan.reply_len.to_be_bytes());
        Self {
            to_write: Stream::new(prefix, request_pattern(plan.pattern), plan.request_len),
            to_read: Stream::new(Vec::new(), reply_pattern(plan.pattern), plan.reply_len),
            abort_after: plan.abort_after.map(u64::from),
            ..Self::default()
        }
    }

    fn is_given_up(&self) -> bool {
        self.write_finished && self.abort_after.is_some_and(|limit| self.to_read.done >= limit)
    }

    /// Takes the beginning of a request, whose header says what else is to come and what to answer (server
    /// side).
    fn take_request(&mut self, bytes: &[u8]) {
        let missing = REQUEST_HEADER_LEN - self.header.len();
        let (header, body) = bytes.split_at(missing.min(bytes.len()));
        self.header.extend_from_slice(header);
        if missing > 0 && self.header.len() == REQUEST_HEADER_LEN {
            let (seed, lengths) = self.header.split_first_chunk().expect("16 bytes");
            let (request_len, reply_len) = lengths.split_first_chunk().expect("8 bytes");
            let seed = u64::from_be_bytes(*seed);
            let reply_len = u32::from_be_bytes(reply_len.try_into().expect("4 bytes"));
            let request_len = u32::from_be_bytes(*request_len);
            self.to_read = Stream::new(Vec::new(), request_pattern(seed), request_len);
            self.to_write = Stream::new(Vec::new(), reply_pattern(seed), reply_len);
        }
        self.to_read.check(body);
    }

    /// Writes what the call takes now, and ends the direction once all is written.
    fn write(&mut self, now: Instant, call: CallHandle, endpoint: &mut Endpoint) {
        let Some(mut open) = endpoint.call(now, call) else { return };
        while !self.write_finished {
            let outcome = if self.to_write.is_done() {
                open.finish().map(|()| self.write_finished = true)
            } else {
                open.reserve().map(|room| self.to_write.fill(room)).map(|count| open.commit(count))
            };
            match outcome {
                Ok(()) => {}
                Err(WriteError::Blocked) => return,
                Err(error) => panic!("{call:?}: {error}"),
            }
        }
    }
}

impl Stream {
    fn new(prefix: Vec<u8>, pattern: Pattern, len: u32) -> Self {
        Self { len: prefix.len() as u64 + u64::from(len), prefix, pattern: Some(pattern), done: 0 }
    }

    fn is_done(&self) -> bool {
        self.pattern.is_some() && self.done == self.len
    }

    /// Writes the next bytes into `room`, and returns how many.
    fn fill(&mut self, room: &mut [u8]) -> usize {
        let pattern = self.pattern.expect("nothing is written before the request is known");
        let prefix = self.prefix.get(self.done as usize..).unwrap_or_default();
        if !prefix.is_empty() {
            let count = prefix.len().min(room.len());
            room[..count].copy_from_slice(&prefix[..count]);
            self.done += count as u64;
            return count;
        }
        let count = room.len().min((self.len - self.done) as usize);
        pattern.fill(self.done - self.prefix.len() as u64, &mut room[..count]);
        self.done += count as u64;
        count
    }

    /// Checks the next bytes received.
    fn check(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.pattern.expect("no bytes before the header").check(self.done, bytes);
        self.done += bytes.len() as u64;
        assert!(self.done <= self.len, "{} bytes too many", self.done - self.len);
    }
}

fn request_pattern(seed: u64) -> Pattern {
    Pattern(seed)
}

fn reply_pattern(seed: u64) -> Pattern {
    Pattern(!seed)
}

fn endpoint_seed(seed: u64, role: u8) -> [u8; 32] {
    let mut bytes = [role; 32];
    bytes[..8].copy_from_slice(&seed.to_be_bytes());
    bytes
}

/// Bytes of a request's header: pattern seed, request length, reply length.
const REQUEST_HEADER_LEN: usize = 16;
const SERVICE: u16 = 147;
/// Abort code of a client that has lost interest (`RX_USER_ABORT`).
const GIVEN_UP: i32 = -6;
/// Time after which a call refused for want of a channel is tried again, if no `ChannelFree` comes.
const BUSY_RETRY: std::time::Duration = std::time::Duration::from_millis(50);
