//! One connection: what was agreed on, what is on its way, and the two tasks that send and receive.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::net::{Shutdown, SocketAddr};
use std::rc::Rc;
use std::task::{Poll, Waker};

use lane::Task;
use lane::backend::SocketOption;
use lane::buffer::Buf;
use lane::net::TcpStream;
use smb_proto::numbers::NumberMap;
use smb_proto::preauth::PreauthHash;
use smb_wire::body::plain::Empty;
use smb_wire::compound::{self, Compound};
use smb_wire::fixed::Fixed;
use smb_wire::framing::{self, PREFIX_LEN};
use smb_wire::header::{SIGNATURE, flags};
use smb_wire::transform::TRANSFORM_LEN;
use smb_wire::{Command, Header, Role};

use crate::break_queue::BreakQueue;
use crate::counters::Counters;
use crate::credits::{Credits, OutOfCredits};
use crate::error::Error;
use crate::exchange::{OutgoingRequest, Pending, RequestSlot};
use crate::frame::FramePool;
use crate::keys::Keys;
use crate::options::Options;

mod negotiate;
mod receive;
mod send;

pub use negotiate::Negotiated;
use send::FrameQueue;

/// A connection to a server. It ends when the last of its handles, sessions, trees and opens is dropped.
#[derive(Clone)]
pub struct Connection(Rc<Handle>);

struct Handle {
    shared: Rc<ConnectionState>,
    tasks: RefCell<Option<[Task<()>; 2]>>,
}

pub(crate) struct ConnectionState {
    pub(crate) stream: TcpStream,
    pub(crate) options: Options,
    pub(crate) counters: Counters,
    pub(crate) frames: Rc<FramePool>,
    pub(crate) break_queue: BreakQueue,
    negotiated: RefCell<Option<Rc<Negotiated>>>,
    /// The hash of the negotiation, from which each sign-in goes on.
    preauth: Cell<PreauthHash>,
    credits: RefCell<Credits>,
    pub(crate) pending: RefCell<NumberMap<u64, Rc<RequestSlot>>>,
    queue: RefCell<FrameQueue>,
    /// Keys that may seal on this connection, by session.
    sealers: RefCell<HashMap<u64, Rc<Keys>>>,
    ended: RefCell<Option<Error>>,
    ended_wakers: RefCell<Vec<Waker>>,
}

/// The session, keys and protection that a request is sent with.
#[derive(Clone, Debug, Default)]
pub(crate) struct SendContext {
    pub(crate) session_id: u64,
    pub(crate) tree_id: u32,
    pub(crate) keys: Option<Rc<Keys>>,
    pub(crate) sign: bool,
    pub(crate) seal: bool,
    /// The answer is checked with the keys; else by the caller.
    pub(crate) check: bool,
    pub(crate) sequence: u16,
    /// The message as it was sent is wanted.
    pub(crate) keep: bool,
}

impl Connection {
    /// Connects and negotiates.
    ///
    /// # Errors
    /// The socket's; what the server chose is none of what was offered.
    pub async fn open(server: SocketAddr, options: Options) -> Result<Self, Error> {
        let stream = TcpStream::connect(server).await?;
        stream.set_option(SocketOption::NoDelay(true))?;
        let shared = Rc::new(ConnectionState {
            stream,
            counters: Counters::default(),
            frames: FramePool::of_lane(),
            break_queue: BreakQueue::default(),
            negotiated: RefCell::default(),
            preauth: Cell::default(),
            credits: RefCell::new(Credits::new(options.credits)),
            pending: RefCell::default(),
            queue: RefCell::default(),
            sealers: RefCell::default(),
            ended: RefCell::default(),
            ended_wakers: RefCell::default(),
            options,
        });
        let (receives, sends) = (Rc::clone(&shared), Rc::clone(&shared));
        let tasks = [
            lane::spawn(async move { receives.end(receive::run(&receives).await) }),
            lane::spawn(async move { sends.end(send::run(&sends).await) }),
        ];
        let connection = Self(Rc::new(Handle { shared, tasks: RefCell::new(Some(tasks)) }));
        negotiate::negotiate(&connection).await?;
        Ok(connection)
    }

