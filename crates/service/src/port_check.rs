//! Check for wanted addresses that are not available, so that a directory is served by the other protocols:
//! where another server has them, or they take a privilege.

use std::net::{TcpListener, UdpSocket};
use std::time::Duration;

use crate::socket::{Transport, Wanted};

/// Returns the first address that is not available, in words for a user that has named no address, where
/// `off` switches the service off. Those of a server that was killed a moment ago are free again shortly, and
/// waited for.
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

/// Number of attempts, as the kernel frees the sockets of a ring some time after its process has ended.
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
