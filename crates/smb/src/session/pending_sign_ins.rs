//! Sign-ins between two of their messages. They are no sessions yet and take no session's room. A connection, an address and a network
//! may have few of them: one more displaces the oldest of the same connection, address or network, never another's.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};

use budget::give_back;
use service::address::address_of;

use crate::connection::SigningIn;

/// The sign-ins of the process that wait for their next message, the oldest first.
#[derive(Default)]
pub(crate) struct PendingSignIns(Mutex<PendingTable>);

#[derive(Default)]
struct PendingTable {
    entries: BTreeMap<u64, PendingSignIn>,
    addresses: HashMap<IpAddr, usize>,
    network: HashMap<IpAddr, usize>,
    next: u64,
}

struct PendingSignIn {
    signing_in: SigningIn,
    connection: u64,
    session: u64,
    address: IpAddr,
    network: IpAddr,
}

impl PendingSignIns {
    /// Keeps a sign-in of a connection until its next message, and returns how many others it displaced.
    pub(crate) fn put(&self, connection: u64, peer: IpAddr, signing_in: SigningIn) -> u64 {
        let mut all = self.lock();
        let (session, address, network) = (signing_in.session.id, address_of(peer), network(peer));
        let mut gone = 0;
        all.remove(|entry| entry.connection == connection && entry.session == session);
        let of_connection = all.entries.values().filter(|entry| entry.connection == connection).count();
        if of_connection >= PER_CONNECTION_MAX {
            gone += u64::from(all.remove(|entry| entry.connection == connection).is_some());
        }
        if all.addresses.get(&address).is_some_and(|held| *held >= PER_ADDRESS_MAX) {
            gone += u64::from(all.remove(|entry| entry.address == address).is_some());
        }
        if all.network.get(&network).is_some_and(|held| *held >= NETWORK_MAX) {
            gone += u64::from(all.remove(|entry| entry.network == network).is_some());
        }
        if all.entries.len() >= ALL_MAX {
            let most = all.network.iter().max_by_key(|(_, held)| **held).map(|(network, _)| *network);
            gone += u64::from(all.remove(|entry| Some(entry.network) == most).is_some());
        }
        let number = all.next;
        all.next += 1;
        *all.addresses.entry(address).or_default() += 1;
        *all.network.entry(network).or_default() += 1;
        all.entries.insert(number, PendingSignIn { signing_in, connection, session, address, network });
        gone
    }

    /// Takes out the sign-in of a connection to a session, to go on with it; `None` if it was displaced, or there was none.
    pub(crate) fn take(&self, connection: u64, session: u64) -> Option<SigningIn> {
        self.lock().remove(|entry| entry.connection == connection && entry.session == session)
    }

    /// Adds the server's reply to the integrity hash of a sign-in.
    pub(crate) fn answered(&self, connection: u64, session: u64, reply: &[u8]) {
        let mut all = self.lock();
        let mut entries = all.entries.values_mut().rev();
        if let Some(entry) = entries.find(|entry| entry.connection == connection && entry.session == session)
        {
            entry.signing_in.preauth.update(reply);
        }
    }

    /// Removes the sign-ins of a connection that has ended.
    pub(crate) fn forget(&self, connection: u64) {
        let mut all = self.lock();
        while all.remove(|entry| entry.connection == connection).is_some() {}
    }

    /// Returns how many there are.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.lock().entries.len()
    }

    fn lock(&self) -> MutexGuard<'_, PendingTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PendingTable {
    /// Removes the oldest entry for which `is_meant` holds.
    fn remove(&mut self, is_meant: impl Fn(&PendingSignIn) -> bool) -> Option<SigningIn> {
        let number = *self.entries.iter().find(|(_, entry)| is_meant(entry))?.0;
        let entry = self.entries.remove(&number)?;
        give_back(&mut self.addresses, entry.address, 1);
        give_back(&mut self.network, entry.network, 1);
        Some(entry.signing_in)
    }
}

