//! Connections of attackers, whatever they speak.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use super::arena::{ATTACKER, owned};
use crate::descriptors;

/// Connects from one of the attackers' addresses.
pub(crate) fn connect_from(from: Ipv4Addr, to: SocketAddr) -> io::Result<TcpStream> {
    connect_with(from, to, None)
}

/// Connects with a receive buffer of this size, in bytes: it stands for what a line holds that is slower than its
/// reader.
pub(crate) fn connect_with(
    from: Ipv4Addr,
    to: SocketAddr,
    receive_buffer: Option<usize>,
) -> io::Result<TcpStream> {
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

/// Returns the source address of the nth connection: one half is from one address, the others each from an address of
/// its own.
pub(crate) fn source(n: usize) -> Ipv4Addr {
    if n.is_multiple_of(2) { ATTACKER } else { owned(n) }
}

/// Returns the number of connections, up to `wanted`, that the limit of descriptors allows.
pub(crate) fn connections_possible(wanted: usize) -> usize {
    wanted.min(usize::try_from(descriptors::limit().saturating_sub(500)).unwrap_or(usize::MAX))
}

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
