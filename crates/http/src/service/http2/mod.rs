//! HTTP/2 by h2 over the same handlers. Frames are copied; browsers want it, bulk transfers do not.
//!
//! Nothing is read of a body before the client's windows have room for it, and nothing beyond that room.

mod body;
mod io;
mod outgoing;
mod progress;
mod stream;

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use h2::server::Builder;
use httptypes::{HeaderMap, HeaderName, HeaderValue, Request, Response, header};
use lane::time::{Elapsed, now};
use service::alarm::Alarm;

use self::body::{Chunk, Finish};
use self::io::{Io, Link};
use self::progress::{Progress, Verdict};
use super::abort::Abort;
use super::dispatch::dispatch;
use super::inbox::Inbox;
use super::listener::{Entry, Service};
use super::refuse::refuse;
use super::reply::Reply;
use super::site::Site;
use super::wire::Wire;
use crate::host::is_host;
use crate::limits::Limits;
use crate::refusal::Refusal;
use crate::request::{BodyLength, Fields, Head, Method, Target, Version};
use crate::response::SERVER;

/// Serves a connection on which the client chose `h2`, to its end.
pub(super) async fn serve_http2(service: &Rc<Service>, wire: Wire, inbox: Inbox, entry: Entry<'_>) {
    let cohort = entry.cohort;
    let peer = wire.peer_ip();
    let limits = service.site().limits.clone();
    let (stream, ticket, tls, account) = wire.into_parts();
    let progress = Rc::new(Progress::new(Rc::clone(&stream), Rc::clone(entry.place), limits.send_rate_min));
    let link = Link::new(stream, ticket, tls, inbox, Rc::clone(&progress), Rc::clone(&account));
    let mut alarm = Alarm::default();
    let mut handshake = pin!(builder(&limits).handshake::<_, Chunk>(Io::new(&link)));
    let handshake = poll_fn(|cx| {
        let opened = handshake.as_mut().poll(cx);
        match link.borrow_mut().poll_send(cx) {
            Poll::Ready(Err(_)) => Poll::Ready(Err(())),
            _ => opened.map_err(drop),
        }
    });
    let opened = alarm.race(now() + limits.idle_timeout, service.unless_leaving(cohort, handshake)).await;
    let mut connection = match opened {
        Ok(Some(Ok(connection))) => connection,
        Ok(Some(Err(()))) => return service.counters.abort(&Abort::PeerClosed),
        Ok(None) => return service.counters.closed_drain.increment(),
        Err(Elapsed) => return service.counters.closed_idle.increment(),
    };
    let mut shutting_down = false;
    loop {
        let accepted = poll_fn(|cx| match connection.poll_accept(cx) {
            Poll::Ready(accepted) => Poll::Ready(Ok(accepted)),
            Poll::Pending => {
                // What h2 had to say in this turn leaves as one.
                if let Poll::Ready(Err(_)) = link.borrow_mut().poll_send(cx) {
                    return Poll::Ready(Ok(None));
                }
                account.poll_gives_way(cx).map(|()| Err(Abort::GaveWay))
            }
        });
        let served = alarm.race(progress.next_look(&limits), accepted);
        let outcome =
            if shutting_down { Some(served.await) } else { service.unless_leaving(cohort, served).await };
        match outcome {
            Some(Ok(Ok(Some(Ok((request, respond)))))) => {
                let finish = Finish::new(Rc::clone(service), Rc::clone(&progress), &account, peer, &request);
                let account = Rc::clone(&account);
                let request = request.map(drop);
                lane::spawn(stream::serve_stream(Rc::clone(service), account, request, respond, finish))
                    .detach();
            }
            // What h2 could not do is the client's doing; the streams it cost were counted.
            Some(Ok(Ok(None | Some(Err(_))))) => return,
            Some(Ok(Err(abort))) => return service.counters.abort(&abort),
            Some(Err(Elapsed)) => match progress.verdict(&limits) {
                Verdict::GoesOn => {}
                Verdict::Idle => return service.counters.closed_idle.increment(),
                Verdict::Ends(abort) => return service.counters.abort(&abort),
            },
            None => {
                service.counters.closed_drain.increment();
                connection.graceful_shutdown();
                shutting_down = true;
            }
        }
    }
}

fn builder(limits: &Limits) -> Builder {
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(u32::try_from(limits.head_bytes_max).unwrap_or(u32::MAX))
        .max_send_buffer_size(SEND_BUFFER_BYTES);
    builder
}

