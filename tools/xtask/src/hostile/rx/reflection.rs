//! Packets in the name of a victim that answers no packet: what the server sends it must not exceed three
//! times what was spent. They come as calls of new connections, as moves of a proved one whose serials the
//! attacker knows, with guessed proofs behind, and as questions of rxdebug.

use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::time::{Duration, Instant};

use rx::ack::AckReason;
use rxdebug::{DebugRequest, Query};
use rxperf::Work;

use super::wire::{Connection, Line, Spoofer};
use crate::hostile::arena::{ATTACKER, VICTIM, VICTIM_CARD, inside, received_by};
use crate::hostile::scenario::{Field, Findings, Scenario, Service};

pub(crate) struct Reflection;

impl Scenario for Reflection {
    fn name(&self) -> &'static str {
        "rx-reflection"
    }

    fn about(&self) -> &'static str {
        "packets in the name of a victim, which gets at most three times their bytes"
    }

    fn service(&self) -> Service {
        Service::Rx
    }

    fn attack(&self, field: &Field<'_>) -> anyhow::Result<Findings> {
        let victims = |act: fn() -> anyhow::Result<(u64, u64)>| inside(&field.arena.victim, act);
        // It is there, so that its system refuses nothing, and it never reads.
        let _silent = inside(&field.arena.victim, || {
            let bind = |n| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, PORTS_FROM + n));
            Ok((0..PORTS).map(bind).collect::<Result<Vec<_>, _>>()?)
        })?;
        let (bytes_before, packets_before) = victims(|| received_by(VICTIM_CARD))?;
        let (mut spoofer, mut packets, mut moves) = (Spoofer::new()?, 0u64, 0u32);
        while !field.is_over() {
            let began = Instant::now();
            let mut line = Line::at(ATTACKER)?;
            let mut own = Connection::new(moves);
            // Its address is proved by a call that ends well.
            own.call(&mut line, 1, Duration::from_secs(5))?;
            let victim = SocketAddrV4::new(VICTIM, PORTS_FROM + (moves % u32::from(PORTS)) as u16);
            packets += move_to(&mut spoofer, victim, own, field) + ask_for(&mut spoofer, victim, moves);
            moves += 1;
            field.sleep(TURN.saturating_sub(began.elapsed()));
        }
        let (bytes, received) = victims(|| received_by(VICTIM_CARD))?;
        let (bytes, received) = (bytes - bytes_before, received - packets_before);
        // The card counts the Ethernet header too, and neighbours ask for addresses now and then.
        let bytes = bytes.saturating_sub(received * 14);
        let most = spoofer.sent * 3 + 4096;
        Ok(Findings::default()
            .with("spoofed packets", packets)
            .with("moves", moves)
            .with("bytes spent", spoofer.sent)
            .with("bytes to the victim", bytes)
            .expect(bytes <= most, || format!("the victim got {bytes} bytes for {} spent", spoofer.sent)))
    }
}

/// Claims that the connection has moved and asks for more there, then guesses at proofs and ACKs.
fn move_to(spoofer: &mut Spoofer, victim: SocketAddrV4, own: Connection, field: &Field<'_>) -> u64 {
    let large = Work::Receive { bytes: 4 << 20 };
    let mut packets = 0;
    let mut send = |packet: &[u8]| {
        spoofer.send(victim, packet);
        packets += 1;
    };
    let mut moved = own;
    send(&moved.request(0, 2, large.clone()));
    for channel in 1..4 {
        send(&moved.request(channel, 1, large.clone()));
    }
    for round in 1..=ROUNDS {
        // The server has to send first what is guessed then: its serials go on from what the attacker has seen.
        field.sleep(ROUND);
        for guess in 1..=SERIALS {
            send(&moved.ack((0, 2), 1, (AckReason::PingResponse, guess), 0, &[]));
        }
        for first in [round * 4, round * 32] {
            send(&moved.ack((0, 2), first, (AckReason::Requested, SERIALS + first), 0, &[]));
        }
    }
    packets
}

/// Calls of new connections, and questions.
fn ask_for(spoofer: &mut Spoofer, victim: SocketAddrV4, turn: u32) -> u64 {
    let mut packets = 0;
    let mut send = |packet: &[u8]| {
        spoofer.send(victim, packet);
        packets += 1;
    };
    for n in 0..24 {
        let mut new = Connection::new(1_000_000 + turn * 24 + n);
        send(&new.request(0, 1, Work::Receive { bytes: 4 << 20 }));
        send(&new.ack((0, 1), 1, (AckReason::PingResponse, 1), 0, &[]));
    }
    send(Query::version(turn + 1).packet());
    let questions =
        [DebugRequest::Stats, DebugRequest::RxStats, DebugRequest::Connection(0), DebugRequest::Peer(0)];
    for question in questions {
        send(Query::debug(turn + 1, question).packet());
    }
    packets
}

const TURN: Duration = Duration::from_millis(50);
const ROUNDS: u32 = 8;
const ROUND: Duration = Duration::from_millis(4);
/// A connection of one call has not sent more.
const SERIALS: u32 = 12;
const PORTS_FROM: u16 = 7001;
const PORTS: u16 = 16;
