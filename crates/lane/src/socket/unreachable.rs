//! Socket options IP_RECVERR and IPV6_RECVERR: ICMP errors about datagrams that a UDP socket sent (ip(7),
//! ipv6(7)).

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

use socket2::{Domain, SockRef};

use super::control::ControlMessages;
use super::{message, set_option};

/// An ICMP report that a datagram did not reach its destination. Any host can send one: only the quoted bytes
/// show whether it has seen the datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreachable {
    /// Address that the datagram was to go to.
    pub peer: SocketAddr,
    /// First bytes of the datagram, at most [`QUOTED_MAX`]; a router may quote nothing.
    pub quoted: Vec<u8>,
    /// True if the peer itself says that no socket has its port: ICMP port unreachable from the address where
    /// the datagram was to go. False for what routers and firewalls on the way say.
    pub port_closed: bool,
}

/// First entry of a socket's queue of errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// A datagram did not arrive.
    Unreachable(Unreachable),
    /// The network tells something else: a time to live that ran out, or a path that is too narrow.
    OtherRemote,
    /// The error is this machine's own, and the failed call returned it too.
    Local,
}

/// Makes the kernel report ICMP errors. Each then also fails the socket's next send or receive once, whatever
/// peer that one is to, and lies in the receive buffer until [`next`] has taken it.
pub fn enable(socket: impl AsFd) -> io::Result<()> {
    let socket = socket.as_fd();
    if SockRef::from(&socket).domain()? == Domain::IPV6 {
        set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVERR, &1i32)
    } else {
        set_option(socket, libc::IPPROTO_IP, libc::IP_RECVERR, &1i32)
    }
}

/// Takes the oldest report (MSG_ERRQUEUE); returns `None` when there is none.
pub fn next(socket: BorrowedFd<'_>) -> io::Result<Option<Report>> {
    let (mut quoted, mut control) = ([0; QUOTED_MAX], [0u8; CONTROL_BYTES]);
    let received = match message::receive(socket, &mut quoted, &mut control, libc::MSG_ERRQUEUE) {
        Ok(received) => received,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
        Err(error) => return Err(error),
    };
    let length = received.length;
    Ok(Some(match (origin(ControlMessages::new(received.control)), received.from.as_socket()) {
        (Origin::Unreachable { closed_at }, Some(peer)) => {
            let port_closed = closed_at.is_some_and(|ip| ip.to_canonical() == peer.ip().to_canonical());
            Report::Unreachable(Unreachable { peer, quoted: quoted[..length].to_vec(), port_closed })
        }
        (Origin::Local, _) => Report::Local,
        _ => Report::OtherRemote,
    }))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Unreachable {
        /// Address that reports that a port is closed there.
        closed_at: Option<IpAddr>,
    },
    Remote,
    Local,
}

/// Reads the sock_extended_err: `ee_errno` (4 bytes), `ee_origin`, `ee_type`, `ee_code`.
fn origin(control: ControlMessages<'_>) -> Origin {
    let v4 = control.clone().find_data(libc::IPPROTO_IP, libc::IP_RECVERR);
    let Some(error) = v4.or_else(|| control.find_data(libc::IPPROTO_IPV6, libc::IPV6_RECVERR)) else {
        return Origin::Remote;
    };
    let &[_, _, _, _, origin, kind, code, ..] = error else { return Origin::Remote };
    match (origin, kind, code) {
        (libc::SO_EE_ORIGIN_LOCAL, ..) => Origin::Local,
        // A path that is too narrow leads there all the same.
        (libc::SO_EE_ORIGIN_ICMP, ICMP_UNREACHABLE, ICMP_FRAGMENTATION_NEEDED) => Origin::Remote,
        (libc::SO_EE_ORIGIN_ICMP, ICMP_UNREACHABLE, ICMP_PORT)
        | (libc::SO_EE_ORIGIN_ICMP6, ICMP6_UNREACHABLE, ICMP6_PORT) => {
            Origin::Unreachable { closed_at: offender(error) }
        }
        (libc::SO_EE_ORIGIN_ICMP, ICMP_UNREACHABLE, _) | (libc::SO_EE_ORIGIN_ICMP6, ICMP6_UNREACHABLE, _) => {
            Origin::Unreachable { closed_at: None }
        }
        _ => Origin::Remote,
    }
}

/// Reads the reporter's address: the sockaddr_in or sockaddr_in6 behind a sock_extended_err (SO_EE_OFFENDER).
fn offender(error: &[u8]) -> Option<IpAddr> {
    let address = error.get(EXTENDED_ERROR_BYTES..)?;
    match i32::from(u16::from_ne_bytes(*address.first_chunk()?)) {
        libc::AF_INET => Some(IpAddr::from(*address.get(4..)?.first_chunk::<4>()?)),
        libc::AF_INET6 => Some(IpAddr::from(*address.get(8..)?.first_chunk::<16>()?)),
        _ => None,
    }
}

/// Most bytes kept of a quoted datagram.
pub const QUOTED_MAX: usize = 64;
/// Bytes for the error with the address of its reporter, and for the datagram's source address.
const CONTROL_BYTES: usize = 256;
/// Size of a sock_extended_err.
const EXTENDED_ERROR_BYTES: usize = 16;
/// Type of ICMP destination unreachable (RFC 792, RFC 1191).
const ICMP_UNREACHABLE: u8 = 3;
const ICMP_PORT: u8 = 3;
const ICMP_FRAGMENTATION_NEEDED: u8 = 4;
/// Type of ICMPv6 destination unreachable (RFC 4443).
const ICMP6_UNREACHABLE: u8 = 1;
const ICMP6_PORT: u8 = 4;

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
            assert_eq!(report, Unreachable { peer: nobody, quoted: vec![7; QUOTED_MAX], port_closed: true });
            assert_eq!(next(socket.as_fd()).unwrap(), None);
        }
    }
    /// Makes a sock_extended_err of this origin, type and code, and behind it the reporter's address.
    fn reported(origin: u8, kind: u8, code: u8, offender: &[u8]) -> Vec<u8> {
        [&[111, 0, 0, 0, origin, kind, code], &[0; 9][..], offender].concat()
    }

    #[test]
    fn who_reports_is_read_from_behind_the_error() {
        let v4 = [&(libc::AF_INET as u16).to_ne_bytes()[..], &[0, 0, 192, 0, 2, 7], &[0; 8]].concat();
        assert_eq!(offender(&reported(2, 3, 3, &v4)), Some(IpAddr::from([192, 0, 2, 7])));
        let ip: IpAddr = "2001:db8::7".parse().unwrap();
        let IpAddr::V6(bytes) = ip else { panic!("it is one") };
        let v6 = [&(libc::AF_INET6 as u16).to_ne_bytes()[..], &[0; 6], &bytes.octets(), &[0; 4]].concat();
        assert_eq!(offender(&reported(3, 1, 4, &v6)), Some(ip));
        for length in 0..18 {
            assert_eq!(offender(&reported(2, 3, 3, &v4)[..length]), None);
        }
        assert_eq!(offender(&reported(2, 3, 3, &v4)[..20]), None);
        assert_eq!(offender(&reported(2, 3, 3, &[0; 16])), None, "AF_UNSPEC: it is not known");
    }
}
