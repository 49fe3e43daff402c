//! A request's body as it comes over HTTP/2: what has arrived waits here for its handler, and the client may send more
//! when the handler is done with it (RFC 9113 5.2).

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Instant;

use lane::time::timeout_at;
use service::memory::{Account, Charge};

use super::results::{Results, TaskResult};
use crate::request_error::RequestError;

/// One body. It never holds more than its stream's window.
pub(in crate::service) struct Incoming {
    stream: u32,
    length: Option<u64>,
    /// The client asked whether it may send it.
    is_awaited: bool,
    state: RefCell<IncomingState>,
    account: Rc<Account>,
    results: Rc<Results>,
}

#[derive(Default)]
struct IncomingState {
    bytes: Vec<u8>,
    /// Bytes that the handler has.
    given: usize,
    has_ended: bool,
    waker: Option<Waker>,
    held: Option<Charge>,
}

impl Incoming {
    /// Creates the body of `stream`; `length` is what the client has announced.
    pub(super) fn new(
        stream: u32,
        length: Option<u64>,
        is_awaited: bool,
        account: Rc<Account>,
        results: Rc<Results>,
    ) -> Self {
        Self { stream, length, is_awaited, state: RefCell::default(), account, results }
    }

    /// Takes what came, and hears whether it was the last of it.
    pub(super) fn push(&self, bytes: &[u8], ends: bool) {
        let mut state = self.state.borrow_mut();
        state.bytes.extend_from_slice(bytes);
        state.has_ended |= ends;
        self.charge(&mut state);
        state.waker.take().into_iter().for_each(Waker::wake);
    }

    pub(in crate::service) fn length(&self) -> Option<u64> {
        self.length
    }

    /// Lets the client send as fast as the body is taken, as the handler wants it.
    pub(in crate::service) fn invite(&self) {
        let waits = self.is_awaited && self.state.borrow().bytes.is_empty();
        self.results.put(self.stream, TaskResult::Wanted { waits });
    }

    /// Returns what has come, once something has; `None` at the end. What was given before is done with.
    pub(in crate::service) async fn next(&self, deadline: Instant) -> Result<Option<Vec<u8>>, RequestError> {
        self.give_back();
        let next = poll_fn(|cx| {
            let mut state = self.state.borrow_mut();
            if !state.bytes.is_empty() {
                let bytes = std::mem::take(&mut state.bytes);
                state.given = bytes.len();
                return Poll::Ready(Some(bytes));
            }
            if state.has_ended {
                return Poll::Ready(None);
            }
            state.waker = Some(cx.waker().clone());
            Poll::Pending
        });
        timeout_at(deadline, next).await.map_err(|_| RequestError::UploadSlow)
    }

    fn give_back(&self) {
        let mut state = self.state.borrow_mut();
        let given = std::mem::take(&mut state.given);
        if given > 0 {
            self.charge(&mut state);
            self.results.put(self.stream, TaskResult::Taken(given));
        }
    }

    fn charge(&self, state: &mut IncomingState) {
        state.held = None;
        state.held = Some(self.account.charge(state.bytes.len() + state.given));
    }
}
