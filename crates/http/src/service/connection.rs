//! One HTTP/1.1 connection: heads in, replies out, until either side ends it.

use std::pin::pin;
use std::rc::Rc;
use std::time::Instant;

use httptypes::StatusCode;
use lane::net::TcpStream;
use lane::time::now;
use service::datetime::Moment;
use service::drain::Cohort;

use super::abort::Abort;
use super::client::Client;
use super::counters::OpenCount;
use super::dispatch::dispatch;
use super::http2::serve_http2;
use super::receive_buffer::ReceiveBuffer;
use super::refuse::refuse;
use super::reply::{Body, Reply};
use super::request_body::{BodyEnd, Http1Body, RequestBody};
use super::send_reply::send_reply;
use super::shared::{ConnectionInfo, Role, Service};
use super::site::Site;
use super::wire::{Received, Wire};
use crate::body::BodyReader;
use crate::log::{Protocol, Record};
use crate::redirect;
use crate::request::{self, BodyLength, Fields, Head, Method, Version};
use crate::request_error::RequestError;
use crate::response::{Answer, Persistence};
use tls::{Alpn, TlsError};

/// Serves a connection to its end.
pub(super) async fn serve_connection(service: &Rc<Service>, stream: Rc<TcpStream>, info: ConnectionInfo<'_>) {
    let site = service.site();
    let accounts = service.accounts(stream.peer_addr().ip());
    let mut wire = Wire::new(stream, service.ticket(), accounts, Rc::clone(&service.unsent), &site.limits);
    let mut receive_buffer = ReceiveBuffer::default();
    let mut _counted = None;
    if info.role == Role::Tls {
        // What a connection is not doing while it is idle lies on the heap while it does it: the task of an
        // idle connection is no larger than its wait.
        match Box::pin(handshake(service, &site, &mut wire, &mut receive_buffer)).await {
            Ok((Some(Alpn::H2), _open)) => {
                return Box::pin(serve_http2(service, wire, receive_buffer, info)).await;
            }
            Ok((_, open)) => _counted = Some(open),
            Err(abort) => return Box::pin(end_failed_handshake(service, wire, receive_buffer, abort)).await,
        }
    }
    drop(site);
    match serve_http1(service, &mut wire, &mut receive_buffer, info).await {
        // Counted when it was evicted.
        _ if info.place.is_evicted() => {}
        Ok(()) => Box::pin(wire.close(&mut receive_buffer)).await,
        Err(abort) => {
            service.counters.abort(&abort);
            match abort {
                // The answer is out; a reset could overtake it.
                // So is all that was owed to a client whose key is at its end.
                Abort::RequestBody | Abort::Tls(TlsError::KernelRekey | TlsError::KeyExhausted) => {
                    Box::pin(wire.close(&mut receive_buffer)).await;
                }
                Abort::Tls(_) => wire.send_alert().await,
                _ => wire.reset(),
            }
        }
    }
}

/// Step that follows a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NextStep {
    Request,
    Close,
}

async fn serve_http1(
    service: &Service,
    wire: &mut Wire,
    receive_buffer: &mut ReceiveBuffer,
    info: ConnectionInfo<'_>,
) -> Result<(), Abort> {
    let mut served = 0u64;
    loop {
        let site = service.site();
        if serve_request(service, &site, wire, receive_buffer, info, served).await? == NextStep::Close {
            return Ok(());
        }
        served += 1;
        // A client that pipelines without end must not keep the lane to itself.
        if served.is_multiple_of(REQUESTS_PER_TURN) {
            lane::yield_now().await;
        }
    }
}

/// Waits for one request and answers it.
async fn serve_request(
    service: &Service,
    site: &Site,
    wire: &mut Wire,
    receive_buffer: &mut ReceiveBuffer,
    info: ConnectionInfo<'_>,
    served: u64,
) -> Result<NextStep, Abort> {
    let since = now();
    let mut deadline = since + site.limits.idle_timeout;
    if served > 0 {
        info.place.idle(since);
    }
    let mut examined = 0;
    loop {
        let unread = receive_buffer.unread();
        let begun = !unread.is_empty();
        // A head can be complete only where a line has ended since the last look.
        if unread[examined..].contains(&b'\n') || unread.len() > site.limits.target_bytes_max {
            examined = unread.len();
            // Apart, with all that a head is made of: none of it lies in the task of an idle connection.
            if let Some(next) = Box::pin(answer(service, site, wire, receive_buffer, info, served)).await? {
                return Ok(next);
            }
        }
        match wait(service, wire, receive_buffer, deadline, begun, info.cohort).await {
            Ok(Some(Received::Bytes)) if !begun => {
                let since = now();
                deadline = since + site.limits.header_timeout;
                info.place.opening(since);
            }
            Ok(Some(Received::Bytes)) => {}
            Ok(Some(Received::End)) => return Ok(NextStep::Close),
            Ok(None) => {
                service.counters.closed_drain.increment();
                return Ok(NextStep::Close);
            }
            Err(abort) if abort.is_timeout() && begun => {
                let refusal = RequestError::HeaderTimeout;
                return Box::pin(refuse_and_close(service, wire, receive_buffer.unread(), refusal)).await;
            }
            // The end of a long answer may be on its way for longer than a connection may idle.
            Err(abort) if abort.is_timeout() && wire.is_taking() => {
                deadline = now() + site.limits.write_stall_timeout;
            }
            Err(abort) if abort.is_timeout() => {
                service.counters.closed_idle.increment();
                return Ok(NextStep::Close);
            }
            Err(abort) => return Err(abort),
        }
    }
}

