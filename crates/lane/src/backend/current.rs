//! The backend of the lane that runs on this thread: what a descriptor is closed with and an operation asks, without
//! knowing of lanes.

use std::cell::RefCell;
use std::rc::Rc;

use super::Backend;

/// Runs `f` with the current lane's backend.
///
/// # Panics
/// When the caller does not run on a lane.
pub(crate) fn with<R>(f: impl FnOnce(&dyn Backend) -> R) -> R {
    try_with(f).expect("lane types are used only on a lane's own thread")
}

/// Like [`with`], `None` off lanes and during thread teardown.
pub(crate) fn try_with<R>(f: impl FnOnce(&dyn Backend) -> R) -> Option<R> {
    CURRENT.try_with(|current| current.borrow().as_deref().map(f)).ok().flatten()
}

/// Makes `backend` current until the guard is dropped.
pub(crate) fn enter(backend: &Rc<dyn Backend>) -> Entered {
    let before = CURRENT.with(|current| current.borrow_mut().replace(Rc::clone(backend)));
    Entered { before }
}

/// Restores the backend that was current before.
pub(crate) struct Entered {
    before: Option<Rc<dyn Backend>>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        let before = self.before.take();
        let left = CURRENT.with(|current| std::mem::replace(&mut *current.borrow_mut(), before));
        drop(left);
    }
}

thread_local! {
    static CURRENT: RefCell<Option<Rc<dyn Backend>>> = const { RefCell::new(None) };
}
