//! Thousands of connections from one address that is proved: one call on each, and the next one.

use std::time::{Duration, Instant};

use rxperf::Work;

use super::wire::{Connection, Line};
use crate::hostile::arena::ATTACKER;
use crate::hostile::scenario::{Field, Findings, Scenario, Service};

pub(crate) struct Connections;

impl Scenario for Connections {
    fn name(&self) -> &'static str {
        "rx-connections"
    }

    fn about(&self) -> &'static str {
        "5,000 new connections/s from one address, each with a call"
    }

    fn service(&self) -> Service {
        Service::Rx
    }

    fn attack(&self, field: &Field<'_>) -> anyhow::Result<Findings> {
        let mut line = Line::at(ATTACKER)?;
        Connection::new(0).call(&mut line, 1, Duration::from_secs(5))?;
        let mut made = 1;
        while !field.is_over() {
            let began = Instant::now();
            for _ in 0..CONNECTIONS_A_TURN {
                // The request is never ended: a handler waits for the rest.
                let mut connection = Connection::new(made);
                let head = rxperf::Request::new(Work::Send { bytes: 1 << 20 }).encode()?;
                line.send(&connection.data(0, 1, 1, 0, &head));
                made += 1;
            }
            while let Some((header, payload)) = line.receive() {
                let mut asked = Connection { id: header.cid & !3, serial: 1, ..Connection::new(0) };
                if let Some(answer) = asked.answer(&header, payload) {
                    line.send(&answer);
                }
                if began.elapsed() > TURN {
                    break;
                }
            }
            field.sleep(TURN.saturating_sub(began.elapsed()));
        }
        Ok(Findings::default().with("connections", made).with("bytes sent", line.sent))
    }
}

const TURN: Duration = Duration::from_millis(10);
const CONNECTIONS_A_TURN: u32 = 50;
