//! Books against a naive model: a list of all that is held, which is counted anew for each question.

use std::net::{IpAddr, Ipv6Addr};

use budget::{Books, Consumer, Network, Shares, Short, UserNumber};
use proptest::prelude::*;

/// Step of a client, with the count that it asks for.
#[derive(Clone, Debug)]
enum Step {
    Take(Consumer, usize),
    Charge(Consumer, usize),
    /// Gives back one of the client's holdings, chosen by this number.
    GiveBack(usize),
    Limit(usize),
}

struct Model {
    limit: usize,
    shares: Shares,
    holdings: Vec<(Consumer, usize)>,
}

impl Model {
    fn held(&self, meant: impl Fn(Consumer) -> bool) -> usize {
        self.holdings.iter().filter(|(consumer, _)| meant(*consumer)).map(|(_, count)| count).sum()
    }

    fn may_take(&self, consumer: Consumer, count: usize) -> bool {
        let free = self.limit.saturating_sub(self.held(|_| true));
        let allows = |times: usize, held: usize| {
            held + count <= (times * free).max(self.shares.min * times / self.shares.address)
        };
        let of = |prefix, times| {
            let network = Network::of(consumer.address, prefix);
            allows(times, self.held(|other| network.contains(other.address)))
        };
        let of_user = consumer.user.is_none()
            || allows(self.shares.address, self.held(|other| other.user == consumer.user));
        let is_v6 = consumer.address.to_canonical().is_ipv6();
        let of_networks =
            of(64, self.shares.address) && (!is_v6 || of(56, self.shares.of_56) && of(48, self.shares.of_48));
        count == 0 && free > 0 || count <= free && (count == 0 || of_networks && of_user)
    }

    fn weight(&self, consumer: Consumer) -> usize {
        let of = |prefix, times| {
            let network = Network::of(consumer.address, prefix);
            self.held(|other| network.contains(other.address)) * self.shares.address / times
        };
        let mut weight = of(64, self.shares.address);
        if consumer.address.to_canonical().is_ipv6() {
            weight = weight.max(of(56, self.shares.of_56)).max(of(48, self.shares.of_48));
        }
        if consumer.user.is_some() {
            weight = weight.max(self.held(|other| other.user == consumer.user));
        }
        weight
    }
}

/// Generates consumers of few networks of each kind, so that they collide.
fn consumer() -> impl Strategy<Value = Consumer> {
    let v4 = (0..3u8).prop_map(|last| IpAddr::from([192, 0, 2, last]));
    let mapped = (0..3u8).prop_map(|last| format!("::ffff:192.0.2.{last}").parse().unwrap());
    let v6 = (0..2u128, 0..3u128, 0..3u128, 0..2u128).prop_map(|(site, of_56, of_64, low)| {
        Ipv6Addr::from_bits(0x2001_0db8 << 96 | site << 80 | of_56 << 72 | of_64 << 64 | low).into()
    });
    let user = prop::option::of((0..3).prop_map(UserNumber));
    (prop_oneof![v4, mapped, v6], user).prop_map(|(address, user)| Consumer { address, user })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (consumer(), 0..9usize).prop_map(|(consumer, count)| Step::Take(consumer, count)),
        1 => (consumer(), 0..9usize).prop_map(|(consumer, count)| Step::Charge(consumer, count)),
        4 => (0..1000usize).prop_map(Step::GiveBack),
        1 => (0..100usize).prop_map(Step::Limit),
    ]
}

proptest! {
    #[test]
    fn books_are_those_of_the_model(steps in prop::collection::vec(step(), 0..200), once: bool, min in 0..6usize) {
        let shares = if once { Shares::ONCE } else { Shares::THRICE }.with_min(min);
        let (mut books, mut model) = (Books::new(60, shares), Model { limit: 60, shares, holdings: Vec::new() });
        for step in steps {
            match step {
                Step::Take(consumer, count) => {
                    let may = model.may_take(consumer, count);
                    let taken = books.take(consumer, count);
                    if count > 0 {
                        prop_assert_eq!(taken.is_ok(), may, "{:?} {}", consumer, count);
                    }
                    if let Err(Short::All) = taken {
                        prop_assert!(count > books.free());
                    }
                    if taken.is_ok() {
                        model.holdings.push((consumer, count));
                    }
                }
                Step::Charge(consumer, count) => {
                    books.charge(consumer, count);
                    model.holdings.push((consumer, count));
                }
                Step::GiveBack(_) if model.holdings.is_empty() => {}
                Step::GiveBack(at) => {
                    let (consumer, count) = model.holdings.swap_remove(at % model.holdings.len());
                    books.give_back(consumer, count);
                }
                Step::Limit(limit) => {
                    books.set_limit(limit);
                    model.limit = limit;
                }
            }
            prop_assert_eq!(books.held(), model.held(|_| true));
            let heaviest = model.holdings.iter().map(|(consumer, _)| model.weight(*consumer)).max();
            for (consumer, _) in &model.holdings {
                prop_assert_eq!(books.weight(*consumer), model.weight(*consumer));
            }
            prop_assert_eq!(books.heaviest().map_or(0, |(_, weight)| weight), heaviest.unwrap_or(0));
        }
        for (consumer, count) in model.holdings.drain(..) {
            books.give_back(consumer, count);
        }
        prop_assert!(books.is_empty() && books.held() == 0, "nothing is left of them");
    }
}
