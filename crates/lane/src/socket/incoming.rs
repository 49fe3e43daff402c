//! Interface by which an accepted connection came. The kernel notes it when the handshake ends, and tells it
//! as packet information (IP_PKTOPTIONS in linux/in.h, IPV6_2292PKTOPTIONS in RFC 2292). A connection through
//! a bond names the bond. What tells the NIC behind one is in [`super::options`].

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};

use socket2::{Domain, SockRef};

use super::control::ControlMessages;
use super::{pktinfo, set_option};

/// Makes a listener's connections keep the interface for [`interface`]. For IPv6 nothing is needed, and nothing
/// is done: there the kernel would copy the head of every packet for as long as a connection lives.
pub fn keep_interface(listener: impl AsFd) -> io::Result<()> {
    let listener = listener.as_fd();
    if SockRef::from(&listener).domain()? == Domain::IPV4 {
        set_option(listener, libc::IPPROTO_IP, libc::IP_PKTINFO, &1i32)?;
    }
    Ok(())
}

/// Returns the index of the interface through which the connection with `peer` came. `None` when the kernel
/// does not say; IPv4 connections need [`keep_interface`] on their listener.
pub fn interface(connection: impl AsFd, peer: SocketAddr) -> Option<u32> {
    let mut bytes = [0; PKTOPTIONS_BYTES];
    let told = match peer.ip() {
        IpAddr::V4(_) => read_bytes(&connection, libc::IPPROTO_IP, IP_PKTOPTIONS, &mut bytes),
        IpAddr::V6(_) => {
            set_option(&connection, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, &1i32).ok()?;
            let told = read_bytes(&connection, libc::IPPROTO_IPV6, libc::IPV6_2292PKTOPTIONS, &mut bytes);
            set_option(&connection, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, &0i32).ok()?;
            told
        }
    };
    let info = pktinfo::find(ControlMessages::new(&bytes[..told.ok()?]))?;
    Some(info.ifindex).filter(|&ifindex| ifindex != 0)
}

fn read_bytes(socket: impl AsFd, level: i32, name: i32, into: &mut [u8]) -> io::Result<usize> {
    let fd = socket.as_fd().as_raw_fd();
    let mut length = into.len() as libc::socklen_t;
    // SAFETY: `into` is writable for `length` bytes, and the kernel writes no more.
    let result = unsafe { libc::getsockopt(fd, level, name, into.as_mut_ptr().cast(), &mut length) };
    if result == 0 { Ok(length as usize) } else { Err(io::Error::last_os_error()) }
}

/// Option IP_PKTOPTIONS of linux/in.h.
const IP_PKTOPTIONS: i32 = 9;
/// Bytes for packet information and the other messages that a listener's options could ask for.
const PKTOPTIONS_BYTES: usize = 256;

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn connection_over_loopback_came_through_loopback() {
        let loopback: u32 =
            std::fs::read_to_string("/sys/class/net/lo/ifindex").unwrap().trim().parse().unwrap();
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            keep_interface(&listener).unwrap();
            let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (connection, peer) = listener.accept().unwrap();
            assert_eq!(interface(&connection, peer), Some(loopback), "{address}");
        }
    }

    #[test]
    fn connection_of_a_listener_that_does_not_keep_it_tells_nothing() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (connection, peer) = listener.accept().unwrap();
        assert_eq!(interface(&connection, peer), None);
    }
}
