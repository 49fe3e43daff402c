//! Account on which helper threads work for the running task: a client's, or none.

use std::cell::Cell;

use super::queue::Client;

/// Guard that ends the current account when dropped.
pub(crate) struct Entered;

/// Returns the client of this thread's task; `None` for the lane's own.
#[inline]
pub(crate) fn current() -> Option<Client> {
    CURRENT.try_with(Cell::get).ok().flatten()
}

/// Enters a task of this client, or of none, until the guard is dropped.
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
