//! Every place is taken: connections that send their head byte by byte or ask once and stay, more than the
//! server has descriptors for. A client that comes then must be let in at once.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::hostile::arena::owned;
use crate::hostile::net::{connect_from, connections_possible};
use crate::hostile::scenario::{Field, Findings, Scenario, Service};
use crate::hostile::server::{HTTP, Wishes};

pub(crate) struct Places;

impl Scenario for Places {
    fn name(&self) -> &'static str {
        "http-places-taken"
    }

    fn about(&self) -> &'static str {
        "slow heads and idle connections of 50 addresses, more than the server has descriptors"
    }

    fn service(&self) -> Service {
        Service::Http
    }

    fn prepare(&self, _work: &Path) -> anyhow::Result<Wishes> {
        Ok(Wishes { open_files: Some(OPEN_FILES), ..Wishes::default() })
    }

    fn attack(&self, field: &Field<'_>) -> anyhow::Result<Findings> {
        let wanted = connections_possible(CONNECTIONS);
        let mut takers: Vec<Taker> = Vec::new();
        let (mut made, mut cut, mut most) = (0, 0, 0);
        while !field.is_over() {
            let began = Instant::now();
            let missing = (wanted - takers.len()).min(CONNECTS_A_TURN);
            takers.extend((made..made + missing).map_while(|n| Taker::come(n, owned(n % ADDRESSES))));
            made += missing;
            let before = takers.len();
            takers.retain_mut(Taker::stay);
            cut += before - takers.len();
            most = most.max(takers.len());
            field.sleep(TURN.saturating_sub(began.elapsed()));
        }
        Ok(Findings::default()
            .with("addresses", ADDRESSES)
            .with("connections at once", most)
            .with("connections made", made)
            .with("cut by the server", cut)
            .with("descriptors of the server", OPEN_FILES))
    }
}

struct Taker {
    stream: TcpStream,
    /// The head of the connection's request never ends.
    drips: bool,
}

impl Taker {
    fn come(n: usize, from: Ipv4Addr) -> Option<Self> {
        // Half of them from every address.
        let drips = (n / ADDRESSES).is_multiple_of(2);
        let mut stream = connect_from(from, HTTP).ok()?;
        let end = if drips { "X-Slow: " } else { "\r\n" };
        write!(stream, "GET /small HTTP/1.1\r\nHost: a\r\n{end}").ok()?;
        stream.set_nonblocking(true).ok()?;
        Some(Self { stream, drips })
    }

    /// Returns false once the server has cut it.
    fn stay(&mut self) -> bool {
        let mut part = [0; 4096];
        let ended = match self.stream.read(&mut part) {
            Ok(n) => n == 0,
            Err(error) => error.kind() != ErrorKind::WouldBlock,
        };
        let drip = |stream: &mut TcpStream| match stream.write_all(b"y") {
            Ok(()) => true,
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        };
        !ended && (!self.drips || drip(&mut self.stream))
    }
}

const OPEN_FILES: u64 = 1024;
const CONNECTIONS: usize = 3000;
/// Far fewer than places: where each of thousands of addresses holds one place, one that holds two holds
/// most.
const ADDRESSES: usize = 50;
const TURN: Duration = Duration::from_millis(250);
const CONNECTS_A_TURN: usize = 500;
