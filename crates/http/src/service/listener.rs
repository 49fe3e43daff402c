//! The service of one lane: what its connections share, its listeners, reload and graceful shutdown.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use lane::backend::SocketOption;
use lane::net::{TcpListener, TcpStream};
use lane::time::{timeout_at, wall_clock};
use slab::Slab;

use super::connection::serve_connection;
use super::counters::HttpCounters;
use super::site::Site;
use super::small_files::SmallFiles;
use crate::date;
use crate::log::{LaneLog, Record};
use crate::tls::{KtlsPolicy, KtlsSupport};

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
    pub(super) ktls: RefCell<KtlsSupport>,
    pub(super) small_files: SmallFiles,
    log: Option<RefCell<LaneLog>>,
    date: RefCell<date::DateCache>,
    random: Cell<u64>,
    drain: Drain,
}

/// Shutdown: whether it was asked for, who must hear of it, who is left.
#[derive(Default)]
struct Drain {
    asked: Cell<bool>,
    waiting: RefCell<Slab<Waker>>,
    connections: Cell<usize>,
    all_gone: RefCell<Option<Waker>>,
}

impl Service {
    /// A service for the current lane. `seed` makes multipart boundaries differ between lanes and runs.
    pub fn new(
        site: Site,
        counters: Arc<HttpCounters>,
        log: Option<LaneLog>,
        ktls: KtlsPolicy,
        seed: u64,
    ) -> Rc<Self> {
        Rc::new(Self {
            site: RefCell::new(Rc::new(site)),
            counters,
            ktls: RefCell::new(KtlsSupport::new(ktls)),
            small_files: SmallFiles::new(),
            log: log.map(RefCell::new),
            date: RefCell::default(),
            random: Cell::new(seed | 1),
            drain: Drain::default(),
        })
    }

    /// Accepts connections until shutdown is asked for.
    ///
    /// Where descriptors or memory run out it pauses: the kernel keeps the connections that wait.
    pub async fn listen(self: Rc<Self>, listener: TcpListener, role: Role) {
        loop {
            match self.unless_drained(listener.accept()).await {
                None => return,
                Some(Ok(stream)) => self.take(stream, role),
                Some(Err(error)) if is_exhaustion(&error) => {
                    self.counters.accept_pauses.increment();
                    lane::time::sleep(ACCEPT_PAUSE).await;
                }
                // The connection failed before it was taken, not the listener.
                Some(Err(_)) => {}
            }
        }
    }

    /// Serves what `site` says from the next request of every connection on.
    pub fn reload(&self, site: Site) {
        self.site.replace(Rc::new(site));
    }

    /// Asks for shutdown: listeners stop, idle connections close, a request under way is answered and its
    /// connection closed then. Returns when all are gone, or at `deadline` with the number left.
    pub async fn drain(&self, deadline: Instant) -> usize {
        self.drain.asked.set(true);
        let waiting = std::mem::take(&mut *self.drain.waiting.borrow_mut());
        waiting.into_iter().for_each(|(_, waker)| waker.wake());
        let all_gone = std::future::poll_fn(|cx| {
            if self.drain.connections.get() == 0 {
                return Poll::Ready(());
            }
            *self.drain.all_gone.borrow_mut() = Some(cx.waker().clone());
            Poll::Pending
        });
        // At the deadline the caller ends the lane, and with it what is left.
        let _ = timeout_at(deadline, all_gone).await;
        self.flush_log();
        self.drain.connections.get()
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
        self.drain.connections.get()
    }

    pub(super) fn site(&self) -> Rc<Site> {
        Rc::clone(&self.site.borrow())
    }

    pub(super) fn is_draining(&self) -> bool {
        self.drain.asked.get()
    }

    /// `future`'s output, or `None` once shutdown is asked for.
    pub(super) async fn unless_drained<F: Future>(&self, future: F) -> Option<F::Output> {
        let mut future = std::pin::pin!(future);
        let mut place = WaitingPlace { drain: &self.drain, key: None };
        std::future::poll_fn(|cx| {
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                return Poll::Ready(Some(output));
            }
            if self.drain.asked.get() {
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

    fn take(self: &Rc<Self>, stream: TcpStream, role: Role) {
        let site = self.site();
        if self.drain.connections.get() >= site.limits.connections_max {
            self.counters.connections_refused.increment();
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
        // Both only tune: a connection without them works.
        let _ = stream.set_option(SocketOption::NoDelay(true));
        if let Some(rate) = site.pacing {
            let _ = stream.set_option(SocketOption::PacingRate(rate));
        }
        let open = Open::new(Rc::clone(self));
        lane::spawn(async move { serve_connection(&open.service, stream, role).await }).detach();
    }
}

/// Counts a connection for as long as it lives.
struct Open {
    service: Rc<Service>,
}

impl Open {
    fn new(service: Rc<Service>) -> Self {
        service.drain.connections.update(|count| count + 1);
        service.counters.connections.add(1);
        Self { service }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let drain = &self.service.drain;
        drain.connections.update(|count| count - 1);
        self.service.counters.connections.sub(1);
        if drain.connections.get() == 0
            && let Some(waker) = drain.all_gone.borrow_mut().take()
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
