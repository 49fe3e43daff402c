//! The service of one lane: what its connections share, its listeners, reload and graceful shutdown.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use lane::backend::SocketOption;
use lane::buffer::BufClass;
use lane::net::{TcpListener, TcpStream};
use lane::time::{timeout_at, wall_clock};
use service::connections::Connections;
use service::counters::ConnectionCounters;
use service::log::LaneLog;
use service::memory::{Account, ReplyMemory};
use service::pacer::{Pacer, RateShare, Ticket};
use service::places::Place;
use service::turns::Turns;
use slab::Slab;

use super::connection::serve_connection;
use super::counters::HttpCounters;
use super::site::Site;
use super::small_files::SmallFiles;
use crate::date;
use crate::log::Record;
use tls::{KtlsPolicy, KtlsSupport};

/// What a listener's connections speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// HTTP.
    Plain,
    /// HTTP over TLS; [`Site::tls`] must be set.
    Tls,
    /// HTTP that only sends clients to HTTPS.
    Redirect {
        /// The port that HTTPS clients can reach.
        https_port: u16,
    },
}

/// The HTTP service of one lane. Made on the lane, shared by its connections.
pub struct Service {
    site: RefCell<Rc<Site>>,
    pub(super) counters: Arc<HttpCounters>,
    connection_counters: Arc<ConnectionCounters>,
    pub(super) ktls: RefCell<KtlsSupport>,
    pub(super) small_files: SmallFiles,
    log: Option<RefCell<LaneLog>>,
    date: RefCell<date::DateCache>,
    random: Cell<u64>,
    pacer: Rc<Pacer>,
    connections: Connections,
    drain: Drain,
    /// Turns at rendering listings.
    pub(super) turns: Turns,
    memory: Rc<ReplyMemory>,
    large_buffers: Rc<ReplyMemory>,
}

/// Connections that were taken between two calls of [`Service::dismiss`]: they leave together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cohort(u64);

/// How a connection came in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<'a> {
    pub(super) role: Role,
    pub(super) cohort: Cohort,
    pub(super) place: &'a Rc<Place>,
}

/// Shutdown: whether it was asked for, who must hear of it, who is left.
#[derive(Default)]
struct Drain {
    asked: Cell<bool>,
    /// Cohorts that were asked to leave though the service goes on.
    dismissed: Cell<u64>,
    waiting: RefCell<Slab<Waker>>,
    all_gone: RefCell<Option<Waker>>,
}

impl Service {
    /// A service for the current lane, which sends no faster than `share` says, if it says anything. `seed` makes
    /// multipart boundaries differ between lanes and runs.
    pub fn new(
        site: Site,
        counters: Arc<HttpCounters>,
        connection_counters: Arc<ConnectionCounters>,
        log: Option<LaneLog>,
        ktls: KtlsPolicy,
        share: Arc<RateShare>,
        seed: u64,
    ) -> Rc<Self> {
        let connections = Connections::new(Arc::clone(&connection_counters));
        connections.set_pacing(site.pacing);
        let pool = |class: BufClass| lane::current().buffers().usage(class).allocated * class.bytes();
        // What waits for the disk takes buffers too, and puts nothing on these books.
        let memory = ReplyMemory::new(pool(BufClass::Small) / 16 * 15, Arc::clone(&connection_counters));
        let large_buffers = ReplyMemory::new(pool(BufClass::Large), Arc::clone(&connection_counters));
        Rc::new(Self {
            site: RefCell::new(Rc::new(site)),
            counters,
            connection_counters,
            ktls: RefCell::new(KtlsSupport::new(ktls)),
            small_files: SmallFiles::new(),
            log: log.map(RefCell::new),
            date: RefCell::default(),
            random: Cell::new(seed | 1),
            pacer: Pacer::new(share),
            connections,
            drain: Drain::default(),
            turns: Turns::default(),
            memory,
            large_buffers,
        })
    }

    /// Accepts and serves connections until shutdown is asked for.
    ///
    /// Where descriptors or memory run out somebody gives way, or it pauses: the kernel keeps those that wait.
    pub async fn listen(self: Rc<Self>, listener: TcpListener, role: Role) {
        // A listener that nobody else holds ends with the service.
        let _ = self.listen_where(&listener, role, Some).await;
    }

