//! Calls whose second packet never comes, and thousands of tiny ones behind it: each holds a buffer of the lane.

use std::time::{Duration, Instant};

use rx::header::flags;
use rxperf::{Request, Work};

use super::wire::{Connection, Line};
use crate::hostile::arena::ATTACKER;
use crate::hostile::scenario::{Field, Findings, Scenario, Service};

pub(crate) struct Gap;

impl Scenario for Gap {
    fn name(&self) -> &'static str {
        "rx-gap"
    }

    fn about(&self) -> &'static str {
        "tiny DATA ahead of a gap, in 32 calls of one client"
    }

    fn service(&self) -> Service {
        Service::Rx
    }

    fn attack(&self, field: &Field<'_>) -> anyhow::Result<Findings> {
        let mut line = Line::at(ATTACKER)?;
        let mut connections: Vec<_> = (0..CONNECTIONS).map(Connection::new).collect();
        let head = Request::new(Work::Send { bytes: 1 << 30 }).encode()?;
        // The address is proved before the calls that stay: they take what the server gives one address.
        for connection in &mut connections {
            connection.call(&mut line, 1, Duration::from_secs(5))?;
        }
        for connection in &mut connections {
            for channel in 0..4 {
                line.send(&connection.data(channel, 2, 1, flags::REQUEST_ACK, &head));
            }
        }
        let (mut seq, mut packets) = (2, 0u64);
        'over: loop {
            // Round and round: what was given up or refused is sent again.
            seq = if seq > SEQ_MAX { 3 } else { seq + 1 };
            for n in 0..connections.len() {
                let began = Instant::now();
                for channel in 0..4 {
                    line.send(&connections[n].data(channel, 2, seq, 0, b"!"));
                    packets += 1;
                }
                while let Some((header, payload)) = line.receive() {
                    let to = connections.iter_mut().find(|to| to.id == header.cid & !3);
                    if let Some(answer) = to.and_then(|to| to.answer(&header, payload)) {
                        line.send(&answer);
                    }
                }
                if field.is_over() {
                    break 'over;
                }
                if n == connections.len() - 1 {
                    field.sleep(TURN.saturating_sub(began.elapsed()));
                }
            }
        }
        Ok(Findings::default().with("packets", packets).with("calls", CONNECTIONS * 4))
    }
}

const CONNECTIONS: u32 = 8;
const SEQ_MAX: u32 = 12_000;
/// Time in which 32 packets are sent.
const TURN: Duration = Duration::from_millis(1);