/// Answers the request at the start of the inbox; `None` where its head is not whole.
async fn answer(
    service: &Service,
    site: &Site,
    wire: &mut Wire,
    receive_buffer: &mut ReceiveBuffer,
    info: ConnectionInfo<'_>,
    served: u64,
) -> Result<Option<NextStep>, Abort> {
    let unread = receive_buffer.unread();
    let (head, len) = match request::parse(unread, &site.limits) {
        Ok(Some(parsed)) => parsed,
        Ok(None) => return Ok(None),
        Err(refusal) => return Box::pin(refuse_and_close(service, wire, unread, refusal)).await.map(Some),
    };
    if head.method == Method::Put {
        return Box::pin(upload(service, wire, receive_buffer, len, info, served)).await.map(Some);
    }
    // A reload counts from the next request on, even where that was long awaited.
    let site = &service.site();
    let next = exchange(service, site, wire, &head, info, served).await?;
    let body = head.body;
    receive_buffer.consume(len);
    if next == NextStep::Request && body != BodyLength::None {
        Box::pin(discard_body(site, wire, receive_buffer, body)).await?;
    }
    Ok(Some(next))
}

/// Waits for bytes; `None` when the connection is to leave and no request has begun.
async fn wait(
    service: &Service,
    wire: &mut Wire,
    receive_buffer: &mut ReceiveBuffer,
    deadline: Instant,
    begun: bool,
    cohort: Cohort,
) -> Result<Option<Received>, Abort> {
    // What is owed to the client goes out whatever happens while waiting for more.
    wire.flush(false).await?;
    let arrived = {
        // By reference: each wait around it would hold a copy of it.
        let arrival = pin!(wire.arrival(deadline));
        if begun { Some(arrival.await) } else { service.unless_leaving(cohort, arrival).await }
    };
    match arrived {
        Some(received) => wire.take_in(received?, receive_buffer).await.map(Some),
        None => Ok(None),
    }
}

/// Answers a request whose body is not wanted.
async fn exchange(
    service: &Service,
    site: &Site,
    wire: &mut Wire,
    head: &Head<'_>,
    info: ConnectionInfo<'_>,
    served: u64,
) -> Result<NextStep, Abort> {
    let exchange = Exchange { service, site, head, info, served, started: now() };
    info.place.busy(exchange.started);
    let body = unwanted(head.body, site);
    let mut reply = match (&body, info.role) {
        (Err(refusal), _) => refuse(service, *refusal, &head.fields),
        (Ok(_), Role::Redirect { https_port }) => redirect_to_https(service, head, https_port),
        (Ok(_), Role::Plain | Role::Tls) => {
            let client = Client::new(wire.peer_ip(), wire.is_tls());
            dispatch(service, site, head, client, &mut RequestBody::None).await
        }
    };
    // A client that waits for 100 may or may not send its body after a refusal: only closing makes clear where the next
    // request begins (RFC 9110 10.1.1).
    let can_go_on = body.is_ok() && !head.expect_continue;
    exchange.reply(wire, &mut reply, can_go_on).await
}

