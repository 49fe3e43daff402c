//! Drain: the end of a driver's service.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use rx::abort;

use crate::Driver;
use crate::state::DriverShared;

//@ limit: calls at a server that drains
//@ section: Rx
//@ unit: call
//@ connection: none new; those in hand until the deadline
//@ address: 20 aborts a second
//@ empty: aborted with RX_RESTARTING, at the deadline the rest too; clients go to another server
//@ counter: rx_refused{reason="draining"}, rx_calls_cut
//@ attack: none, an administrator drains a server
//@ reach: server
/// Result of a drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Number of calls that were still in progress at the deadline, and aborted.
    pub cut: usize,
    /// Number of handlers that go on, as a shield stands or their service outlives its calls.
    pub shielded: usize,
    /// Number of clients' connections that were closed.
    pub connections: usize,
}

impl Driver {
    /// Ends the service to clients. From now on and for good their new calls are aborted with
    /// [`RESTARTING`](abort::RESTARTING), which stock clients try again elsewhere or later; calls that services have in
    /// hand, and replies on their way, have `within` to end, then they are aborted with the same code. Connections are
    /// dropped then, their services notified ([`Handler::gone`](crate::Handler::gone)).
    ///
    /// Calls we make are not concerned: a handler may need them to come to its end. The driver goes on to answer clients
    /// until the lane ends. Dropped early, it still refuses new calls.
    pub async fn drain(&self, within: Duration) -> Drained {
        let shared = &self.shared;
        let deadline = lane::time::now() + within;
        shared.state.borrow_mut().endpoint.refuse_calls(abort::RESTARTING);
        shared.dispatch();
        shared.kick();
        let idle = shared.until(|shared| shared.is_idle());
        // What is left at the deadline is cut.
        let _ = lane::time::timeout_at(deadline, idle).await;
        let cut = shared.state.borrow_mut().endpoint.cut_calls(abort::RESTARTING);
        shared.counters.calls_cut.add(cut as u64);
        shared.dispatch();
        // Two passes: handlers are dropped in the first, and all aborts have left by the end of the second.
        for _ in 0..2 {
            let passes = shared.passes.get();
            shared.kick();
            shared.until(|shared| shared.passes.get() != passes).await;
        }
        let connections = shared.state.borrow_mut().endpoint.let_go(lane::time::now());
        shared.dispatch();
        Drained { cut, shielded: shared.counters.handlers.get() as usize, connections }
    }

    /// Drains the driver, then ends it. Calls that we made are aborted here, new ones find their connection
    /// gone, and the socket is closed with the last handle to the driver. Its lane goes on.
    pub async fn close(&self, within: Duration) -> Drained {
        let drained = self.drain(within).await;
        self.shared.close();
        drained
    }
}

impl DriverShared {
    /// Waits until `holds`, which is called whenever a pass or a handler has ended.
    pub(super) async fn until(self: &Rc<Self>, holds: impl Fn(&Self) -> bool) {
        poll_fn(|cx| {
            if holds(self) {
                return Poll::Ready(());
            }
            self.watch(cx.waker());
            Poll::Pending
        })
        .await;
    }

    /// Returns whether neither a client's call nor a handler is in progress.
    fn is_idle(&self) -> bool {
        self.state.borrow().serving == 0 && self.counters.handlers.get() == 0
    }
}
