//! The books of one request: what it holds, and the log record that its end writes.

use std::net::IpAddr;
use std::rc::Rc;
use std::time::Instant;

use identity::Principal;
use lane::time::now;
use service::datetime::Moment;
use service::memory::{Account, Charge};

use super::progress::Progress;
use crate::http2::request::Request;
use crate::log::{Protocol, Record};
use crate::request::Method;
use crate::service::requests::UserRequest;
use crate::service::shared::Service;

/// Ends a request's books when its body is done with, however that comes about.
pub(super) struct Finish {
    service: Rc<Service>,
    progress: Rc<Progress>,
    started: Instant,
    peer: IpAddr,
    method: Method,
    pub(super) status: u16,
    pub(super) sent: u64,
    pub(super) principal: Option<Principal>,
    pub(super) running: Option<UserRequest>,
    texts: Texts,
    _held: Charge,
}

/// Texts of a request's head for the log, in one piece of memory: target, host, referer, user agent, and the
/// method, where it is no known one.
#[derive(Default)]
struct Texts {
    all: Box<[u8]>,
    lens: [usize; 5],
}

impl Finish {
    /// Opens the books of a request.
    pub(super) fn new(
        service: Rc<Service>,
        progress: Rc<Progress>,
        account: &Rc<Account>,
        peer: IpAddr,
        request: &Request,
    ) -> Self {
        progress.stream_opened();
        let texts = if service.keeps_log() { Texts::of(request) } else { Texts::default() };
        let bytes = STREAM_BYTES + texts.all.len();
        Self {
            service,
            progress,
            started: now(),
            peer,
            method: request.method(),
            status: 0,
            sent: 0,
            principal: None,
            running: None,
            texts,
            _held: account.charge(bytes),
        }
    }
}

impl Texts {
    /// Copies the texts for the log. What the log would cut is not kept while the client takes its time.
    fn of(request: &Request) -> Self {
        let field = |name| request.field(name).unwrap_or_default();
        let target = request.target();
        let method = if request.method() == Method::Other { request.method_name() } else { b"" };
        let parts = [target, request.host(), field(b"referer"), field(b"user-agent"), method];
        let mut lens = parts.map(|part| part.len().min(Record::FIELD_MAX));
        lens[0] = target.len().min(Record::TARGET_MAX);
        let mut all = Vec::with_capacity(lens.iter().sum());
        parts.iter().zip(lens).for_each(|(part, len)| all.extend_from_slice(&part[..len]));
        Self { all: all.into(), lens }
    }

    fn parts(&self) -> [&[u8]; 5] {
        let mut at = 0;
        self.lens.map(|len| {
            at += len;
            &self.all[at - len..at]
        })
    }
}

impl Drop for Finish {
    fn drop(&mut self) {
        self.progress.stream_closed();
        self.service.counters.body_bytes.add(self.sent);
        if !self.service.keeps_log() {
            return;
        }
        let [target, host, referer, user_agent, method_name] = self.texts.parts();
        self.service.log(&Record {
            peer: self.peer,
            unix_us: Moment::now().unix_us,
            duration_us: u32::try_from(now().duration_since(self.started).as_micros()).unwrap_or(u32::MAX),
            status: self.status,
            body_bytes: self.sent,
            method: self.method,
            method_name,
            protocol: Protocol::Http2,
            tls: true,
            user: self.principal.as_ref().map_or(b"", |principal| principal.name().as_bytes()),
            target,
            host,
            referer,
            user_agent,
        });
    }
}

/// Memory of a request beside its texts and its body's bytes: its handler, its stream, its place in the
/// tables.
const STREAM_BYTES: usize = 2048;
