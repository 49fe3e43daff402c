//! Backend of the lane that runs on this thread, for descriptors and operations that know no lanes.

use std::rc::Rc;

use super::Backend;
use crate::on_thread::{Current, CurrentGuard};

/// Runs `f` with the current lane's backend.
///
/// # Panics
/// When the caller does not run on a lane.
pub(crate) fn with<R>(f: impl FnOnce(&dyn Backend) -> R) -> R {
    try_with(f).expect("lane types are used only on a lane's own thread")
}

/// Runs `f` with the current lane's backend, as [`with`]; returns `None` off lanes and during thread
/// teardown.
pub(crate) fn try_with<R>(f: impl FnOnce(&dyn Backend) -> R) -> Option<R> {
    Current::try_with(&CURRENT, |backend| f(&**backend))
}

/// Makes `backend` current until the guard is dropped.
pub(crate) fn enter(backend: &Rc<dyn Backend>) -> CurrentGuard<Rc<dyn Backend>> {
    Current::enter(&CURRENT, backend)
}

thread_local! {
    static CURRENT: Current<Rc<dyn Backend>> = const { Current::nobody() };
}
