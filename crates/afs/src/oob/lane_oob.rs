//! The connections of one lane: taken in, claimed, handed to the lane of their call, kept while they are idle.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use afs_wire::{OOB_FAMILY_SAME, OOB_VERSION, OobEndpoint, OobEndpoints, OobFacts};
use lane::Ended;
use lane::Task;
use lane::backend::{Released, SocketOption};
use lane::mesh::{Limits, Mail, Member, Port, Sender};
use lane::net::{TcpListener, TcpStream};
use lane::time::{now, timeout};
use oob::{CLAIM_BYTES, Claim, Claims, FRAME_MAX, Refusal, Token};
use oob_lane::Memory;
use service::connections::{Connections, Open};
use service::counters::ConnectionCounters;
use service::pacer::{Pacer, Ticket};
use xdr::{List, Opaque};

use super::connection::{Awaited, ClaimedConnection, Owner};
use super::transfer_slots::TransferSlots;
use super::{OobCounters, OobOptions};

/// Out-of-band TCP on one lane. Clones are handles to the same one.
#[derive(Clone)]
pub struct LaneOob {
    pub(super) inner: Rc<LaneOobInner>,
}

pub(super) struct LaneOobInner {
    /// Port that clients connect to; 0 without a listener.
    port: Cell<u16>,
    options: Cell<OobOptions>,
    connections: Rc<Connections>,
    pub(super) claims: RefCell<Claims<Rc<Awaited>>>,
    idle: RefCell<HashMap<u64, Idle>>,
    pub(super) transfer_slots: TransferSlots,
    /// Memory that stores were received into.
    memory: RefCell<Vec<Memory>>,
    strays: Sender<Stray>,
    pacer: Option<Rc<Pacer>>,
    pub(super) counters: Arc<OobCounters>,
    connection_counters: Arc<ConnectionCounters>,
}

/// A connection between two transfers, and the task that listens for its end.
struct Idle {
    connection: ClaimedConnection,
    watcher: Task<()>,
}

/// A connection on its way to the lane of its call.
struct Stray {
    stream: Released,
    peer: std::net::SocketAddr,
    token: Token,
}

impl LaneOob {
    /// Creates the out-of-band TCP of the current lane, which shares the lane's rate by `pacer`.
    ///
    /// # Errors
    /// The lane has one already.
    pub fn new(options: OobOptions, pacer: Option<Rc<Pacer>>) -> io::Result<Self> {
        let lane = lane::current();
        let limits = Limits { messages: STRAYS_MAX, calls: 0 };
        let exchange = lane.mesh().exchange::<Stray, ()>("afs-oob", limits).map_err(io::Error::other)?;
        let port =
            exchange.open(lane.id().into()).map_err(|_| io::Error::other("the lane has one already"))?;
        let connection_counters = Arc::<ConnectionCounters>::default();
        let inner = LaneOobInner {
            port: Cell::new(0),
            options: Cell::new(options),
            connections: Connections::new(Arc::clone(&connection_counters)),
            claims: RefCell::new(Claims::new(lane.id().0, options.transfers_max * options.streams_max)),
            idle: RefCell::default(),
            transfer_slots: TransferSlots::default(),
            memory: RefCell::default(),
            strays: port.sender(),
            pacer,
            counters: Arc::default(),
            connection_counters,
        };
        let oob = Self { inner: Rc::new(inner) };
        oob.take_strays(port);
        Ok(oob)
    }

    /// Bounds from now on.
    pub fn set_options(&self, options: OobOptions) {
        self.inner.options.set(options);
    }

    /// Returns the bounds of out-of-band TCP.
    pub(crate) fn options(&self) -> OobOptions {
        self.inner.options.get()
    }

    /// Returns what it counts.
    pub fn counters(&self) -> &Arc<OobCounters> {
        &self.inner.counters
    }

    /// Returns what its connections count.
    pub fn connection_counters(&self) -> &Arc<ConnectionCounters> {
        &self.inner.connection_counters
    }

    /// Returns whether a listener is open: else there is nothing to be had.
    pub fn is_listening(&self) -> bool {
        self.inner.port.get() != 0
    }

    /// Connections between two transfers.
    pub fn idle(&self) -> usize {
        self.inner.idle.borrow().len()
    }

    /// Connections of any state.
    pub fn connections(&self) -> usize {
        self.inner.connections.len()
    }

    /// Marks its connections' packets; see [`Connections::set_mark`].
    pub(crate) fn set_mark(&self, mark: u32) {
        self.inner.connections.set_mark(mark);
    }

