//! Hold on a connection that this lane has opened.

use std::rc::Rc;

use rx::ConnectionHandle;

use crate::state::DriverShared;

/// Closes the connection when dropped.
pub(super) struct CloseOnDrop {
    pub(super) shared: Rc<DriverShared>,
    pub(super) handle: ConnectionHandle,
}

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.shared.state.borrow_mut().close_later(self.shared.now.get(), self.handle);
        self.shared.kick();
    }
}
