//! Handlers of services: how they run, and the end of a call when its handler fails, panics or is dropped.

use std::any::Any;
use std::net::IpAddr;
use std::rc::Rc;
use std::task::Poll;

use lane::offload::Client;
use rx::{ConnectionEnd, Service, abort, source_of};

use crate::CallError;
use crate::offer::Offer;
use crate::server_call::ServerCall;
use crate::server_connection::ServerConnection;
use crate::state::{CallCell, DriverShared, LaneOffer};

/// Code that a call is aborted with: what its client gets for an error. 0 would mean success, so it counts as
/// [`USER_ABORT`](abort::USER_ABORT).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the call is aborted with code {0}")]
pub struct AbortCode(pub i32);

//@ limit: handlers that fail, panic or whose call has died
//@ section: Rx
//@ unit: handler
//@ connection: its call
//@ empty: the call is aborted, and the handler dropped where it waits; others feel nothing
//@ counter: rx_handlers_failed, rx_handlers_cancelled
//@ attack: rx-slow-stores
/// Code of a service, run once for each call, as a task of the lane. A closure from [`ServerCall`] to a
/// future is one that keeps nothing of connections.
///
/// - An **error** is the call's abort code, also where a part of the reply has left.
/// - A call that is **dropped unfinished** is aborted with [`USER_ABORT`](abort::USER_ABORT).
/// - A **panic** aborts the call with [`Service::panic_code`].
/// - A handler whose **call has died** (its client gave up, went silent or began another call; a limit passed; its
///   connection is gone) is dropped at its next `await`, unless a [`Shield`](crate::Shield) stands or its service
///   [`outlives_calls`](Service::outlives_calls).
pub trait Handler: 'static {
    /// State that the service keeps for each connection: its client's host and identity, for instance.
    type Connection: 'static;
    /// Error that aborts a call.
    type Error: Into<AbortCode>;

    /// Returns the state for a connection with its first call, after the client has proved its identity. The
    /// state lives as long as the connection, and the calls that still hold it.
    fn connected(&self, connection: &ServerConnection) -> Self::Connection;

    /// Handles one call of a client.
    fn handle(
        &self,
        call: ServerCall<Self::Connection>,
    ) -> impl Future<Output = Result<(), Self::Error>> + 'static;

    /// Tells the handler that a connection is gone and has no further calls. Handlers whose calls have died
    /// with it may not have been dropped yet.
    fn gone(&self, data: Rc<Self::Connection>, end: ConnectionEnd) {
        let _ = (data, end);
    }
}

impl<F, A, E> Handler for F
where
    F: Fn(ServerCall) -> A + 'static,
    A: Future<Output = Result<(), E>> + 'static,
    E: Into<AbortCode>,
{
    type Connection = ();
    type Error = E;

    fn connected(&self, _: &ServerConnection) {}

    fn handle(&self, call: ServerCall) -> impl Future<Output = Result<(), E>> + 'static {
        self(call)
    }
}

impl From<i32> for AbortCode {
    fn from(code: i32) -> Self {
        Self(code)
    }
}

impl From<CallError> for AbortCode {
    fn from(error: CallError) -> Self {
        Self(match error {
            CallError::Aborted(code) => code,
            CallError::Short => abort::EOF,
            CallError::Dead(_) | CallError::Gone | CallError::UsedUp => abort::CALL_DEAD,
            CallError::Ended | CallError::Held | CallError::Lent => abort::USER_ABORT,
        })
    }
}

/// Handler of a service, with its options.
pub(super) struct Offered<H> {
    handler: H,
    service: Service,
}

impl<H: Handler> Offer<DriverShared, CallCell> for Offered<H> {
    fn service(&self) -> &Service {
        &self.service
    }

