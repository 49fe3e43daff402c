//! Which of the wanted addresses somebody else has: a directory that is served by all protocols is served by the others
//! where a stock client or server of AFS runs already.

use std::net::UdpSocket;

use service::Wanted;

/// The first that cannot be had, in words for who has named no address.
pub(super) fn which(wanted: &[Wanted]) -> Option<String> {
    let refused = |wanted: &Wanted| {
        let error = UdpSocket::bind(wanted.address).err()?;
        Some(format!(
            "AFS is not served: UDP {} cannot be had: {error}; name another address, or switch it off by --afs off",
            wanted.address
        ))
    };
    wanted.iter().find_map(refused)
}

#[cfg(test)]
mod tests {
    use service::{Role, Transport};

    use super::*;

    #[test]
    fn an_address_that_somebody_has_is_named() {
        let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
        let wanted = |address| Wanted { key: "afs.listen", address, transport: Transport::Rx, role: Role(0) };
        let (free, address) = (wanted("127.0.0.1:0".parse().unwrap()), taken.local_addr().unwrap());
        assert_eq!(which(std::slice::from_ref(&free)), None);
        assert!(which(&[free, wanted(address)]).unwrap().contains(&address.to_string()));
    }
}
