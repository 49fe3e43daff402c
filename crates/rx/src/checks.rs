//! Security classes' checks and makings of RESPONSEs: their number, their clients, and those with an answer.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Wake, Waker};

use crate::event::ConnectionHandle;
use crate::source::source_of;

/// Checks of one endpoint.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    running: Vec<RunningCheck>,
    board: Arc<Board>,
}

/// Check under way, or one whose connection has ended while a helper still works on it.
#[derive(Debug)]
struct RunningCheck {
    connection: ConnectionHandle,
    address: IpAddr,
    /// Waker of the class, which its clones keep alive.
    answer: Weak<AnswerWaker>,
    ended: bool,
}

/// Board where classes note, from any thread, that an answer is there.
#[derive(Debug, Default)]
struct Board {
    /// Flag that spares the lane the lock while no answer is there.
    any: AtomicBool,
    state: Mutex<BoardState>,
}

#[derive(Debug, Default)]
struct BoardState {
    answered: Vec<ConnectionHandle>,
    /// Waker of the driver's task.
    driver: Option<Waker>,
}

/// Waker for a class, which notes the answer of its connection.
#[derive(Debug)]
pub(crate) struct AnswerWaker {
    board: Arc<Board>,
    connection: ConnectionHandle,
}

impl Checks {
    /// Returns whether one more check may begin for `address`, where `max` may run, or half of them for an
    /// unproved address.
    pub(crate) fn has_room(&mut self, address: IpAddr, proved: bool, max: usize) -> bool {
        self.running.retain(|check| !check.ended || check.answer.strong_count() > 0);
        let share = (max / SHARES).max(1);
        let source = source_of(address);
        let of_source = self.running.iter().filter(|check| check.address == source).count();
        let limit = if proved { max } else { max.div_ceil(2) };
        self.running.len() < limit && of_source < share
    }

    pub(crate) fn begin(&mut self, connection: ConnectionHandle, address: IpAddr, answer: &Arc<AnswerWaker>) {
        let (address, answer) = (source_of(address), Arc::downgrade(answer));
        self.running.push(RunningCheck { connection, address, answer, ended: false });
    }

    /// Ends a check that has a verdict, or that no connection waits for any more.
    pub(crate) fn end(&mut self, connection: ConnectionHandle) {
        for check in self.running.iter_mut().filter(|check| check.connection == connection) {
            check.ended = true;
        }
        self.running.retain(|check| !check.ended || check.answer.strong_count() > 0);
    }

    /// Returns the number of checks under way, also those that a helper has and no connection waits for.
    pub(crate) fn count(&self) -> usize {
        self.running.iter().filter(|check| !check.ended || check.answer.strong_count() > 0).count()
    }

    /// Returns the waker of the connection's check; the same until the check ends.
    pub(crate) fn answer(&self, connection: ConnectionHandle) -> Arc<AnswerWaker> {
        let known = self.running.iter().find(|check| check.connection == connection && !check.ended);
        known
            .and_then(|check| check.answer.upgrade())
            .unwrap_or_else(|| Arc::new(AnswerWaker { board: Arc::clone(&self.board), connection }))
    }

    /// Takes the connections whose check has an answer.
    pub(crate) fn take_answered(&self) -> Vec<ConnectionHandle> {
        if !self.board.any.swap(false, Ordering::AcqRel) {
            return Vec::new();
        }
        std::mem::take(&mut self.board.lock().answered)
    }

    /// Registers `driver` to be woken with the next answer, if a check runs.
    pub(crate) fn register(&self, driver: &Waker) {
        if self.running.is_empty() {
            return;
        }
        let mut state = self.board.lock();
        if !state.driver.as_ref().is_some_and(|known| known.will_wake(driver)) {
            state.driver = Some(driver.clone());
        }
        if !state.answered.is_empty() {
            driver.wake_by_ref();
        }
    }
}

impl Board {
    /// Locks the state, also after a panic of another holder, which leaves no entry half written.
    fn lock(&self) -> MutexGuard<'_, BoardState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for AnswerWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut state = self.board.lock();
        // One entry each: a class may wake as often as it likes.
        if !state.answered.contains(&self.connection) {
            state.answered.push(self.connection);
        }
        self.board.any.store(true, Ordering::Release);
        let driver = state.driver.take();
        drop(state);
        driver.into_iter().for_each(Waker::wake);
    }
}

/// Parts into which the checks of an endpoint are divided; one host has at most one part.
const SHARES: usize = 8;
