//! Each connection asks for 200 MB, sends ten single bytes 50 ms apart, again and again, and reads nothing: every byte
//! takes a receive buffer of the lane that all streams share.

use std::io::{ErrorKind, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

use crate::hostile::net::{connect_from, connections_possible, source};
use crate::hostile::scenario::{Field, Findings, Scenario, Service};
use crate::hostile::server::HTTP;

/// Scenario of dripping requests over so many connections: half are from one address, the others each from its own.
pub(crate) struct Drips {
    pub(crate) name: &'static str,
    pub(crate) connections: usize,
}

impl Scenario for Drips {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        "connections that ask for 200 MB, read nothing and send single bytes 50 ms apart"
    }

    fn service(&self) -> Service {
        Service::Http
    }

    fn attack(&self, field: &Field<'_>) -> anyhow::Result<Findings> {
        let wanted = connections_possible(self.connections);
        let mut drips: Vec<Drip> = Vec::with_capacity(wanted);
        let (mut bytes, mut cut, mut most, mut made) = (0u64, 0u64, 0, 0);
        for turn in 0u64.. {
            let began = Instant::now();
            // New ones come at a pace, or the attack would be one of connecting.
            let missing = (wanted - drips.len()).min(CONNECTS_A_TURN);
            drips.extend((made..made + missing).map_while(|n| Drip::begin(source(n))));
            made += missing;
            let before = drips.len();
            drips.retain_mut(|drip| drip.fall(turn, &mut bytes));
            cut += (before - drips.len()) as u64;
            most = most.max(drips.len());
            if field.is_over() {
                break;
            }
            field.sleep(GAP.saturating_sub(began.elapsed()));
        }
        Ok(Findings::default()
            .with("connections", most)
            .with("single bytes", bytes)
            .with("cut by the server", cut))
    }
}

struct Drip {
    stream: TcpStream,
    began: Option<u64>,
}

impl Drip {
    fn begin(from: Ipv4Addr) -> Option<Self> {
        let mut stream = connect_from(from, HTTP).ok()?;
        stream.write_all(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n").ok()?;
        stream.set_nonblocking(true).ok()?;
        Some(Self { stream, began: None })
    }

    /// Sends its byte if it is to send one; false once the server has cut it.
    fn fall(&mut self, turn: u64, bytes: &mut u64) -> bool {
        let began = *self.began.get_or_insert(turn);
        if (turn - began) % TURNS_A_ROUND >= BYTES_A_ROUND {
            return true;
        }
        match self.stream.write_all(b"G") {
            Ok(()) => {
                *bytes += 1;
                true
            }
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        }
    }
}

const GAP: Duration = Duration::from_millis(50);
const BYTES_A_ROUND: u64 = 10;
/// Two seconds.
const TURNS_A_ROUND: u64 = 40;
const CONNECTS_A_TURN: usize = 200;
