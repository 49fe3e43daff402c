//! What lanes are asked by threads beside them.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

/// One question or order, which one lane takes.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) what: What,
    answer: SyncSender<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Opens,
    Locks,
    EndSession(u64),
    CloseOpen(u64),
}

/// Questions that no lane has taken yet.
#[derive(Debug, Default)]
pub(crate) struct Asked(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    questions: VecDeque<Question>,
    /// Some lane has taken questions, or would.
    is_served: bool,
    /// Lanes that would take one.
    lanes: Vec<Waker>,
}

impl Asked {
    /// The answer of some lane; `None` where there is none. Waits.
    pub(crate) fn ask(&self, what: What) -> Option<String> {
        let (answer, answered) = sync_channel(1);
        let lanes = {
            let mut waiting = self.lock();
            if !waiting.is_served || waiting.questions.len() >= QUESTIONS_MAX {
                return None;
            }
            waiting.questions.push_back(Question { what, answer });
            std::mem::take(&mut waiting.lanes)
        };
        // Some may be at their end; those that are not see who is first.
        lanes.into_iter().for_each(Waker::wake);
        answered.recv_timeout(PATIENCE).ok()
    }

    /// The next question for a lane.
    pub(crate) async fn next(&self) -> Question {
        poll_fn(|cx| {
            let mut waiting = self.lock();
            waiting.is_served = true;
            if let Some(question) = waiting.questions.pop_front() {
                return Poll::Ready(question);
            }
            if !waiting.lanes.iter().any(|lane| lane.will_wake(cx.waker())) {
                waiting.lanes.push(cx.waker().clone());
            }
            Poll::Pending
        })
        .await
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Question {
    /// `None`: there is no such thing.
    pub(crate) fn answer(self, answer: Option<String>) {
        if let Some(answer) = answer {
            // Who asked may have had no more patience.
            let _ = self.answer.send(answer);
        }
    }
}

/// As many as administrators ask at once.
const QUESTIONS_MAX: usize = 16;
const PATIENCE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::Arc;
    use std::task::Context;

    use super::*;

    #[test]
    fn a_question_is_answered_once_by_whichever_lane_comes_and_by_none_where_nothing_is_served() {
        let asked = Arc::new(Asked::default());
        assert_eq!(asked.ask(What::Opens), None, "nobody is there to wait for");
        let mut context = Context::from_waker(Waker::noop());
        let (mut one, mut other) = (pin!(asked.next()), pin!(asked.next()));
        assert!(one.as_mut().poll(&mut context).is_pending());
        let asks = Arc::clone(&asked);
        let asking = std::thread::spawn(move || asks.ask(What::EndSession(7)));
        let question = loop {
            if let Poll::Ready(question) = one.as_mut().poll(&mut context) {
                break question;
            }
            std::thread::yield_now();
        };
        assert!(other.as_mut().poll(&mut context).is_pending(), "one lane has it");
        assert_eq!(question.what, What::EndSession(7));
        question.answer(Some("done".to_owned()));
        assert_eq!(asking.join().unwrap().as_deref(), Some("done"));
    }
}
