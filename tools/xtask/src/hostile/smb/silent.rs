//! Connections that never negotiate, more than there are places for. A client that comes then must be let in
//! at once.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::hostile::net::{connect_from, connections_possible, source};
use crate::hostile::scenario::{Field, Findings, Scenario, Service};
use crate::hostile::server::SMB;

pub(crate) struct Silent;

impl Scenario for Silent {
    fn name(&self) -> &'static str {
        "smb-silent-10000"
    }

    fn about(&self) -> &'static str {
        "10,000 connections that never negotiate, half of them from one address"
    }

    fn service(&self) -> Service {
        Service::Smb
    }

    fn attack(&self, field: &Field<'_>) -> anyhow::Result<Findings> {
        let wanted = connections_possible(CONNECTIONS);
        let (mut held, mut made, mut cut, mut most): (Vec<TcpStream>, _, _, _) = (Vec::new(), 0, 0, 0);
        while !field.is_over() {
            let began = Instant::now();
            // New ones come at a pace, or the attack would be one of connecting.
            let missing = (wanted - held.len()).min(CONNECTS_A_TURN);
            held.extend((made..made + missing).map_while(|n| connect_from(source(n), SMB).ok()));
            made += missing;
            let before = held.len();
            held.retain(stays);
            cut += before - held.len();
            most = most.max(held.len());
            field.sleep(TURN.saturating_sub(began.elapsed()));
        }
        Ok(Findings::default()
            .with("connections at once", most)
            .with("connections made", made)
            .with("cut by the server", cut))
    }
}

/// Returns whether the server has not ended it.
fn stays(stream: &TcpStream) -> bool {
    if stream.set_nonblocking(true).is_err() {
        return false;
    }
    match stream.peek(&mut [0]) {
        Ok(_) => false,
        Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
    }
}

const CONNECTIONS: usize = 10_000;
const CONNECTS_A_TURN: usize = 200;
const TURN: Duration = Duration::from_millis(50);
