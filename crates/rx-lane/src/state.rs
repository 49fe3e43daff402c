//! What the driver's task and the calls of its lane share: the endpoint, who waits for which call, and the
//! services.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use lane::net::UdpSocket;

use crate::call::ServerCall;
use crate::counters::RxCounters;
use crate::error::CallEnd;
use crate::shares::HandlerShares;
use crate::{CallError, Handler};
use rx::abort;
use rx::header::CHANNELS;
use rx::{CallHandle, ConnectionHandle, Endpoint, Event, Service};

pub(super) struct Shared {
    pub(super) state: RefCell<State>,
    pub(super) socket: UdpSocket,
    pub(super) counters: Arc<RxCounters>,
    handlers: RefCell<HashMap<u16, Offer>>,
    shares: RefCell<HandlerShares>,
    /// The last pass's time, for destructors, which may run when the lane is gone.
    pub(super) now: Cell<Instant>,
    /// A call was written, read or opened outside of the driver's pass: there may be something to send.
    kicked: Cell<bool>,
    task: RefCell<Option<Waker>>,
}

/// Starts a service's task for a call.
type Start = Rc<dyn Fn(&Rc<Shared>, IpAddr, ServerCall, Rc<CallCell>)>;

/// What is done with calls for one service.
#[derive(Clone)]
struct Offer {
    start: Start,
    busy_code: i32,
}

pub(super) struct State {
    pub(super) endpoint: Endpoint,
    /// By connection and channel: one call at a time each.
    calls: Vec<Option<Rc<CallCell>>>,
    /// Connections that nobody uses any more, and when to close them.
    closing: VecDeque<(Instant, ConnectionHandle)>,
    /// Tasks that wait for a free channel.
    channel_waiters: HashMap<ConnectionHandle, Vec<Waker>>,
}

/// What a call's owner and the driver tell each other.
#[derive(Debug)]
pub(super) struct CallCell {
    pub(super) handle: CallHandle,
    pub(super) end: Cell<Option<CallEnd>>,
    pub(super) reader: RefCell<Option<Waker>>,
    pub(super) writer: RefCell<Option<Waker>>,
    /// The task of the service that has the call.
    handler: RefCell<Option<Waker>>,
}

impl Shared {
    pub(super) fn new(endpoint: Endpoint, socket: UdpSocket, handlers_max: usize) -> Self {
        Self {
            state: RefCell::new(State {
                endpoint,
                calls: Vec::new(),
                closing: VecDeque::new(),
                channel_waiters: HashMap::new(),
            }),
            socket,
            counters: Arc::default(),
            handlers: RefCell::default(),
            shares: RefCell::new(HandlerShares::new(handlers_max)),
            now: Cell::new(lane::time::now()),
            kicked: Cell::new(false),
            task: RefCell::default(),
        }
    }

    pub(super) fn add_handler(&self, id: u16, service: Service, handler: impl Handler) {
        let handler = Rc::new(handler);
        let start = move |shared: &Rc<Self>, ip: IpAddr, call: ServerCall, cell: Rc<CallCell>| {
            let (handler, slot) = (Rc::clone(&handler), HandlerSlot::of(shared, ip));
            lane::spawn(async move {
                let work = handler.handle(call);
                // What is wrong with a call has been told to its client, and counted, where it was found.
                if service.outlives_calls {
                    let _ = work.await;
                } else if while_alive(&cell, work).await.is_none() {
                    slot.shared.counters.handlers_cancelled.increment();
                }
            })
            .detach();
        };
        let offer = Offer { start: Rc::new(start), busy_code: service.busy_code };
        self.handlers.borrow_mut().insert(id, offer);
    }

    /// Tells the driver's task that there may be something to send.
    pub(super) fn kick(&self) {
        if !self.kicked.replace(true)
            && let Some(task) = self.task.borrow_mut().take()
        {
            task.wake();
        }
    }

    /// Whether there was a kick since the last time; if not, the next one wakes `task`.
    pub(super) fn was_kicked(&self, task: &Waker) -> bool {
        let kicked = self.kicked.replace(false);
        if !kicked {
            *self.task.borrow_mut() = Some(task.clone());
        }
        kicked
    }

    /// Takes the endpoint's events to those they concern: starts services, wakes tasks.
    pub(super) fn dispatch(self: &Rc<Self>) {
        loop {
            let event = self.state.borrow_mut().endpoint.poll_event();
            match event {
                None => return,
                Some(Event::NewCall { call, service }) => self.start_service(call, service),
                Some(event) => self.state.borrow_mut().notify(event),
            }
        }
    }

    fn start_service(self: &Rc<Self>, handle: CallHandle, service: u16) {
        let offer = self.handlers.borrow().get(&service).cloned();
        let cell = self.state.borrow_mut().add_call(handle);
        let call = ServerCall::new(Rc::clone(self), Rc::clone(&cell));
        let connection = self.state.borrow().endpoint.connection(handle.connection).map(|view| view.remote());
        let ip = connection.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |remote| remote.ip());
        match offer {
            Some(offer) if self.shares.borrow_mut().take(ip) => (offer.start)(self, ip, call, cell),
            Some(offer) => {
                self.counters.handlers_refused.increment();
                call.abort(offer.busy_code);
            }
            None => call.abort(abort::INVALID_OPERATION),
        }
    }
}