    fn start(self: Rc<Self>, shared: &Rc<DriverShared>, cell: Rc<CallCell>, ip: IpAddr) {
        let slot = HandlerSlot::of(shared, cell, ip, self.service.panic_code);
        // All of the service's code runs in its own task: there a panic harms this call alone.
        lane::spawn_for(Client::of(&source_of(ip)), async move {
            let outcome = if slot.cell.has_died() { None } else { slot.answer(self).await };
            match outcome {
                Some(Ok(())) => {}
                Some(Err(error)) => slot.fail(error.into()),
                None => slot.shared.counters.handlers_cancelled.increment(),
            }
        })
        .detach();
    }

    fn gone(&self, data: Rc<dyn Any>, end: ConnectionEnd) {
        if let Ok(data) = data.downcast() {
            self.handler.gone(data, end);
        }
    }
}

impl<H: Handler> Offered<H> {
    /// Makes the service that a driver offers.
    pub(super) fn offer(service: Service, handler: H) -> Rc<LaneOffer> {
        Rc::new(Self { handler, service })
    }

    /// Returns the service's state of the call's connection.
    fn data(self: &Rc<Self>, shared: &DriverShared, connection: &ServerConnection) -> Rc<H::Connection> {
        let handle = connection.handle();
        let known = shared.state.borrow().attached.get(handle).and_then(|data| data.downcast().ok());
        known.unwrap_or_else(|| {
            let data = Rc::new(self.handler.connected(connection));
            let offer: Rc<LaneOffer> = Rc::clone(self) as _;
            shared.attach(handle, Rc::clone(&data) as _, offer);
            data
        })
    }
}

/// Task of a service: its place among all that the lane may have, and the call that it handles.
struct HandlerSlot {
    shared: Rc<DriverShared>,
    cell: Rc<CallCell>,
    ip: IpAddr,
    panic_code: i32,
}

impl HandlerSlot {
    fn of(shared: &Rc<DriverShared>, cell: Rc<CallCell>, ip: IpAddr, panic_code: i32) -> Self {
        shared.counters.handlers.add(1);
        cell.handled.set(true);
        Self { shared: Rc::clone(shared), cell, ip, panic_code }
    }

    /// Runs the handler to its end; `None` if the call dies before.
    async fn answer<H: Handler>(&self, offered: Rc<Offered<H>>) -> Option<Result<(), H::Error>> {
        let connection = ServerConnection::new(&self.shared, self.cell.handle.connection);
        let data = offered.data(&self.shared, &connection);
        let call = ServerCall::new(Rc::clone(&self.shared), Rc::clone(&self.cell), connection, data);
        let work = offered.handler.handle(call);
        if offered.service.outlives_calls { Some(work.await) } else { while_alive(&self.cell, work).await }
    }

    fn fail(&self, code: AbortCode) {
        if self.shared.end_call(&self.cell, code.0) {
            self.shared.counters.handlers_failed.increment();
        }
    }
}

impl Drop for HandlerSlot {
    fn drop(&mut self) {
        self.cell.handled.set(false);
        if std::thread::panicking() {
            self.shared.counters.handlers_panicked.increment();
            self.shared.end_call(&self.cell, self.panic_code);
        } else if self.cell.unfinished.get() {
            self.shared.end_call(&self.cell, abort::USER_ABORT);
        }
        self.shared.give_back_place(self.ip);
        self.shared.counters.handlers.sub(1);
        self.shared.wake_watchers();
    }
}

/// Runs a service's `work` for a call to its end; `None` if the call dies and `work` waits without a shield.
async fn while_alive<T>(cell: &CallCell, work: impl Future<Output = T>) -> Option<T> {
    let mut work = std::pin::pin!(work);
    std::future::poll_fn(|cx| {
        // It may know already, from a read or a write, and have something to say about it.
        if let Poll::Ready(output) = work.as_mut().poll(cx) {
            return Poll::Ready(Some(output));
        }
        if cell.has_died() && cell.shields.get() == 0 {
            return Poll::Ready(None);
        }
        let mut handler = cell.handler.borrow_mut();
        if !handler.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
            *handler = Some(cx.waker().clone());
        }
        Poll::Pending
    })
    .await
}
