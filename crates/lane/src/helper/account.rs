//! The account on which helper threads work for the running task: a client's, or none.

use std::cell::Cell;

use super::queue::Client;

/// Guard of the current account.
pub(crate) struct Entered;

/// Returns the client whose task runs on this thread; `None` for the lane's own.
#[inline]
pub(crate) fn current() -> Option<Client> {
    CURRENT.try_with(Cell::get).ok().flatten()
}

/// A task of this client runs.
#[inline]
pub(crate) fn enter(client: Option<Client>) -> Entered {
    CURRENT.set(client);
    Entered
}

impl Drop for Entered {
    #[inline]
    fn drop(&mut self) {
        CURRENT.set(None);
    }
}

thread_local! {
    static CURRENT: Cell<Option<Client>> = const { Cell::new(None) };
}
