//! One TCP connection on its lane. Frames come in order and are begun in order; each is served by a task of its own when it
//! has to wait, and its replies leave when they are done.

mod by_address;
mod call;
mod deferred_read;
mod dispatch;
mod frame_reader;
mod pending;
mod replies;
mod request_traits;
mod send_queue;
mod stats;
mod unseal;

use std::cell::{Cell, OnceCell, RefCell};
use std::future::{Future, poll_fn};
use std::net::{IpAddr, Shutdown};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use lane::net::TcpStream;
use lane::time::{now, timeout_at};
use service::address::client_of;
use service::connections::Open;
use service::memory::Account;
use service::pacer::Ticket;
use smb_auth::Acceptor;
use smb_proto::numbers::NumberMap;
use smb_proto::preauth::PreauthHash;
use smb_proto::sealing::Cipher;
use smb_proto::signing::SigningAlgorithm;
use smb_proto::window::Window;
use smb_wire::framing::PREFIX_LEN;
use smb_wire::negotiate::{capabilities, smb1};
use smb_wire::{Command, Dialect, FrameKind, Guid, Malformed};

use self::by_address::AddressTraffic;
pub(crate) use self::by_address::ByAddress;
pub(crate) use self::call::{Call, Content, DATA_AT, Reply};
pub(crate) use self::dispatch::ReceivedWrite;
use self::dispatch::serve_frame;
use self::frame_reader::{Frame, FrameMax, FrameReader, ReceiveEnd};
use self::pending::PendingRequests;
pub(crate) use self::replies::{send_alone, send_unasked};
#[cfg(test)]
pub(crate) use self::request_traits::INTERIM_DELAY;
use self::send_queue::SendQueue;
pub(crate) use self::stats::{ConnectionStats, StatsByConnection};
use crate::command;
use crate::service::{Break, LaneSmb, Undelivered};
use crate::session::{Channel, Session};

/// A connection, for as long as a task needs it.
pub(crate) struct Connection {
    pub(crate) lane: Rc<LaneSmb>,
    /// Number of the connection, which no other of the process has.
    pub(crate) number: u64,
    pub(crate) stream: Rc<TcpStream>,
    pub(crate) peer: IpAddr,
    /// Negotiated parameters; empty before.
    pub(crate) negotiated: OnceCell<Negotiated>,
    /// An SMB1 negotiation was answered by "negotiate again".
    pub(crate) is_asked_again: Cell<bool>,
    /// Hash over the negotiation; each sign-in goes on from it.
    pub(crate) preauth: RefCell<PreauthHash>,
    pub(crate) window: RefCell<Window>,
    pub(crate) channels: RefCell<NumberMap<u64, Rc<Channel>>>,
    pub(crate) requests: PendingRequests,
    /// Breaks that were sent here and not acknowledged by the client's TCP.
    pub(crate) undelivered: Undelivered,
    /// Breaks that a request of this connection causes here, until it is answered.
    pub(crate) held_breaks: RefCell<Vec<Break>>,
    pub(crate) account: Rc<Account>,
    pub(crate) stats: Arc<ConnectionStats>,
    /// Place of the server's address that it came by, in the counters by address.
    place: usize,
    send_queue: SendQueue,
    ticket: RefCell<Option<Ticket>>,
    has_ended: Cell<bool>,
    /// Byte behind which nothing counts as acknowledged, for Samba's tests.
    acknowledged_max: Cell<u64>,
    /// Set if zeros stand before the data of READs, for Samba's tests.
    pub(crate) pads_reads: Cell<bool>,
}

/// Parameters that client and server agreed on (MS-SMB2 3.3.1.7).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Negotiated {
    pub(crate) dialect: Dialect,
    pub(crate) client: Guid,
    pub(crate) client_capabilities: u32,
    pub(crate) client_security_mode: u16,
    pub(crate) capabilities: u32,
    pub(crate) security_mode: u16,
    pub(crate) signing: SigningAlgorithm,
    pub(crate) cipher: Option<Cipher>,
    pub(crate) posix: bool,
    pub(crate) transfer_max: u32,
    pub(crate) transact_max: u32,
}

