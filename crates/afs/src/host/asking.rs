//! Clients that are being asked who they are: each once at a time, however many of its calls wait for it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};

use rx::source_of;
use rx_lane::AbortCode;

use super::Host;
use super::lane_hosts::BUSY;

/// By address and epoch.
type Key = (SocketAddr, u32);

/// Who is being asked on this lane.
#[derive(Default)]
pub(super) struct Asking {
    all: Rc<RefCell<HashMap<Key, Rc<Question>>>>,
}

/// One client that is being asked.
#[derive(Default)]
pub(super) struct Question {
    answer: RefCell<Option<Result<Arc<Host>, AbortCode>>>,
    waiting: RefCell<Vec<Waker>>,
}

/// Who asks has it, and answers by it; dropped, it says that those who wait are to try again.
pub(super) struct Asker {
    all: Rc<RefCell<HashMap<Key, Rc<Question>>>>,
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
        if let Some(question) = all.get(&key) {
            return Turn::Wait(Rc::clone(question));
        }
        let source = source_of(key.0.ip());
        let of_source = all.keys().filter(|(address, _)| source_of(address.ip()) == source).count();
        if all.len() >= max || of_source >= per_source_max {
            return Turn::Full;
        }
        let question = Rc::new(Question::default());
        all.insert(key, Rc::clone(&question));
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
        self.all.borrow_mut().remove(&self.key);
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
