//! State that the driver's task and the calls of its lane share: the endpoint, the tasks that wait for calls,
//! and the services.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use lane::net::UdpSocket;

use crate::counters::RxCounters;
use crate::error::CallEnd;
use crate::error::CallError;
use crate::offer::{Attachments, Offer};
use crate::shares::HandlerShares;
use rx::abort;
use rx::header::CHANNELS;
use rx::{CallHandle, ConnectionEnd, ConnectionHandle, Endpoint, Event};

/// Callback with the address of a client and the security class that it asked for.
pub(super) type ProofRefused = Box<dyn Fn(SocketAddr, u8)>;

/// Service that a lane offers.
pub(super) type LaneOffer = dyn Offer<DriverShared, CallCell>;

pub(super) struct DriverShared {
    pub(super) state: RefCell<DriverState>,
    pub(super) socket: Rc<UdpSocket>,
    pub(super) counters: Arc<RxCounters>,
    handlers: RefCell<HashMap<u16, Rc<LaneOffer>>>,
    /// Part of a rate that the lane has.
    pub(super) share: RefCell<Option<crate::rate::Share>>,
    /// Callback for clients whose security class is not offered.
    pub(super) proof_refused: RefCell<Option<ProofRefused>>,
    shares: RefCell<HandlerShares>,
    /// Time of the last pass, for destructors, which may run when the lane is gone.
    pub(super) now: Cell<Instant>,
    /// True when a call was written, read or opened outside of the driver's pass: there may be something to
    /// send.
    kicked: Cell<bool>,
    task: RefCell<Option<Waker>>,
    /// Number of passes so far.
    pub(super) passes: Cell<u64>,
    /// Tasks that wait for the end of a pass or handler.
    watchers: RefCell<Vec<Waker>>,
    /// True when the driver's task has ended, or will before it does anything more.
    closed: Cell<bool>,
}

pub(super) struct DriverState {
    pub(super) endpoint: Endpoint,
    /// Calls by connection and channel: one at a time each.
    calls: Vec<Option<Rc<CallCell>>>,
    /// Number of the calls that are clients'.
    pub(super) serving: usize,
    /// State that services keep for clients' connections.
    pub(super) attached: Attachments<DriverShared, CallCell>,
    /// Connections that are no longer in use, with the time to close them.
    closing: VecDeque<(Instant, ConnectionHandle)>,
    /// Tasks that wait for a free channel.
    channel_waiters: HashMap<ConnectionHandle, Vec<Waker>>,
}

/// State that a call's owner and the driver share.
#[derive(Debug)]
pub(super) struct CallCell {
    pub(super) handle: CallHandle,
    pub(super) end: Cell<Option<CallEnd>>,
    pub(super) reader: RefCell<Option<Waker>>,
    pub(super) writer: RefCell<Option<Waker>>,
    /// True for a call that a client made.
    served: bool,
    /// Waker of the service's task that has the call.
    pub(super) handler: RefCell<Option<Waker>>,
    /// True while the handler's task runs, which decides about a call that it drops unfinished.
    pub(super) handled: Cell<bool>,
    pub(super) unfinished: Cell<bool>,
    /// Number of sections under way that the call's death does not end.
    pub(super) shields: Cell<u32>,
}

impl DriverShared {
    pub(super) fn new(
        endpoint: Endpoint,
        socket: Rc<UdpSocket>,
        handlers_max: usize,
        counters: Arc<RxCounters>,
    ) -> Self {
        Self {
            state: RefCell::new(DriverState {
                endpoint,
                calls: Vec::new(),
                serving: 0,
                attached: Attachments::default(),
                closing: VecDeque::new(),
                channel_waiters: HashMap::new(),
            }),
            socket,
            counters,
            share: RefCell::default(),
            proof_refused: RefCell::default(),
            handlers: RefCell::default(),
            shares: RefCell::new(HandlerShares::new(handlers_max)),
            now: Cell::new(lane::time::now()),
            kicked: Cell::new(false),
            task: RefCell::default(),
            passes: Cell::new(0),
            watchers: RefCell::default(),
            closed: Cell::new(false),
        }
    }

