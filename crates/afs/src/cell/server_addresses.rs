//! The UUID and addresses by which clients reach this server.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use service::socket::reachable;
use xdr::afs::AfsUuid;

/// The server: its UUID, by which clients know it again, and where it is reached. AFS tells IPv4 addresses alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerAddresses {
    /// The server's identity, the same for ever where there is a place to keep it.
    pub uuid: AfsUuid,
    /// Time when the process began to serve, in seconds since 1970.
    pub since: u32,
    addresses: Vec<Ipv4Addr>,
}

impl ServerAddresses {
    /// Creates a server that listens at these addresses, wildcards among them.
    pub fn new(uuid: AfsUuid, since: u32, listening: &[SocketAddr]) -> Self {
        let mut addresses: Vec<Ipv4Addr> = Vec::new();
        for address in listening.iter().flat_map(|address| reachable(*address)) {
            if let IpAddr::V4(ip) = address.ip()
                && !addresses.contains(&ip)
            {
                addresses.push(ip);
            }
        }
        Self { uuid, since, addresses }
    }

    /// Returns all addresses; none where it listens at IPv6 alone.
    pub fn addresses(&self) -> &[Ipv4Addr] {
        &self.addresses
    }

    /// Returns the addresses for a client that has reached the server by `local`: that one first, which is sure to work
    /// for it. Loopback is among them for a client that came by it, and where there is nothing else.
    pub(super) fn address_list(&self, local: Option<IpAddr>) -> AddressList {
        let used = match local {
            Some(IpAddr::V4(ip)) if !ip.is_unspecified() => Some(ip),
            Some(IpAddr::V6(ip)) => ip.to_ipv4_mapped(),
            _ => None,
        };
        let others = self.addresses.iter().copied().filter(|ip| Some(*ip) != used && !ip.is_loopback());
        let mut addresses: Vec<u32> = used.into_iter().chain(others).map(u32::from).collect();
        if addresses.is_empty() {
            addresses = self.addresses.iter().copied().map(u32::from).collect();
        }
        addresses.truncate(ADDRESSES_MAX);
        let mut hasher = DefaultHasher::new();
        addresses.hash(&mut hasher);
        AddressList { addresses, unique: (hasher.finish() as u32 & i32::MAX as u32) as i32 }
    }
}

/// The server's addresses in the order that suits one client, and a number that changes with them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AddressList {
    /// Addresses as numbers, the highest byte the first of the dotted form; at least one, but where there is
    /// none.
    pub(super) addresses: Vec<u32>,
    /// A number that changes with the addresses: clients then ask anew.
    pub(super) unique: i32,
}

/// Clients keep no more of one server.
const ADDRESSES_MAX: usize = 15;

#[cfg(test)]
mod tests {
    use super::*;

    fn server_addresses(listening: &[&str]) -> ServerAddresses {
        let listening: Vec<SocketAddr> = listening.iter().map(|text| text.parse().unwrap()).collect();
        ServerAddresses::new(AfsUuid([7; 16]), 1, &listening)
    }

    fn address_list(server_addresses: &ServerAddresses, local: Option<&str>) -> Vec<String> {
        let address_list = server_addresses.address_list(local.map(|ip| ip.parse().unwrap()));
        address_list.addresses.iter().map(|address| Ipv4Addr::from(*address).to_string()).collect()
    }

    #[test]
    fn a_client_is_told_first_by_which_address_it_has_come() {
        let server_addresses =
            server_addresses(&["192.0.2.1:7000", "127.0.0.1:7000", "10.0.0.1:7000", "[2001:db8::1]:7000"]);
        assert_eq!(address_list(&server_addresses, Some("10.0.0.1")), ["10.0.0.1", "192.0.2.1"]);
        assert_eq!(address_list(&server_addresses, Some("192.0.2.1")), ["192.0.2.1", "10.0.0.1"]);
        assert_eq!(
            address_list(&server_addresses, Some("127.0.0.1")),
            ["127.0.0.1", "192.0.2.1", "10.0.0.1"]
        );
        assert_eq!(address_list(&server_addresses, None), ["192.0.2.1", "10.0.0.1"]);
        // Which of several addresses of a port forwarder it is we do not know, but it works.
        assert_eq!(address_list(&server_addresses, Some("::ffff:198.51.100.7"))[0], "198.51.100.7");
        let unique = |local: &str| server_addresses.address_list(Some(local.parse().unwrap())).unique;
        assert!(unique("10.0.0.1") != unique("192.0.2.1") && unique("10.0.0.1") >= 0);
        assert_eq!(unique("10.0.0.1"), unique("10.0.0.1"));
    }

    #[test]
    fn loopback_is_told_where_there_is_nothing_else() {
        assert_eq!(address_list(&server_addresses(&["127.0.0.1:7000"]), None), ["127.0.0.1"]);
        assert_eq!(address_list(&server_addresses(&["[::1]:7000"]), None), [""; 0]);
    }
}
