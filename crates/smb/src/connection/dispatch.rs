//! Dispatches the messages of a frame, which may be a compound, to their commands and collects the replies.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;

use lane::buffer::Buf;
use lane::time::sleep;
use service::memory::Charge;
use smb_proto::related::{Compound, CompoundContext};
use smb_wire::body::error::ErrorResponse;
use smb_wire::body::read::ReadResponseFixed;
use smb_wire::body::write::{WriteRequest, WriteRequestFixed};
use smb_wire::compound::Messages;
use smb_wire::fsctl::code;
use smb_wire::header::flags;
use smb_wire::{Command, Dialect, Header, Message, Request, Role, Status};

use super::call::{Call, Content, DATA_AT, Reply, put_empty};
use super::deferred_read::{DeferredRead, put_read_headers};
use super::frame_reader::Frame;
use super::replies::{Replies, leave_before, leave_short};
use super::request_traits::{
    WaitDelays, control_code, is_data_of_file, named_file, needed_len, outlives_connection,
};
use super::send_queue::Payload;
use super::{Connection, Negotiated};
use crate::command;
use crate::session::{Channel, SessionState};

/// Serves the messages of a frame; `sealer` is whose keys have opened it.
pub(super) async fn serve_frame(connection: Rc<Connection>, frame: Frame, sealer: Option<Rc<Channel>>) {
    let mut dispatch = FrameDispatch {
        connection: &connection,
        sealer,
        compound: Compound::new(),
        replies: Replies::new(),
        checked: None,
        held: frame.held(),
        kept: frame.len(),
    };
    let is_compounded = Messages::new(&frame).count() > 1;
    if !is_compounded && let Ok(message) = Message::new(&frame) {
        match (message.header().command(), needed_len(&message)) {
            (Ok(Command::Write), _) => dispatch.serve_write(frame).await,
            // A request that may wait without a limit of time keeps no more than it needs.
            (_, Some(len)) if frame.len() - len > SURPLUS_MAX || frame.held() > 0 => {
                dispatch.serve_cut(frame, len).await
            }
            _ => dispatch.serve(message, false, None).await,
        };
        return dispatch.leave();
    }
    for message in Messages::new(&frame) {
        // It was admitted whole.
        let Ok(message) = message else { break };
        if connection.has_ended() || dispatch.serve(message, true, None).await == AfterMessage::End {
            return;
        }
    }
    dispatch.leave();
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum AfterMessage {
    Message,
    /// The connection ends.
    End,
}

/// Serves the messages of one frame, one after the other.
struct FrameDispatch<'a> {
    connection: &'a Rc<Connection>,
    sealer: Option<Rc<Channel>>,
    compound: Compound,
    replies: Replies,
    /// Result of a WRITE's check while it was whole.
    checked: Option<Result<(), Status>>,
    /// Bytes of memory that the frame was granted, and keeps until all of it is served.
    held: usize,
    /// Bytes of the frame that are kept until all of it is served.
    kept: usize,
}

/// A WRITE whose data stays in the buffer that it was received in.
pub(crate) struct ReceivedWrite {
    pub(crate) fixed: WriteRequestFixed,
    pub(crate) data: Buf,
    /// Charge of the data's memory.
    pub(crate) charge: Option<Charge>,
}