    /// Ends the driver's task, and all calls of the driver.
    pub(super) fn close(&self) {
        self.closed.set(true);
        let calls = self.state.borrow_mut().all();
        for cell in calls {
            self.end_call(&cell, abort::RESTARTING);
            [&cell.reader, &cell.writer, &cell.handler].into_iter().for_each(|waiting| wake(Some(waiting)));
        }
        self.kick();
    }

    /// Returns whether sending and receiving have ended.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.get()
    }

    pub(super) fn add_handler(&self, id: u16, offer: Rc<LaneOffer>) {
        self.handlers.borrow_mut().insert(id, offer);
    }

    /// Drops the services after the driver's end. They may hold the driver, to call their clients, so neither
    /// would release the other.
    pub(super) fn end_services(&self) {
        let handlers = self.handlers.take();
        let attached = std::mem::take(&mut self.state.borrow_mut().attached);
        // They may use the driver as they go.
        drop((attached, handlers));
    }

    /// Tells the driver's task that there may be something to send.
    pub(super) fn kick(&self) {
        if !self.kicked.replace(true)
            && let Some(task) = self.task.borrow_mut().take()
        {
            task.wake();
        }
    }

    /// Returns whether there was a kick since the last call; if not, the next one wakes `task`.
    pub(super) fn was_kicked(&self, task: &Waker) -> bool {
        let kicked = self.kicked.replace(false);
        if !kicked {
            *self.task.borrow_mut() = Some(task.clone());
        }
        kicked
    }

    /// Delivers the endpoint's events: starts services, wakes tasks.
    pub(super) fn dispatch(self: &Rc<Self>) {
        loop {
            let event = self.state.borrow_mut().endpoint.poll_event();
            match event {
                None => return,
                Some(Event::NewCall { call, service }) => self.start_service(call, service),
                Some(Event::ConnectionEnded { connection, end }) => self.detach(connection, end),
                Some(Event::ProofRefused { remote, index }) => {
                    if let Some(tell) = &*self.proof_refused.borrow() {
                        tell(remote, index);
                    }
                }
                Some(event) => {
                    self.state.borrow_mut().notify(event);
                    if let Event::ConnectionAborted { connection, code } = event {
                        self.detach(connection, ConnectionEnd::Aborted(code));
                    }
                }
            }
        }
    }

    fn start_service(self: &Rc<Self>, handle: CallHandle, service: u16) {
        let offer = self.handlers.borrow().get(&service).cloned();
        let mut state = self.state.borrow_mut();
        let cell = state.add_call(handle, true);
        let connection = state.endpoint.connection(handle.connection).map(|view| view.remote());
        let ip = connection.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |remote| remote.ip());
        drop(state);
        match offer {
            Some(offer) if self.shares.borrow_mut().take(ip) => offer.start(self, cell, ip),
            Some(offer) => {
                self.counters.handlers_refused.increment();
                self.end_call(&cell, offer.service().busy_code);
            }
            None => {
                self.end_call(&cell, abort::INVALID_OPERATION);
            }
        }
    }

    /// Aborts a call that has not ended, and returns whether it had not. No client is sent 0, which would
    /// mean success.
    pub(super) fn end_call(&self, cell: &CallCell, code: i32) -> bool {
        let code = if code == 0 { abort::USER_ABORT } else { code };
        let mut state = self.state.borrow_mut();
        let Some(call) = state.endpoint.call(self.now.get(), cell.handle) else { return false };
        call.abort(code);
        state.forget(cell.handle);
        drop(state);
        cell.end.set(Some(CallEnd::Aborted(code)));
        self.kick();
        true
    }

    /// Keeps a service's data for a connection as long as that lives.
    pub(super) fn attach(&self, connection: ConnectionHandle, data: Rc<dyn Any>, offer: Rc<LaneOffer>) {
        let mut state = self.state.borrow_mut();
        let alive = state.endpoint.connection(connection).is_some_and(|view| view.error().is_none());
        if alive {
            state.attached.insert(connection, data, offer);
        }
    }

    fn detach(&self, connection: ConnectionHandle, end: ConnectionEnd) {
        let attached = self.state.borrow_mut().attached.remove(connection);
        if let Some(attached) = attached {
            attached.end(end);
        }
    }

    /// Gives back the place of a handler for `ip` that has ended.
    pub(super) fn give_back_place(&self, ip: IpAddr) {
        self.shares.borrow_mut().give_back(ip);
    }

    /// Wakes `waker` when a pass or a handler has ended.
    pub(super) fn watch(&self, waker: &Waker) {
        self.watchers.borrow_mut().push(waker.clone());
    }

    pub(super) fn wake_watchers(&self) {
        self.watchers.borrow_mut().drain(..).for_each(Waker::wake);
    }

    /// Counts the end of a pass, and wakes its watchers.
    pub(super) fn end_pass(&self) {
        self.passes.set(self.passes.get() + 1);
        self.wake_watchers();
    }
}

