//! Instructions of the Rx core for the three things a busy server does most: send a burst, process an ACK,
//! receive a batch.

use std::borrow::Cow;
use std::hint::black_box;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use gungraun::{library_benchmark, library_benchmark_group};
use rx::ack::{self, ACK_PAYLOAD_MAX, AckFields, AckReason, Trailer};
use rx::header::{HEADER_LEN, Header, PacketType, flags};
use rx::security::{NullSecurity, SECURITY_NULL};
use rx::{CallHandle, CallView, Endpoint, EndpointConfig, Event, Service};

// Fills the payloads' headers and hands the burst over, as a driver does around `sendmsg`.
#[library_benchmark]
#[bench::stock_size(sender(PACKET_STOCK))]
fn send_64_packets(mut pair: Pair) -> Pair {
    let (now, call) = (pair.now, pair.call);
    let mut handle = pair.client.call(now, call).expect("a live call");
    let batch = handle.lend_batch(pair.payload * BURST).expect("room for a burst");
    let len = batch.len();
    handle.commit_batch(batch, len).expect("the call takes it");
    let mut sent = 0;
    while let Some(transmit) = pair.client.poll_transmit(now) {
        sent += black_box(transmit.slices(pair.client.pool(), 0)).len();
        pair.client.transmit_done(transmit);
    }
    assert_eq!(sent, BURST);
    pair
}

// One ACK from a reader that is far behind: 255 packets are soft-acknowledged and all stay buffered.
#[library_benchmark]
#[bench::all_received(acknowledged(|_| true))]
#[bench::every_eighth_missing(acknowledged(|entry| entry % 8 != 0))]
fn process_ack_of_255_soft_acks(input: (Pair, Vec<u8>)) -> (Pair, Vec<u8>) {
    let (mut pair, ack) = input;
    pair.client.handle_datagram(pair.now, SERVER, None, &ack);
    pass(&mut pair.client, pair.now);
    (pair, ack)
}

// One received batch, all handled before the one transmit pass that answers it.
#[library_benchmark]
#[bench::in_order(received(None))]
#[bench::first_missing(received(Some(0)))]
fn receive_64_packets(input: (Pair, Vec<Vec<u8>>)) -> (Pair, Vec<Vec<u8>>) {
    let (mut pair, batch) = input;
    for datagram in &batch {
        pair.server.handle_datagram(pair.now, CLIENT, None, datagram);
    }
    pass(&mut pair.server, pair.now);
    (pair, batch)
}

/// Runs the transmit pass that follows the handling of a batch.
fn pass(endpoint: &mut Endpoint, now: Instant) {
    while let Some(transmit) = endpoint.poll_transmit(now) {
        endpoint.transmit_done(black_box(transmit));
    }
}

/// Client in the middle of a long request, and the server that receives it.
struct Pair {
    now: Instant,
    client: Endpoint,
    server: Endpoint,
    call: CallHandle,
    /// Data bytes of a full packet.
    payload: usize,
}

impl Pair {
    fn new(packet: u16) -> Self {
        let now = Instant::now();
        let config = EndpointConfig {
            packets: 8192,
            packet_size_max: packet,
            packet_size_initial: packet,
            check_reach: false,
            ..EndpointConfig::default()
        };
        let mut server = Endpoint::new(now, config.clone(), [2; 32]);
        server.add_service(SERVICE, Service::default());
        let mut client = Endpoint::new(now, config, [1; 32]);
        let connection = client
            .connect(
                now,
                SERVER,
                SERVICE,
                SECURITY_NULL,
                Box::new(NullSecurity),
                rx::ConnectOptions::default(),
            )
            .expect("room for a connection");
        let call = client.open_call(now, connection).expect("a free channel");
        Self { now, client, server, call, payload: usize::from(packet) - HEADER_LEN }
    }

    /// Queues `packets` full packets.
    fn write(&mut self, packets: usize) {
        let mut call = self.client.call(self.now, self.call).expect("a live call");
        let batch = call.lend_batch(self.payload * packets).expect("room to write");
        let len = batch.len();
        call.commit_batch(batch, len).expect("the call takes it");
    }

    /// Takes all datagrams that the client has to send.
    fn sent(&mut self) -> Vec<Vec<u8>> {
        datagrams(&mut self.client, self.now)
    }

    /// Sends full packets round trip by round trip until the congestion window is at least `packets`, and
    /// leaves nothing in flight.
    fn open_window(&mut self, packets: u32) {
        let mut rounds = 0;
        while self.window() < packets || self.held() > 0 {
            if self.held() == 0 {
                // More than the window, or it would not be what limits us, and not grow.
                self.write(self.window() as usize + BURST);
            }
            self.round_trip();
            rounds += 1;
            assert!(rounds < ROUNDS_MAX, "the window opens without losses");
        }
    }

