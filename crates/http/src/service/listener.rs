//! The service of one lane: what its connections share, its listeners, reload and graceful shutdown.

use std::cell::RefCell;
use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use lane::backend::SocketOption;
use lane::net::{TcpListener, TcpStream};
use lane::time::wall_clock;
use service::address::client_of;
use service::commons::Commons;
use service::connection_slots::ConnectionSlot;
use service::connections::Connections;
use service::counters::ConnectionCounters;
use service::drain::Cohort;
use service::log::LaneLog;
use service::memory::Account;
use service::pacer::Ticket;
use service::turns::Turns;
use tls::{KtlsPolicy, KtlsSupport};

use super::connection::serve_connection;
use super::counters::HttpCounters;
use super::logins::Logins;
use super::random::Random;
use super::site::Site;
use super::small_files::SmallFiles;
use super::uploads::Uploads;
use crate::date;
use crate::log::Record;

/// Protocols of a listener's connections.
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
    pub(super) random: Random,
    pub(super) logins: Rc<Logins>,
    pub(super) uploads: Rc<Uploads>,
    /// Turns at rendering listings.
    pub(super) turns: Turns,
    connections: Rc<Connections>,
    commons: Commons,
    log: Option<RefCell<LaneLog>>,
    date: RefCell<date::DateCache>,
}

/// Facts about an accepted connection: the role of its listener, its cohort and its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConnectionInfo<'a> {
    pub(super) role: Role,
    pub(super) cohort: Cohort,
    pub(super) place: &'a Rc<ConnectionSlot>,
}

impl Service {
    /// A service for the current lane. `seed` makes multipart boundaries differ between lanes and runs.
    pub fn new(
        site: Site,
        counters: Arc<HttpCounters>,
        connection_counters: Arc<ConnectionCounters>,
        log: Option<LaneLog>,
        ktls: KtlsPolicy,
        commons: Commons,
        seed: u64,
    ) -> Rc<Self> {
        let connections = Connections::new(connection_counters);
        connections.set_pacing(site.pacing);
        Rc::new(Self {
            site: RefCell::new(Rc::new(site)),
            logins: Logins::new(Arc::clone(&counters)),
            uploads: Uploads::new(Arc::clone(&counters)),
            counters,
            ktls: RefCell::new(KtlsSupport::new(ktls)),
            small_files: SmallFiles::new(),
            random: Random::new(seed),
            turns: Turns::default(),
            connections,
            commons,
            log: log.map(RefCell::new),
            date: RefCell::default(),
        })
    }

    /// Accepts and serves connections until shutdown is asked for.
    pub async fn listen(self: Rc<Self>, listener: TcpListener, role: Role) {
        // A listener without another holder ends with the service.
        let _ = self.listen_where(&listener, || role, Some).await;
    }

    /// Serves a listener ([`Service::listen`]), but asks `role` and `place` about every connection: the
    /// latter gives back those to be served here, and keeps those that it gave to another lane.
    ///
    /// # Errors
    /// The kernel's, when the socket listens no more though shutdown was not asked for.
    pub async fn listen_where(
        self: &Rc<Self>,
        listener: &TcpListener,
        role: impl Fn() -> Role,
        place: impl Fn(TcpStream) -> Option<TcpStream>,
    ) -> io::Result<()> {
        let take = |stream| {
            if let Some(stream) = place(stream) {
                self.take(stream, role());
            }
        };
        self.connections.accept(listener, take).await
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
        let left = self.connections.drain().ask(deadline).await;
        self.flush_log();
        left
    }

    /// Asks the connections there are to leave, as [`Service::drain`] does, and goes on serving those to come:
    /// idle ones close, a request under way is answered and its connection closed then.
    pub fn dismiss(&self) {
        self.connections.drain().dismiss();
    }

    /// Hands over what the access log has collected.
    pub fn flush_log(&self) {
        if let Some(log) = &self.log {
            log.borrow_mut().flush();
        }
    }

    /// Connections open.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// Returns what connections count.
    pub(super) fn connection_counters(&self) -> &Arc<ConnectionCounters> {
        self.connections.counters()
    }

    /// Returns what is served now.
    pub fn site(&self) -> Rc<Site> {
        Rc::clone(&self.site.borrow())
    }

    /// Returns whether connections of this cohort are to leave.
    pub(super) fn is_leaving(&self, cohort: Cohort) -> bool {
        self.connections.drain().is_leaving(cohort)
    }

    /// `future`'s output, or `None` once connections of this cohort are to leave.
    pub(super) async fn unless_leaving<F: Future>(&self, cohort: Cohort, future: F) -> Option<F::Output> {
        self.connections.drain().unless_leaving(cohort, future).await
    }

    /// Lets `write` see the current date as text.
    pub(super) fn with_date(&self, write: impl FnOnce(&[u8; date::LEN])) {
        let since_epoch = wall_clock().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        write(self.date.borrow_mut().at(since_epoch));
    }

    /// A connection's claim to a part of what the lane may send.
    pub(super) fn ticket(&self) -> Ticket {
        self.commons.pacer.ticket()
    }

    /// The accounts of a connection from `peer`: of the lane's memory for replies, and of its large buffers.
    pub(super) fn accounts(&self, peer: IpAddr) -> (Rc<Account>, Rc<Account>) {
        {
            let (commons, counters) = (&self.commons, self.connections.counters());
            (commons.memory.account(peer, counters), commons.large_buffers.account(peer, counters))
        }
    }

    /// Returns whether a log wants records.
    pub(super) fn keeps_log(&self) -> bool {
        self.log.is_some()
    }

    pub(super) fn log(&self, record: &Record<'_>) {
        if let Some(log) = &self.log {
            log.borrow_mut().push(record);
        }
    }

    /// Serves a connection that was accepted here or by another lane, if there is room for it.
    pub fn take(self: &Rc<Self>, stream: TcpStream, role: Role) {
        let max = self.site.borrow().limits.connections_max;
        let (stream, open) = match self.connections.admit(stream, max) {
            Ok(admitted) => admitted,
            Err(refused) if role == Role::Tls => return drop(refused),
            Err(refused) => return send_busy(&refused),
        };
        match role {
            Role::Plain => &self.counters.accepted_plain,
            Role::Tls => &self.counters.accepted_tls,
            Role::Redirect { .. } => &self.counters.accepted_redirect,
        }
        .increment();
        // It only tunes: a connection without it works.
        let _ = stream.set_option(SocketOption::NoDelay(true));
        let (service, client) = (Rc::clone(self), client_of(stream.peer_addr().ip()));
        lane::spawn_for(client, async move {
            let info = ConnectionInfo { role, cohort: open.cohort(), place: open.slot() };
            serve_connection(&service, stream, info).await;
        })
        .detach();
    }
}

/// Never waits: the answer fits any socket buffer, and if it does not go, closing says enough.
fn send_busy(stream: &TcpStream) {
    let mut rest = BUSY;
    while !rest.is_empty() {
        match stream.try_send(&[io::IoSlice::new(rest)], false) {
            Ok(Some(sent)) => rest = &rest[sent..],
            Ok(None) | Err(_) => return,
        }
    }
}

const BUSY: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nServer: linerate\r\nContent-Type: text/plain; charset=utf-8\r\n\
    Content-Length: 62\r\nRetry-After: 1\r\nConnection: close\r\n\r\n\
    503 The server has its maximum of connections: try again soon\n";

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
