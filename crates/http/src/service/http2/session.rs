//! One HTTP/2 connection at work: frames in, requests to their handlers, answers out in turns of one frame a stream.
//!
//! All of it is one task. What is at hand is answered at once; a handler or a read that has to wait does so in a task of
//! its own, and leaves what it has in [`Results`].

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use lane::Task;
use lane::time::{now, sleep};
use service::alarm::Alarm;
use service::memory::{Account, Charge};

use super::answer::answer;
use super::body::{Put, StreamBody};
use super::finish::Finish;
use super::incoming::Incoming;
use super::link::Http2Link;
use super::outgoing::OutgoingBytes;
use super::progress::Progress;
use super::results::{Results, TaskResult};
use crate::http2::connection::{Bounds, Connection, FrameEvent};
use crate::http2::frame::{FRAME_BYTES, HEAD_BYTES, Reason, data_head};
use crate::http2::request::Request;
use crate::limits::Limits;
use crate::request::Method;
use crate::response::SERVER;
use crate::service::abort::Abort;
use crate::service::client::Client;
use crate::service::reply::{Body, Reply};
use crate::service::shared::Service;

/// A connection and what is under way on it.
pub(super) struct Http2Session {
    service: Rc<Service>,
    peer: IpAddr,
    account: Rc<Account>,
    progress: Rc<Progress>,
    link: Http2Link,
    rules: Connection,
    exchanges: BTreeMap<u32, Exchange>,
    /// Streams with something to send, by turns.
    queue: VecDeque<u32>,
    results: Rc<Results>,
    /// Requests that were answered before their end, until they are reset.
    ending: BTreeMap<u32, Task<()>>,
    /// Uploads under way.
    uploads: Rc<Cell<usize>>,
    /// Nothing had arrived that was left unread.
    has_read_all: bool,
}

/// A request whose answer has not ended.
struct Exchange {
    finish: Finish,
    is_head: bool,
    is_queued: bool,
    /// The request's body, as long as its handler may want it.
    incoming: Option<Rc<Incoming>>,
    state: ExchangeState,
}