impl FrameDispatch<'_> {
    /// Serves a WRITE that is alone in its frame: its data is written from where it was received.
    async fn serve_write(&mut self, frame: Frame) -> AfterMessage {
        let part = {
            let Ok(message) = Message::new(&frame) else { return AfterMessage::End };
            match WriteRequest::parse(&message) {
                Ok(request) if !request.data.is_empty() => {
                    let start = usize::from(request.fixed.data_offset.get());
                    Some((*request.fixed, start..start + request.data.len()))
                }
                // What is wrong with it is answered as with any other.
                _ => None,
            }
        };
        let Some((fixed, part)) = part else {
            let Ok(message) = Message::new(&frame) else { return AfterMessage::End };
            return self.serve(message, false, None).await;
        };
        let head: Vec<u8> = frame[..part.start].to_vec();
        let Ok(message) = Message::new(&frame) else { return AfterMessage::End };
        let channel = self.channel_of(message.header().session_id.get());
        let checked = self.check(&message, Command::Write, channel.as_deref());
        self.checked = Some(checked);
        if checked.is_err() {
            return self.serve(message, false, None).await;
        }
        let (data, charge) = frame.into_part(part);
        let Ok(message) = Message::new(&head) else { return AfterMessage::End };
        self.serve(message, false, Some(ReceivedWrite { fixed, data, charge })).await
    }

    /// Checks a message that is alone in its frame, and serves it from a copy of its first `len` bytes: the rest means nothing.
    async fn serve_cut(&mut self, frame: Frame, len: usize) -> AfterMessage {
        let head = {
            let Ok(message) = Message::new(&frame) else { return AfterMessage::End };
            let command = message.header().command().unwrap_or(Command::Echo);
            let channel = self.channel_of(message.header().session_id.get());
            self.checked = Some(self.check(&message, command, channel.as_deref()));
            frame[..len].to_vec()
        };
        drop(frame);
        (self.held, self.kept) = (0, head.len());
        let Ok(message) = Message::new(&head) else { return AfterMessage::End };
        self.serve(message, false, None).await
    }

    /// Serves one message.
    async fn serve(
        &mut self,
        message: Message<'_>,
        is_compounded: bool,
        received: Option<ReceivedWrite>,
    ) -> AfterMessage {
        let header = *message.header();
        let Ok(command) = header.command() else {
            // As Windows and Samba have it; the specification would end the connection.
            let pending_reply = PendingReply::of(header, Command::Echo);
            return self.put(&pending_reply, None, None, Status::INVALID_PARAMETER.into());
        };
        let named = named_file(&message, command);
        let begun = self.compound.begin(&header, command, named);
        let channel = match begun {
            Ok(context) => self.channel(context),
            Err(_) => self.channel_of(header.session_id.get()),
        };
        let channel = channel.or_else(|| self.session_signer(&message, command));
        if command == Command::Cancel {
            //= MS-SMB2 3.3.5.16
            //# The session of a signed CANCEL is verified. What waits is found by the AsyncId where the header holds one, else by the MessageId,
            //# and fails with STATUS_CANCELLED; the CANCEL itself has no response, found or not.
            let is_nobodys = header.has(flags::SIGNED) && channel.is_none();
            if !is_nobodys && self.check(&message, command, channel.as_deref()).is_ok() {
                self.connection.requests.cancel(header.async_id(), header.message_id.get());
            }
            return AfterMessage::Message;
        }
        let mut pending_reply = PendingReply::of(header, command);
        let (used, reply) = match begun {
            Err(status) => (Err(status), Reply::from(status)),
            Ok(context) => {
                pending_reply.session = context.session_id;
                let call = Call {
                    connection: self.connection,
                    message,
                    context: Cell::new(context),
                    channel: channel.clone(),
                    tree: None,
                    is_sealed: self.sealer.is_some(),
                    protects_reply: self.sealer.is_some() || pending_reply.is_to_sign(channel.as_deref()),
                    is_compounded,
                    held: self.held,
                    is_short: Cell::new(false),
                };
                let reply = self.answer(call, command, &mut pending_reply, received).await;
                let Some((context, reply)) = reply else { return AfterMessage::End };
                (Ok(context), reply)
            }
        };
        self.compound.end(command, used, reply.status);
        self.put(&pending_reply, used.ok(), channel, reply)
    }

    /// Answers a request that may be processed, or says why it may not; the audit log records it. `None` where the
    /// connection ends.
    async fn answer(
        &mut self,
        mut call: Call<'_>,
        command: Command,
        pending_reply: &mut PendingReply,
        received: Option<ReceivedWrite>,
    ) -> Option<(CompoundContext, Reply)> {
        let ready = self.ready(&mut call, command);
        let trail = self.connection.lane.audit.begin(command, &call);
        let mut reply = match ready {
            Ok(()) => self.execute(&call, command, pending_reply, received).await?,
            Err(status) => status.into(),
        };
        match &mut reply.content {
            Content::Later { trail: later, .. } => *later = Some(trail),
            _ => trail.end(&call, reply.status),
        }
        Some((call.context.get(), reply))
    }

    /// Runs the command, with an interim reply where it takes long. `None` where the connection ends.
    async fn execute(
        &mut self,
        call: &Call<'_>,
        command: Command,
        pending_reply: &mut PendingReply,
        received: Option<ReceivedWrite>,
    ) -> Option<Reply> {
        if let Some(received) = received {
            return Some(self.execute_received(call, command, pending_reply, received).await);
        }
        let request = match Request::parse(&call.message) {
            Ok(request) => request,
            Err(malformed) if malformed.ends_connection() => {
                self.connection.lane.counters.ended_malformed.increment();
                self.connection.end();
                return None;
            }
            Err(malformed) => return Some(malformed.status().into()),
        };
        Some(self.execute_request(call, command, pending_reply, request).await)
    }

    /// Runs a WRITE whose data is where it was received. By itself, as [`FrameDispatch::execute_request`] is: in one function each request would
    /// have room for both.
    async fn execute_received(
        &mut self,
        call: &Call<'_>,
        command: Command,
        pending_reply: &mut PendingReply,
        received: ReceivedWrite,
    ) -> Reply {
        let running = pin!(command::write::write_received(call, received));
        let mut running = causing(self.connection, running);
        let reply = match super::at_once(&mut running).await {
            Some(reply) => reply,
            None => self.wait(Pin::new(&mut running), call, command, pending_reply).await,
        };
        reply.unwrap_or_else(Reply::from)
    }

    /// Runs a command that lies in its message.
    async fn execute_request(
        &mut self,
        call: &Call<'_>,
        command: Command,
        pending_reply: &mut PendingReply,
        request: Request<'_>,
    ) -> Reply {
        let running = pin!(command::run(call, request));
        let mut running = causing(self.connection, running);
        let reply = match super::at_once(&mut running).await {
            Some(reply) => reply,
            None => self.wait(Pin::new(&mut running), call, command, pending_reply).await,
        };
        reply.unwrap_or_else(Reply::from)
    }

    /// Waits for a command that was not done at once.
    async fn wait(
        &mut self,
        mut running: Pin<&mut impl Future<Output = Result<Reply, Status>>>,
        call: &Call<'_>,
        command: Command,
        pending_reply: &mut PendingReply,
    ) -> Result<Reply, Status> {
        let (connection, counters) = (self.connection, &self.connection.lane.counters);
        //= MS-SMB2 3.3.5.2.7
        //# Amid a compound only CREATE goes on asynchronously; what would wait for others fails with STATUS_INTERNAL_ERROR.
        // What ends the session itself is not ended with it.
        let session = if command.needs_tree() { pending_reply.session } else { 0 };
        let is_last = pending_reply.header.next_command.get() == 0;
        if !is_last && matches!(command, Command::Lock | Command::ChangeNotify) {
            return Err(Status::INTERNAL_ERROR);
        }
        // An asynchronous header has no room for a tree's id, and clients expect none of what is about the session itself. Windows sends
        // none for SET_INFO, however long a rename waits for leases.
        let may_be_async =
            command.needs_tree() && command != Command::SetInfo && (is_last || command == Command::Create);
        let outlives = outlives_connection(&call.message, command);
        let obeys_cancel = !is_data_of_file(call, command);
        let message_id = pending_reply.header.message_id.get();
        let place = connection.requests.enter(message_id, session, outlives, obeys_cancel);
        let delays = WaitDelays::of(command);
        let mut timer = pin!(sleep(delays.charge));
        // The charge for what a request keeps that waits.
        let mut kept = None;
        let mut may_go_async = may_be_async;
        loop {
            let is_async = pending_reply.async_id.is_some();
            let woken = poll_fn(|cx| {
                if let Poll::Ready(reply) = running.as_mut().poll(cx) {
                    return Poll::Ready(Woken::Done(reply));
                }
                if place.pending.poll_cancelled(cx).is_ready() {
                    return Poll::Ready(Woken::Cancelled);
                }
                if call.is_short.take() {
                    return Poll::Ready(Woken::Short);
                }
                if (kept.is_none() || may_go_async) && timer.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(Woken::Late);
                }
                Poll::Pending
            })
            .await;
            match woken {
                Woken::Done(reply) => {
                    if is_async {
                        counters.waiting.sub(1);
                    }
                    return reply;
                }
                Woken::Cancelled => {
                    if is_async {
                        counters.waiting.sub(1);
                    }
                    counters.cancelled.increment();
                    return Err(Status::CANCELLED);
                }
                //= MS-SMB2 3.3.4.1.3
                //# The server may compound responses: those that hold memory leave before it is waited for.
                Woken::Short => self.leave(),
                Woken::Late if kept.is_none() => {
                    kept = self.charge_waiting(obeys_cancel);
                    if kept.is_none() {
                        counters.requests_refused_async.increment();
                        return Err(Status::INSUFFICIENT_RESOURCES);
                    }
                    timer.set(sleep(delays.interim - delays.charge));
                }
                Woken::Late => {
                    may_go_async = false;
                    let Some(id) = place.go_async() else {
                        counters.requests_refused_async.increment();
                        return Err(Status::INSUFFICIENT_RESOURCES);
                    };
                    counters.waiting.add(1);
                    self.send_interim(id, pending_reply);
                }
            }
        }
    }

    /// Charges the connection for what a request keeps while it waits; `None` where that is much and there is no room for it. Data of
    /// files is charged in any case: it waits for a disk alone.
    fn charge_waiting(&self, may_refuse: bool) -> Option<Charge> {
        let (account, bytes) = (&self.connection.account, self.kept.saturating_sub(self.held));
        if bytes <= KEPT_SMALL_MAX || !may_refuse {
            Some(account.charge(bytes))
        } else {
            account.try_charge(bytes)
        }
    }

    /// Sends what there is, and an interim reply.
    fn send_interim(&mut self, id: u64, pending_reply: &mut PendingReply) {
        //= MS-SMB2 3.3.4.2
        //# The interim response carries an AsyncId, STATUS_PENDING, and the credits of the request.
        self.leave();
        self.connection.lane.counters.replies_pending.increment();
        let mut header = pending_reply.header.response(Status::PENDING).with_async_id(id);
        header.credits.set(self.grant(&pending_reply.header, true));
        // Unsigned: its nonce is that of the final one.
        self.replies.push(&header, None, |body| ErrorResponse::write(body, Dialect::Smb202, &[]));
        self.leave();
        pending_reply.async_id = Some(id);
    }

    /// Checks whether a request may be processed; finds its tree.
    fn ready(&self, call: &mut Call<'_>, command: Command) -> Result<(), Status> {
        self.check(&call.message, command, call.channel.as_deref())?;
        if !command.needs_session() {
            return Ok(());
        }
        let control = if command == Command::Ioctl { control_code(&call.message) } else { None };
        let is_of_tests = control == Some(code::TEST_FORCE_UNACKED);
        if is_of_tests && self.connection.lane.options().test_switches {
            return Ok(());
        }
        let channel = call.channel()?;
        if channel.session.state() != SessionState::Valid {
            return Err(Status::USER_SESSION_DELETED);
        }
        // Of the server, whatever tree they name: clients ask before they have one.
        let is_of_server =
            matches!(control, Some(code::VALIDATE_NEGOTIATE_INFO | code::QUERY_NETWORK_INTERFACE_INFO));
        if command.needs_tree() && !is_of_server {
            let tree = self.connection.lane.tree(self.connection, channel, call.context.get().tree_id)?;
            call.tree = Some(tree);
        }
        Ok(())
    }

    /// Checks whether a message is signed or sealed as its session has it.
    fn check(
        &self,
        message: &Message<'_>,
        command: Command,
        channel: Option<&Channel>,
    ) -> Result<(), Status> {
        let counters = &self.connection.lane.counters;
        if let Some(checked) = self.checked {
            return checked;
        }
        if self.sealer.is_some() {
            return Ok(());
        }
        let signed_in = channel.and_then(|channel| channel.session.signed_in());
        //= MS-SMB2 3.3.5.2.9
        //# Where the session's data is to be encrypted, a request that is not fails with STATUS_ACCESS_DENIED.
        let names_session = command.needs_session() || command == Command::Echo;
        if names_session && signed_in.is_some_and(|signed_in| signed_in.sealing_required) {
            counters.unsealed_refused.increment();
            return Err(Status::ACCESS_DENIED);
        }
        if message.header().has(flags::SIGNED) {
            let Some(key) = channel.and_then(|channel| channel.signing.as_ref()) else { return Ok(()) };
            //= MS-SMB2 3.3.5.2.4
            //# A signature that does not verify fails the request with STATUS_ACCESS_DENIED.
            if !key.verify(Role::Client, &[message.bytes()]) {
                counters.signatures_wrong.increment();
                return Err(Status::ACCESS_DENIED);
            }
            return Ok(());
        }
        let requires = signed_in.is_some_and(|signed_in| signed_in.signing_required);
        if requires && command != Command::Echo {
            counters.unsigned_refused.increment();
            return Err(Status::ACCESS_DENIED);
        }
        Ok(())
    }

    /// Returns the signer of a sign-in with the session's own key, to bind a connection that has none. One
    /// that has is held to its own, as with Windows and Samba: a second binding by the session's key is
    /// STATUS_ACCESS_DENIED.
    fn session_signer(&self, message: &Message<'_>, command: Command) -> Option<Rc<Channel>> {
        let may_bind = command == Command::SessionSetup && self.sealer.is_none();
        if may_bind { command::binding::signer(self.connection, message) } else { None }
    }

    fn channel(&self, context: CompoundContext) -> Option<Rc<Channel>> {
        self.channel_of(context.session_id)
    }

    fn channel_of(&self, session: u64) -> Option<Rc<Channel>> {
        if let Some(sealer) = self.sealer.as_ref().filter(|sealer| sealer.session.id == session) {
            return Some(Rc::clone(sealer));
        }
        // What was sealed for one session is of no other.
        if self.sealer.is_some() {
            return None;
        }
        self.connection.channels.borrow().get(&session).cloned()
    }

    /// Appends a reply.
    fn put(
        &mut self,
        pending_reply: &PendingReply,
        context: Option<CompoundContext>,
        channel: Option<Rc<Channel>>,
        reply: Reply,
    ) -> AfterMessage {
        let (connection, counters) = (self.connection, &self.connection.lane.counters);
        counters.requests.increment();
        connection.stats.requests.add(1);
        connection.moved().requests.increment();
        if reply.status.is_error() && reply.status != Status::MORE_PROCESSING_REQUIRED {
            counters.requests_failed.increment();
        }
        let mut header = pending_reply.header.response(reply.status);
        if let Some(context) = context {
            header.session_id.set(context.session_id);
            header.tree_id.set(context.tree_id);
        }
        match pending_reply.async_id {
            Some(id) => header = header.with_async_id(id),
            None => header
                .credits
                .set(self.grant(&pending_reply.header, self.has_proved(pending_reply, reply.status))),
        }
        let signer = self.signer(pending_reply, context, channel, reply.status);
        // There is no key for it, and clients that sign want the flag all the same: as Windows and Samba
        // answer.
        let remove_connection = reply.status == Status::USER_SESSION_DELETED && self.sealer.is_none();
        if remove_connection && signer.is_none() && pending_reply.signs {
            header = header.with(flags::SIGNED);
        }
        match reply.content {
            Content::File { file, offset, len } => {
                self.replies.push(&header, None, |body| body.push(&ReadResponseFixed::new(len)));
                leave_before(connection, &mut self.replies, Payload::File { file, offset, len }, len);
                return AfterMessage::Message;
            }
            Content::Later { file, offset, len, trail } => {
                let sealer = self.sealer.clone();
                connection.defer_read(DeferredRead { file, offset, len, header, signer, sealer, trail });
                return AfterMessage::Message;
            }
            Content::Short { mut message, charge } => {
                let data = message.len() - DATA_AT;
                put_read_headers(&mut message, &header, signer.is_some(), data);
                let sealer = self.sealer.as_deref();
                if leave_short(connection, message, charge, signer.as_deref(), sealer).is_err() {
                    connection.end();
                }
                return AfterMessage::Message;
            }
            _ => {}
        }
        let dialect = connection.negotiated.get().map_or(Dialect::Smb202, |negotiated| negotiated.dialect);
        self.replies.push(&header, signer, |body| match reply.content {
            Content::Empty => put_empty(body),
            Content::Error(data) => ErrorResponse::write(body, dialect, &data),
            Content::Body(fill) => fill(body),
            Content::File { .. } | Content::Later { .. } | Content::Short { .. } => {
                unreachable!("they have left")
            }
        });
        //= MS-SMB2 3.3.4.1.3
        //# A compound of replies that is too long is not sent: what would make it so leaves by itself. Windows sends all that a prefix can announce.
        if let Some(before) = self.replies.before_the_last() {
            let last = std::mem::replace(&mut self.replies, before);
            self.leave();
            self.replies = last;
        }
        self.replies.hold(reply.charge);
        // What goes into keys is hashed as it leaves.
        let is_of_sign_in = pending_reply.command == Command::SessionSetup;
        if is_of_sign_in && self.sealer.is_none() {
            self.replies.sign_last();
        }
        command::reply_built(connection, pending_reply.command, &header, self.replies.last());
        if pending_reply.async_id.is_some() || is_of_sign_in {
            // What follows in the compound leaves by itself.
            self.leave();
        }
        AfterMessage::Message
    }

    /// Returns the signer of a reply: none where it is sealed, or unsolicited.
    fn signer(
        &self,
        pending_reply: &PendingReply,
        context: Option<CompoundContext>,
        channel: Option<Rc<Channel>>,
        status: Status,
    ) -> Option<Rc<Channel>> {
        if self.sealer.is_some() {
            return None;
        }
        let made = || context.and_then(|context| self.channel(context));
        //= MS-SMB2 3.3.5.5.3
        //# The final response of a sign-in is signed, with the key of the channel that it has made.
        let ends_sign_in = pending_reply.command == Command::SessionSetup && status == Status::SUCCESS;
        let channel = if ends_sign_in { made().or(channel) } else { channel.or_else(made) };
        let channel = channel.filter(|channel| channel.signing.is_some())?;
        let signs = pending_reply.is_to_sign(Some(&channel)) || (ends_sign_in && channel.session.is_proved());
        signs.then_some(channel)
    }

    /// Returns whether a client has earned more credits than it paid.
    fn has_proved(&self, pending_reply: &PendingReply, status: Status) -> bool {
        match pending_reply.command {
            Command::Negotiate => false,
            Command::SessionSetup => status == Status::SUCCESS,
            _ => true,
        }
    }

    fn grant(&self, request: &Header, extra: bool) -> u16 {
        let charge = match self.connection.negotiated.get().is_some_and(Negotiated::multi_credit) {
            true => request.charge(),
            false => 1,
        };
        self.connection.window.borrow_mut().grant(request.credits.get(), charge, extra)
    }

    /// Has the replies leave that there are.
    fn leave(&mut self) {
        if self.replies.leave(self.connection, self.sealer.as_deref()).is_err() {
            self.connection.end();
        }
    }
}