/// A sign-in between two of its messages.
pub(crate) struct SigningIn {
    pub(crate) session: Arc<Session>,
    /// Set if the sign-in binds one more channel to a session.
    pub(crate) is_binding: bool,
    pub(crate) acceptor: Acceptor,
    pub(crate) preauth: PreauthHash,
}

impl Negotiated {
    /// Returns whether requests may pay for more than 64 KiB.
    pub(crate) fn multi_credit(&self) -> bool {
        self.capabilities & capabilities::LARGE_MTU != 0
    }

    /// Returns whether the client hears of what the server does of its own accord
    /// (`Connection.SupportsNotifications`).
    pub(crate) fn notifies(&self) -> bool {
        self.capabilities & capabilities::NOTIFICATIONS != 0
    }
}

impl Connection {
    /// Returns what the lane counts by the address that the connection came by.
    fn moved(&self) -> &AddressTraffic {
        self.lane.by_address.at(self.place)
    }

    /// Serves a connection to its end.
    pub(crate) async fn serve(lane: Rc<LaneSmb>, stream: Rc<TcpStream>, open: Open) {
        let peer = stream.peer_addr().ip();
        let (account, ticket) = lane.accounts(peer);
        let stats = ConnectionStats::new(stream.peer_addr(), stream.local_addr().ok());
        let place = ByAddress::place(stats.local);
        let me = Rc::new(Self {
            number: lane.server_state.next_connection(),
            window: RefCell::new(Window::new(lane.options().credits)),
            lane,
            stream,
            peer,
            negotiated: OnceCell::new(),
            is_asked_again: Cell::new(false),
            preauth: RefCell::default(),
            channels: RefCell::default(),
            requests: PendingRequests::default(),
            undelivered: Undelivered::default(),
            held_breaks: RefCell::default(),
            account,
            stats,
            place,
            send_queue: SendQueue::default(),
            ticket: RefCell::new(Some(ticket)),
            has_ended: Cell::new(false),
            acknowledged_max: Cell::new(u64::MAX),
            pads_reads: Cell::new(false),
        });
        me.count_end(me.take_frames(&open).await);
        me.send_queue.empty().await;
        me.end();
        me.release().await;
    }

    /// Takes frames until there are no more, or something is wrong with them.
    async fn take_frames(self: &Rc<Self>, open: &Open) -> ReceiveEnd {
        let mut frame_reader = FrameReader::default();
        // Time since which it has had no session. A client that ends the last one of an old connection gets
        // its answer, and may sign in again.
        let mut without = Some(now());
        let drain = self.lane.connections().drain();
        loop {
            self.send_queue.room().await;
            self.requests.room().await;
            if self.has_ended.get() {
                return ReceiveEnd::Gone;
            }
            let is_signed_in = !self.channels.borrow().is_empty();
            if is_signed_in && self.requests.is_empty() {
                open.slot().idle(now());
            }
            let begun = frame_reader.begun(&self.stream);
            let begun = match is_signed_in {
                // A client may say nothing for days.
                true => {
                    without = None;
                    drain.unless_leaving(open.cohort(), begun).await
                }
                false => {
                    let begun = timeout_at(*without.get_or_insert_with(now) + SIGN_IN_WITHIN, begun);
                    drain
                        .unless_leaving(open.cohort(), begun)
                        .await
                        .map(|begun| begun.unwrap_or(Err(ReceiveEnd::Late)))
                }
            };
            match begun {
                // The server ends, or the lane's connections are to go elsewhere.
                None => return ReceiveEnd::Gone,
                Some(Err(end)) => return end,
                Some(Ok(())) => {}
            }
            if is_signed_in {
                open.slot().busy(now());
            }
            let frame =
                frame_reader.frame(&self.stream, self.frame_max(), &self.account, &self.lane.pieces).await;
            let before = self.send_queue.bytes();
            let begun = frame.and_then(|frame| {
                let bytes = (PREFIX_LEN + frame.len()) as u64;
                self.stats.bytes_in.add(bytes);
                self.moved().bytes_in.add(bytes);
                self.begin(frame)
            });
            if let Err(end) = begun {
                return end;
            }
            // What was read and signed or sealed at once took its time: others of this lane get theirs.
            if self.send_queue.bytes() >= before + LONG_BYTES {
                lane::yield_if_due().await;
            }
        }
    }