    /// As [`Service::listen`], but asks `place` about every connection: it gives back those to be served here, and
    /// keeps those that it gave to another lane.
    ///
    /// # Errors
    /// The kernel's, when the socket listens no more though shutdown was not asked for.
    pub async fn listen_where(
        self: &Rc<Self>,
        listener: &TcpListener,
        role: Role,
        place: impl Fn(TcpStream) -> Option<TcpStream>,
    ) -> io::Result<()> {
        loop {
            match self.unless_drained(listener.accept()).await {
                None => return Ok(()),
                Some(Ok(stream)) => {
                    if let Some(stream) = place(stream) {
                        self.take(stream, role);
                    }
                }
                Some(Err(error)) if is_exhaustion(&error) => {
                    self.connection_counters.accept_pauses.increment();
                    let made_room = self.connections.make_room();
                    lane::time::sleep(if made_room { LEAVING_PAUSE } else { ACCEPT_PAUSE }).await;
                }
                Some(Err(error)) if is_end_of_listener(&error) => return Err(error),
                // The connection failed before it was taken, not the listener.
                Some(Err(_)) => {}
            }
        }
    }

    /// Serves what `site` says from the next request of every connection on. The rate of connections changes at
    /// once, in the middle of transfers too.
    pub fn reload(&self, site: Site) {
        self.connections.set_pacing(site.pacing);
        self.site.replace(Rc::new(site));
    }

    /// Marks the packets of all connections, open ones too (SO_MARK), for the machine's routes and filters to tell
    /// which NIC they leave by; 0 takes the mark away.
    pub fn set_mark(&self, mark: u32) {
        self.connections.set_mark(mark);
    }

    /// Asks for shutdown: listeners stop, idle connections close, a request under way is answered and its
    /// connection closed then. Returns when all are gone, or at `deadline` with the number left.
    pub async fn drain(&self, deadline: Instant) -> usize {
        self.drain.asked.set(true);
        let waiting = std::mem::take(&mut *self.drain.waiting.borrow_mut());
        waiting.into_iter().for_each(|(_, waker)| waker.wake());
        let all_gone = std::future::poll_fn(|cx| {
            if self.connections.is_empty() {
                return Poll::Ready(());
            }
            *self.drain.all_gone.borrow_mut() = Some(cx.waker().clone());
            Poll::Pending
        });
        // At the deadline the caller ends the lane, and with it what is left.
        let _ = timeout_at(deadline, all_gone).await;
        self.flush_log();
        self.connections.len()
    }

    /// Asks the connections there are to leave, as [`Service::drain`] does, and goes on serving those to come:
    /// idle ones close, a request under way is answered and its connection closed then.
    pub fn dismiss(&self) {
        self.drain.dismissed.update(|cohorts| cohorts + 1);
        // They stay in the list: listeners wait there too, and wait on.
        self.drain.waiting.borrow().iter().for_each(|(_, waker)| waker.wake_by_ref());
    }

    /// Hands over what the access log has collected.
    pub fn flush_log(&self) {
        if let Some(log) = &self.log {
            log.borrow_mut().flush();
        }
    }

    /// Calls [`Service::flush_log`] for as long as the lane lives.
    pub async fn keep_log_fresh(self: Rc<Self>) {
        loop {
            lane::time::sleep(LOG_FLUSH_PERIOD).await;
            self.flush_log();
        }
    }

    /// Connections open.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// What is served now.
    pub fn site(&self) -> Rc<Site> {
        Rc::clone(&self.site.borrow())
    }

    /// The cohort of connections that are taken now.
    fn cohort(&self) -> Cohort {
        Cohort(self.drain.dismissed.get())
    }

    /// Whether connections of this cohort are to leave.
    pub(super) fn is_leaving(&self, cohort: Cohort) -> bool {
        self.drain.asked.get() || cohort < self.cohort()
    }

    /// `future`'s output, or `None` once connections of this cohort are to leave.
    pub(super) async fn unless_leaving<F: Future>(&self, cohort: Cohort, future: F) -> Option<F::Output> {
        self.unless(|| self.is_leaving(cohort), future).await
    }

    /// `future`'s output, or `None` once shutdown is asked for.
    async fn unless_drained<F: Future>(&self, future: F) -> Option<F::Output> {
        self.unless(|| self.drain.asked.get(), future).await
    }

