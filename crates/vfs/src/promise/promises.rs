//! The promises of one lane: its bit in each object that something on this lane relies on.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use lane::mesh::Member;

use crate::object::Object;

/// The promises of a lane, by object.
pub(crate) struct Promises {
    lane: Member,
    held: RefCell<HashMap<*const Object, Weak<Promise>>>,
}

/// The lane's bit in an object, for as long as somebody on the lane wants it.
pub(crate) struct Promise {
    promises: Weak<Promises>,
    lane: Member,
    object: Arc<Object>,
}

impl Promises {
    pub(crate) fn new(lane: Member) -> Rc<Self> {
        Rc::new(Self { lane, held: RefCell::default() })
    }

    /// Sets the lane's bit if it is not set: what is looked at from now on may be relied on, unless the object
    /// [is changing](Object::is_changing).
    pub(crate) fn hold(self: &Rc<Self>, object: &Arc<Object>) -> Rc<Promise> {
        let mut held = self.held.borrow_mut();
        if let Some(promise) = held.get(&Arc::as_ptr(object)).and_then(Weak::upgrade) {
            return promise;
        }
        object.promises().set(self.lane);
        let promise =
            Rc::new(Promise { promises: Rc::downgrade(self), lane: self.lane, object: Arc::clone(object) });
        held.insert(Arc::as_ptr(object), Rc::downgrade(&promise));
        promise
    }

    /// How many objects the lane relies on.
    pub(crate) fn len(&self) -> usize {
        self.held.borrow().len()
    }
}

impl Promise {
    pub(crate) fn object(&self) -> &Arc<Object> {
        &self.object
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.object.promises().clear(self.lane);
        if let Some(promises) = self.promises.upgrade() {
            promises.held.borrow_mut().remove(&Arc::as_ptr(&self.object));
        }
    }
}