    /// Returns the longest frame that is taken now.
    fn frame_max(&self) -> FrameMax {
        match (self.negotiated.get(), self.channels.borrow().is_empty()) {
            (None, _) => FrameMax::Negotiate,
            (Some(_), true) => FrameMax::SignIn,
            (Some(negotiated), false) => {
                FrameMax::Data(negotiated.transfer_max.max(negotiated.transact_max) as usize)
            }
        }
    }

    /// Begins to serve a frame.
    fn begin(self: &Rc<Self>, mut frame: Frame) -> Result<(), ReceiveEnd> {
        match FrameKind::of(&frame).map_err(ReceiveEnd::Malformed)? {
            FrameKind::Plain => self.admit(&frame)?,
            FrameKind::Sealed => {
                let (opened, channel) = unseal::open(self, frame)?;
                self.admit(&opened)?;
                self.spawn(serve_frame(Rc::clone(self), opened, Some(channel)));
                return Ok(());
            }
            FrameKind::Smb1 => return self.negotiate_again(&mut frame),
            FrameKind::Compressed => {
                self.lane.counters.ended_compressed.increment();
                return Err(ReceiveEnd::Gone);
            }
        }
        self.spawn(serve_frame(Rc::clone(self), frame, None));
        Ok(())
    }

    /// Checks whether the messages of a frame may come now: their ids are used.
    fn admit(&self, frame: &[u8]) -> Result<(), ReceiveEnd> {
        let mut window = self.window.borrow_mut();
        for message in smb_wire::compound::Messages::new(frame) {
            let message = message.map_err(ReceiveEnd::Malformed)?;
            let header = message.header();
            let command = header.command();
            if header.has(smb_wire::header::flags::SERVER_TO_REDIR) {
                return Err(ReceiveEnd::Malformed(Malformed::Protocol));
            }
            //= MS-SMB2 3.3.5.3
            //# What is no NEGOTIATE before the negotiation ends the connection.
            if self.negotiated.get().is_none() && command != Ok(Command::Negotiate) {
                self.lane.counters.ended_negotiate.increment();
                return Err(ReceiveEnd::Gone);
            }
            //= MS-SMB2 3.3.5.2.3
            //# CANCEL uses no id of its own.
            if command == Ok(Command::Cancel) {
                continue;
            }
            let charge = match self.negotiated.get().is_some_and(Negotiated::multi_credit) {
                true => header.charge(),
                false => 1,
            };
            if window.take(header.message_id.get(), charge).is_err() {
                self.lane.counters.ended_window.increment();
                return Err(ReceiveEnd::Gone);
            }
        }
        Ok(())
    }

    fn negotiate_again(self: &Rc<Self>, frame: &mut Frame) -> Result<(), ReceiveEnd> {
        let offer = smb1::parse(frame).map_err(ReceiveEnd::Malformed)?;
        if !command::negotiate::from_smb1(self, offer) {
            self.lane.counters.ended_smb1.increment();
            return Err(ReceiveEnd::Gone);
        }
        self.lane.counters.smb1_negotiations.increment();
        Ok(())
    }

    /// Has a frame served: at once as far as it goes, then by a task of its own.
    fn spawn(self: &Rc<Self>, serving: impl Future<Output = ()> + 'static) {
        let mut serving = Box::pin(serving);
        let waker = std::task::Waker::noop();
        let is_done = serving.as_mut().poll(&mut std::task::Context::from_waker(waker)).is_ready();
        if !is_done {
            lane::spawn_for(client_of(self.peer), serving).detach();
        }
    }