/// Answers a request whose body its handler may want. Its head is the first `len` bytes of the inbox, and leaves it.
async fn upload(
    service: &Service,
    wire: &mut Wire,
    receive_buffer: &mut ReceiveBuffer,
    len: usize,
    info: ConnectionInfo<'_>,
    served: u64,
) -> Result<NextStep, Abort> {
    let (site, bytes) = (&service.site(), receive_buffer.unread()[..len].to_vec());
    receive_buffer.consume(len);
    let head = match request::parse(&bytes, &site.limits) {
        Ok(Some((head, _))) => head,
        Ok(None) => return refuse_and_close(service, wire, &bytes, RequestError::RequestLine).await,
        Err(refusal) => return refuse_and_close(service, wire, &bytes, refusal).await,
    };
    let exchange = Exchange { service, site, head: &head, info, served, started: now() };
    info.place.busy(exchange.started);
    let client = Client::new(wire.peer_ip(), wire.is_tls());
    let body = match Http1Body::new(wire, receive_buffer, &head, site.limits.upload_bytes_max) {
        Ok(body) => body,
        Err(refusal) => {
            wire.leave_body();
            return exchange.reply(wire, &mut refuse(service, refusal, &head.fields), false).await;
        }
    };
    let mut body = RequestBody::Http1(Box::new(body));
    let mut reply = match info.role {
        Role::Redirect { https_port } => redirect_to_https(service, &head, https_port),
        Role::Plain | Role::Tls => dispatch(service, site, &head, client, &mut body).await,
    };
    let rest = match body.end() {
        Some(BodyEnd::Broken(abort)) => {
            exchange.log(wire, &reply, 0);
            return Err(abort);
        }
        Some(BodyEnd::Left(rest)) if rest.is_shorter_than(site.limits.body_discard_bytes_max) => rest,
        // What comes meanwhile is thrown away while the connection ends.
        _ => {
            wire.leave_body();
            return exchange.reply(wire, &mut reply, false).await;
        }
    };
    let next = exchange.reply(wire, &mut reply, true).await?;
    if next == NextStep::Request {
        skip(wire, receive_buffer, rest, now() + site.limits.body_timeout).await?;
    }
    Ok(next)
}

/// A request that is being answered.
struct Exchange<'a> {
    service: &'a Service,
    site: &'a Site,
    head: &'a Head<'a>,
    info: ConnectionInfo<'a>,
    /// Requests of the connection before it.
    served: u64,
    started: Instant,
}

impl Exchange<'_> {
    /// Sends the answer. After it the connection goes on if it `can`, and nothing else is against it.
    async fn reply(&self, wire: &mut Wire, reply: &mut Reply, can_go_on: bool) -> Result<NextStep, Abort> {
        let Self { service, site, head, info, .. } = *self;
        let at_limit = self.served + 1 == site.limits.keep_alive_requests_max;
        if at_limit {
            service.counters.closed_requests.increment();
        }
        // RFC 9112 6.1: HTTP/1.0 knows no chunks; there the end of the connection is that of the body.
        reply.answer.chunked = reply.body.is_streamed() && head.version == Version::Http11;
        let ends_by_close = reply.body.is_streamed() && !reply.answer.chunked && head.method != Method::Head;
        let keep =
            head.keep_alive && can_go_on && !at_limit && !ends_by_close && !service.is_leaving(info.cohort);
        let key_lasts = wire.key_lasts();
        if keep && !key_lasts {
            service.counters.closed_key_limit.increment();
        }
        let keep = keep && key_lasts;
        let persistence = match (keep, head.version) {
            (false, _) => Persistence::Close,
            (true, Version::Http10) => Persistence::KeepAliveSaid,
            (true, Version::Http11) => Persistence::KeepAlive,
        };
        let before = wire.sent();
        let running = reply.running.take();
        let sending = send_reply(service, wire, head.method, reply, persistence);
        let sent = match &running {
            Some(running) => running.unless_gone(sending).await.unwrap_or_else(|gone| Err(gone.into())),
            None => sending.await,
        };
        let body_bytes = *sent.as_ref().unwrap_or(&(wire.sent() - before));
        service.counters.body_bytes.add(body_bytes);
        self.log(wire, reply, body_bytes);
        sent?;
        Ok(if keep { NextStep::Request } else { NextStep::Close })
    }

    fn log(&self, wire: &Wire, reply: &Reply, body_bytes: u64) {
        let Self { service, head, .. } = *self;
        if !service.keeps_log() {
            return;
        }
        service.log(&Record {
            peer: wire.peer_ip(),
            unix_us: Moment::now().unix_us,
            duration_us: u32::try_from(now().duration_since(self.started).as_micros()).unwrap_or(u32::MAX),
            status: reply.answer.status.as_u16(),
            body_bytes,
            method: head.method,
            method_name: head.method_name,
            protocol: if head.version == Version::Http10 { Protocol::Http10 } else { Protocol::Http11 },
            tls: wire.is_tls(),
            user: reply.user(),
            target: head.raw_target,
            host: head.host,
            referer: head.fields.referer.unwrap_or_default(),
            user_agent: head.fields.user_agent.unwrap_or_default(),
        });
    }
}

