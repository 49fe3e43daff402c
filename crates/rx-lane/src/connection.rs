//! Connections that the lane opens, as clients.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::Poll;

use crate::CallError;
use crate::call::Call;
use crate::close_on_drop::CloseOnDrop;
use crate::state::DriverShared;
use rx::{ConnectionHandle, Dscp, Limits, OpenError, Priority};

/// Connection that we opened; clones are handles to the same one. It closes soon after the last handle and
/// the last of its calls are dropped.
#[derive(Clone)]
pub struct Connection {
    open: Rc<CloseOnDrop>,
}

impl Connection {
    pub(super) fn new(shared: Rc<DriverShared>, handle: ConnectionHandle) -> Self {
        Self { open: Rc::new(CloseOnDrop { shared, handle }) }
    }

    /// Opens a call, waiting for one of the four channels to be free.
    ///
    /// # Errors
    /// [`CallError::Aborted`] when the connection has failed, [`CallError::Gone`] when its driver has ended,
    /// [`CallError::UsedUp`] after some billion calls.
    pub async fn call(&self) -> Result<Call, CallError> {
        let CloseOnDrop { shared, handle } = &*self.open;
        poll_fn(|cx| {
            if shared.is_closed() {
                return Poll::Ready(Err(CallError::Gone));
            }
            let mut state = shared.state.borrow_mut();
            match state.endpoint.open_call(lane::time::now(), *handle) {
                Ok(call) => {
                    let cell = state.add_call(call, false);
                    Poll::Ready(Ok(Call::new(Rc::clone(shared), cell, Some(Rc::clone(&self.open)))))
                }
                Err(OpenError::Busy) => {
                    state.wait_for_channel(*handle, cx.waker());
                    Poll::Pending
                }
                Err(OpenError::Aborted(code)) => Poll::Ready(Err(CallError::Aborted(code))),
                Err(OpenError::UsedUp) => Poll::Ready(Err(CallError::UsedUp)),
                Err(OpenError::Gone) => Poll::Ready(Err(CallError::Gone)),
            }
        })
        .await
    }

    /// Returns the connection's service: after the first reply that of the newer version, if one was asked
    /// for and granted. `None` when the connection is gone.
    pub fn service(&self) -> Option<u16> {
        let CloseOnDrop { shared, handle } = &*self.open;
        shared.state.borrow().endpoint.connection(*handle).map(|connection| connection.service())
    }

    /// Returns the peer's address; `None` when the connection is gone.
    pub fn remote(&self) -> Option<SocketAddr> {
        let CloseOnDrop { shared, handle } = &*self.open;
        shared.state.borrow().endpoint.connection(*handle).map(|view| view.remote())
    }

    /// Returns the epoch, and the id without channel bits; `None` when the connection is gone.
    pub fn id(&self) -> Option<(u32, u32)> {
        let CloseOnDrop { shared, handle } = &*self.open;
        shared.state.borrow().endpoint.connection(*handle).map(|view| view.id())
    }

    /// Sets whether the connection's packets leave before or after those of others.
    pub fn set_priority(&self, priority: Priority) {
        let CloseOnDrop { shared, handle } = &*self.open;
        shared.state.borrow_mut().endpoint.set_priority(*handle, priority);
    }

    /// Sets the code point (DSCP) of each packet that the connection sends from now on.
    pub fn set_dscp(&self, dscp: Dscp) {
        let CloseOnDrop { shared, handle } = &*self.open;
        shared.state.borrow_mut().endpoint.set_dscp(*handle, dscp);
    }

    /// Aborts the connection and all its calls with a code that the peer gets. Further calls fail with the
    /// same code.
    pub fn abort(&self, code: i32) {
        let CloseOnDrop { shared, handle } = &*self.open;
        shared.state.borrow_mut().endpoint.abort_connection(*handle, code);
        shared.dispatch();
        shared.kick();
    }

    /// Bounds the rate of the connection's DATA, in bytes a second with Rx headers; `None` removes the bound.
    pub fn set_rate(&self, bytes_per_second: Option<u64>) {
        let CloseOnDrop { shared, handle } = &*self.open;
        shared.state.borrow_mut().endpoint.set_rate(lane::time::clock(), *handle, bytes_per_second);
        shared.kick();
    }

    /// Sets the time limits of the connection's calls, those under way too.
    pub fn set_limits(&self, limits: Limits) {
        let CloseOnDrop { shared, handle } = &*self.open;
        shared.state.borrow_mut().endpoint.set_limits(*handle, limits);
        shared.kick();
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Connection").field(&self.open.handle).finish()
    }
}
