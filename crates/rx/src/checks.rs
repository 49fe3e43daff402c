//! RESPONSEs that security classes are checking: how many, for whom, and which of them have an answer.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

use crate::event::ConnectionHandle;

/// The checks of one endpoint.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    running: Vec<(ConnectionHandle, IpAddr)>,
    board: Arc<Board>,
}

/// Where classes say, from any thread, that an answer is there.
#[derive(Debug, Default)]
struct Board {
    /// Spares the lane the lock while nothing has happened.
    any: AtomicBool,
    state: Mutex<BoardState>,
}

#[derive(Debug, Default)]
struct BoardState {
    answered: Vec<ConnectionHandle>,
    /// The driver's task.
    driver: Option<Waker>,
}

/// The waker that a class gets.
#[derive(Debug)]
struct Answer {
    board: Arc<Board>,
    connection: ConnectionHandle,
}

impl Checks {
    /// Whether one more check may begin for `address`, where `max` may run.
    pub(crate) fn has_room(&self, address: IpAddr, max: usize) -> bool {
        let share = (max / SHARES).max(1);
        let of_address = self.running.iter().filter(|(_, known)| *known == address).count();
        self.running.len() < max && of_address < share
    }

    pub(crate) fn begin(&mut self, connection: ConnectionHandle, address: IpAddr) {
        self.running.push((connection, address));
    }

    pub(crate) fn end(&mut self, connection: ConnectionHandle) {
        self.running.retain(|(known, _)| *known != connection);
    }

    /// Checks under way.
    pub(crate) fn count(&self) -> usize {
        self.running.len()
    }

    /// What wakes the connection's check.
    pub(crate) fn waker(&self, connection: ConnectionHandle) -> Waker {
        Arc::new(Answer { board: Arc::clone(&self.board), connection }).into()
    }

    /// Connections whose check has something to say.
    pub(crate) fn take_answered(&self) -> Vec<ConnectionHandle> {
        if !self.board.any.swap(false, Ordering::AcqRel) {
            return Vec::new();
        }
        std::mem::take(&mut self.board.lock().answered)
    }

    /// Has `driver` woken with the next answer, if a check runs.
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
    /// A panic elsewhere leaves no entry half written.
    fn lock(&self) -> MutexGuard<'_, BoardState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Answer {
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

/// Parts into which the checks of an endpoint are divided; one address has one of them at most.
const SHARES: usize = 8;