impl std::fmt::Debug for PendingSignIns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Begun").field("len", &self.lock().entries.len()).finish()
    }
}

/// Returns the network of an address: an IPv4 /24, an IPv6 /48.
fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V4(v4) => Ipv4Addr::from_bits(v4.to_bits() >> 8 << 8).into(),
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 80 << 80).into(),
    }
}

/// Most begun sign-ins of one connection.
const PER_CONNECTION_MAX: usize = 8;
/// Most begun sign-ins of one address: a terminal server's users begin hundreds at once.
const PER_ADDRESS_MAX: usize = 512;
/// Most begun sign-ins of an IPv4 /24 or an IPv6 /48.
const NETWORK_MAX: usize = 1024;
//@ limit: sign-ins that are begun
//@ section: SMB
//@ unit: sign-in of 512 bytes
//@ connection: {PER_CONNECTION_MAX}
//@ address: {PER_ADDRESS_MAX}; {NETWORK_MAX} of an IPv4 /24 or IPv6 /48
//@ all: process: {}
//@ empty: the oldest of the connection, address or network is displaced, in all that of the network with most
//@ counter: smb_sign_ins_displaced
//@ attack: smb-begun-sign-ins
/// Most begun sign-ins of the process: some 2 KiB each.
const ALL_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use smb_auth::{Acceptor, Policy};
    use smb_proto::keys::Agreed;
    use smb_proto::preauth::PreauthHash;
    use smb_proto::signing::SigningAlgorithm;
    use smb_wire::{Dialect, Guid};

    use super::*;
    use crate::session::Session;

    fn sign_in(id: u64) -> SigningIn {
        let agreed = Agreed { dialect: Dialect::Smb311, signing: SigningAlgorithm::AesCmac, cipher: None };
        SigningIn {
            session: Arc::new(Session::new(id, Guid::default(), agreed, false)),
            is_binding: false,
            acceptor: Acceptor::new(Policy::default(), [0; 8]),
            preauth: PreauthHash::new(),
        }
    }

    #[test]
    fn a_sign_in_too_many_displaces_the_oldest_of_its_own_connection_address_or_network() {
        let begun = PendingSignIns::default();
        let good = "198.51.100.7".parse().unwrap();
        begun.put(1, good, sign_in(1));
        // By one connection, by many of an address, and by many addresses of a network.
        for (connection, session) in (0..20).map(|n| (2, 1000 + n)) {
            begun.put(connection, "192.0.2.1".parse().unwrap(), sign_in(session));
        }
        assert_eq!(begun.len(), 1 + PER_CONNECTION_MAX);
        assert!(begun.take(2, 1000).is_none(), "the oldest is gone");
        assert!(begun.take(2, 1019).is_some(), "the newest is there");
        for n in 0..2000 {
            begun.put(100 + n, "192.0.2.1".parse().unwrap(), sign_in(10_000 + n));
        }
        assert_eq!(begun.len(), 1 + PER_ADDRESS_MAX);
        for n in 0..2000 {
            let peer = IpAddr::from([192, 0, 2, n as u8]);
            begun.put(5000 + n, peer, sign_in(20_000 + n));
        }
        assert_eq!(begun.len(), 1 + NETWORK_MAX);
        for n in 0..10_000u64 {
            let peer =
                Ipv6Addr::from_bits((0x2001_0db8 << 96) | (u128::from(n % 16) << 80) | u128::from(n) << 64);
            begun.put(10_000 + n, peer.into(), sign_in(30_000 + n));
        }
        assert_eq!(begun.len(), ALL_MAX);
        assert!(begun.take(1, 1).is_some(), "no other network's is displaced");
        (0..20_000).for_each(|connection| begun.forget(connection));
        let all = begun.lock();
        assert!(all.entries.is_empty() && all.addresses.is_empty() && all.network.is_empty());
    }
}
