//! Four honest stores on slow lines. Others must not feel them, and they must not be cut: they make progress.

use std::time::{Duration, Instant};

use rx::ack::{Ack, AckReason};
use rx::header::{PacketType, flags};
use rxperf::{Request, Work};

use super::wire::{Connection, Line};
use crate::hostile::arena::owned;
use crate::hostile::scenario::{Field, Findings, Scenario, Service};

pub(crate) struct Stores;

impl Scenario for Stores {
    fn name(&self) -> &'static str {
        "rx-slow-stores"
    }

    fn about(&self) -> &'static str {
        "four honest stores of 14 kB/s, which must not be cut"
    }

    fn service(&self) -> Service {
        Service::Rx
    }

    fn attack(&self, field: &Field<'_>) -> anyhow::Result<Findings> {
        let mut stores = (0..STORES).map(Store::begin).collect::<anyhow::Result<Vec<_>>>()?;
        while !field.is_over() {
            let began = Instant::now();
            stores.iter_mut().for_each(Store::go_on);
            field.sleep(TURN.saturating_sub(began.elapsed()));
        }
        let taken: u64 = stores.iter().map(|store| u64::from(store.acknowledged) * PACKET_BYTES as u64).sum();
        let mut findings = Findings::default().with("stores", STORES).with("bytes stored", taken);
        for (n, store) in stores.iter().enumerate() {
            findings = findings
                .expect(!store.aborted, || format!("store {n} was aborted"))
                .expect(store.acknowledged + WINDOW * 2 > store.sent, || {
                    format!("store {n}: {} packets of {} were taken", store.acknowledged, store.sent)
                });
        }
        Ok(findings)
    }
}

struct Store {
    /// The call's first packet.
    head: Vec<u8>,
    line: Line,
    connection: Connection,
    sent: u32,
    acknowledged: u32,
    aborted: bool,
    stalled_turns: u32,
}

impl Store {
    fn begin(n: u32) -> anyhow::Result<Self> {
        let mut line = Line::at(owned(n as usize))?;
        let mut connection = Connection::new(n);
        connection.call(&mut line, 1, Duration::from_secs(5))?;
        let head = Request::new(Work::Send { bytes: 1 << 30 }).encode()?;
        line.send(&connection.data(0, 2, 1, flags::REQUEST_ACK, &head));
        Ok(Self { head, line, connection, sent: 1, acknowledged: 0, aborted: false, stalled_turns: 0 })
    }

    /// Sends one packet more, or the first missing one once more.
    fn go_on(&mut self) {
        while let Some((header, payload)) = self.line.receive() {
            self.aborted |= header.kind == PacketType::Abort;
            if header.kind == PacketType::Ack
                && let Ok(ack) = Ack::parse(payload)
            {
                let acknowledged = ack.first.saturating_sub(1);
                if acknowledged > self.acknowledged {
                    self.acknowledged = acknowledged;
                    self.stalled_turns = 0;
                }
                if ack.reason == AckReason::Ping
                    && let Some(answer) = self.connection.answer(&header, payload)
                {
                    self.line.send(&answer);
                }
            }
        }
        self.stalled_turns += 1;
        let seq = if self.sent < self.acknowledged + WINDOW {
            self.sent += 1;
            self.sent
        } else if self.stalled_turns > RESEND_TURNS {
            self.stalled_turns = 0;
            self.acknowledged + 1
        } else {
            return;
        };
        let payload = if seq == 1 { &self.head[..] } else { &[0; PACKET_BYTES] };
        let packet = self.connection.data(0, 2, seq, flags::REQUEST_ACK, payload);
        self.line.send(&packet);
    }
}

const STORES: u32 = 4;
const TURN: Duration = Duration::from_millis(100);
const PACKET_BYTES: usize = 1400;
const WINDOW: u32 = 8;
const RESEND_TURNS: u32 = 3;
