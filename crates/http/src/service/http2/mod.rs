//! HTTP/2 by hyper over the same handlers. Frames are copied; browsers want it, bulk transfers do not.

mod body;
mod io;
mod progress;

use std::convert::Infallible;
use std::pin::pin;
use std::rc::Rc;

use httptypes::{HeaderMap, HeaderName, HeaderValue, Request, Response, header};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use lane::time::Elapsed;

use self::body::{Finish, StreamBody};
use self::io::Io;
use self::progress::{Progress, Verdict};
use super::alarm::Alarm;
use super::dispatch::dispatch;
use super::inbox::Inbox;
use super::listener::{Cohort, Service};
use super::refuse::refuse;
use super::reply::Reply;
use super::site::Site;
use super::wire::Wire;
use crate::date;
use crate::refusal::Refusal;
use crate::request::{BodyLength, Fields, Head, Method, Target, Version};
use crate::response::SERVER;

/// Serves a connection on which the client chose `h2`, to its end.
pub(super) async fn serve_http2(service: &Rc<Service>, wire: Wire, inbox: Inbox, cohort: Cohort) {
    let peer = wire.peer_ip();
    let limits = service.site().limits.clone();
    let (stream, ticket, tls) = wire.into_parts();
    let progress = Rc::new(Progress::new());
    let io = Io::new(stream, ticket, tls, inbox, Rc::clone(&progress));
    let handler = service_fn(|request: Request<Incoming>| {
        let finish = Finish::new(Rc::clone(service), Rc::clone(&progress), peer, &request);
        let service = Rc::clone(service);
        async move { Ok::<_, Infallible>(answer(&service, request, finish).await) }
    });
    let connection = http2::Builder::new(LaneExecutor)
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(u32::try_from(limits.head_bytes_max).unwrap_or(u32::MAX))
        .max_send_buf_size(SEND_BUFFER_BYTES)
        .serve_connection(io, handler);
    let mut connection = pin!(connection);
    let mut alarm = Alarm::default();
    let mut shutting_down = false;
    loop {
        let served = alarm.race(progress.next_look(&limits), connection.as_mut());
        let outcome =
            if shutting_down { Some(served.await) } else { service.unless_leaving(cohort, served).await };
        match outcome {
            // What hyper could not do is the client's doing; the streams it cost were counted.
            Some(Ok(_)) => return,
            Some(Err(Elapsed)) => match progress.verdict(&limits) {
                Verdict::GoesOn => {}
                Verdict::Idle => return service.counters.closed_idle.increment(),
                Verdict::Ends(abort) => return service.counters.abort(&abort),
            },
            None => {
                service.counters.closed_drain.increment();
                connection.as_mut().graceful_shutdown();
                shutting_down = true;
            }
        }
    }
}

/// Answers one request.
async fn answer(service: &Rc<Service>, request: Request<Incoming>, finish: Finish) -> Response<StreamBody> {
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
    let head_only = request.method() == httptypes::Method::HEAD;
    response(service, &site, reply, head_only, finish)
}

fn response(
    service: &Service,
    site: &Site,
    reply: Reply,
    head_only: bool,
    mut finish: Finish,
) -> Response<StreamBody> {
    let status = reply.answer.status;
    finish.status = status.as_u16();
    let mut fields = HeaderMap::with_capacity(12);
    fields.insert(header::SERVER, HeaderValue::from_static(SERVER));
    service.with_date(|date: &[u8; date::LEN]| put(&mut fields, "date", date));
    reply.answer.each_field(|name, value| put(&mut fields, name, value));
    for (name, value) in site.extra() {
        fields.insert(name.clone(), value.clone());
    }
    let body = StreamBody::new(reply.body, head_only, finish);
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = fields;
    response
}

/// Every value the server writes is fit for a field; one that is not would be left out, not sent.
fn put(fields: &mut HeaderMap, name: &str, value: &[u8]) {
    if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_bytes(value)) {
        fields.insert(name, value);
    }
}

/// The request in the form that the handlers know. hyper has checked its framing.
fn head_of<'r>(
    request: &'r Request<Incoming>,
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
    let field = |name: HeaderName| request.headers().get(name).map(HeaderValue::as_bytes);
    Ok(Head {
        method,
        target,
        raw_target,
        version: Version::Http11,
        host,
        keep_alive: true,
        body: BodyLength::None,
        expect_continue: false,
        fields: Fields {
            accept: field(header::ACCEPT),
            accept_encoding: field(header::ACCEPT_ENCODING),
            if_match: field(header::IF_MATCH),
            if_modified_since: field(header::IF_MODIFIED_SINCE),
            if_none_match: field(header::IF_NONE_MATCH),
            if_range: field(header::IF_RANGE),
            if_unmodified_since: field(header::IF_UNMODIFIED_SINCE),
            range: field(header::RANGE),
            referer: field(header::REFERER),
            user_agent: field(header::USER_AGENT),
        },
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

/// Runs hyper's stream tasks on the lane of their connection.
#[derive(Clone, Copy)]
struct LaneExecutor;

impl<F: Future<Output = ()> + 'static> hyper::rt::Executor<F> for LaneExecutor {
    fn execute(&self, future: F) {
        lane::spawn(future).detach();
    }
}

/// Requests of one connection at a time.
const STREAMS_MAX: u32 = 128;
/// Body bytes that hyper may hold for each stream.
const SEND_BUFFER_BYTES: usize = 64 * 1024;