    /// Returns what was agreed on.
    pub fn negotiated(&self) -> Rc<Negotiated> {
        let negotiated = self.shared().negotiated.borrow();
        Rc::clone(negotiated.as_ref().expect("a connection is handed out when it is negotiated"))
    }

    /// Returns what it has counted.
    pub fn counters(&self) -> &Counters {
        &self.shared().counters
    }

    /// Credits that no request has.
    pub fn credits(&self) -> u32 {
        self.shared().credits.borrow().available()
    }

    /// Returns why it is over, if it is.
    pub fn ended(&self) -> Option<Error> {
        self.shared().ended.borrow().clone()
    }

    /// Waits until it is over, and says why.
    pub async fn wait_ended(&self) -> Error {
        poll_fn(|cx| match self.ended() {
            Some(error) => Poll::Ready(error),
            None => {
                self.shared().ended_wakers.borrow_mut().push(cx.waker().clone());
                Poll::Pending
            }
        })
        .await
    }

    /// Ends it at once, as a lost network does: what is under way fails with [`Error::Closed`].
    pub fn break_off(&self) {
        self.shared().end(Error::Closed);
    }

    /// Ends it by a reset, with whatever is half sent, as a client that dies: what is under way fails with [`Error::Closed`]. The
    /// server hears of it when the last handle is dropped.
    pub fn reset(&self) {
        let shared = self.shared();
        // A socket that takes no option is broken already.
        let _ = shared.stream.set_option(SocketOption::ResetOnClose);
        shared.fail_all(Error::Closed);
        // What they wait for of the ring holds the socket.
        self.0.tasks.take();
    }

    /// Requests that wait for their answers.
    pub fn outstanding(&self) -> usize {
        self.shared().pending.borrow().len()
    }