enum ExchangeState {
    /// The stream's handler waits.
    Answering(#[expect(dead_code, reason = "it is cancelled with the request")] Task<()>),
    Sending(StreamBody),
    /// A part of its body is on its way.
    Fetching(#[expect(dead_code, reason = "it is cancelled with the request")] Task<()>),
    /// A part of its body waits for its turn.
    Fetched(Fetched),
}

/// A part of a body that had to be waited for, and what comes behind it.
struct Fetched {
    bytes: Vec<u8>,
    sent: usize,
    rest: StreamBody,
    _held: Charge,
}

impl Http2Session {
    pub(super) fn new(
        service: Rc<Service>,
        peer: IpAddr,
        account: Rc<Account>,
        progress: Rc<Progress>,
        link: Http2Link,
        limits: &Limits,
    ) -> Self {
        let uploads = Rc::clone(progress.uploads());
        let bounds = Bounds {
            streams_max: STREAMS_MAX,
            head_bytes_max: limits.head_bytes_max,
            fields_max: limits.headers_max,
        };
        Self {
            service,
            peer,
            account,
            progress,
            link,
            rules: Connection::new(bounds, now()),
            exchanges: BTreeMap::new(),
            queue: VecDeque::new(),
            results: Rc::default(),
            ending: BTreeMap::new(),
            uploads,
            has_read_all: false,
        }
    }

    /// Returns whether the client has introduced itself.
    pub(super) fn has_begun(&self) -> bool {
        self.rules.has_begun()
    }

    /// Returns why the connection had to end, if its client broke the protocol.
    pub(super) fn broken(&self) -> Option<Reason> {
        self.rules.broken()
    }

    /// Returns since when the client has kept the rest of a frame or header block back: what it has sent was read.
    pub(super) fn cut_since(&self) -> Option<Instant> {
        self.rules.cut_since().filter(|_| self.has_read_all)
    }

    /// Ends the connection of a client that is too slow.
    pub(super) fn give_up(&mut self) {
        self.rules.give_up();
    }

    /// Takes no more requests than those on their way.
    pub(super) fn leave(&mut self) {
        self.rules.leave();
    }

    /// Waits a little for the client to take the last frames.
    pub(super) async fn linger(self, alarm: &mut Alarm) {
        self.link.linger(alarm).await;
    }

    /// Goes on as far as it can; ready when the connection is over.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        for _ in 0..ROUNDS_PER_TURN {
            self.results.register(cx);
            self.take_results();
            let received = self.receive(cx);
            self.service.counters.http2_streams_refused.add(self.rules.take_refused());
            let Ok(has_read_all) = received else { return Poll::Ready(()) };
            self.has_read_all = has_read_all;
            let has_written_all = self.write();
            for stream in self.rules.take_answered_early() {
                let results = Rc::clone(&self.results);
                let end = lane::spawn(async move {
                    sleep(ANSWER_SEEN_AFTER).await;
                    results.put(stream, TaskResult::EndUpload);
                });
                self.ending.insert(stream, end);
            }
            match self.link.poll_send(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
            if !has_written_all {
                continue;
            }
            // A client that sends no more opens no window either: it got what could be sent.
            if self.rules.is_over() || self.link.has_ended() {
                return self.link.poll_shutdown(cx).map(drop);
            }
            if has_read_all {
                return Poll::Pending;
            }
        }
        // A client that takes all at once, or asks without end, must not keep the lane to itself.
        let _ = pin!(lane::yield_if_due()).poll(cx);
        Poll::Pending
    }

    fn take_results(&mut self) {
        let done = std::mem::take(&mut *self.results.done.borrow_mut());
        for (stream, done) in done {
            match done {
                TaskResult::Wanted { waits } => {
                    self.rules.want_body(stream, waits);
                    continue;
                }
                TaskResult::EndUpload => {
                    self.ending.remove(&stream);
                    self.rules.end_upload(stream);
                    continue;
                }
                TaskResult::Taken(bytes) => {
                    self.rules.take_body(stream, bytes);
                    continue;
                }
                _ => {}
            }
            // A client that cancelled the request wants nothing of it.
            let Some(mut exchange) = self.exchanges.remove(&stream) else { continue };
            match done {
                TaskResult::Answer(reply) => self.respond(stream, exchange, reply),
                TaskResult::Fetched(body, Ok(bytes), held) => {
                    exchange.state = match bytes.is_empty() {
                        true => ExchangeState::Sending(body),
                        false => ExchangeState::Fetched(Fetched { bytes, sent: 0, rest: body, _held: held }),
                    };
                    self.exchanges.insert(stream, exchange);
                    self.enqueue(stream);
                }
                TaskResult::Fetched(_, Err(abort), _) => self.abort(stream, &abort),
                TaskResult::UserGone => self.abort(stream, &Abort::UserGone),
                TaskResult::Wanted { .. } | TaskResult::Taken(_) | TaskResult::EndUpload => {
                    self.exchanges.extend([(stream, exchange)])
                }
            }
        }
    }

    /// Reads what came. Says whether that was all; an error is the connection's end.
    fn receive(&mut self, cx: &mut Context<'_>) -> Result<bool, ()> {
        let (mut arrivals, mut requests) = (0, 0);
        let at = now();
        loop {
            loop {
                // Behind a full socket nothing is read that would be answered in store.
                if self.rules.replies().len() > REPLIES_MAX || requests == REQUESTS_PER_ROUND {
                    return Ok(false);
                }
                let unread = self.link.unread();
                let (consumed, event) = self.rules.handle(unread, at);
                if let Some(FrameEvent::Body { stream, content, ends }) = &event
                    && let Some(Exchange { incoming: Some(incoming), .. }) = self.exchanges.get(stream)
                {
                    incoming.push(&unread[content.clone()], *ends);
                    self.progress.moved();
                }
                self.link.consume(consumed);
                match event {
                    Some(FrameEvent::Request(stream, request)) => {
                        requests += 1;
                        self.begin(stream, request, cx);
                    }
                    Some(FrameEvent::Gone(stream)) => {
                        self.ending.remove(&stream);
                        self.exchanges.remove(&stream);
                    }
                    Some(FrameEvent::Room(Some(stream))) => self.enqueue(stream),
                    Some(FrameEvent::Room(None)) => self.enqueue_all(),
                    Some(FrameEvent::Body { .. }) => {}
                    None if consumed == 0 => break,
                    None => {}
                }
            }
            if self.link.has_ended() {
                return Ok(true);
            }
            // Frames that ask for nothing, such as PING without end, must not keep the lane to their connection.
            if arrivals == ARRIVALS_PER_ROUND {
                return Ok(false);
            }
            match self.link.poll_fill(cx) {
                Poll::Pending => return Ok(true),
                Poll::Ready(Ok(())) => arrivals += 1,
                Poll::Ready(Err(_)) => return Err(()),
            }
        }
    }

    /// Hands a request to its handler.
    fn begin(&mut self, stream: u32, request: Box<Request>, cx: &mut Context<'_>) {
        let service = Rc::clone(&self.service);
        let finish =
            Finish::new(Rc::clone(&service), Rc::clone(&self.progress), &self.account, self.peer, &request);
        let is_head = request.method() == Method::Head;
        let incoming = (request.method() == Method::Put).then(|| self.incoming(stream, &request));
        let mut client = Client::new(self.peer, true);
        client.uploads = Some(Rc::clone(&self.uploads));
        let mut answering = Box::pin(answer(service, request, client, incoming.clone()));
        let (state, answered) = match answering.as_mut().poll(cx) {
            Poll::Ready(answered) => (ExchangeState::Sending(StreamBody::new(Body::Empty)), Some(answered)),
            Poll::Pending => {
                let results = Rc::clone(&self.results);
                let task = lane::spawn(async move {
                    results.put(stream, TaskResult::Answer(answering.await));
                });
                (ExchangeState::Answering(task), None)
            }
        };
        let exchange = Exchange { finish, is_head, is_queued: false, incoming, state };
        match answered {
            Some(reply) => self.respond(stream, exchange, reply),
            None => drop(self.exchanges.insert(stream, exchange)),
        }
    }

    /// Returns what comes of a request's body from now on is for its handler.
    fn incoming(&mut self, stream: u32, request: &Request) -> Rc<Incoming> {
        let is_awaited =
            request.field(b"expect").is_some_and(|expected| expected.eq_ignore_ascii_case(b"100-continue"));
        let (account, results) = (Rc::clone(&self.account), Rc::clone(&self.results));
        let has_ended = !self.rules.keep_body(stream);
        let length = if has_ended { Some(0) } else { request.body_length };
        let incoming = Incoming::new(stream, length, is_awaited, account, results);
        if has_ended {
            incoming.push(&[], true);
        }
        Rc::new(incoming)
    }

    /// Sends an answer's head, and lets its body stand in line.
    fn respond(&mut self, stream: u32, mut exchange: Exchange, reply: Reply) {
        let Reply { answer, body, principal, running } = reply;
        (exchange.finish.status, exchange.finish.principal) = (answer.status.as_u16(), principal);
        if let Some(running) = running {
            let results = Rc::clone(&self.results);
            running.tell(move || results.put(stream, TaskResult::UserGone));
            exchange.finish.running = Some(running);
        }
        if exchange.incoming.take().is_some() {
            self.rules.drop_body(stream);
        }
        let body = StreamBody::new(if exchange.is_head { Body::Empty } else { body });
        let ends = body.is_done();
        let service = &self.service;
        self.rules.head(stream, ends, answer.status.as_u16(), |block| {
            block.field("Server", SERVER.as_bytes());
            service.with_date(|date| block.field("Date", date));
            answer.each_field(|name, value| block.field(name, value));
        });
        if !ends {
            exchange.state = ExchangeState::Sending(body);
            self.exchanges.insert(stream, exchange);
            self.enqueue(stream);
        }
    }

    fn enqueue(&mut self, stream: u32) {
        if let Some(exchange) = self.exchanges.get_mut(&stream)
            && matches!(exchange.state, ExchangeState::Sending(_) | ExchangeState::Fetched(_))
            && !std::mem::replace(&mut exchange.is_queued, true)
        {
            self.queue.push_back(stream);
        }
    }

    fn enqueue_all(&mut self) {
        let streams: Vec<u32> = self.exchanges.keys().copied().collect();
        streams.into_iter().for_each(|stream| self.enqueue(stream));
    }

    /// Lets what is to be sent gather, as far as there is room for it. Says whether that was all.
    fn write(&mut self) -> bool {
        loop {
            let replies = self.rules.replies();
            let taken = self.link.outgoing.append(replies);
            self.progress.takes(taken, 0);
            replies.drain(..taken);
            if !replies.is_empty() {
                return false;
            }
            let Some(stream) = self.queue.pop_front() else { return true };
            if !self.send_frame(stream) {
                self.queue.push_front(stream);
                return false;
            }
        }
    }

    /// Sends a stream's next frame if its windows have room. False if what has gathered must be sent first.
    fn send_frame(&mut self, stream: u32) -> bool {
        let Some(exchange) = self.exchanges.get_mut(&stream) else { return true };
        let room = self.rules.room(stream).min(FRAME_BYTES);
        if room == 0 {
            // It is called when there is some.
            exchange.is_queued = false;
            self.progress.awaits_window(true);
            return true;
        }
        let out = &mut self.link.outgoing;
        let put = match &mut exchange.state {
            ExchangeState::Sending(body) => body.put(stream, room, out),
            ExchangeState::Fetched(fetched) => fetched.put(stream, room, out),
            ExchangeState::Answering(_) | ExchangeState::Fetching(_) => return true,
        };
        match put {
            Ok(Put::Full) => return false,
            Ok(Put::Later) => {
                exchange.is_queued = false;
                self.fetch(stream, room);
            }
            Ok(Put::Frame { len, ends }) => {
                self.progress.takes(HEAD_BYTES + len, len);
                self.progress.awaits_window(false);
                self.rules.data(stream, len, ends);
                exchange.finish.sent += len as u64;
                if ends {
                    self.exchanges.remove(&stream);
                    return true;
                }
                exchange.go_on();
                self.queue.push_back(stream);
            }
            Err(abort) => self.abort(stream, &abort),
        }
        true
    }

    /// Has the next part of a body come, at most `room` bytes, when the lane has memory for it.
    fn fetch(&mut self, stream: u32, room: usize) {
        let Some(mut exchange) = self.exchanges.remove(&stream) else { return };
        let ExchangeState::Sending(mut body) = exchange.state else { return };
        let (service, account) = (Rc::clone(&self.service), Rc::clone(&self.account));
        let results = Rc::clone(&self.results);
        exchange.state = ExchangeState::Fetching(lane::spawn(async move {
            let max = room.min(body.wanted());
            let held = account.acquire(max).await;
            if let Err(abort) = body.prepare(&account).await {
                results.put(stream, TaskResult::Fetched(body, Err(abort), held));
                return;
            }
            let turn = match body.is_rendered() {
                true => Some(service.turns.take(account.last_round()).await),
                false => None,
            };
            let fetched = body.fetch(max).await;
            if let Some(turn) = turn {
                turn.end().await;
            }
            results.put(stream, TaskResult::Fetched(body, fetched, held));
        }));
        self.exchanges.insert(stream, exchange);
    }

    fn abort(&mut self, stream: u32, abort: &Abort) {
        self.service.counters.abort(abort);
        self.rules.reset(stream, Reason::Internal);
        self.exchanges.remove(&stream);
    }
}

impl Exchange {
    /// Goes on with bodies; what was fetched and is sent gives its memory back.
    fn go_on(&mut self) {
        if let ExchangeState::Fetched(fetched) = &mut self.state
            && fetched.sent == fetched.bytes.len()
        {
            let rest = std::mem::replace(&mut fetched.rest, StreamBody::new(Body::Empty));
            self.state = ExchangeState::Sending(rest);
        }
    }
}

impl Fetched {
    /// Puts the next part of the body ([`StreamBody::put`]).
    fn put(&mut self, stream: u32, max: usize, out: &mut OutgoingBytes) -> Result<Put, Abort> {
        let left = &self.bytes[self.sent..];
        let len = out.frame_room(left.len().min(max));
        if len == 0 {
            return Ok(Put::Full);
        }
        let ends = len == left.len() && self.rest.is_done();
        out.append(&data_head(stream, len, ends));
        out.append(&left[..len]);
        self.sent += len;
        Ok(Put::Frame { len, ends })
    }
}

/// Time for which a client that still sends its request has to see the answer before the stream is reset.
const ANSWER_SEEN_AFTER: Duration = Duration::from_secs(1);
//@ limit: HTTP/2 streams
//@ section: HTTP
//@ unit: stream, 2 KiB
//@ connection: {}
//@ address: on the books of memory of replies
//@ empty: one more is reset (REFUSED_STREAM); the rest waits in the page cache or the listing
//@ counter: http_http2_streams_refused, http_reply_memory_bytes
//@ attack: http-stalled-listings
/// Requests of one connection at a time.
const STREAMS_MAX: usize = 128;
/// Rounds of frames in one turn, before other tasks of the lane run.
const ROUNDS_PER_TURN: usize = 2;
//@ limit: a lane's turn at HTTP/2 frames
//@ section: Logs, control and descriptors
//@ unit: arrival of at most 16 KiB
//@ connection: {}, two rounds in a turn
//@ empty: the next ones wait for the lane's other connections; others wait a turn of 256 KiB
//@ counter: none
//@ attack: http2-pings
const ARRIVALS_PER_ROUND: u32 = 8;
const REQUESTS_PER_ROUND: u32 = 32;
/// Replies that wait while more is read: some hundred heads of answers.
const REPLIES_MAX: usize = 16 * 1024;
