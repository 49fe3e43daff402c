//! IP_RECVERR and IPV6_RECVERR: what ICMP says of datagrams that a UDP socket sent (ip(7), ipv6(7)).

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use socket2::{Domain, SockRef};

use super::control::ControlMessages;
use super::{message, set_option};

/// Somebody says that a datagram did not reach its destination. Anybody can say so: only the quoted bytes show whether
/// he has seen the datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreachable {
    /// Where the datagram was to go.
    pub peer: SocketAddr,
    /// How it began, at most [`QUOTED_MAX`] bytes of it; a router may quote nothing.
    pub quoted: Vec<u8>,
}

/// What stood first in a socket's queue of errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// A datagram did not arrive.
    Unreachable(Unreachable),
    /// Something else from the network: a time to live that ran out, a path that is too narrow.
    OtherRemote,
    /// An error of this machine, which the call that met it returned too.
    Local,
}

/// Has ICMP errors reported. Each then also fails the socket's next send or receive once, whoever that one is about, and
/// lies in the receive buffer until [`next`] has taken it.
pub fn enable(socket: impl AsFd) -> io::Result<()> {
    let socket = socket.as_fd();
    if SockRef::from(&socket).domain()? == Domain::IPV6 {
        set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVERR, &1i32)
    } else {
        set_option(socket, libc::IPPROTO_IP, libc::IP_RECVERR, &1i32)
    }
}

/// Takes the oldest report (MSG_ERRQUEUE); `None` when there is none.
pub fn next(socket: BorrowedFd<'_>) -> io::Result<Option<Report>> {
    let (mut quoted, mut control) = ([0; QUOTED_MAX], [0u8; CONTROL_BYTES]);
    let received = match message::receive(socket, &mut quoted, &mut control, libc::MSG_ERRQUEUE) {
        Ok(received) => received,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
        Err(error) => return Err(error),
    };
    let length = received.length;
    Ok(Some(match (origin(ControlMessages::new(received.control)), received.from.as_socket()) {
        (Origin::Unreachable, Some(peer)) => {
            Report::Unreachable(Unreachable { peer, quoted: quoted[..length].to_vec() })
        }
        (Origin::Local, _) => Report::Local,
        _ => Report::OtherRemote,
    }))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Unreachable,
    Remote,
    Local,
}

/// Reads the sock_extended_err: `ee_errno` (4 bytes), `ee_origin`, `ee_type`, `ee_code`.
fn origin(control: ControlMessages<'_>) -> Origin {
    let v4 = control.clone().find_data(libc::IPPROTO_IP, libc::IP_RECVERR);
    let Some(&[_, _, _, _, origin, kind, code, ..]) =
        v4.or_else(|| control.find_data(libc::IPPROTO_IPV6, libc::IPV6_RECVERR))
    else {
        return Origin::Remote;
    };
    match (origin, kind, code) {
        (libc::SO_EE_ORIGIN_LOCAL, ..) => Origin::Local,
        // A path that is too narrow leads there all the same.
        (libc::SO_EE_ORIGIN_ICMP, ICMP_UNREACHABLE, ICMP_FRAGMENTATION_NEEDED) => Origin::Remote,
        (libc::SO_EE_ORIGIN_ICMP, ICMP_UNREACHABLE, _) | (libc::SO_EE_ORIGIN_ICMP6, ICMP6_UNREACHABLE, _) => {
            Origin::Unreachable
        }
        _ => Origin::Remote,
    }
}

/// Bytes kept of a quoted datagram.
pub const QUOTED_MAX: usize = 64;
/// Room for the error with the address of who reported it, and for where the datagram left from.
const CONTROL_BYTES: usize = 256;
/// RFC 792, RFC 1191.
const ICMP_UNREACHABLE: u8 = 3;
const ICMP_FRAGMENTATION_NEEDED: u8 = 4;
/// RFC 4443.
const ICMP6_UNREACHABLE: u8 = 1;

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::time::{Duration, Instant};

    use super::*;

    fn first_report(socket: &UdpSocket) -> Report {
        let started = Instant::now();
        loop {
            if let Some(report) = next(socket.as_fd()).unwrap() {
                return report;
            }
            assert!(started.elapsed() < Duration::from_secs(5), "no report came");
            std::thread::yield_now();
        }
    }

    #[test]
    fn closed_port_is_reported_with_what_was_sent_there() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(socket) = UdpSocket::bind(address) else { continue };
            let nobody = UdpSocket::bind(address).unwrap().local_addr().unwrap();
            enable(&socket).unwrap();
            assert_eq!(next(socket.as_fd()).unwrap(), None);
            socket.send_to(&[7; 300], nobody).unwrap();
            let Report::Unreachable(report) = first_report(&socket) else { panic!("a closed port") };
            assert_eq!(report, Unreachable { peer: nobody, quoted: vec![7; QUOTED_MAX] });
            assert_eq!(next(socket.as_fd()).unwrap(), None);
        }
    }
}