    /// Asks idle connections to leave, and goes on with others.
    pub(crate) fn dismiss(&self) {
        self.inner.connections.drain().dismiss();
    }

    /// Takes nothing more and ends all connections; the number of those that are left at `deadline`.
    pub async fn drain(&self, deadline: Instant) -> usize {
        self.inner.connections.drain().ask(deadline).await
    }

    /// Returns what clients need to know of it.
    pub(crate) fn facts(&self) -> OobFacts {
        let options = self.options();
        OobFacts {
            version_min: OOB_VERSION,
            version_max: OOB_VERSION,
            flags: 0,
            streams_max: options.streams_max as u32,
            frame_max: FRAME_MAX,
            claim_seconds: options.claim.as_secs() as u32,
            idle_seconds: options.idle.as_secs() as u32,
            endpoints: self.endpoints(),
        }
    }

    /// Returns where clients connect: the address that they call.
    pub(super) fn endpoints(&self) -> OobEndpoints {
        let port = self.inner.port.get().into();
        List(vec![OobEndpoint { family: OOB_FAMILY_SAME, port, address: Opaque([0; 16]) }])
    }

    /// Takes connections until it is asked to drain, or the future is dropped.
    ///
    /// # Errors
    /// The kernel's, when the socket is at its end.
    pub async fn listen(&self, listener: &TcpListener) -> io::Result<()> {
        self.inner.port.set(listener.local_addr()?.port());
        let _closed = ConnectionClosed(&self.inner.port);
        self.inner.connections.accept(listener, |stream| self.accept_stream(stream)).await
    }

    /// Serves a connection that a client has opened, from its claim on.
    pub(crate) fn accept_stream(&self, stream: TcpStream) {
        let Ok((stream, open)) = self.inner.connections.admit(stream, self.options().connections_max) else {
            return;
        };
        let me = self.clone();
        lane::spawn(async move { me.receive_claim(stream, open).await }).detach();
    }

    async fn receive_claim(&self, stream: Rc<TcpStream>, open: Open) {
        let counters = &self.inner.counters;
        let heard = timeout(self.options().claim, stream.recv_alone(Vec::new(), CLAIM_BYTES));
        let heard = self.inner.connections.drain().unless_leaving(open.cohort(), heard).await;
        let Some(Ok((Ok(()), bytes))) = heard else {
            counters.claims_late.increment();
            return;
        };
        let bytes: [u8; CLAIM_BYTES] = std::array::from_fn(|at| bytes[at]);
        let Ok(Claim { token }) = Claim::decode(&bytes) else {
            counters.claims_malformed.increment();
            return;
        };
        if usize::from(token.lane()) == usize::from(lane::current().id().0) {
            return self.claimed(stream, open, &token);
        }
        drop(open);
        let Ok(stream) = Rc::try_unwrap(stream) else { return };
        if self.hand_over(stream, token).is_none() {
            counters.claims_lost.increment();
        }
    }

    /// Gives a connection to the lane that its token leads to.
    fn hand_over(&self, stream: TcpStream, token: Token) -> Option<()> {
        let (strays, lane) = (&self.inner.strays, usize::from(token.lane()));
        // A client that made the token up may have made up its lane.
        let member = (lane < strays.members()).then(|| Member::from(lane))?;
        let peer = stream.peer_addr();
        let stray = Stray { stream: stream.release().ok()?, peer, token };
        strays.cast(member, stray).ok()?;
        self.inner.counters.handed_over.increment();
        Some(())
    }

    /// Takes what other lanes accepted.
    fn take_strays(&self, port: Port<Stray>) {
        let weak = Rc::downgrade(&self.inner);
        let port = Rc::new(RefCell::new(port));
        let take = move || {
            let (weak, port) = (weak.clone(), Rc::clone(&port));
            async move {
                loop {
                    let mail = std::future::poll_fn(|cx| port.borrow_mut().poll_recv(cx)).await;
                    let (Some(mail), Some(inner)) = (mail, weak.upgrade()) else { return Ended::Done };
                    let Mail::Cast(_, Stray { stream, peer, token }) = mail else { continue };
                    let Ok(stream) = TcpStream::adopt(stream, peer) else { continue };
                    let me = Self { inner };
                    if let Ok((stream, open)) =
                        me.inner.connections.admit(stream, me.options().connections_max)
                    {
                        me.claimed(stream, open, &token);
                    }
                }
            }
        };
        lane::spawn_restarting("connections of other lanes", take).detach();
    }

