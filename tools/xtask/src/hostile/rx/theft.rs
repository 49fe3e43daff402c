//! A thief that knows a connection's epoch and id says, from its own address and with a high serial, that it
//! has moved. The owner's calls must go on, and their replies must not go to the thief.

use std::time::Duration;

use rx::ack::AckReason;
use rxperf::Work;

use super::wire::{Connection, Line};
use crate::hostile::arena::owned;
use crate::hostile::scenario::{Field, Findings, Scenario, Service};

pub(crate) struct Theft;

impl Scenario for Theft {
    fn name(&self) -> &'static str {
        "rx-theft"
    }

    fn about(&self) -> &'static str {
        "packets with high serials that claim others' connections"
    }

    fn service(&self) -> Service {
        Service::Rx
    }

    fn attack(&self, field: &Field<'_>) -> anyhow::Result<Findings> {
        let (mut owner, mut thief) = (Line::at(owned(1))?, Line::at(owned(2))?);
        let mut connection = Connection::new(0);
        let (mut calls, mut lost, mut call) = (0u64, Vec::new(), 0);
        while !field.is_over() {
            call += 1;
            // Once lost it stays lost; each further one would take the whole of its patience.
            if let Err(error) = connection.call(&mut owner, call, PATIENCE) {
                lost.push(format!("call {call} of a stolen connection: {error:#}"));
                break;
            }
            calls += 1;
            let mut stolen = Connection { serial: SERIAL_HIGH, ..connection };
            // Small ones: what the thief asks for and proves its address for is its own.
            let small = Work::Rpc { send: 4, receive: 4 };
            let claim = [
                stolen.ack((0, call), 1, (AckReason::Ping, 1), 0, &[]),
                stolen.request(0, call + 1, small.clone()),
                stolen.request(1, call + 1, small),
                stolen.ack((0, call), 1, (AckReason::PingResponse, call * 2), 0, &[]),
            ];
            claim.iter().for_each(|packet| thief.send(packet));
            // The thief even answers when the server asks whether it is there.
            field.sleep(Duration::from_millis(5));
            while let Some((header, payload)) = thief.receive() {
                if let Some(answer) = stolen.answer(&header, payload) {
                    thief.send(&answer);
                }
            }
            // The thief began a call in the owner's name, on a number that the owner must not use again.
            call += 1;
        }
        let (spent, got) = (thief.sent, thief.received);
        let mut findings = Findings::default()
            .with("calls of the owner", calls)
            .with("bytes of the thief", spent)
            .with("bytes to the thief", got)
            .expect(got <= spent * 3, || format!("the thief got {got} bytes for {spent}"));
        findings.failures.extend(lost);
        Ok(findings)
    }
}

const SERIAL_HIGH: u32 = 0x7fff_fffd;
const PATIENCE: Duration = Duration::from_secs(2);
