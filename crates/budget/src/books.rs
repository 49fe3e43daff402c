//! Accounts of a bounded pool: how many of it each consumer holds.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::consumer::{Claimant, Consumer};
use crate::network::Network;
use crate::shares::Shares;

/// Size of a pool, and how many of it each consumer holds. What is taken costs one look-up for an IPv4
/// address, three for one of IPv6, one more for a user.
#[derive(Debug)]
pub struct Books {
    limit: usize,
    held: usize,
    shares: Shares,
    claimants: HashMap<Claimant, usize>,
}

/// Reason why a client may take no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Short {
    /// The pool has fewer free than the client wants.
    #[error("all are in use")]
    All,
    /// A network that the client lies in, or its user, holds its share.
    #[error("the clients of {0} hold as many as they may")]
    Share(Claimant),
}

impl Books {
    /// Makes books over a pool of `limit`, of which nothing is held.
    pub fn new(limit: usize, shares: Shares) -> Self {
        Self { limit, held: 0, shares, claimants: HashMap::new() }
    }

    /// Sets the size of the pool. A consumer that holds more keeps it.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Returns the size of the pool.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Returns how much of the pool is held, which charges may raise above its size.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Returns how much of the pool is free.
    pub fn free(&self) -> usize {
        self.limit.saturating_sub(self.held)
    }

    /// Returns whether nothing of the pool is held.
    pub fn is_empty(&self) -> bool {
        self.claimants.is_empty()
    }

    /// Returns how much of the pool a network or a user holds.
    pub fn held_by(&self, claimant: Claimant) -> usize {
        self.claimants.get(&claimant).copied().unwrap_or_default()
    }

    /// Checks whether a client may take `count` more.
    ///
    /// # Errors
    /// [`Short`].
    pub fn may_take(&self, consumer: Consumer, count: usize) -> Result<(), Short> {
        let free = self.free();
        if count > free {
            return Err(Short::All);
        }
        self.over_share(consumer, count).map_or(Ok(()), |claimant| Err(Short::Share(claimant)))
    }

    /// Returns the claimant whose share a client would exceed with `count` more, however many the pool has
    /// free.
    pub fn over_share(&self, consumer: Consumer, count: usize) -> Option<Claimant> {
        let free = self.free();
        let mut claimants = consumer.claimants(self.shares);
        let over = claimants.find(|&(claimant, times)| {
            self.held_by(claimant).saturating_add(count) > self.shares.may_hold(times, free)
        });
        over.map(|(claimant, _)| claimant)
    }

    /// Takes `count` more for a client, unless the pool or a share is too small.
    ///
    /// # Errors
    /// [`Short`]: nothing is taken.
    pub fn take(&mut self, consumer: Consumer, count: usize) -> Result<(), Short> {
        let free = self.free();
        if count > free {
            return Err(Short::All);
        }
        if count == 0 {
            return Ok(());
        }
        for (at, (claimant, times)) in consumer.claimants(self.shares).enumerate() {
            let may_hold = self.shares.may_hold(times, free);
            let is_short = match self.claimants.entry(claimant) {
                Entry::Occupied(entry) if entry.get().saturating_add(count) > may_hold => true,
                Entry::Vacant(_) if count > may_hold => true,
                entry => {
                    *entry.or_default() += count;
                    false
                }
            };
            if is_short {
                // What was counted to narrower networks before.
                consumer.claimants(self.shares).take(at).for_each(|(before, _)| self.subtract(before, count));
                return Err(Short::Share(claimant));
            }
        }
        self.held += count;
        Ok(())
    }

    /// Charges `count` to a client even above its share: for what the client holds already, or what gives way
    /// by itself.
    pub fn charge(&mut self, consumer: Consumer, count: usize) {
        if count == 0 {
            return;
        }
        for (claimant, _) in consumer.claimants(self.shares) {
            *self.claimants.entry(claimant).or_default() += count;
        }
        self.held += count;
    }

    /// Gives back `count` that the same client took or was charged.
    ///
    /// # Panics
    /// Where it holds fewer.
    pub fn give_back(&mut self, consumer: Consumer, count: usize) {
        if count == 0 {
            return;
        }
        consumer.claimants(self.shares).for_each(|(claimant, _)| self.subtract(claimant, count));
        self.held = self.held.checked_sub(count).expect("what is given back was taken");
    }

    /// Returns the weight of a client: the most that one of its networks or its user holds, in proportion to
    /// the share. The greatest counts.
    pub fn weight(&self, consumer: Consumer) -> usize {
        self.heaviest_of(consumer).1
    }

    /// Returns which of a client's networks and its user weighs most in proportion to its share, and that
    /// weight.
    pub fn heaviest_of(&self, consumer: Consumer) -> (Claimant, usize) {
        let claimants = consumer.claimants(self.shares);
        let weights =
            claimants.map(|(claimant, times)| (claimant, self.shares.weight(self.held_by(claimant), times)));
        let heaviest = weights.max_by_key(|&(claimant, weight)| (weight, std::cmp::Reverse(claimant)));
        heaviest.expect("every client has an address")
    }