    fn round_trip(&mut self) {
        for datagram in self.sent() {
            self.server.handle_datagram(self.now, CLIENT, None, &datagram);
        }
        self.swallow();
        self.now += ROUND_TRIP;
        self.server.handle_timeout(self.now);
        for datagram in datagrams(&mut self.server, self.now) {
            self.client.handle_datagram(self.now, SERVER, None, &datagram);
        }
        self.client.handle_timeout(self.now);
        while self.client.poll_event().is_some() {}
    }

    fn window(&self) -> u32 {
        self.view().congestion_window()
    }

    /// Returns the number of packets queued, in flight, or waiting for their hard ACK.
    fn held(&self) -> u32 {
        self.view().send_held()
    }

    fn view(&self) -> CallView<'_> {
        let connection = self.client.connection(self.call.connection).expect("a live connection");
        connection.calls().next().expect("a live call")
    }

    /// Reads all that the server has received.
    fn swallow(&mut self) {
        while let Some(event) = self.server.poll_event() {
            let (Event::Readable(handle) | Event::NewCall { call: handle, .. }) = event else { continue };
            while let Some(mut call) = self.server.call(self.now, handle)
                && let Ok(len) = call.read().map(<[u8]>::len)
            {
                call.consume(len);
            }
        }
    }
}

fn sender(packet: u16) -> Pair {
    let mut pair = Pair::new(packet);
    pair.open_window(2 * BURST as u32);
    pair
}

/// Makes a client with 255 packets in flight, and the server's ACK for them; `has` says which have come.
fn acknowledged(has: fn(usize) -> bool) -> (Pair, Vec<u8>) {
    let mut pair = Pair::new(PACKET_STOCK);
    pair.open_window(ack::ACKS_MAX as u32 + 1);
    pair.write(ack::ACKS_MAX);
    let sent: Vec<Header> = pair
        .sent()
        .iter()
        .map(|datagram| Header::parse(datagram).expect("endpoints send valid packets").0)
        .collect();
    assert_eq!(sent.len(), ack::ACKS_MAX, "all of the table is in flight");
    // The last packet's serial makes the ACK a sample of the round trip.
    let (first, last) = (sent[0], sent[sent.len() - 1]);
    let fields = AckFields {
        first: first.seq,
        previous: last.seq,
        serial: last.serial,
        reason: AckReason::Requested,
        trailer: Trailer { max_mtu: 1444, if_mtu: 1444, window: 8192, jumbo_max: 1 },
        extended: true,
    };
    let mut payload = [0; ACK_PAYLOAD_MAX];
    let fill = |table: &mut [u8]| {
        table.iter_mut().enumerate().for_each(|(entry, value)| *value = has(entry).into());
        table.len()
    };
    let len = ack::encode(&mut payload, &fields, fill, || None);
    let header =
        Header { seq: 0, serial: ACK_SERIAL, kind: PacketType::Ack, flags: flags::SLOW_START_OK, ..first };
    let mut datagram = vec![0; HEADER_LEN];
    header.encode(datagram.first_chunk_mut().expect("room for a header"));
    datagram.extend_from_slice(&payload[..len]);
    pair.now += ROUND_TRIP;
    (pair, datagram)
}

/// Makes a server in the middle of a request, and the next 64 packets of it without the one `missing`.
fn received(missing: Option<usize>) -> (Pair, Vec<Vec<u8>>) {
    let mut pair = sender(PACKET_STOCK);
    pair.write(BURST + usize::from(missing.is_some()));
    let mut batch = pair.sent();
    if let Some(missing) = missing {
        batch.remove(missing);
    }
    assert_eq!(batch.len(), BURST, "the window lets a burst through");
    (pair, batch)
}

fn datagrams(endpoint: &mut Endpoint, now: Instant) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    while let Some(transmit) = endpoint.poll_transmit(now) {
        all.extend(transmit.datagrams(endpoint.pool()).map(Cow::into_owned));
        endpoint.transmit_done(transmit);
    }
    all
}

library_benchmark_group!(
    name = in_rx,
    benchmarks = [send_64_packets, process_ack_of_255_soft_acks, receive_64_packets]
);
const CLIENT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1)), 7001);
const SERVER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2)), 7000);
const SERVICE: u16 = 7;
/// Packets of a burst.
const BURST: usize = 64;
/// Size in bytes of the packets that stock peers send: 64 of these are more than one UDP datagram may hold,
/// so they take two GSO runs.
const PACKET_STOCK: u16 = 1444;
const ROUND_TRIP: Duration = Duration::from_millis(1);
/// Bound of round trips, above what slow start needs with delayed ACKs.
const ROUNDS_MAX: usize = 2000;
/// Serial of the ACK, above any that the server has used by then; a receiver takes serials only as an order.
const ACK_SERIAL: u32 = 1 << 30;
