//! Fuzzes two endpoints in conversation by a script that forges packets, loses others, moves the clock and
//! uses the calls.
//!
//! Whatever the script, nothing panics, every packet is accounted for, limits hold, and an address that never
//! answered gets no more than three times the bytes it sent.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rx::header::{HEADER_LEN, Header, PacketType};
use rx::security::NullSecurity;
use rx::{CallHandle, ConnectionHandle, Endpoint, EndpointConfig, Event, Service};

#[test]
fn any_script_leaves_the_endpoint_whole() {
    bolero::check!().for_each(|script: &[u8]| {
        let mut world = World::new();
        let mut script = Script(script);
        for _ in 0..STEPS_MAX {
            let Some(step) = script.byte() else { break };
            world.step(step, &mut script);
            world.check();
        }
        world.end();
    });
}

/// Bytes of the fuzzer; missing ones read as zero.
struct Script<'s>(&'s [u8]);

impl<'s> Script<'s> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn next(&mut self) -> u8 {
        self.byte().unwrap_or(0)
    }

    fn word(&mut self) -> u32 {
        u32::from_be_bytes([self.next(), self.next(), self.next(), self.next()])
    }

    fn bytes(&mut self, len: usize) -> &'s [u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

struct World {
    now: Instant,
    ends: [Endpoint; 2],
    wire: [VecDeque<Vec<u8>>; 2],
    calls: [Vec<CallHandle>; 2],
    connection: ConnectionHandle,
    /// Last header that each end sent, to forge from.
    template: [Option<Header>; 2],
    spoofed_in: usize,
    spoofed_out: usize,
}

const CLIENT: usize = 0;
const SERVER: usize = 1;
const STEPS_MAX: usize = 400;

impl World {
    fn new() -> Self {
        let now = Instant::now();
        let config = EndpointConfig {
            packets: 256,
            receive_window: 300,
            unproved_max: 4,
            connections_max: 8,
            ..EndpointConfig::default()
        };
        let mut client = Endpoint::new(now, config.clone(), [1; 32]);
        let mut server = Endpoint::new(now, config, [2; 32]);
        server.add_service(1, Service::default());
        let connection = client
            .connect(now, address(SERVER), 1, 0, Box::new(NullSecurity), rx::ConnectOptions::default())
            .expect("a new endpoint has room");
        Self {
            now,
            ends: [client, server],
            wire: Default::default(),
            calls: Default::default(),
            connection,
            template: [None; 2],
            spoofed_in: 0,
            spoofed_out: 0,
        }
    }

    fn step(&mut self, step: u8, script: &mut Script<'_>) {
        let end = usize::from(step >> 7);
        match step & 7 {
            0 => {
                let len = usize::from(script.next());
                let bytes = script.bytes(len);
                self.ends[end].handle_datagram(self.now, address(1 - end), None, bytes);
            }
            1 => self.forge(end, script),
            2 => self.advance(Duration::from_millis(u64::from(script.next()) * u64::from(script.next()))),
            3 => self.deliver(end, script.next()),
            4 => self.use_call(end, script),
            5 => {
                if let Ok(call) = self.ends[CLIENT].open_call(self.now, self.connection) {
                    self.calls[CLIENT].push(call);
                }
            }
            6 => self.spoof(script),
            _ => drop(self.wire[end].pop_front()),
        }
        self.run();
    }

    /// Sends a packet of the conversation with some fields replaced.
    fn forge(&mut self, end: usize, script: &mut Script<'_>) {
        let Some(mut header) = self.template[1 - end] else { return };
        let which = script.next();
        if which & 1 != 0 {
            header.call = header.call.wrapping_add(u32::from(script.next())).wrapping_sub(2);
        }
        if which & 2 != 0 {
            header.seq = u32::from(script.next());
        }
        if which & 4 != 0 {
            header.serial = header.serial.wrapping_add(script.word());
        }
        if which & 8 != 0 {
            header.kind = PacketType::from_wire(script.next() % 14).unwrap_or(PacketType::Ack);
        }
        if which & 16 != 0 {
            header.flags ^= script.next() & !1;
        }
        if which & 32 != 0 {
            header.cid ^= u32::from(script.next() & 3);
        }
        let len = usize::from(script.next());
        let payload = script.bytes(len);
        let mut from = address(1 - end);
        if which & 64 != 0 {
            from.set_port(from.port() ^ 1);
        }
        self.ends[end].handle_datagram(self.now, from, None, &datagram(&header, payload));
    }

    /// Sends the packet of a new client that will never answer.
    fn spoof(&mut self, script: &mut Script<'_>) {
        let header = Header {
            epoch: 0x8000_0000 | u32::from(script.next()),
            cid: u32::from(script.next()) << 2,
            call: 1 + u32::from(script.next() & 1),
            seq: 1,
            serial: 1,
            kind: PacketType::Data,
            flags: 1 | script.next(),
            user_status: 0,
            security: 0,
            checksum: 0,
            service: 1,
        };
        let len = usize::from(script.next());
        let bytes = datagram(&header, script.bytes(len));
        self.spoofed_in += bytes.len();
        self.ends[SERVER].handle_datagram(self.now, spoofed_address(), None, &bytes);
    }