    /// Returns all claimants that hold something, each with its weight in proportion to its share
    /// ([`Books::weight`]).
    pub fn weights(&self) -> impl Iterator<Item = (Claimant, usize)> {
        self.claimants.iter().map(|(&claimant, &held)| {
            let times = match claimant {
                Claimant::User(_) => self.shares.address,
                Claimant::Network(network) => self.times_of(network),
            };
            (claimant, self.shares.weight(held, times))
        })
    }

    /// Returns the claimant that holds most in proportion to its share, which gives way first, and its
    /// weight. Looks at all claimants that hold something.
    pub fn heaviest(&self) -> Option<(Claimant, usize)> {
        self.weights().max_by_key(|&(claimant, weight)| (weight, std::cmp::Reverse(claimant)))
    }

    fn subtract(&mut self, claimant: Claimant, count: usize) {
        let Entry::Occupied(mut entry) = self.claimants.entry(claimant) else {
            panic!("{count} are given back of {claimant}, which holds none");
        };
        *entry.get_mut() = entry.get().checked_sub(count).expect("what is given back was taken");
        if *entry.get() == 0 {
            entry.remove();
        }
    }

    fn times_of(&self, network: Network) -> usize {
        match network.prefix {
            _ if network.is_client() => self.shares.address,
            56 => self.shares.of_56,
            _ => self.shares.of_48,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv6Addr};

    use super::*;
    use crate::consumer::UserNumber;

    fn v6(high: u128, low: u128) -> IpAddr {
        Ipv6Addr::from_bits(0x2001_0db8 << 96 | high << 64 | low).into()
    }

    /// Takes one at a time for each of `consumers` in turn until all are refused, and returns how much they
    /// hold then.
    fn take_all(books: &mut Books, consumers: &[Consumer]) -> usize {
        loop {
            let before = books.held();
            for &consumer in consumers {
                let may = books.may_take(consumer, 1);
                assert_eq!(books.take(consumer, 1), may);
            }
            if books.held() == before {
                return books.held();
            }
        }
    }

    #[test]
    fn a_client_leaves_some_to_others_however_wide_its_network_is_and_wherever_its_user_is() {
        let of_64: Vec<_> = (0..256).map(|low| v6(0, low).into()).collect();
        let of_56: Vec<_> = (0..256).map(|high| v6(high, 1).into()).collect();
        let of_48: Vec<_> = (0..4096).map(|high| v6(high * 16, 1).into()).collect();
        let user = Some(UserNumber(7));
        let of_user: Vec<_> =
            (0..250).map(|last| Consumer { address: [192, 0, 2, last].into(), user }).collect();
        for shares in [Shares::THRICE, Shares::ONCE] {
            let levels = [
                (&of_64, shares.address),
                (&of_56, shares.of_56),
                (&of_48, shares.of_48),
                (&of_user, shares.address),
            ];
            for (consumers, times) in levels {
                let mut books = Books::new(7_000, shares);
                let held = take_all(&mut books, consumers);
                assert!(held <= times * (books.free() + 1) && held + 2 >= times * books.free(), "{held}");
                assert!(matches!(books.take(consumers[0], 1), Err(Short::Share(_))));
                for other in ["198.51.100.7", "2001:db8:1::1"] {
                    let other = Consumer { address: other.parse().unwrap(), user: Some(UserNumber(8)) };
                    assert_eq!(books.take(other, 16), Ok(()), "a newcomer finds some");
                }
            }
        }
    }

    #[test]
    fn last_ones_go_to_who_has_few() {
        let mut books = Books::new(40, Shares::ONCE.with_min(16));
        let taken = |books: &mut Books, last| {
            (0..100).filter(|_| books.take(IpAddr::from([192, 0, 2, last]).into(), 1).is_ok()).count()
        };
        assert_eq!((taken(&mut books, 1), taken(&mut books, 2), taken(&mut books, 3)), (20, 16, 4));
        assert_eq!(books.take(IpAddr::from([192, 0, 2, 4]).into(), 1), Err(Short::All));
    }

    #[test]
    fn who_holds_most_is_known_in_proportion_to_its_share() {
        let mut books = Books::new(1000, Shares::THRICE);
        let one = Consumer::from(IpAddr::from([192, 0, 2, 1]));
        books.charge(one, 30);
        // As much by a site as by an address weighs half.
        (0..40).for_each(|high| books.charge(v6(high * 256, 1).into(), 1));
        assert_eq!((books.weight(one), books.weight(v6(0, 9).into())), (30, 20));
        assert_eq!(books.heaviest(), Some((Claimant::Network(Network::of_client(one.address)), 30)));
        (40..80).for_each(|high| books.charge(v6(high * 256, 1).into(), 1));
        assert_eq!(books.heaviest(), Some((Claimant::Network(Network::of(v6(0, 0), 48)), 40)));
        let user = Some(UserNumber(7));
        (0..50).for_each(|last| books.charge(Consumer { address: [10, 0, 0, last].into(), user }, 1));
        assert_eq!(books.heaviest(), Some((Claimant::User(UserNumber(7)), 50)));
    }

    #[test]
    #[should_panic(expected = "given back")]
    fn more_than_was_taken_is_not_given_back() {
        let mut books = Books::new(10, Shares::THRICE);
        books.charge(v6(1, 1).into(), 1);
        books.charge(v6(2, 1).into(), 1);
        books.give_back(v6(1, 1).into(), 2);
    }
}