    pub(crate) fn is(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    pub(crate) fn shared(&self) -> &Rc<ConnectionState> {
        &self.0.shared
    }

    pub(crate) fn preauth(&self) -> PreauthHash {
        self.shared().preauth.get()
    }

    /// Messages of this session may come sealed from now on.
    pub(crate) fn admit(&self, keys: &Rc<Keys>) {
        self.shared().sealers.borrow_mut().insert(keys.session_id, Rc::clone(keys));
    }

    pub(crate) fn forget(&self, session_id: u64) {
        self.shared().sealers.borrow_mut().remove(&session_id);
    }

    /// Sends requests as one frame, once there are credits for them. `payload` follows the last of them, whose body says so:
    /// with one request alone.
    pub(crate) async fn send<const N: usize>(
        &self,
        send_context: &SendContext,
        requests: [OutgoingRequest<'_>; N],
        payload: Vec<Buf>,
    ) -> Result<[Pending; N], Error> {
        debug_assert!(payload.is_empty() || N == 1, "a payload belongs to one request");
        let multi = self.shared().negotiated.borrow().as_ref().is_some_and(|agreed| agreed.multi_credit);
        let mut charges = [1; N];
        if multi {
            for (charge, request) in charges.iter_mut().zip(&requests) {
                *charge = request.charge()?;
            }
        }
        let total = charges.iter().fold(0u16, |sum, charge| sum.saturating_add(*charge));
        let first = self.ids_or_more_credits(send_context, total).await?;
        // From here on nothing waits: ids that were taken are used.
        let mut frame = vec![0; PREFIX_LEN + if send_context.seal { TRANSFORM_LEN } else { 0 }];
        let start = frame.len();
        let mut compound = Compound::new(&mut frame);
        let mut next = first;
        let mut charged = charges.iter();
        let pending = requests.map(|request| {
            let charge = *charged.next().expect("as many charges as requests");
            let message_id = next;
            next += u64::from(charge);
            let header = self.header(send_context, &request, message_id, if multi { charge } else { 0 });
            let keys = if send_context.check { send_context.keys.clone() } else { None };
            let lent = !payload.is_empty() && !send_context.seal;
            let slot = RequestSlot::new(request.command, charge, keys, send_context.seal, lent);
            (request.write)(&mut compound.begin(&header));
            self.shared().pending.borrow_mut().insert(message_id, Rc::clone(&slot));
            self.shared().counters.requests.increment();
            let (connection, session_id, sign) = (self.clone(), send_context.session_id, send_context.sign);
            Pending { connection, slot, message_id, session_id, sign, sent: None }
        });
        let lent = (!payload.is_empty()).then(|| Rc::clone(&pending[N - 1].slot));
        // Ids that are not used would shut the server's window.
        let kept = self
            .finish(send_context, frame, start, payload, lent)
            .inspect_err(|error| self.shared().end(error.clone()))?;
        let mut pending = pending;
        if let Some(first) = pending.first_mut() {
            first.sent = kept;
        }
        Ok(pending)
    }

    fn header(
        &self,
        send_context: &SendContext,
        request: &OutgoingRequest<'_>,
        message_id: u64,
        charge: u16,
    ) -> Header {
        let mut header = Header::request(request.command, message_id).with(request.flags);
        header.credit_charge.set(charge);
        header.credits.set(self.shared().credits.borrow().to_request(charge));
        header.status.set(send_context.sequence.into());
        header.session_id.set(send_context.session_id);
        header.tree_id.set(send_context.tree_id);
        if request.is_related() {
            header.session_id.set(u64::MAX);
            header.tree_id.set(u32::MAX);
        }
        if send_context.sign && !send_context.seal { header.with(flags::SIGNED) } else { header }
    }

    /// Signs or seals a frame, and queues it. Gives the first message as it is sent, where that is wanted.
    fn finish(
        &self,
        send_context: &SendContext,
        mut frame: Vec<u8>,
        start: usize,
        payload: Vec<Buf>,
        lent: Option<Rc<RequestSlot>>,
    ) -> Result<Option<Vec<u8>>, Error> {
        let keys = send_context.keys.as_deref();
        let mut payload = payload;
        if send_context.seal {
            // What is sealed lies in one piece, and the payload is the caller's.
            payload.iter().for_each(|part| frame.extend_from_slice(part));
            keys.ok_or(Error::NoEncryption)?.seal(&mut frame[PREFIX_LEN..])?;
            if let Some(slot) = &lent {
                slot.give_back(std::mem::take(&mut payload));
            }
        } else if send_context.sign
            && let Some(signing) = keys.and_then(|keys| keys.signing.as_ref())
        {
            let ranges: Vec<_> = compound::ranges(&frame[start..]).collect();
            for range in ranges {
                let range = range.expect("a frame of our own");
                let message = &mut frame[start..][range];
                let signature = {
                    let parts: Vec<&[u8]> =
                        std::iter::once(&*message).chain(payload.iter().map(|part| &**part)).collect();
                    signing.sign(Role::Client, &parts).expect("a message of our own")
                };
                message[SIGNATURE].copy_from_slice(&signature);
            }
        }
        let len = frame.len() - PREFIX_LEN + payload.iter().map(|part| part.len()).sum::<usize>();
        let prefix = framing::prefix(len).ok_or(Error::TooLarge)?;
        frame[..PREFIX_LEN].copy_from_slice(&prefix);
        let kept = send_context.keep.then(|| frame[start..].to_vec());
        let payload_of = if payload.is_empty() { None } else { lent };
        self.shared().queue.borrow_mut().push(frame, payload, payload_of);
        Ok(kept)
    }

    /// Asks the server to give a request up.
    pub(crate) fn cancel(&self, pending: &Pending, async_id: Option<u64>) -> Result<(), Error> {
        if let Some(error) = self.ended() {
            return Err(error);
        }
        let mut header = Header::request(Command::Cancel, pending.message_id);
        header.session_id.set(pending.session_id);
        if let Some(id) = async_id {
            header = header.with_async_id(id);
        }
        let seal = pending.slot.sealed;
        let sign = pending.sign && !seal;
        if sign {
            header = header.with(flags::SIGNED);
        }
        let mut frame = vec![0; PREFIX_LEN + if seal { TRANSFORM_LEN } else { 0 }];
        let start = frame.len();
        Compound::new(&mut frame).begin(&header).push(&Empty::blank());
        let keys = pending.slot.keys.clone();
        let send_context = SendContext { keys, sign, seal, ..SendContext::default() };
        self.finish(&send_context, frame, start, Vec::new(), None).map(|_| ())
    }

    /// Takes message ids as [`ids`](Self::ids) does. Where the server has given fewer credits than the request needs and no answer under way
    /// brings more, it is asked for some.
    async fn ids_or_more_credits(&self, send_context: &SendContext, charge: u16) -> Result<u64, Error> {
        // One credit is what an ECHO needs itself.
        let asks_max = if charge == 1 { 0 } else { CREDIT_ASKS_MAX };
        let mut in_vain = 0;
        loop {
            match self.ids(charge).await? {
                Ok(first) => return Ok(first),
                Err(OutOfCredits) if in_vain == asks_max => return Err(Error::TooLarge),
                Err(OutOfCredits) => {}
            }
            let before = self.credits();
            let [answer] = Box::pin(self.send(send_context, [OutgoingRequest::echo()], Vec::new())).await?;
            answer.await?;
            in_vain = if self.credits() > before { 0 } else { in_vain + 1 };
        }
    }

    /// Takes `charge` message ids that follow one another, waiting in line for them.
    async fn ids(&self, charge: u16) -> Result<Result<u64, OutOfCredits>, Error> {
        if let Some(error) = self.ended() {
            return Err(error);
        }
        if let Some(taken) = self.shared().credits.borrow_mut().take(charge).transpose() {
            return Ok(taken);
        }
        self.shared().counters.credit_waits.increment();
        let line = CreditWaiter { shared: self.shared(), ticket: self.shared().credits.borrow_mut().queue() };
        poll_fn(|cx| {
            if let Some(error) = self.ended() {
                return Poll::Ready(Err(error));
            }
            let mut credits = self.shared().credits.borrow_mut();
            match credits.take_in_turn(line.ticket, charge, cx.waker()).transpose() {
                Some(taken) => Poll::Ready(Ok(taken)),
                None => Poll::Pending,
            }
        })
        .await
    }
}

/// Number of times that a server that gives no more credits than were paid is asked for more before a request
/// is too large for it.
const CREDIT_ASKS_MAX: u32 = 32;

/// Keeps a request in the queue for credits. Dropped, it leaves the queue.
struct CreditWaiter<'s> {
    shared: &'s ConnectionState,
    ticket: u64,
}

impl Drop for CreditWaiter<'_> {
    fn drop(&mut self) {
        self.shared.credits.borrow_mut().leave(self.ticket);
    }
}

impl ConnectionState {
    /// Ends the connection and its socket. Only the first reason counts.
    fn end(&self, error: Error) {
        // With the lane the socket goes too.
        if self.fail_all(error) && lane::on_lane() {
            // The peer may have closed already.
            let _ = self.stream.shutdown(Shutdown::Both);
        }
    }

    /// Fails all requests that wait; `false` when the connection had ended before.
    fn fail_all(&self, error: Error) -> bool {
        if self.ended.borrow().is_some() {
            return false;
        }
        *self.ended.borrow_mut() = Some(error.clone());
        let slots: Vec<_> = self.pending.borrow_mut().drain().map(|(_, slot)| slot).collect();
        for slot in slots {
            slot.give_back(Vec::new());
            slot.answer(Err(error.clone()));
        }
        self.credits.borrow_mut().wake_all();
        self.break_queue.wake();
        self.ended_wakers.take().into_iter().for_each(Waker::wake);
        true
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.end(Error::Closed);
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shared = self.shared();
        f.debug_struct("Connection")
            .field("server", &shared.stream.peer_addr())
            .field("pending", &shared.pending.borrow().len())
            .field("ended", &shared.ended.borrow())
            .finish_non_exhaustive()
    }
}