    fn use_call(&mut self, end: usize, script: &mut Script<'_>) {
        let (which, what, amount) = (script.next(), script.next(), usize::from(script.next()));
        let Some(&handle) = self.calls[end].get(usize::from(which) % self.calls[end].len().max(1)) else {
            return;
        };
        let Some(mut call) = self.ends[end].call(self.now, handle) else { return };
        match what % 6 {
            0 => drop(call.write(&vec![7; amount * 64])),
            1 => drop(call.finish()),
            2 => {
                while let Ok(bytes) = call.read() {
                    let len = bytes.len();
                    call.consume(len);
                }
            }
            3 => drop(call.flush()),
            4 => call.abort(amount as i32),
            _ => {
                if let Ok(batch) = call.lend_batch(amount * 64) {
                    let len = batch.len();
                    match self.ends[end].call(self.now, handle) {
                        Some(mut call) => drop(call.commit_batch(batch, len)),
                        None => self.ends[end].discard_batch(batch),
                    }
                }
            }
        }
    }

    fn finish_calls(&mut self, end: usize) {
        for &handle in &self.calls[end] {
            let Some(mut call) = self.ends[end].call(self.now, handle) else { continue };
            while let Ok(bytes) = call.read() {
                let len = bytes.len();
                call.consume(len);
            }
            let _ = call.finish();
        }
    }

    fn deliver(&mut self, end: usize, count: u8) {
        for _ in 0..count {
            let Some(bytes) = self.wire[end].pop_front() else { return };
            self.ends[end].handle_datagram(self.now, address(1 - end), None, &bytes);
        }
    }

    fn advance(&mut self, time: Duration) {
        self.now += time;
        for end in &mut self.ends {
            end.handle_timeout(self.now);
        }
    }

    /// Runs what a driver does after every batch.
    fn run(&mut self) {
        for end in [CLIENT, SERVER] {
            while let Some(event) = self.ends[end].poll_event() {
                if let Event::NewCall { call, .. } = event {
                    self.calls[end].push(call);
                }
            }
            while let Some(transmit) = self.ends[end].poll_transmit(self.now) {
                for bytes in transmit.datagrams(self.ends[end].pool()) {
                    if transmit.destination == spoofed_address() {
                        self.spoofed_out += bytes.len();
                    } else {
                        self.template[end] = Header::parse(&bytes).ok().map(|(header, _)| header);
                        self.wire[1 - end].push_back(bytes.to_vec());
                    }
                }
                self.ends[end].transmit_done(transmit);
            }
        }
    }

    fn check(&self) {
        for end in &self.ends {
            assert_eq!(end.pool().allocated(), end.pool().free_count() + end.pool().in_use());
            assert!(end.connection_count() <= end.config().connections_max);
            if let Some(at) = end.poll_timeout() {
                assert!(at > self.now - Duration::from_secs(60));
            }
        }
        assert!(self.spoofed_out <= 3 * self.spoofed_in, "{} for {}", self.spoofed_out, self.spoofed_in);
    }

    /// Lets the two ends finish what they can over a good network after the script. Then all goes quiet,
    /// every call ends by its own limits, and every packet comes back.
    fn end(mut self) {
        for _ in 0..60 {
            for end in [CLIENT, SERVER] {
                self.finish_calls(end);
                self.deliver(end, u8::MAX);
            }
            self.run();
            self.advance(Duration::from_millis(50));
        }
        for _ in 0..100 {
            self.advance(Duration::from_secs(20));
            self.run();
            self.wire = Default::default();
        }
        self.check();
        for end in &self.ends {
            // An unused call ends by the idle limit unless the peer waits for our own application.
            assert_eq!(
                end.connections().map(|found| found.calls().count()).sum::<usize>(),
                unsent_calls(end)
            );
            assert_eq!(end.pool().in_use(), held_by_application(end));
        }
    }
}

/// Returns the client calls that were opened and never finished by the application: no limit of the peer's
/// ends them.
fn unsent_calls(end: &Endpoint) -> usize {
    end.connections()
        .flat_map(|found| found.calls().collect::<Vec<_>>())
        .filter(|call| call.is_local())
        .count()
}

fn held_by_application(end: &Endpoint) -> usize {
    let calls = end.connections().flat_map(|found| found.calls().collect::<Vec<_>>());
    calls.filter(|call| call.is_local()).map(|call| call.packets_held() as usize).sum()
}

fn datagram(header: &Header, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_LEN];
    header.encode(bytes.first_chunk_mut().expect("room for a header"));
    bytes.extend_from_slice(payload);
    bytes
}

fn address(end: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1 + end as u8], 7000))
}

fn spoofed_address() -> SocketAddr {
    SocketAddr::from(([10, 9, 9, 9], 7001))
}
