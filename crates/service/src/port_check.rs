//! Check of the wanted addresses that cannot be had: a directory that is served by all protocols is served by
//! the others where another server of one of them runs already, or where a port takes a privilege.

use std::net::{TcpListener, UdpSocket};
use std::time::Duration;

use crate::socket::{Transport, Wanted};

/// Returns the first that cannot be had, in words for a user that has named no address, where `off` switches
/// the service off. Those of a server that was killed a moment ago are free again shortly, and waited for.
pub fn unavailable(wanted: &[Wanted], off: &str) -> Option<String> {
    for _ in 0..LOOKS {
        taken(wanted, off)?;
        std::thread::sleep(LOOK_AGAIN);
    }
    taken(wanted, off)
}

fn taken(wanted: &[Wanted], off: &str) -> Option<String> {
    let refused = |wanted: &Wanted| {
        let (kind, bound) = match wanted.transport {
            Transport::Rx => ("UDP", UdpSocket::bind(wanted.address).map(drop)),
            Transport::Tcp => ("TCP", TcpListener::bind(wanted.address).map(drop)),
        };
        let error = bound.err()?;
        Some(format!(
            "{kind} {} cannot be had: {error}; name another address, or switch it off by {off}",
            wanted.address
        ))
    };
    wanted.iter().find_map(refused)
}

/// The kernel lets go of the sockets of a ring some time after its process has ended.
const LOOKS: u32 = 20;
const LOOK_AGAIN: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use crate::socket::Role;

    use super::*;

    #[test]
    fn an_address_that_somebody_has_is_named() {
        let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
        let wanted = |address| Wanted { key: "afs.listen", address, transport: Transport::Rx, role: Role(0) };
        let (free, address) = (wanted("127.0.0.1:0".parse().unwrap()), taken.local_addr().unwrap());
        assert_eq!(unavailable(std::slice::from_ref(&free), "--afs off"), None);
        let told = unavailable(&[free, wanted(address)], "--afs off").unwrap();
        assert!(told.contains(&address.to_string()) && told.ends_with("--afs off"), "{told}");
    }
}
