//! Results that the tasks of a connection leave for its session.

use std::cell::RefCell;
use std::task::{Context, Waker};

use service::memory::Charge;

use super::body::StreamBody;
use crate::service::abort::Abort;
use crate::service::reply::Reply;

/// Results of tasks for a connection.
#[derive(Default)]
pub(super) struct Results {
    pub(super) done: RefCell<Vec<(u32, TaskResult)>>,
    waker: RefCell<Option<Waker>>,
}

/// Result of one task.
pub(super) enum TaskResult {
    Answer(Reply),
    /// The handler wants the request's body, and the client waits to hear so, or does not.
    Wanted {
        waits: bool,
    },
    /// The user of a request whose answer is being sent is gone.
    UserGone,
    /// The client of a request that was answered before its end has had time to see that.
    EndUpload,
    /// The handler has taken so much of the request's body.
    Taken(usize),
    Fetched(StreamBody, Result<Vec<u8>, Abort>, Charge),
}

impl Results {
    pub(super) fn put(&self, stream: u32, done: TaskResult) {
        self.done.borrow_mut().push((stream, done));
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    pub(super) fn register(&self, cx: &Context<'_>) {
        let mut waker = self.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
    }
}
