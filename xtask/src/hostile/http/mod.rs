//! What clients of HTTP do.

pub(crate) mod drips;
pub(crate) mod growing;
mod http2;
pub(crate) mod log;
pub(crate) mod pings;
pub(crate) mod places;
pub(crate) mod readers;
pub(crate) mod resets;
pub(crate) mod stalled;
pub(crate) mod uploads;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use super::arena::{ATTACKER, owned};
use crate::descriptors;

/// A connection from one of the attackers' addresses.
fn connect_from(from: Ipv4Addr, to: SocketAddr) -> io::Result<TcpStream> {
    connect_with(from, to, None)
}

/// With so large a receive buffer, bytes: what a line holds that is slower than its reader's system.
fn connect_with(from: Ipv4Addr, to: SocketAddr, receive_buffer: Option<usize>) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    if let Some(bytes) = receive_buffer {
        socket.set_recv_buffer_size(bytes)?;
    }
    socket.bind(&SocketAddrV4::new(from, 0).into())?;
    socket.connect_timeout(&to.into(), CONNECT_TIMEOUT)?;
    socket.set_tcp_nodelay(true)?;
    let stream = TcpStream::from(socket);
    stream.set_write_timeout(Some(CONNECT_TIMEOUT))?;
    Ok(stream)
}

/// Where the nth connection comes from: one half all from one address, the other each from its own.
fn source(n: usize) -> Ipv4Addr {
    if n.is_multiple_of(2) { ATTACKER } else { owned(n) }
}

/// As many as descriptors allow.
fn connections_possible(wanted: usize) -> usize {
    wanted.min(usize::try_from(descriptors::limit().saturating_sub(500)).unwrap_or(usize::MAX))
}

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
