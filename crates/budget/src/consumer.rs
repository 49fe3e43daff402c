//! Consumers of a pool, and the shares that they are counted to.

use std::hash::{Hash, Hasher};
use std::net::IpAddr;

use crate::network::Network;
use crate::shares::Shares;

/// A client that takes something: its address, and its user if it has signed in. Guests and anonymous clients
/// are no user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Consumer {
    /// Address of the client.
    pub address: IpAddr,
    /// The client's user, whose share is the same from all addresses.
    pub user: Option<UserNumber>,
}

/// A user's number in the accounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UserNumber(pub i32);

/// An address, network or user that has a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Claimant {
    /// All clients of a network.
    Network(Network),
    /// All clients of a user.
    User(UserNumber),
}

impl Consumer {
    /// Returns the claimants that it counts for, the narrowest network first, and how many times what is free
    /// each of them may hold.
    pub fn claimants(self, shares: Shares) -> impl Iterator<Item = (Claimant, usize)> {
        let times = [shares.address, shares.of_56, shares.of_48];
        let networks = Network::all_of(self.address).map(Claimant::Network).zip(times);
        networks.chain(self.user.map(|user| (Claimant::User(user), shares.address)))
    }

    /// Returns whether it counts for this network or user.
    pub fn is_of(&self, claimant: Claimant) -> bool {
        match claimant {
            Claimant::Network(network) => network.contains(self.address),
            Claimant::User(user) => self.user == Some(user),
        }
    }
}

impl From<IpAddr> for Consumer {
    fn from(address: IpAddr) -> Self {
        Self { address, user: None }
    }
}

/// One word, since it is looked up for each thing that is taken: the networks of clients have no more bits, and few claimants can
/// have the same word.
impl Hash for Claimant {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let (word, kind) = match self {
            Self::Network(Network { base: IpAddr::V4(v4), prefix }) => (u64::from(v4.to_bits()), *prefix),
            Self::Network(Network { base: IpAddr::V6(v6), prefix }) => ((v6.to_bits() >> 64) as u64, *prefix),
            Self::User(user) => (u64::from(user.0.cast_unsigned()), u8::MAX),
        };
        state.write_u64(word ^ u64::from(kind) << 56);
    }
}

impl std::fmt::Display for Claimant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Network(network) => write!(f, "{network}"),
            Self::User(user) => write!(f, "user {}", user.0),
        }
    }
}
