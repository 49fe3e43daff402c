//! A request under way, and its answer.

use std::cell::RefCell;
use std::future::poll_fn;
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use lane::buffer::Buf;
use smb_proto::window;
use smb_wire::body::plain::Empty;
use smb_wire::fixed::Fixed as _;
use smb_wire::header::flags;
use smb_wire::message::Body;
use smb_wire::{Command, Header, Message, Response, Status};

use crate::connection::Connection;
use crate::error::Error;
use crate::frame::Frame;
use crate::keys::Keys;

/// A request that is to be sent, before it has its ids.
pub struct OutgoingRequest<'a> {
    pub(crate) command: Command,
    pub(crate) flags: u32,
    pub(crate) sent: u32,
    pub(crate) expected: u32,
    pub(crate) write: Box<dyn FnOnce(&mut Body<'_>) + 'a>,
}

impl<'a> OutgoingRequest<'a> {
    /// Creates a request whose body `write` appends.
    pub fn new(command: Command, write: impl FnOnce(&mut Body<'_>) + 'a) -> Self {
        Self { command, flags: 0, sent: 0, expected: 0, write: Box::new(write) }
    }

    /// Creates an ECHO, which asks for nothing but an answer.
    pub(crate) fn echo() -> Self {
        Self::new(Command::Echo, |body| body.push(&Empty::blank()))
    }

    /// Notes that it carries so many bytes, and its answer up to so many: what its credits pay for (MS-SMB2
    /// 3.1.5.2).
    pub fn carrying(mut self, sent: u32, expected: u32) -> Self {
        (self.sent, self.expected) = (sent, expected);
        self
    }

    /// Makes it go on with session, tree and file of the request before it (MS-SMB2 3.2.4.1.4).
    pub fn related(self) -> Self {
        self.with(flags::RELATED_OPERATIONS)
    }

    /// Sets these flags of the header: a replay's.
    pub fn with(mut self, flags: u32) -> Self {
        self.flags |= flags;
        self
    }

    pub(crate) fn is_related(&self) -> bool {
        self.flags & flags::RELATED_OPERATIONS != 0
    }

    pub(crate) fn charge(&self) -> Result<u16, Error> {
        u16::try_from(window::charge(self.sent, self.expected)).map_err(|_| Error::TooLarge)
    }
}

impl std::fmt::Debug for OutgoingRequest<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ask({:?})", self.command)
    }
}

/// The state of a request under way, until its answer comes.
#[derive(Debug)]
pub(crate) struct RequestSlot {
    pub(crate) command: Command,
    pub(crate) charge: u16,
    /// Keys that the answer is checked with; `None` while there is no session, and in a sign-in, which checks
    /// by itself.
    pub(crate) keys: Option<Rc<Keys>>,
    pub(crate) sealed: bool,
    state: RefCell<SlotState>,
}

#[derive(Debug, Default)]
struct SlotState {
    answer: Option<Result<Reply, Error>>,
    async_id: Option<u64>,
    /// Part of its frame that is still with the kernel, or has come back.
    payload: Payload,
    waker: Option<Waker>,
}

#[derive(Debug, Default)]
enum Payload {
    #[default]
    None,
    Lent,
    Back(Vec<Buf>),
}

impl RequestSlot {
    pub(crate) fn new(
        command: Command,
        charge: u16,
        keys: Option<Rc<Keys>>,
        sealed: bool,
        lent: bool,
    ) -> Rc<Self> {
        let payload = if lent { Payload::Lent } else { Payload::None };
        Rc::new(Self {
            command,
            charge,
            keys,
            sealed,
            state: RefCell::new(SlotState { payload, ..SlotState::default() }),
        })
    }

    pub(crate) fn answer(&self, answer: Result<Reply, Error>) {
        let mut state = self.state.borrow_mut();
        state.answer.get_or_insert(answer);
        state.waker.take().inspect(Waker::wake_by_ref);
    }

    /// Returns whether it goes on; whether this is the first time that the server says so.
    pub(crate) fn goes_on(&self, async_id: u64) -> bool {
        let mut state = self.state.borrow_mut();
        state.waker.take().inspect(Waker::wake_by_ref);
        state.async_id.replace(async_id).is_none()
    }

    pub(crate) fn is_async(&self) -> bool {
        self.state.borrow().async_id.is_some()
    }