fn redirect_to_https(service: &Service, head: &Head<'_>, https_port: u16) -> Reply {
    service.counters.request(head.method);
    match redirect::to_https(head, https_port) {
        Ok(location) => {
            let status = StatusCode::PERMANENT_REDIRECT;
            service.counters.response(status.as_u16());
            let answer =
                Answer { status, location: Some(location), content_length: Some(0), ..Answer::default() };
            Reply::new(answer, Body::Empty)
        }
        Err(refusal) => refuse(service, refusal, &head.fields),
    }
}

/// Answers what could not be parsed. Where the next request would begin is not known, so none is read.
async fn refuse_and_close(
    service: &Service,
    wire: &mut Wire,
    unread: &[u8],
    refusal: RequestError,
) -> Result<NextStep, Abort> {
    let mut reply = refuse(service, refusal, &Fields::default());
    let sent = send_reply(service, wire, Method::Get, &mut reply, Persistence::Close).await?;
    service.counters.response(reply.answer.status.as_u16());
    let first_line = unread.split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
    service.log(&Record {
        peer: wire.peer_ip(),
        unix_us: Moment::now().unix_us,
        duration_us: 0,
        status: reply.answer.status.as_u16(),
        body_bytes: sent,
        method: Method::Other,
        method_name: b"",
        protocol: Protocol::Http11,
        tls: wire.is_tls(),
        user: b"",
        target: &first_line[..first_line.len().min(LOGGED_BAD_LINE_MAX)],
        host: b"",
        referer: b"",
        user_agent: b"",
    });
    Ok(NextStep::Close)
}

/// Reads a request body and throws it away, so that the next request can be found.
async fn discard_body(
    site: &Site,
    wire: &mut Wire,
    receive_buffer: &mut ReceiveBuffer,
    length: BodyLength,
) -> Result<(), Abort> {
    let body = unwanted(length, site).map_err(|_| Abort::RequestBody)?;
    skip(wire, receive_buffer, body, now() + site.limits.body_timeout).await
}

/// Reads the rest of a body, which has to come in time.
async fn skip(
    wire: &mut Wire,
    receive_buffer: &mut ReceiveBuffer,
    mut body: BodyReader,
    deadline: Instant,
) -> Result<(), Abort> {
    loop {
        while !receive_buffer.unread().is_empty() && !body.is_done() {
            let fed = body.feed(receive_buffer.unread()).map_err(|_| Abort::RequestBody)?;
            receive_buffer.consume(fed.consumed);
        }
        if body.is_done() {
            return Ok(());
        }
        match wire.receive(receive_buffer, deadline).await {
            Ok(Received::Bytes) => {}
            Ok(Received::End) => return Err(Abort::PeerClosed),
            Err(abort) if abort.is_timeout() => return Err(Abort::RequestBody),
            Err(abort) => return Err(abort),
        }
    }
}

/// Returns the reader of a body that is read for the sake of what comes behind it: so much content, and as much around
/// it.
fn unwanted(length: BodyLength, site: &Site) -> Result<BodyReader, RequestError> {
    let bytes_max = site.limits.body_discard_bytes_max;
    BodyReader::new(length, bytes_max, bytes_max)
}

/// Does the TLS handshake; gives the protocol that the client chose, and counts the session as open.
async fn handshake<'a>(
    service: &'a Service,
    site: &Site,
    wire: &mut Wire,
    receive_buffer: &mut ReceiveBuffer,
) -> Result<(Option<Alpn>, OpenCount<'a>), Abort> {
    let deadline = now() + site.limits.handshake_timeout;
    let config = site.tls.clone().ok_or(Abort::Tls(TlsError::NotOpen))?;
    let (info, in_user_space) = wire.handshake(config, &service.ktls, receive_buffer, deadline).await?;
    match info.resumed {
        true => &service.counters.handshakes_resumed,
        false => &service.counters.handshakes_full,
    }
    .increment();
    Ok((info.alpn, service.counters.tls_established(in_user_space)))
}

/// Ends a connection that did not become TLS. One that speaks HTTP gets an answer that says so.
async fn end_failed_handshake(
    service: &Service,
    mut wire: Wire,
    mut receive_buffer: ReceiveBuffer,
    abort: Abort,
) {
    service.counters.handshakes_failed.increment();
    match abort {
        Abort::Evicted => service.counters.abort(&abort),
        Abort::Tls(TlsError::PlainHttp) => {
            wire.forget_tls();
            let told = refuse_and_close(service, &mut wire, b"", RequestError::PlainHttp).await;
            if told.is_ok() {
                Box::pin(wire.close(&mut receive_buffer)).await;
            }
        }
        Abort::Tls(_) => wire.send_alert().await,
        _ => {}
    }
}

/// Requests of one connection between two turns of the others.
const REQUESTS_PER_TURN: u64 = 32;
/// Bytes that the log shows of a request that could not be parsed.
const LOGGED_BAD_LINE_MAX: usize = 256;