    async fn unless<F: Future>(&self, over: impl Fn() -> bool, future: F) -> Option<F::Output> {
        let mut future = std::pin::pin!(future);
        let mut place = WaitingPlace { drain: &self.drain, key: None };
        std::future::poll_fn(|cx| {
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                return Poll::Ready(Some(output));
            }
            if over() {
                return Poll::Ready(None);
            }
            place.take(cx.waker());
            Poll::Pending
        })
        .await
    }

    /// Lets `write` see the current date as text.
    pub(super) fn with_date(&self, write: impl FnOnce(&[u8; date::LEN])) {
        let since_epoch = wall_clock().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        write(self.date.borrow_mut().at(since_epoch));
    }

    /// A connection's claim to a part of what the lane may send.
    pub(super) fn ticket(&self) -> Ticket {
        self.pacer.ticket()
    }

    /// The accounts of a connection from `peer`: of the lane's memory for replies, and of its large buffers.
    pub(super) fn accounts(&self, peer: IpAddr) -> (Rc<Account>, Rc<Account>) {
        (self.memory.account(peer), self.large_buffers.account(peer))
    }

    /// Whether anybody wants records.
    pub(super) fn keeps_log(&self) -> bool {
        self.log.is_some()
    }

    pub(super) fn log(&self, record: &Record<'_>) {
        if let Some(log) = &self.log {
            log.borrow_mut().push(record);
        }
    }

    /// The next number of a xorshift sequence: different each time, not secret.
    pub(super) fn random(&self) -> u64 {
        let mut x = self.random.get();
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.random.set(x);
        x.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Serves a connection that was accepted here or by another lane, if there is room for it.
    pub fn take(self: &Rc<Self>, stream: TcpStream, role: Role) {
        let site = self.site();
        if !self.connections.has_room(site.limits.connections_max, stream.peer_addr().ip()) {
            self.connection_counters.connections_refused.increment();
            if role != Role::Tls {
                say_busy(&stream);
            }
            return;
        }
        match role {
            Role::Plain => &self.counters.accepted_plain,
            Role::Tls => &self.counters.accepted_tls,
            Role::Redirect { .. } => &self.counters.accepted_redirect,
        }
        .increment();
        // It only tunes: a connection without it works.
        let _ = stream.set_option(SocketOption::NoDelay(true));
        let stream = Rc::new(stream);
        let (open, cohort) = (Open::new(Rc::clone(self), &stream), self.cohort());
        lane::spawn(async move {
            serve_connection(&open.service, stream, Entry { role, cohort, place: &open.place }).await;
        })
        .detach();
    }
}

/// Keeps a connection among the open ones for as long as it lives.
struct Open {
    service: Rc<Service>,
    place: Rc<Place>,
    key: usize,
}

impl Open {
    fn new(service: Rc<Service>, stream: &Rc<TcpStream>) -> Self {
        let (key, place) = service.connections.insert(stream);
        Self { service, place, key }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let Self { service, key, .. } = self;
        service.connections.remove(*key);
        if service.connections.is_empty()
            && let Some(waker) = service.drain.all_gone.borrow_mut().take()
        {
            waker.wake();
        }
    }
}

/// A waker in the list of those to be told of shutdown.
struct WaitingPlace<'a> {
    drain: &'a Drain,
    key: Option<usize>,
}

impl WaitingPlace<'_> {
    fn take(&mut self, waker: &Waker) {
        if self.key.is_none() {
            self.key = Some(self.drain.waiting.borrow_mut().insert(waker.clone()));
        }
    }
}

impl Drop for WaitingPlace<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            // Shutdown may have taken the list.
            self.drain.waiting.borrow_mut().try_remove(key);
        }
    }
}

/// Never waits: the answer fits any socket buffer, and if it does not go, closing says enough.
fn say_busy(stream: &TcpStream) {
    let mut rest = BUSY;
    while !rest.is_empty() {
        match stream.try_send(&[io::IoSlice::new(rest)], false) {
            Ok(Some(sent)) => rest = &rest[sent..],
            Ok(None) | Err(_) => return,
        }
    }
}

fn is_exhaustion(error: &io::Error) -> bool {
    const ENOMEM: i32 = 12;
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    const ENOBUFS: i32 = 105;
    matches!(error.raw_os_error(), Some(ENOMEM | ENFILE | EMFILE | ENOBUFS))
}

/// accept(2) of a socket that was shut down or closed behind its lane's back.
fn is_end_of_listener(error: &io::Error) -> bool {
    const EBADF: i32 = 9;
    const EINVAL: i32 = 22;
    matches!(error.raw_os_error(), Some(EBADF | EINVAL))
}

/// For the connection that gives way to close.
const LEAVING_PAUSE: Duration = Duration::from_millis(1);
/// Long enough for some connection to end, short enough for nobody to notice.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

const BUSY: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nServer: linerate\r\nContent-Type: text/plain; charset=utf-8\r\n\
    Content-Length: 62\r\nRetry-After: 1\r\nConnection: close\r\n\r\n\
    503 The server has its maximum of connections: try again soon\n";

/// How late a line of the access log may be.
const LOG_FLUSH_PERIOD: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_answer_has_the_length_it_says() {
        let text = std::str::from_utf8(BUSY).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{}", body.len());
    }
}