impl State {
    pub(super) fn add_call(&mut self, handle: CallHandle) -> Rc<CallCell> {
        let cell = Rc::new(CallCell::new(handle));
        let slot = slot(handle);
        if slot >= self.calls.len() {
            self.calls.resize_with(slot + 1, || None);
        }
        self.calls[slot] = Some(Rc::clone(&cell));
        cell
    }

    /// Wakes `waker` when the connection has a channel free again.
    pub(super) fn wait_for_channel(&mut self, connection: ConnectionHandle, waker: &Waker) {
        let waiters = self.channel_waiters.entry(connection).or_default();
        if !waiters.iter().any(|known| known.will_wake(waker)) {
            waiters.push(waker.clone());
        }
    }

    /// Closes a connection without calls, in a while: the server may still ask for the end of the last one.
    pub(super) fn close_later(&mut self, now: Instant, connection: ConnectionHandle) {
        self.channel_waiters.remove(&connection);
        self.closing.push_back((now + LINGER, connection));
    }

    /// Closes what has lingered long enough.
    pub(super) fn close_due(&mut self, now: Instant) {
        while let Some(&(_, connection)) = self.closing.front().filter(|(at, _)| *at <= now) {
            self.closing.pop_front();
            self.endpoint.close(now, connection);
        }
    }

    /// When something is to be done without a packet or a call's doing.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let closing = self.closing.front().map(|(at, _)| *at);
        [closing, self.endpoint.poll_timeout()].into_iter().flatten().min()
    }

    fn notify(&mut self, event: Event) {
        match event {
            Event::NewCall { .. } | Event::ConnectionEnded { .. } => {}
            Event::Readable(call) => wake(self.cell(call).map(|cell| &cell.reader)),
            Event::Writable(call) => wake(self.cell(call).map(|cell| &cell.writer)),
            Event::Finished(call) => self.end(call, CallEnd::Finished),
            Event::Aborted { call, code } => self.end(call, CallEnd::Aborted(code)),
            Event::Dead { call, reason } => self.end(call, CallEnd::Dead(reason)),
            Event::ChannelFree(connection) | Event::ConnectionAborted { connection, .. } => {
                let waiters = self.channel_waiters.remove(&connection);
                waiters.into_iter().flatten().for_each(Waker::wake);
            }
        }
    }

    fn cell(&self, call: CallHandle) -> Option<&Rc<CallCell>> {
        self.calls.get(slot(call))?.as_ref().filter(|cell| cell.handle == call)
    }

    /// Notes how a call ended and forgets it.
    fn end(&mut self, call: CallHandle, end: CallEnd) {
        if self.cell(call).is_none() {
            return;
        }
        let Some(cell) = self.calls[slot(call)].take() else { return };
        cell.end.set(Some(end));
        wake(Some(&cell.reader));
        wake(Some(&cell.writer));
        wake(Some(&cell.handler));
    }

    /// Forgets a call that its owner has ended.
    pub(super) fn forget(&mut self, call: CallHandle) {
        if self.cell(call).is_some() {
            self.calls[slot(call)] = None;
        }
    }
}

impl CallCell {
    fn new(handle: CallHandle) -> Self {
        Self {
            handle,
            end: Cell::new(None),
            reader: RefCell::default(),
            writer: RefCell::default(),
            handler: RefCell::default(),
        }
    }

    /// Whether the peer will not take part in it any more.
    fn has_died(&self) -> bool {
        matches!(self.end.get(), Some(CallEnd::Aborted(_) | CallEnd::Dead(_)))
    }

    /// The error that a call without a live half gives its owner.
    pub(super) fn error(&self) -> CallError {
        self.end.get().map_or(CallError::Gone, CallError::from)
    }
}

/// Runs a service's `work` for a call to its end, or, if the call dies, until it next waits; `None` then.
async fn while_alive<T>(cell: &CallCell, work: impl Future<Output = T>) -> Option<T> {
    let mut work = std::pin::pin!(work);
    std::future::poll_fn(|cx| {
        // It may know already, from a read or a write, and have something to say about it.
        if let Poll::Ready(output) = work.as_mut().poll(cx) {
            return Poll::Ready(Some(output));
        }
        if cell.has_died() {
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

/// Counts a service's task while it runs.
struct HandlerSlot {
    shared: Rc<Shared>,
    ip: IpAddr,
}

impl HandlerSlot {
    fn of(shared: &Rc<Shared>, ip: IpAddr) -> Self {
        shared.counters.handlers.add(1);
        Self { shared: Rc::clone(shared), ip }
    }
}

impl Drop for HandlerSlot {
    fn drop(&mut self) {
        self.shared.shares.borrow_mut().give_back(self.ip);
        self.shared.counters.handlers.sub(1);
    }
}

fn slot(call: CallHandle) -> usize {
    call.connection.slot() * CHANNELS + call.channel()
}

fn wake(waiting: Option<&RefCell<Option<Waker>>>) {
    if let Some(waker) = waiting.and_then(|waiting| waiting.borrow_mut().take()) {
        waker.wake();
    }
}

/// How long a connection that nobody uses still answers its server.
const LINGER: Duration = Duration::from_secs(1);