    /// Takes a connection that has claimed its transfer.
    fn claimed(&self, stream: Rc<TcpStream>, open: Open, token: &Token) {
        let counters = &self.inner.counters;
        let claim = self.inner.claims.borrow_mut().claim(token, stream.peer_addr().ip(), now());
        self.count_unclaimed();
        match claim {
            Ok(awaited) => {
                // Short frames leave at once; a connection that does not take the option is slower.
                let _ = stream.set_option(SocketOption::NoDelay(true));
                let (number, owner) = (awaited.number, awaited.owner.clone());
                awaited.arrive(ClaimedConnection { number, owner, stream, open });
            }
            Err(Refusal::Unknown) => counters.claims_unknown.increment(),
            Err(Refusal::Expired) => counters.claims_expired.increment(),
            Err(Refusal::Address) => counters.claims_elsewhere.increment(),
        }
    }

    pub(super) fn count_unclaimed(&self) {
        self.inner.counters.unclaimed.set(self.inner.claims.borrow().len() as u64);
    }

    /// Keeps a connection for its client's next transfer.
    pub(super) fn keep(&self, connection: ClaimedConnection) {
        let (number, cohort) = (connection.number, connection.open.cohort());
        if self.inner.connections.drain().is_leaving(cohort) {
            return;
        }
        connection.open.slot().idle(now());
        let (stream, weak, idle) =
            (Rc::clone(&connection.stream), Rc::downgrade(&self.inner), self.options().idle);
        let watcher = lane::spawn(async move {
            let Some(connections) = weak.upgrade().map(|inner| Rc::clone(&inner.connections)) else { return };
            let heard = connections.drain().unless_leaving(cohort, timeout(idle, stream.recv())).await;
            let Some(inner) = weak.upgrade() else { return };
            match heard {
                Some(Ok(Ok(bytes))) if !bytes.is_empty() => inner.counters.idle_talked.increment(),
                Some(Err(_)) => inner.counters.idle_expired.increment(),
                _ => {}
            }
            inner.forget(number);
        });
        self.inner.idle.borrow_mut().insert(number, Idle { connection, watcher });
        self.inner.counters.idle.set(self.inner.idle.borrow().len() as u64);
    }

    /// Returns an idle connection of this number, if it is the owner's.
    pub(super) fn named(&self, number: u64, owner: &Owner) -> Option<ClaimedConnection> {
        let mut idle = self.inner.idle.borrow_mut();
        let found = idle.get(&number).is_some_and(|idle| idle.connection.owner == *owner);
        let taken = if found { idle.remove(&number) } else { None }?;
        self.inner.counters.idle.set(idle.len() as u64);
        drop(taken.watcher);
        (!taken.connection.open.slot().is_evicted()).then_some(taken.connection)
    }

    /// Turns at the server's rate.
    pub(super) fn ticket(&self) -> Option<Ticket> {
        self.inner.pacer.as_ref().map(Pacer::ticket)
    }

    pub(super) fn memory(&self) -> Memory {
        self.inner.memory.borrow_mut().pop().unwrap_or_default()
    }

    /// Takes memory back, for the next stream that receives.
    pub(super) fn put_memory(&self, memory: Memory) {
        let mut kept = self.inner.memory.borrow_mut();
        if kept.len() < MEMORY_KEPT {
            kept.push(memory);
        }
    }
}

impl LaneOobInner {
    /// Removes an idle connection that ends; called by the task that watched it.
    fn forget(self: Rc<Self>, number: u64) {
        let gone = self.idle.borrow_mut().remove(&number);
        self.counters.idle.set(self.idle.borrow().len() as u64);
        if let Some(Idle { connection, watcher }) = gone {
            watcher.detach();
            drop(connection);
        }
    }
}

/// Notes when dropped that the listener is closed.
struct ConnectionClosed<'a>(&'a Cell<u16>);

impl Drop for ConnectionClosed<'_> {
    fn drop(&mut self) {
        self.0.set(0);
    }
}

impl std::fmt::Debug for LaneOob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LaneOob").field("port", &self.inner.port).finish_non_exhaustive()
    }
}

//@ limit: connections on their way to the lane of their call
//@ section: Out-of-band TCP
//@ unit: connection
//@ connection: one
//@ all: lane: {} from each to each other
//@ empty: closed, and the call fails (OOB_UNCLAIMED); others feel nothing
//@ counter: oob_handed_over, oob_claims_refused{reason="lane"}
//@ attack: oob-pools
/// Connections on their way from one lane to another.
const STRAYS_MAX: usize = 64;
/// Pieces of 256 KiB that are kept while no client stores.
const MEMORY_KEPT: usize = 16;
