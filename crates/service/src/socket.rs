//! Sockets of a service, as it requests them from the server and as a lane gets them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;

use lane::net::{TcpListener, TcpStream, UdpSocket};
use lane::probe::Network;

/// Role of a socket: a number with a meaning for the service, such as "plain" or "TLS".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Role(pub u32);

/// Transport of a socket, which decides how packets find a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Transport {
    /// TCP with a listener for each lane. Connections go to a lane of the silo that owns their NIC, and lanes
    /// hand over those that came to the wrong one.
    Tcp,
    /// Rx with a socket for each lane. A client's packets go to one lane of the silo that owns their NIC,
    /// those of connections that the server opened to the lane in their ids.
    Rx,
}

/// Address at which a service wants to be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Configuration key of the address, such as `http.listen`.
    pub key: &'static str,
    /// Address as configured: port 0 lets the kernel choose.
    pub address: SocketAddr,
    /// Transport of the socket.
    pub transport: Transport,
    /// Role of the socket.
    pub role: Role,
}

/// Wanted address with the port that the kernel chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Address of the socket.
    pub address: SocketAddr,
    /// Transport of the socket.
    pub transport: Transport,
    /// Role of the socket.
    pub role: Role,
}

/// Socket of one lane at a wanted address.
#[derive(Clone)]
pub enum LaneSocket {
    /// Listener of TCP connections.
    Tcp(Rc<TcpListener>),
    /// Socket for UDP datagrams.
    Udp(Rc<UdpSocket>),
}

/// Router of accepted connections to the lanes that they belong to: every lane has one for each service.
pub trait ConnectionRouter {
    /// Returns a connection that this lane serves; hands any other to its lane, whose service gets it by
    /// [`LaneService::take`](crate::LaneService::take).
    fn place(&self, stream: TcpStream, role: Role) -> Option<TcpStream>;
}

/// Returns the addresses by which clients can reach a bound one. For a wildcard (`0.0.0.0`, `[::]`) these are
/// the addresses of this machine's interfaces, in the kernel's order, then loopback.
pub fn reachable(address: SocketAddr) -> Vec<SocketAddr> {
    if !address.ip().is_unspecified() {
        return vec![address];
    }
    let own = Network::of_this_machine().addresses;
    reachable_among(address, own.iter().map(|address| address.ip))
}

/// Returns the reachable addresses ([`reachable`]), where `own` are the machine's.
fn reachable_among(address: SocketAddr, own: impl Iterator<Item = IpAddr>) -> Vec<SocketAddr> {
    let loopback = match address {
        SocketAddr::V4(_) => IpAddr::from(Ipv4Addr::LOCALHOST),
        SocketAddr::V6(_) => IpAddr::from(Ipv6Addr::LOCALHOST),
    };
    let others = own.filter(|ip| ip.is_ipv4() == address.is_ipv4() && !ip.is_loopback());
    others.chain([loopback]).map(|ip| SocketAddr::new(ip, address.port())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn among(address: &str, own: &[&str]) -> Vec<String> {
        let own = own.iter().map(|ip| ip.parse().unwrap());
        let reached = reachable_among(address.parse().unwrap(), own);
        reached.iter().map(SocketAddr::to_string).collect()
    }

    #[test]
    fn a_wildcard_stands_for_the_interfaces_addresses_and_loopback_comes_last() {
        let own = ["127.0.0.1", "192.0.2.7", "10.0.0.1", "::1", "2001:db8::7"];
        assert_eq!(among("0.0.0.0:80", &own), ["192.0.2.7:80", "10.0.0.1:80", "127.0.0.1:80"]);
        assert_eq!(among("[::]:443", &own), ["[2001:db8::7]:443", "[::1]:443"]);
        assert_eq!(among("0.0.0.0:80", &["127.0.0.1"]), ["127.0.0.1:80"]);
        assert_eq!(reachable("192.0.2.9:1".parse().unwrap()), ["192.0.2.9:1".parse().unwrap()]);
    }
}
