//! Fair shares of what clients have together: connections, sessions, opens, bytes, descriptors.
//!
//! A pool keeps [`Books`] of how much of it each consumer holds. A [`Consumer`] is a client by its address
//! and, where it has signed in, its user. It counts to the networks that its address lies in, as of IPv6 a
//! site has a /64 at least, often a /56, sometimes a /48; and to its user, which may come from many
//! addresses. What is free bounds what each of them may hold ([`Shares`]): usually an address, a /64 or a
//! user three times as much as is left to all others, a /56 four times, a /48 six times. So one of them takes
//! three quarters at most, a holder of a whole /48 six sevenths, and a newcomer always finds some.
//!
//! The crate knows no lane and no lock: pools of a lane hold `Books` themselves, those of a process lock them (`lane::budget`).

mod books;
mod consumer;
mod network;
mod shares;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;

pub use self::books::{Books, Short};
pub use self::consumer::{Claimant, Consumer, UserNumber};
pub use self::network::Network;
pub use self::shares::Shares;

/// Takes `count` from what `held` has of a key, and removes a key of which nothing is left.
pub fn give_back<K: Eq + Hash>(held: &mut HashMap<K, usize>, key: K, count: usize) {
    if let Entry::Occupied(mut entry) = held.entry(key) {
        *entry.get_mut() -= count;
        if *entry.get() == 0 {
            entry.remove();
        }
    }
}
