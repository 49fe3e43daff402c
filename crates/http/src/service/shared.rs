//! The service of one lane: what its connections share, reload and graceful shutdown.

use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use lane::time::wall_clock;
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

use super::counters::HttpCounters;
use super::logins::Logins;
use super::random::Random;
use super::requests::UserRequests;
use super::site::Site;
use super::small_files::SmallFiles;
use super::unsent::Unsent;
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
    pub(super) site: RefCell<Rc<Site>>,
    pub(super) counters: Arc<HttpCounters>,
    pub(super) ktls: RefCell<KtlsSupport>,
    pub(super) small_files: SmallFiles,
    pub(super) random: Random,
    pub(super) logins: Rc<Logins>,
    pub(super) uploads: Rc<Uploads>,
    pub(super) unsent: Rc<Unsent>,
    pub(super) user_requests: Rc<UserRequests>,
    /// Turns at rendering listings.
    pub(super) turns: Turns,
    pub(super) connections: Rc<Connections>,
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
    /// Creates a service for the current lane. `seed` makes multipart boundaries differ between lanes and runs.
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
            unsent: Unsent::new(Arc::clone(&counters)),
            user_requests: Rc::default(),
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

    /// Serves what `site` says from the next request of every connection on. The rate of connections changes at
    /// once, in the middle of transfers too, and requests under way end whose user is gone or disabled.
    pub fn reload(&self, site: Site) {
        self.connections.set_pacing(site.pacing);
        let accounts = Arc::clone(&site.accounts);
        self.site.replace(Rc::new(site));
        self.user_requests.judge(&accounts);
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

    /// Returns `future`'s output, or `None` once connections of this cohort are to leave.
    pub(super) async fn unless_leaving<F: Future>(&self, cohort: Cohort, future: F) -> Option<F::Output> {
        self.connections.drain().unless_leaving(cohort, future).await
    }

    /// Lets `write` see the current date as text.
    pub(super) fn with_date(&self, write: impl FnOnce(&[u8; date::LEN])) {
        let since_epoch = wall_clock().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        write(self.date.borrow_mut().at(since_epoch));
    }

    /// Returns a connection's claim to a part of what the lane may send.
    pub(super) fn ticket(&self) -> Ticket {
        self.commons.pacer.ticket()
    }

    /// Returns the accounts of a connection from `peer`: of the lane's memory for replies, and of its large buffers.
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
}
