//! Turns at work that takes the lane's time rather than the network's: one piece of a listing at a time for
//! the whole lane, between all else. Those that wait take turns by address, so a thousand connections of one
//! address slow down one another.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::task::{Context, Poll, Waker};

/// Turns of one lane, by address.
#[derive(Debug, Default)]
pub struct Turns {
    is_taken: Cell<bool>,
    /// Round of the last turn; an address has one turn in each round.
    round: Cell<u64>,
    next_place: Cell<u64>,
    /// Waiters, by rank, by round and by the order of coming.
    queue: RefCell<BTreeMap<(u8, u64, u64), Waker>>,
}

/// Turn of a waiter; the next begins when it is dropped.
#[derive(Debug)]
#[must_use = "it is over when this is dropped"]
pub struct Turn<'a>(&'a Turns);

struct TurnWaiter<'a> {
    turns: &'a Turns,
    rank: u8,
    place: Option<(u8, u64, u64)>,
}

impl Turns {
    /// Waits for the next turn of an address that had its last in the round `last_round`.
    pub async fn take(&self, last_round: &Cell<u64>) -> Turn<'_> {
        self.take_as(0, last_round).await
    }

    /// Waits for a turn of this rank; lower ranks go first.
    pub async fn take_as(&self, rank: u8, last_round: &Cell<u64>) -> Turn<'_> {
        let mut waiting = TurnWaiter { turns: self, rank, place: None };
        poll_fn(|cx| waiting.poll(cx, last_round)).await
    }

    fn wake_first(&self) {
        if let Some((_, waker)) = self.queue.borrow().first_key_value() {
            waker.wake_by_ref();
        }
    }
}

impl<'a> TurnWaiter<'a> {
    fn poll(&mut self, cx: &mut Context<'_>, last_round: &Cell<u64>) -> Poll<Turn<'a>> {
        let turns = self.turns;
        let place = *self.place.get_or_insert_with(|| {
            let number = turns.next_place.get();
            turns.next_place.set(number + 1);
            let round = turns.round.get().max(last_round.get() + 1);
            last_round.set(round);
            (self.rank, round, number)
        });
        let mut queue = turns.queue.borrow_mut();
        let is_first = queue.first_key_value().is_none_or(|(first, _)| *first >= place);
        if turns.is_taken.get() || !is_first {
            queue.insert(place, cx.waker().clone());
            return Poll::Pending;
        }
        queue.remove(&place);
        self.place = None;
        turns.round.set(turns.round.get().max(place.1));
        turns.is_taken.set(true);
        Poll::Ready(Turn(turns))
    }
}

impl Drop for TurnWaiter<'_> {
    /// Leaves the queue, and wakes the next waiter, as a waiter that gives up may have been next.
    fn drop(&mut self) {
        let Some(place) = self.place else { return };
        self.turns.queue.borrow_mut().remove(&place);
        if !self.turns.is_taken.get() {
            self.turns.wake_first();
        }
    }
}

impl Turn<'_> {
    /// Ends the turn, once everything else of the lane that is ready, or came in meanwhile, was done.
    pub async fn end(self) {
        lane::yield_if_due().await;
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.is_taken.set(false);
        self.0.wake_first();
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use lane::backend::sim::{Config, World};

    use super::*;

    #[test]
    fn those_of_a_lower_rank_go_first_and_by_turns_among_themselves() {
        let world = World::new(1, Config::default());
        let host = world.host("10.0.0.1");
        world.block_on(&host, async {
            let (turns, served) = (Rc::new(Turns::default()), Rc::new(RefCell::new(Vec::new())));
            let held = turns.take(&Cell::new(0)).await;
            let begin = |rank: u8, name: &'static str| {
                let (turns, served) = (Rc::clone(&turns), Rc::clone(&served));
                lane::spawn(async move {
                    let turn = turns.take_as(rank, &Cell::new(0)).await;
                    served.borrow_mut().push(name);
                    turn.end().await;
                })
            };
            let all = [begin(2, "c"), begin(1, "b"), begin(2, "d"), begin(0, "a")];
            lane::yield_if_due().await;
            drop(held);
            for one in all {
                one.await;
            }
            assert_eq!(*served.borrow(), ["a", "b", "c", "d"]);
        });
    }

    #[test]
    fn an_address_of_many_connections_has_every_other_turn() {
        let world = World::new(1, Config::default());
        let host = world.host("10.0.0.1");
        world.block_on(&host, async {
            let (turns, served) = (Rc::new(Turns::default()), Rc::new(RefCell::new(Vec::new())));
            let begin = |address: &'static str, last_round: Rc<Cell<u64>>| {
                let (turns, served) = (Rc::clone(&turns), Rc::clone(&served));
                lane::spawn(async move {
                    for _ in 0..3 {
                        let turn = turns.take(&last_round).await;
                        served.borrow_mut().push(address);
                        turn.end().await;
                    }
                })
            };
            let crowd: Rc<Cell<u64>> = Rc::default();
            let mut all: Vec<_> = (0..50).map(|_| begin("crowd", Rc::clone(&crowd))).collect();
            // One that goes away while it waits holds up no other.
            drop(all.remove(7));
            all.push(begin("one", Rc::default()));
            for one in all {
                one.await;
            }
            let served = served.borrow();
            let last = served.iter().rposition(|address| *address == "one").unwrap();
            assert!(
                served.len() >= 49 * 3 && last <= 60,
                "its last turn was the {last}th of {}",
                served.len()
            );
        });
    }
}
