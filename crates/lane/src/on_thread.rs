//! Current value of a thread, until another is entered: simulated lanes share a thread and enter in turns.

use std::cell::RefCell;
use std::thread::LocalKey;

/// Value of a `thread_local!`, or none where no lane has entered.
pub(crate) struct Current<T>(RefCell<Option<T>>);

impl<T: Clone + 'static> Current<T> {
    pub(crate) const fn nobody() -> Self {
        Self(RefCell::new(None))
    }

    /// Runs `f` with the current value; returns `None` where there is none, and during thread teardown.
    #[inline]
    pub(crate) fn try_with<R>(key: &'static LocalKey<Self>, f: impl FnOnce(&T) -> R) -> Option<R> {
        key.try_with(|current| current.0.borrow().as_ref().map(f)).ok().flatten()
    }

    /// Makes `new` current until the guard is dropped.
    pub(crate) fn enter(key: &'static LocalKey<Self>, new: &T) -> CurrentGuard<T> {
        let before = key.with(|current| current.0.borrow_mut().replace(new.clone()));
        CurrentGuard { key, before }
    }
}

/// Guard that restores the value that was current before.
pub(crate) struct CurrentGuard<T: Clone + 'static> {
    key: &'static LocalKey<Current<T>>,
    before: Option<T>,
}

impl<T: Clone + 'static> Drop for CurrentGuard<T> {
    fn drop(&mut self) {
        let before = self.before.take();
        // What leaves is dropped when nothing is borrowed: its destructor may ask for the current value.
        let left = self.key.with(|current| std::mem::replace(&mut *current.0.borrow_mut(), before));
        drop(left);
    }
}
