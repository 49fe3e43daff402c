//! The state that is served now.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

/// A value of one lane that is replaced whole; clones are handles to the same one. A call that began with a
/// value keeps it.
pub struct Current<T>(Rc<RefCell<Rc<T>>>);

impl<T> Current<T> {
    /// Creates a state that is served until it is replaced.
    pub fn new(value: T) -> Self {
        Self(Rc::new(RefCell::new(Rc::new(value))))
    }

    /// Returns the current value.
    pub fn get(&self) -> Rc<T> {
        Rc::clone(&self.0.borrow())
    }

    /// Replaces the state that is served.
    pub fn set(&self, value: T) {
        let before = self.0.replace(Rc::new(value));
        drop(before);
    }
}

impl<T> Clone for Current<T> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<T: fmt::Debug> fmt::Debug for Current<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Current").field(&self.get()).finish()
    }
}
