//! Clients that are being asked who they are: each once at a time, however many of its calls wait for it.

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
use super::lane_hosts::BUSY;

/// By address and epoch.
type Key = (SocketAddr, u32);

/// Who is being asked on this lane.
#[derive(Default)]
pub(super) struct Asking {
    all: Rc<RefCell<All>>,
}

struct All {
    questions: HashMap<Key, Rc<Question>>,
    /// Of whom. How many there may be is told with each.
    books: Books,
}

impl Default for All {
    fn default() -> Self {
        Self { questions: HashMap::new(), books: Books::new(0, Shares::THRICE) }
    }
}

/// One client that is being asked.
#[derive(Default)]
pub(super) struct Question {
    answer: RefCell<Option<Result<Arc<Host>, AbortCode>>>,
    waiting: RefCell<Vec<Waker>>,
}

/// Who asks has it, and answers by it; dropped, it says that those who wait are to try again.
pub(super) struct Asker {
    all: Rc<RefCell<All>>,
    key: Key,
    question: Rc<Question>,
}

/// What somebody who wants to know does.
pub(super) enum Turn {
    /// Waits for who asks already.
    Wait(Rc<Question>),
    /// Asks, and waits.
    Ask(Asker, Rc<Question>),
    /// Too many are being asked, or too many of this address.
    Full,
}

impl Asking {
    /// Whose turn it is.
    pub(super) fn turn(&self, key: Key, max: usize, per_source_max: usize) -> Turn {
        let mut all = self.all.borrow_mut();
        if let Some(question) = all.questions.get(&key) {
            return Turn::Wait(Rc::clone(question));
        }
        let address = key.0.ip();
        let of_source = all.books.held_by(Claimant::Network(Network::of_client(address)));
        all.books.set_limit(max);
        if of_source >= per_source_max || all.books.take(address.into(), 1).is_err() {
            return Turn::Full;
        }
        let question = Rc::new(Question::default());
        all.questions.insert(key, Rc::clone(&question));
        let asker = Asker { all: Rc::clone(&self.all), key, question: Rc::clone(&question) };
        Turn::Ask(asker, question)
    }
}

impl Asker {
    pub(super) fn answer(self, answer: Result<Arc<Host>, AbortCode>) {
        *self.question.answer.borrow_mut() = Some(answer);
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        let mut all = self.all.borrow_mut();
        all.questions.remove(&self.key);
        all.books.give_back(self.key.0.ip().into(), 1);
        drop(all);
        self.question.answer.borrow_mut().get_or_insert(Err(BUSY));
        self.question.waiting.take().into_iter().for_each(Waker::wake);
    }
}

impl Question {
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
            let asking = Asking::default();
            let turn = |address: IpAddr, n: u16| match asking.turn(
                (SocketAddr::new(address, 7001), u32::from(n)),
                100,
                16,
            ) {
                Turn::Ask(asker, _) => Some(asker),
                Turn::Wait(_) | Turn::Full => None,
            };
            let askers: Vec<_> = (0..200).filter_map(|n| turn(v6(u128::from(n % 100) * step), n)).collect();
            assert_eq!(askers.len(), share);
            assert!(turn(IpAddr::from([192, 0, 2, 1]), 0).is_some());
            drop(askers);
            let all = asking.all.borrow();
            assert!(all.books.is_empty() && all.questions.is_empty());
        }
    }
}
