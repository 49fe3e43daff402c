//! Memory of a lane that directories take while clients list them: entries of listings, bytes of pages of names. It is charged to the
//! client that reads a directory before anything is read, and given back with the last user of what was read.
//!
//! A client that has its share waits until some is given back; clients within theirs do not wait for it ([`budget`]).

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

use budget::{Books, Consumer, Shares};
use lane::time::Elapsed;

/// Memory of one kind, in entries or bytes.
#[derive(Debug)]
pub(crate) struct ListingBudget {
    books: RefCell<Books>,
    /// Readers that wait for memory, by the order in which they came.
    waiting: RefCell<BTreeMap<u64, Waker>>,
    next_reader: Cell<u64>,
}

/// A reader that may have to wait; it waits no longer when this is dropped.
struct Waiting<'a> {
    budget: &'a ListingBudget,
    reader: u64,
}

/// Memory that a listing or page takes for as long as this lives.
#[derive(Debug)]
pub(crate) struct ListingCharge {
    budget: Rc<ListingBudget>,
    consumer: Consumer,
    held: usize,
}

impl ListingBudget {
    /// Makes a budget of `limit` entries or bytes, none of which is held.
    pub(crate) fn new(limit: usize) -> Rc<Self> {
        Rc::new(Self {
            books: RefCell::new(Books::new(limit, Shares::THRICE)),
            waiting: RefCell::default(),
            next_reader: Cell::new(0),
        })
    }

    /// Returns the entries or bytes that are held.
    pub(crate) fn held(&self) -> usize {
        self.books.borrow().held()
    }

    /// Charges `count` to a client, as soon as it may have so much. One reading is charged a quarter of all before it
    /// begins at most: [`ListingCharge::settle`] charges what it took.
    ///
    /// # Errors
    /// [`Elapsed`] after ten seconds.
    pub(crate) async fn charge(
        self: &Rc<Self>,
        consumer: Consumer,
        count: usize,
    ) -> Result<ListingCharge, Elapsed> {
        let held = count.min(self.books.borrow().limit() / READINGS_AT_ONCE_MIN);
        let take = || self.books.borrow_mut().take(consumer, held);
        if take().is_err() {
            let reader = self.next_reader.replace(self.next_reader.get() + 1);
            let waiting = Waiting { budget: self, reader };
            let taken = poll_fn(|cx| match take() {
                Ok(()) => Poll::Ready(()),
                Err(_) => {
                    waiting.budget.waiting.borrow_mut().insert(reader, cx.waker().clone());
                    Poll::Pending
                }
            });
            lane::time::timeout(WAIT_MAX, taken).await?;
        }
        Ok(ListingCharge { budget: Rc::clone(self), consumer, held })
    }

    /// Lets all readers that wait try again, in the order in which they came.
    fn wake(&self) {
        let waiting = self.waiting.take();
        waiting.into_values().for_each(Waker::wake);
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.budget.waiting.borrow_mut().remove(&self.reader);
    }
}

impl ListingCharge {
    /// Returns the entries or bytes that are charged.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// Charges what a reading took in place of what it was charged before.
    pub(crate) fn settle(&mut self, held: usize) {
        let mut books = self.budget.books.borrow_mut();
        debug_assert!(self.held <= books.held(), "what a reader holds is charged");
        books.charge(self.consumer, held.saturating_sub(self.held));
        books.give_back(self.consumer, self.held.saturating_sub(held));
        drop(books);
        let is_less = held < self.held;
        self.held = held;
        if is_less {
            self.budget.wake();
        }
    }
}

impl Drop for ListingCharge {
    fn drop(&mut self) {
        self.budget.books.borrow_mut().give_back(self.consumer, self.held);
        self.budget.wake();
    }
}

/// Number of readings that find memory at the same time, whatever their size.
const READINGS_AT_ONCE_MIN: usize = 4;
/// Time for which a reader waits for memory before it is refused: readings take less.
const WAIT_MAX: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use budget::UserNumber;
    use lane::backend::sim::{Config, Remains, World};

    use super::*;

    fn client(last: u8) -> Consumer {
        IpAddr::from([192, 0, 2, last]).into()
    }

    fn in_world<F: Future<Output = ()> + 'static>(test: impl FnOnce() -> F + 'static) {
        let world = World::new(1, Config::clean());
        let host = world.host("10.0.0.1");
        world.block_on(&host, test());
        assert_eq!(world.end(), Remains::default());
    }

    #[test]
    fn a_client_that_has_its_share_waits_and_others_do_not() {
        in_world(|| async {
            let budget = ListingBudget::new(128);
            let mut held = Vec::new();
            for _ in 0..3 {
                held.push(budget.charge(client(1), 32).await.unwrap());
            }
            let began = lane::time::now();
            assert!(budget.charge(client(1), 32).await.is_err());
            assert_eq!(lane::time::now() - began, WAIT_MAX);
            let others = budget.charge(client(2), 32).await.unwrap();
            assert_eq!(budget.held(), 128);
            let of_user = |last| Consumer { user: Some(UserNumber(7)), ..client(last) };
            drop((held, others));
            assert_eq!(budget.held(), 0);
            // A user has one share from all its addresses.
            let mut held = Vec::new();
            for last in 3..6 {
                held.push(budget.charge(of_user(last), 32).await.unwrap());
            }
            assert!(budget.charge(of_user(6), 32).await.is_err());
            assert!(budget.charge(client(6), 32).await.is_ok());
        });
    }

    #[test]
    fn who_waits_is_served_when_memory_is_given_back_the_first_one_first() {
        in_world(|| async {
            let budget = ListingBudget::new(128);
            let mut held = Vec::new();
            for _ in 0..3 {
                held.push(budget.charge(client(1), 32).await.unwrap());
            }
            let served = Rc::new(Cell::new(0));
            let waiters = (1..=3).map(|number| {
                let (budget, served) = (Rc::clone(&budget), Rc::clone(&served));
                lane::spawn(async move {
                    let charge = budget.charge(client(1), 32).await.unwrap();
                    assert_eq!(served.replace(number), number - 1);
                    lane::time::sleep(Duration::from_secs(1)).await;
                    drop(charge);
                })
            });
            let waiters: Vec<_> = waiters.collect();
            lane::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(served.get(), 0);
            held.pop().unwrap().settle(1);
            for waiter in waiters {
                waiter.await;
            }
            assert_eq!(served.get(), 3);
            // A reader that has gone is woken by nothing.
            held.push(budget.charge(client(1), 32).await.unwrap());
            let gone = lane::time::timeout(Duration::from_secs(1), budget.charge(client(1), 32)).await;
            assert!(gone.is_err() && budget.waiting.borrow().is_empty());
            drop(held);
            assert_eq!(budget.held(), 0);
        });
    }

    #[test]
    fn a_reading_is_charged_what_it_took_however_much_that_was() {
        in_world(|| async {
            let budget = ListingBudget::new(128);
            let mut charge = budget.charge(client(1), 1000).await.unwrap();
            assert_eq!(budget.held(), 32);
            charge.settle(500);
            assert_eq!(budget.held(), 500);
            charge.settle(3);
            assert_eq!(budget.held(), 3);
            drop(charge);
            assert!(budget.books.borrow().is_empty());
        });
    }
}
