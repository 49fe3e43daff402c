//! Resources of which a process has a bounded number, such as descriptors: accounts of each client's share
//! ([`::budget`]), common to all lanes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ::budget::{Books, Consumer, Shares, Short};

/// A bounded number of resources, with the number that each client holds.
#[derive(Debug)]
pub struct Budget {
    books: Mutex<Books>,
    counters: Arc<BudgetCounters>,
}

/// Part of a [`Budget`] that a client holds until the share is dropped.
#[derive(Debug)]
pub struct Share {
    budget: Arc<Budget>,
    consumer: Consumer,
    count: usize,
}

crate::counter_block! {
    /// Counters of a budget.
    pub struct BudgetCounters {
        gauge limit: "How many clients may hold together.",
        gauge held: "How many clients hold.",
        count refused_all as refused [why = "all"]: "Refused to clients: all were in use, or the client held its share.",
        count refused_share as refused [why = "share"]: "Refused to clients: all were in use, or the client held its share.",
    }
}

impl Budget {
    /// Makes a budget of `limit` resources.
    pub fn new(limit: usize) -> Arc<Self> {
        let budget = Self { books: Mutex::new(Books::new(limit, Shares::THRICE)), counters: Arc::default() };
        budget.counters.limit.set(limit as u64);
        Arc::new(budget)
    }

    /// Sets the number of resources from now on. A client that holds more keeps them.
    pub fn set_limit(&self, limit: usize) {
        self.books().set_limit(limit);
        self.counters.limit.set(limit as u64);
    }

    /// Returns the counters of the budget.
    pub fn counters(&self) -> &Arc<BudgetCounters> {
        &self.counters
    }

    /// Takes `count` more resources for a client.
    ///
    /// # Errors
    /// [`Short`], which is counted.
    pub fn take(self: &Arc<Self>, consumer: impl Into<Consumer>, count: usize) -> Result<Share, Short> {
        let (consumer, mut books) = (consumer.into(), self.books());
        books.take(consumer, count).inspect_err(|short| match short {
            Short::All => self.counters.refused_all.increment(),
            Short::Share(_) => self.counters.refused_share.increment(),
        })?;
        Ok(self.given(&books, consumer, count))
    }

    /// Charges the client in any case, for resources held already or for uses that give way by themselves.
    pub fn charge(self: &Arc<Self>, consumer: impl Into<Consumer>, count: usize) -> Share {
        let (consumer, mut books) = (consumer.into(), self.books());
        books.charge(consumer, count);
        self.given(&books, consumer, count)
    }

    fn given(self: &Arc<Self>, books: &Books, consumer: Consumer, count: usize) -> Share {
        self.counters.held.set(books.held() as u64);
        Share { budget: Arc::clone(self), consumer, count }
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut books = self.budget.books();
        books.give_back(self.consumer, self.count);
        self.budget.counters.held.set(books.held() as u64);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv6Addr};

    use ::budget::UserNumber;

    use super::*;

    #[test]
    fn what_is_held_is_given_back_when_it_is_dropped() {
        let budget = Budget::new(100);
        let mapped: IpAddr = "::ffff:192.0.2.1".parse().unwrap();
        let held = budget.charge(mapped, 75);
        let again = budget.take(IpAddr::from([192, 0, 2, 1]), 1);
        assert!(matches!(again, Err(Short::Share(_))), "an IPv4 address is the same in IPv6");
        assert!(budget.take(IpAddr::from([192, 0, 2, 2]), 1).is_ok());
        assert_eq!(budget.take(IpAddr::from([192, 0, 2, 3]), 26).err(), Some(Short::All));
        assert_eq!((budget.counters().refused_share.get(), budget.counters().refused_all.get()), (1, 1));
        budget.set_limit(10);
        assert_eq!(budget.take(IpAddr::from([192, 0, 2, 4]), 1).err(), Some(Short::All));
        drop(held);
        assert!(budget.books().is_empty());
        assert_eq!((budget.counters().held.get(), budget.counters().limit.get()), (0, 10));
    }

    #[test]
    fn a_user_leaves_some_to_others_from_however_many_addresses() {
        let budget = Budget::new(7_000);
        let at = |high: u128, user| Consumer {
            address: Ipv6Addr::from_bits(0x2001_0db8 << 96 | high << 80).into(),
            user: Some(UserNumber(user)),
        };
        let mut held = Vec::new();
        while let Ok(share) = budget.take(at(held.len() as u128, 7), 1) {
            held.push(share);
        }
        assert_eq!(held.len(), 7_000 * 3 / 4);
        assert!(budget.take(at(0, 8), 16).is_ok(), "from an address of his, too");
    }
}
