//! ACKs that cost the server what they do not cost the client: everything softly acknowledged and nothing for good, so
//! that it keeps all it has sent; or ranges that overlap and repeat, so that each ACK is work without end.

use std::time::{Duration, Instant};

use rx::ack::{AckReason, RANGES_MAX};
use rx::header::PacketType;
use rxperf::Work;

use super::wire::{Connection, Line};
use crate::hostile::arena::ATTACKER;
use crate::hostile::scenario::{Field, Findings, Scenario, Service};

/// Calls of 100 MB each, with ACKs of one kind.
pub(crate) struct Acks {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) kind: Kind,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// Every packet that has come is acknowledged softly.
    SoftOnly,
    /// 64 times the same long range.
    Overlapping,
}

impl Scenario for Acks {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn service(&self) -> Service {
        Service::Rx
    }

    fn attack(&self, field: &Field<'_>) -> anyhow::Result<Findings> {
        let mut line = Line::at(ATTACKER)?;
        let mut connections: Vec<_> = (0..CONNECTIONS).map(Connection::new).collect();
        // The address is proved before the large calls: they take what the server gives one address.
        for connection in &mut connections {
            connection.call(&mut line, 1, Duration::from_secs(5))?;
        }
        for connection in &mut connections {
            for channel in 0..4 {
                line.send(&connection.request(channel, 2, Work::Receive { bytes: 100_000_000 }));
            }
        }
        // Highest packet of each call, and the serial it came with.
        let mut highest = vec![(0u32, 0u32); connections.len() * 4];
        let (mut acks, mut packets) = (0u64, 0u64);
        while !field.is_over() {
            let began = Instant::now();
            while let Some((header, payload)) = line.receive() {
                let at = connections.iter().position(|to| to.id == header.cid & !3);
                let Some(at) = at else { continue };
                if header.kind == PacketType::Data && header.call == 2 {
                    packets += 1;
                    let call = &mut highest[at * 4 + header.channel()];
                    *call = (header.seq.max(call.0), header.serial);
                }
                if let Some(answer) = connections[at].answer(&header, payload) {
                    line.send(&answer);
                }
                // The server may send faster than this is read.
                if began.elapsed() > TURN {
                    break;
                }
            }
            for (n, &(seq, serial)) in highest.iter().enumerate().filter(|(_, (seq, _))| *seq > 0) {
                let call = (n as u32 % 4, 2);
                let reason = (AckReason::Requested, serial);
                let packet = match self.kind {
                    Kind::SoftOnly => {
                        let table = seq.min(255) as usize;
                        let rest = [(256, seq.saturating_sub(255))];
                        let ranges = if seq > 255 { &rest[..] } else { &[] };
                        connections[n / 4].ack(call, 1, reason, table, ranges)
                    }
                    Kind::Overlapping => {
                        connections[n / 4].ack(call, 1, reason, 0, &[(256, 12_288); RANGES_MAX])
                    }
                };
                line.send(&packet);
                acks += 1;
            }
            field.sleep(TURN.saturating_sub(began.elapsed()));
        }
        Ok(Findings::default().with("ACKs", acks).with("packets taken", packets).with("calls", highest.len()))
    }
}

const CONNECTIONS: u32 = 16;
const TURN: Duration = Duration::from_millis(10);