    /// Ends the connection: nothing more is received or sent. Requests that change something go on while
    /// their session does.
    pub(crate) fn end(&self) {
        if !self.has_ended.replace(true) {
            self.send_queue.close();
            self.requests.lose();
            // A task that waits for bytes finds the end. A stream that is broken has it already.
            let _ = self.stream.shutdown(Shutdown::Both);
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.get()
    }

    /// Gives back what the connection had of sessions: those whose last channel it was are over. It keeps its place among the
    /// server's connections until the last of its requests has ended.
    async fn release(self: &Rc<Self>) {
        for channel in self.channels.borrow().values() {
            self.lane.remove_client_channel(channel.session.client, self);
        }
        // Other connections of their clients tell them.
        self.undelivered.take().into_iter().for_each(|broken| self.lane.deliver(broken));
        self.lane.server_state.pending_sign_ins.forget(self.number);
        let channels: Vec<_> = self.channels.borrow().values().cloned().collect();
        for channel in &channels {
            self.lane.lost(self, &channel.session).await;
        }
        self.requests.empty().await;
        for channel in channels {
            channel.session.has_left(self.number);
            self.forget(channel.session.id);
        }
        self.lane.remove_connection(self);
    }

    /// Returns the end of what was queued last, in bytes of the connection.
    pub(crate) fn queued(&self) -> u64 {
        self.send_queue.end()
    }

    /// Returns how many bytes the client's TCP has acknowledged: one system call.
    pub(crate) fn acknowledged(&self) -> u64 {
        let waiting = self.stream.unacknowledged().unwrap_or(u64::MAX);
        self.send_queue.sent().saturating_sub(waiting).min(self.acknowledged_max.get())
    }

    /// Has nothing more count as acknowledged.
    pub(crate) fn take_as_unacknowledged(&self) {
        self.acknowledged_max.set(self.acknowledged());
    }

    /// Adds a channel of a session to the connection.
    pub(crate) fn add_channel(&self, channel: Rc<Channel>) {
        let session = &channel.session;
        self.lane.add_client_channel(session.client, self);
        self.lane.counters.sessions.add(1);
        self.channels.borrow_mut().insert(session.id, channel);
    }

    /// Removes the connection's channel of a session.
    pub(crate) fn remove_channel(&self, session: u64) {
        let Some(lost) = self.channels.borrow_mut().remove(&session) else { return };
        self.lane.counters.sessions.sub(1);
        let client = lost.session.client;
        if self.channels.borrow().values().all(|channel| channel.session.client != client) {
            self.lane.remove_client_channel(client, self);
        }
    }

    /// Removes a session that is over: what waits of it is cancelled.
    pub(crate) fn forget(&self, session: u64) {
        self.remove_channel(session);
        self.requests.cancel_session(session);
    }

    fn count_end(&self, end: ReceiveEnd) {
        let counters = &self.lane.counters;
        match end {
            ReceiveEnd::Gone => {}
            ReceiveEnd::Malformed(why) => {
                tracing::debug!(peer = %self.peer, "SMB: the connection ends: {why}");
                counters.ended_malformed.increment();
            }
            ReceiveEnd::Late => counters.ended_late.increment(),
            ReceiveEnd::Short => counters.ended_unserved.increment(),
        }
    }
}

/// Returns `future`'s output if it is there at once.
pub(crate) async fn at_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    poll_fn(|cx| match std::pin::Pin::new(&mut *future).poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

//@ limit: connections without a session
//@ section: SMB
//@ unit: time
//@ connection: {}
//@ empty: closed; others feel nothing
//@ counter: smb_ended_late, smb_connections
//@ attack: smb-silent-10000
/// Time for which a client has to negotiate and sign in, and to sign in again once it has no session any
/// more.
const SIGN_IN_WITHIN: Duration = Duration::from_secs(60);
/// Bytes of replies that a frame may have made before others get their turn.
const LONG_BYTES: usize = 128 << 10;
