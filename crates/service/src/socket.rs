//! The sockets that a service wants, as it names them to the server and as a lane gets them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;

use lane::net::{TcpListener, TcpStream, UdpSocket};
use lane::probe::Network;

/// Role of a socket: a number whose meaning is the service's, such as "plain" or "TLS".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Role(pub u32);

/// Transport of a socket, by which its packets find a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Transport {
    /// A listener for each lane; connections go to a lane of the silo whose NIC they came by, and lanes hand over those
    /// that came to the wrong one.
    Tcp,
    /// A socket for each lane, steered as Rx wants it: a client's packets go to one lane of the silo whose NIC they
    /// came by, those of connections that the server opened to the lane that their ids lead to.
    Rx,
}

/// An address that a service wants to be reached at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The configuration key that says so, such as `http.listen`.
    pub key: &'static str,
    /// Address as configured: port 0 lets the kernel choose.
    pub address: SocketAddr,
    /// Transport of the socket.
    pub transport: Transport,
    /// Role of the socket.
    pub role: Role,
}

/// A wanted address with the port that the kernel chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Address of the socket.
    pub address: SocketAddr,
    /// Transport of the socket.
    pub transport: Transport,
    /// Role of the socket.
    pub role: Role,
}

/// One lane's socket at a wanted address.
#[derive(Clone)]
pub enum LaneSocket {
    /// Takes connections.
    Tcp(Rc<TcpListener>),
    /// Takes datagrams.
    Udp(Rc<UdpSocket>),
}

/// Routes accepted connections to the lane that they belong to: every lane has one for each service.
pub trait ConnectionRouter {
    /// Gives the connection back if it is to be served here; keeps it if it was given to another lane, whose service
    /// gets it by [`LaneService::take`](crate::LaneService::take).
    fn place(&self, stream: TcpStream, role: Role) -> Option<TcpStream>;
}

/// The addresses by which clients can reach a bound one. For a wildcard (`0.0.0.0`, `[::]`) those of this machine's
/// interfaces, in the kernel's order, then loopback.
pub fn reachable(address: SocketAddr) -> Vec<SocketAddr> {
    if !address.ip().is_unspecified() {
        return vec![address];
    }
    let own = Network::of_this_machine().addresses;
    reachable_among(address, own.iter().map(|address| address.ip))
}

/// Returns a reachable address ([`reachable`]), where these are the machine's addresses.
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
