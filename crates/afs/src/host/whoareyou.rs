//! RXAFSCB_WhoAreYou calls under way: one for each client at a time, however many of its calls wait for the answer.

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};

use budget::{Books, Claimant, Network, Shares};
use rx_lane::AbortCode;

use super::Host;
use super::refusals::BUSY;

/// The address and epoch of the client that is asked.
type QueryKey = (SocketAddr, u32);

/// The WhoAreYou calls of one lane.
#[derive(Default)]
pub(super) struct WhoAreYouQueries {
    all: Rc<RefCell<QueryTable>>,
}

struct QueryTable {
    queries: HashMap<QueryKey, Rc<WhoAreYouQuery>>,
    /// Numbers of queries by source. Each call passes the limit.
    books: Books,
}

impl Default for QueryTable {
    fn default() -> Self {
        Self { queries: HashMap::new(), books: Books::new(0, Shares::THRICE) }
    }
}

/// One WhoAreYou call, and the calls that wait for its answer.
#[derive(Default)]
pub(super) struct WhoAreYouQuery {
    answer: RefCell<Option<Result<Arc<Host>, AbortCode>>>,
    waiting: RefCell<Vec<Waker>>,
}

/// The right to answer one query. Dropped unanswered, it has the calls that wait answered with VBUSY.
pub(super) struct QueryOwner {
    all: Rc<RefCell<QueryTable>>,
    key: QueryKey,
    query: Rc<WhoAreYouQuery>,
}

/// Next step of a call that needs a client's identity.
pub(super) enum QueryTurn {
    /// Waits for the query that is under way already.
    Wait(Rc<WhoAreYouQuery>),
    /// Asks, and waits.
    Ask(QueryOwner, Rc<WhoAreYouQuery>),
    /// The lane asks too many clients already, or too many of this address.
    Full,
}

impl WhoAreYouQueries {
    /// Returns whether this call makes the query, or waits for another.
    pub(super) fn turn(&self, key: QueryKey, max: usize, per_source_max: usize) -> QueryTurn {
        let mut all = self.all.borrow_mut();
        if let Some(query) = all.queries.get(&key) {
            return QueryTurn::Wait(Rc::clone(query));
        }
        let address = key.0.ip();
        let of_source = all.books.held_by(Claimant::Network(Network::of_client(address)));
        all.books.set_limit(max);
        if of_source >= per_source_max || all.books.take(address.into(), 1).is_err() {
            return QueryTurn::Full;
        }
        let query = Rc::new(WhoAreYouQuery::default());
        all.queries.insert(key, Rc::clone(&query));
        let owner = QueryOwner { all: Rc::clone(&self.all), key, query: Rc::clone(&query) };
        QueryTurn::Ask(owner, query)
    }
}

impl QueryOwner {
    pub(super) fn answer(self, answer: Result<Arc<Host>, AbortCode>) {
        *self.query.answer.borrow_mut() = Some(answer);
    }
}

impl Drop for QueryOwner {
    fn drop(&mut self) {
        let mut all = self.all.borrow_mut();
        all.queries.remove(&self.key);
        all.books.give_back(self.key.0.ip().into(), 1);
        drop(all);
        self.query.answer.borrow_mut().get_or_insert(Err(BUSY));
        self.query.waiting.take().into_iter().for_each(Waker::wake);
    }
}

impl WhoAreYouQuery {
    /// Waits for the answer.
    pub(super) async fn answered(&self) -> Result<Arc<Host>, AbortCode> {
        poll_fn(|cx| match &*self.answer.borrow() {
            Some(answer) => Poll::Ready(answer.clone()),
            None => {
                self.waiting.borrow_mut().push(cx.waker().clone());
                Poll::Pending
            }
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv6Addr};

    use super::*;

    #[test]
    fn clients_of_one_network_leave_questions_to_others() {
        let v6 = |high: u128| IpAddr::from(Ipv6Addr::from_bits(0x2001_0db8 << 96 | high << 64 | 1));
        // By /56 and by /48, and by one address.
        for (step, share) in [(1, 80), (256, 86), (0, 16)] {
            let whoareyou = WhoAreYouQueries::default();
            let turn = |address: IpAddr, n: u16| match whoareyou.turn(
                (SocketAddr::new(address, 7001), u32::from(n)),
                100,
                16,
            ) {
                QueryTurn::Ask(owner, _) => Some(owner),
                QueryTurn::Wait(_) | QueryTurn::Full => None,
            };
            let askers: Vec<_> = (0..200).filter_map(|n| turn(v6(u128::from(n % 100) * step), n)).collect();
            assert_eq!(askers.len(), share);
            assert!(turn(IpAddr::from([192, 0, 2, 1]), 0).is_some());
            drop(askers);
            let all = whoareyou.all.borrow();
            assert!(all.books.is_empty() && all.queries.is_empty());
        }
    }
}
