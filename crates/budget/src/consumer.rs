//! Consumers of a pool, and the shares that they are counted to.

use std::hash::{Hash, Hasher};
use std::net::IpAddr;

use crate::network::Network;
use crate::shares::Shares;

/// Client that takes something of a pool: its address, and its user if it has signed in. Guests and anonymous
/// clients are no user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Consumer {
    /// Address that the client's connection comes from.
    pub address: IpAddr,
    /// User of the client, with one share over all addresses; `None` for guests and anonymous clients.
    pub user: Option<UserNumber>,
}

/// Number of a user in the server's accounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UserNumber(pub i32);

/// Network or user that has a share of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Claimant {
    /// All clients of a network.
    Network(Network),
    /// All clients of a user.
    User(UserNumber),
}

impl Consumer {
    /// Returns the claimants that the client counts for, the narrowest network first, each with its multiple
    /// of what is free.
    pub fn claimants(self, shares: Shares) -> impl Iterator<Item = (Claimant, usize)> {
        let times = [shares.address, shares.of_56, shares.of_48];
        let networks = Network::all_of(self.address).map(Claimant::Network).zip(times);
        networks.chain(self.user.map(|user| (Claimant::User(user), shares.address)))
    }

    /// Returns whether the client counts for this network or user.
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

/// Hashes a claimant as one word, as each take looks it up: clients' networks have no more bits, and
/// collisions are few.
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
