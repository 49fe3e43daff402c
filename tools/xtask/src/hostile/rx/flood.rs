//! First packets of new connections from addresses without hosts.

use std::net::SocketAddrV4;
use std::time::{Duration, Instant};

use rxperf::Work;

use super::wire::{Connection, Spoofer};
use crate::hostile::arena::nobody;
use crate::hostile::scenario::{Field, Findings, Scenario, Service};

pub(crate) struct Flood;

impl Scenario for Flood {
    fn name(&self) -> &'static str {
        "rx-spoofed-flood"
    }

    fn about(&self) -> &'static str {
        "up to 100,000 new connections/s from addresses where nobody lives"
    }

    fn service(&self) -> Service {
        Service::Rx
    }

    fn attack(&self, field: &Field<'_>) -> anyhow::Result<Findings> {
        let (mut spoofer, mut n) = (Spoofer::new()?, 0u32);
        let started = Instant::now();
        while !field.is_over() {
            let began = Instant::now();
            for _ in 0..PACKETS_A_TURN {
                let from = SocketAddrV4::new(nobody(n), 1024 + (n % 50_000) as u16);
                let packet = Connection::new(n).request(0, 1, Work::Receive { bytes: 1 << 20 });
                spoofer.send(from, &packet);
                n += 1;
            }
            field.sleep(TURN.saturating_sub(began.elapsed()));
        }
        let seconds = started.elapsed().as_secs().max(1);
        Ok(Findings::default().with("packets", n).with("packets/s", u64::from(n) / seconds))
    }
}

const TURN: Duration = Duration::from_millis(5);
const PACKETS_A_TURN: u32 = 500;
