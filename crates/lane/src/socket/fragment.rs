//! Socket options IP_MTU_DISCOVER and IPV6_MTU_DISCOVER: whether datagrams may be cut up on their way (ip(7),
//! ipv6(7)).

use std::io;
use std::os::fd::AsFd;

use socket2::{Domain, SockRef};

use super::set_option;

/// Allows datagrams to be fragmented: by routers (IPv4), and here where the path is known to be narrower.
/// What cannot be made smaller gets through this way.
pub fn allow(socket: impl AsFd) -> io::Result<()> {
    set(socket, libc::IP_PMTUDISC_DONT, libc::IPV6_PMTUDISC_DONT)
}

/// Sends datagrams whole or not at all, whatever the kernel believes of the path. One larger than the
/// interface takes fails with EMSGSIZE, one larger than the path is dropped there. For probes of the path's
/// MTU.
pub fn forbid(socket: impl AsFd) -> io::Result<()> {
    set(socket, libc::IP_PMTUDISC_PROBE, libc::IPV6_PMTUDISC_PROBE)
}

fn set(socket: impl AsFd, v4: i32, v6: i32) -> io::Result<()> {
    let socket = socket.as_fd();
    if SockRef::from(&socket).domain()? == Domain::IPV6 {
        set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, &v6)
    } else {
        set_option(socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, &v4)
    }
}