    pub(crate) fn give_back(&self, payload: Vec<Buf>) {
        let mut state = self.state.borrow_mut();
        state.payload = Payload::Back(payload);
        state.waker.take().inspect(Waker::wake_by_ref);
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<Result<Reply, Error>> {
        let mut state = self.state.borrow_mut();
        let is_whole = state.answer.is_some() && !matches!(state.payload, Payload::Lent);
        match is_whole.then(|| state.answer.take()).flatten() {
            Some(answer) => Poll::Ready(answer),
            None => {
                state.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// A request on its way. Dropped, its answer is thrown away when it comes.
#[must_use = "an answer that nobody waits for is thrown away"]
pub struct Pending {
    pub(crate) connection: Connection,
    pub(crate) slot: Rc<RequestSlot>,
    pub(crate) message_id: u64,
    pub(crate) session_id: u64,
    pub(crate) sign: bool,
    /// The request as it was sent, where the hash of a sign-in wants it.
    pub(crate) sent: Option<Vec<u8>>,
}

impl Pending {
    /// Waits for an interim answer: its number, or `None` when the last answer came.
    pub async fn interim(&mut self) -> Option<u64> {
        poll_fn(|cx| {
            let mut state = self.slot.state.borrow_mut();
            if state.answer.is_some() || state.async_id.is_some() {
                return Poll::Ready(if state.answer.is_some() { None } else { state.async_id });
            }
            state.waker = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// Asks the server to give it up (MS-SMB2 3.2.4.24). It is answered in either case, and is still to be waited for.
    ///
    /// # Errors
    /// The connection's.
    pub fn cancel(&self) -> Result<(), Error> {
        let async_id = self.slot.state.borrow().async_id;
        self.connection.cancel(self, async_id)
    }

    /// Has the server asked to give it up when this is dropped before its answer has come.
    pub(crate) fn or_cancel(self) -> OrCancel {
        OrCancel(self)
    }

    /// Takes the buffers that a request was sent with, once it is answered.
    pub(crate) fn take_payload(&self) -> Vec<Buf> {
        match std::mem::take(&mut self.slot.state.borrow_mut().payload) {
            Payload::Back(payload) => payload,
            Payload::None | Payload::Lent => Vec::new(),
        }
    }
}

impl Future for Pending {
    type Output = Result<Reply, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.slot.poll(cx)
    }
}

/// A request that no other shall wait for: dropped, it is cancelled.
pub(crate) struct OrCancel(Pending);

impl Future for OrCancel {
    type Output = Result<Reply, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx)
    }
}

impl Drop for OrCancel {
    fn drop(&mut self) {
        let Pending { connection, slot, message_id, .. } = &self.0;
        let is_under_way = {
            let pending = connection.shared().pending.borrow();
            pending.get(message_id).is_some_and(|other| Rc::ptr_eq(other, slot))
        };
        if is_under_way {
            // Else the connection is over, and the request with it.
            let _ = self.0.cancel();
        }
    }
}

impl std::fmt::Debug for Pending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pending({:?} {})", self.slot.command, self.message_id)
    }
}

/// An answer: its signature or seal was checked.
#[derive(Clone, Debug)]
pub struct Reply {
    frame: Rc<Frame>,
    range: Range<usize>,
}

impl Reply {
    pub(crate) fn new(frame: Rc<Frame>, range: Range<usize>) -> Self {
        Self { frame, range }
    }

    /// Returns the message as it came.
    pub fn bytes(&self) -> &[u8] {
        &self.frame.bytes()[self.range.clone()]
    }

    /// Returns the message, with its header read.
    pub fn message(&self) -> Message<'_> {
        Message::new(self.bytes()).expect("its header was read when it came")
    }

    /// Returns the message's header.
    pub fn header(&self) -> &Header {
        self.message().header()
    }

    /// Returns what became of the request.
    pub fn status(&self) -> Status {
        self.header().status()
    }

    /// Returns the message's body.
    ///
    /// # Errors
    /// [`Error::Malformed`]; the status, if the request failed.
    pub fn body(&self) -> Result<Response<'_>, Error> {
        let message = self.message();
        match Response::parse(&message)? {
            Response::Error(_) => {
                Err(Error::Status { command: message.header().command()?, status: self.status() })
            }
            response => Ok(response),
        }
    }

    /// Returns where in the message `part` of it lies.
    pub(crate) fn range_of(&self, part: &[u8]) -> Range<usize> {
        let start = (part.as_ptr() as usize).saturating_sub(self.bytes().as_ptr() as usize);
        start..start + part.len()
    }
}