/// Answers one request.
async fn answer(service: &Service, request: Request<()>) -> (Rc<Site>, Reply) {
    let site = service.site();
    service.counters.requests_http2.increment();
    let raw_target = request.uri().path_and_query().map_or("/", |target| target.as_str()).as_bytes();
    let host = host_of(&request);
    let reply = match head_of(&request, raw_target, host, &site) {
        Ok(head) => dispatch(service, &site, &head).await,
        Err(refusal) => {
            service.counters.request(method_of(request.method()));
            let reply = refuse(service, refusal, &Fields::default());
            service.counters.response(reply.answer.status.as_u16());
            reply
        }
    };
    (site, reply)
}

/// The head of a response.
fn response(service: &Service, site: &Site, reply: &Reply) -> Response<()> {
    let mut fields = HeaderMap::with_capacity(12);
    fields.insert(header::SERVER, HeaderValue::from_static(SERVER));
    service
        .with_date(|date| drop(HeaderValue::from_bytes(date).map(|date| fields.insert(header::DATE, date))));
    reply.answer.each_field(|name, value| put(&mut fields, name, value));
    for (name, value) in site.extra() {
        fields.insert(name.clone(), value.clone());
    }
    let mut response = Response::new(());
    *response.status_mut() = reply.answer.status;
    *response.headers_mut() = fields;
    response
}

/// Every value the server writes is fit for a field; one that is not would be left out, not sent.
fn put(fields: &mut HeaderMap, name: &'static str, value: &[u8]) {
    if let (Some(name), Ok(value)) = (name_of(name), HeaderValue::from_bytes(value)) {
        fields.insert(name, value);
    }
}

/// The name in the form of HTTP/2; those of a file's answer without parsing them.
fn name_of(name: &'static str) -> Option<HeaderName> {
    Some(match name {
        "Content-Type" => header::CONTENT_TYPE,
        "Content-Length" => header::CONTENT_LENGTH,
        "Last-Modified" => header::LAST_MODIFIED,
        "ETag" => header::ETAG,
        "Accept-Ranges" => header::ACCEPT_RANGES,
        "Vary" => header::VARY,
        "Cache-Control" => header::CACHE_CONTROL,
        "X-Content-Type-Options" => header::X_CONTENT_TYPE_OPTIONS,
        other => HeaderName::from_bytes(other.as_bytes()).ok()?,
    })
}

/// The request in the form that the handlers know. h2 has checked its framing.
fn head_of<'r>(
    request: &'r Request<()>,
    raw_target: &'r [u8],
    host: &'r [u8],
    site: &Site,
) -> Result<Head<'r>, Refusal> {
    if raw_target.len() > site.limits.target_bytes_max {
        return Err(Refusal::TargetTooLong);
    }
    let method = match method_of(request.method()) {
        Method::Other if request.method() == httptypes::Method::CONNECT => {
            return Err(Refusal::MethodNotAllowed);
        }
        method => method,
    };
    let path = request.uri().path().as_bytes();
    let target = match path {
        b"*" => Target::Asterisk,
        _ => Target::Path { path, query: request.uri().query().map(str::as_bytes) },
    };
    if !host.is_empty() && !is_host(host) {
        return Err(Refusal::Host);
    }
    let mut fields = Fields::default();
    for (name, value) in request.headers() {
        fields.take(name.as_str().as_bytes(), value.as_bytes())?;
    }
    Ok(Head {
        method,
        target,
        raw_target,
        version: Version::Http11,
        host,
        keep_alive: true,
        body: BodyLength::None,
        expect_continue: false,
        fields,
    })
}

fn host_of<B>(request: &Request<B>) -> &[u8] {
    match request.uri().authority() {
        Some(authority) => authority.as_str().as_bytes(),
        None => request.headers().get(header::HOST).map(HeaderValue::as_bytes).unwrap_or_default(),
    }
}

fn method_of(method: &httptypes::Method) -> Method {
    match *method {
        httptypes::Method::GET => Method::Get,
        httptypes::Method::HEAD => Method::Head,
        httptypes::Method::OPTIONS => Method::Options,
        _ => Method::Other,
    }
}

/// Requests of one connection at a time.
const STREAMS_MAX: u32 = 128;
/// Body bytes that h2 may hold for each stream.
const SEND_BUFFER_BYTES: usize = 64 * 1024;