impl DriverState {
    pub(super) fn add_call(&mut self, handle: CallHandle, served: bool) -> Rc<CallCell> {
        let cell = Rc::new(CallCell::new(handle, served));
        self.serving += usize::from(served);
        let slot = slot(handle);
        if slot >= self.calls.len() {
            self.calls.resize_with(slot + 1, || None);
        }
        self.calls[slot] = Some(Rc::clone(&cell));
        cell
    }

    /// Wakes `waker` when the connection has a free channel again.
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

    /// Closes the connections that have lingered long enough.
    pub(super) fn close_due(&mut self, now: Instant) {
        while let Some(&(_, connection)) = self.closing.front().filter(|(at, _)| *at <= now) {
            self.closing.pop_front();
            self.endpoint.close(now, connection);
        }
    }

    /// Returns the next time at which the driver acts without a packet or a call.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let closing = self.closing.front().map(|(at, _)| *at);
        [closing, self.endpoint.poll_timeout()].into_iter().flatten().min()
    }

    fn notify(&mut self, event: Event) {
        match event {
            // Dealt with before.
            Event::NewCall { .. } | Event::ConnectionEnded { .. } | Event::ProofRefused { .. } => {}
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

    /// Notes the end of a call, wakes its tasks and forgets it.
    fn end(&mut self, call: CallHandle, end: CallEnd) {
        let Some(cell) = self.take_call(call) else { return };
        cell.end.set(Some(end));
        wake(Some(&cell.reader));
        wake(Some(&cell.writer));
        wake(Some(&cell.handler));
    }

    /// Returns all calls. Tasks that wait to make one more look again.
    fn all(&mut self) -> Vec<Rc<CallCell>> {
        self.channel_waiters.drain().flat_map(|(_, waiters)| waiters).for_each(Waker::wake);
        self.calls.iter().flatten().map(Rc::clone).collect()
    }

    /// Forgets a call that its owner has ended.
    pub(super) fn forget(&mut self, call: CallHandle) {
        self.take_call(call);
    }

    fn take_call(&mut self, call: CallHandle) -> Option<Rc<CallCell>> {
        let cell = self.calls.get_mut(slot(call))?.take_if(|cell| cell.handle == call)?;
        self.serving -= usize::from(cell.served);
        Some(cell)
    }
}

impl CallCell {
    fn new(handle: CallHandle, served: bool) -> Self {
        Self {
            handle,
            end: Cell::new(None),
            reader: RefCell::default(),
            writer: RefCell::default(),
            served,
            handler: RefCell::default(),
            handled: Cell::new(false),
            unfinished: Cell::new(false),
            shields: Cell::new(0),
        }
    }

    /// Returns whether the call was aborted or timed out, so that the peer no longer takes part.
    pub(super) fn has_died(&self) -> bool {
        matches!(self.end.get(), Some(CallEnd::Aborted(_) | CallEnd::Dead(_)))
    }

    /// Returns the error for an operation on a call that has ended.
    pub(super) fn error(&self) -> CallError {
        self.end.get().map_or(CallError::Gone, CallError::from)
    }
}

fn slot(call: CallHandle) -> usize {
    call.connection.slot() * CHANNELS + call.channel()
}

pub(super) fn wake(waiting: Option<&RefCell<Option<Waker>>>) {
    if let Some(waker) = waiting.and_then(|waiting| waiting.borrow_mut().take()) {
        waker.wake();
    }
}

/// Time for which an unused connection still answers its server.
const LINGER: Duration = Duration::from_secs(1);