impl Drop for FrameDispatch<'_> {
    fn drop(&mut self) {
        self.connection.lane.send_held_breaks(self.connection);
    }
}

/// The request that a reply is due for.
struct PendingReply {
    header: Header,
    command: Command,
    /// The request was signed.
    signs: bool,
    /// Number of the request's interim reply, if it had one.
    async_id: Option<u64>,
    /// Session in which it is processed.
    session: u64,
}

impl PendingReply {
    fn of(header: Header, command: Command) -> Self {
        Self { header, command, signs: header.has(flags::SIGNED), async_id: None, session: 0 }
    }

    /// Returns whether the reply is signed where it is not sealed.
    fn is_to_sign(&self, channel: Option<&Channel>) -> bool {
        let Some(channel) = channel.filter(|channel| channel.signing.is_some()) else { return false };
        self.signs || channel.session.signed_in().is_some_and(|signed_in| signed_in.signing_required)
    }
}

enum Woken {
    Done(Result<Reply, Status>),
    Cancelled,
    /// The reply waits for memory.
    Short,
    /// The timer has run out.
    Late,
}

/// Returns what breaks while the command runs is of its connection's making. The command stays where it is: a
/// future as large as the largest command's is not moved for each request.
fn causing<T>(
    connection: &Connection,
    mut command: Pin<&mut impl Future<Output = T>>,
) -> impl Future<Output = T> + Unpin {
    poll_fn(move |cx| connection.lane.caused_by(connection, || command.as_mut().poll(cx)))
}

/// Bytes behind a request with which it is served where it lies, without a copy.
const SURPLUS_MAX: usize = 512;
//@ limit: bytes that a request keeps while it waits
//@ section: SMB
//@ unit: byte
//@ connection: {:b}, and beyond that a share of the memory of long requests
//@ empty: STATUS_INSUFFICIENT_RESOURCES; others feel nothing
//@ counter: smb_requests_refused_async, smb_waiting
//@ attack: smb-padded
/// Bytes that a request may keep while it waits however short memory is: a path and what goes with it.
const KEPT_SMALL_MAX: usize = 2 << 10;
