//! The queue of administrators' requests, which threads fill and lanes take from.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

/// A request of an administrator, which one lane takes and answers.
#[derive(Debug)]
pub(crate) struct AdminRequest {
    pub(crate) command: AdminCommand,
    answer: SyncSender<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AdminCommand {
    Opens,
    Locks,
    EndSession(u64),
    CloseOpen(u64),
}

/// Requests of administrators that no lane has taken yet.
#[derive(Debug, Default)]
pub(crate) struct AdminRequests(Mutex<RequestQueue>);

#[derive(Debug, Default)]
struct RequestQueue {
    requests: VecDeque<AdminRequest>,
    /// Some lane has taken questions, or would.
    is_served: bool,
    /// Lanes that would take one.
    lanes: Vec<Waker>,
}

impl AdminRequests {
    /// Queues a request and blocks until a lane has answered it; `None` when no lane does.
    pub(crate) fn ask(&self, command: AdminCommand) -> Option<String> {
        let (answer, answered) = sync_channel(1);
        let lanes = {
            let mut waiting = self.lock();
            if !waiting.is_served || waiting.requests.len() >= REQUESTS_MAX {
                return None;
            }
            waiting.requests.push_back(AdminRequest { command, answer });
            std::mem::take(&mut waiting.lanes)
        };
        // Some may be at their end; those that are not see which is first.
        lanes.into_iter().for_each(Waker::wake);
        answered.recv_timeout(PATIENCE).ok()
    }

    /// Waits for the next request.
    pub(crate) async fn next(&self) -> AdminRequest {
        poll_fn(|cx| {
            let mut waiting = self.lock();
            waiting.is_served = true;
            if let Some(request) = waiting.requests.pop_front() {
                return Poll::Ready(request);
            }
            if !waiting.lanes.iter().any(|lane| lane.will_wake(cx.waker())) {
                waiting.lanes.push(cx.waker().clone());
            }
            Poll::Pending
        })
        .await
    }

    fn lock(&self) -> MutexGuard<'_, RequestQueue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AdminRequest {
    /// Sends the answer; `None` means that there is no such thing.
    pub(crate) fn answer(self, answer: Option<String>) {
        if let Some(answer) = answer {
            // The caller may have given up.
            let _ = self.answer.send(answer);
        }
    }
}

/// Most requests of administrators that wait at once.
const REQUESTS_MAX: usize = 16;
const PATIENCE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::Arc;
    use std::task::Context;

    use super::*;

    #[test]
    fn a_question_is_answered_once_by_whichever_lane_comes_and_by_none_where_nothing_is_served() {
        let asked = Arc::new(AdminRequests::default());
        assert_eq!(asked.ask(AdminCommand::Opens), None, "nobody is there to wait for");
        let mut context = Context::from_waker(Waker::noop());
        let (mut one, mut other) = (pin!(asked.next()), pin!(asked.next()));
        assert!(one.as_mut().poll(&mut context).is_pending());
        let asks = Arc::clone(&asked);
        let asking = std::thread::spawn(move || asks.ask(AdminCommand::EndSession(7)));
        let request = loop {
            if let Poll::Ready(request) = one.as_mut().poll(&mut context) {
                break request;
            }
            std::thread::yield_now();
        };
        assert!(other.as_mut().poll(&mut context).is_pending(), "one lane has it");
        assert_eq!(request.command, AdminCommand::EndSession(7));
        request.answer(Some("done".to_owned()));
        assert_eq!(asking.join().unwrap().as_deref(), Some("done"));
    }
}
