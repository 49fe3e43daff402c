//! The file server: RXAFS, service 1 on port 7000. One file a procedure, or for a few that say the same. They share
//! `call_context` (client and volume of a call), `status_and_callback` (a file as the client may see it) and `status`.
//!
//! A reply that carries a callback to a client that would lose its break counts as in flight until the client has it.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::SystemTime;

use afs_wire::rxafs::{self, Tally};
use lane::budget::Share;
use rx::Dscp;
use rx_lane::{AbortCode, Handler, ServerCall, ServerConnection};
use vfs::InFlightReply;

use crate::attached_volumes::AttachedVolumes;
use crate::audit::Audit;
use crate::host::{Contact, LaneHosts};
use crate::oob::LaneOob;

use self::call_failure::CallFailure;
pub use self::counters::FileCounters;
pub use self::dir_page_versions::DirPageVersions;
use self::dir_pages::DirPages;
pub use self::lock::Locks;
use self::totals::LaneCounts;
pub use self::totals::Totals;
use self::writers::Writers;

mod access;
mod audited;
mod bulk_status;
mod call_context;
mod call_failure;
mod callbacks;
mod changing;
mod counters;
mod create_file;
mod dir_page_versions;
mod dir_pages;
mod dispatch;
mod fetch_acl;
mod fetch_data;
mod fetch_status;
mod link;
mod lock;
mod lock_board;
mod make_dir;
mod open_writer;
mod out_of_band;
mod remove;
mod rename;
mod simple;
mod statistics;
mod status;
mod status_and_callback;
mod store_acl;
mod store_data;
mod store_status;
mod synthetic;
mod totals;
mod volume_status;
mod writers;

/// Bytes of a file that are mostly on their way within a moment.
const SENT_AT_ONCE: u64 = 64 << 10;

/// RXAFS.
pub const SERVICE: u16 = 1;

/// A client's call.
type Call = ServerCall<Contact>;

/// Charges the caller for what is open for it until the share is dropped.
///
/// # Errors
/// VBUSY where the client has its share of the process's descriptors, or there are no more.
fn descriptor(remote: Option<SocketAddr>) -> Result<Option<Share>, CallFailure> {
    // A connection that is gone has no address, and no client to hold anything for.
    let Some(remote) = remote else { return Ok(None) };
    let taken = lane::descriptors::budget().take(remote.ip(), 1);
    taken.map(Some).map_err(|_| vfs::Error::TooManyOpen.into())
}

/// Sends `len` bytes of what is open, by `send`. The caller is charged a [`descriptor`]: before many bytes; before few
/// only once they wait for something, as most are on their way at once.
///
/// # Errors
/// Those of `send`, and of [`descriptor`].
async fn charged(
    remote: Option<SocketAddr>,
    len: u64,
    send: impl Future<Output = Result<(), CallFailure>>,
) -> Result<(), CallFailure> {
    let mut send = pin!(send);
    if len <= SENT_AT_ONCE
        && let Poll::Ready(done) = poll_fn(|cx| Poll::Ready(send.as_mut().poll(cx))).await
    {
        return done;
    }
    let _descriptor = descriptor(remote)?;
    send.await
}

/// The file server of one lane. Clones are handles to the same one.
#[derive(Clone)]
pub struct FileServer {
    inner: Rc<FileServerInner>,
}

struct FileServerInner {
    attached: RefCell<Rc<AttachedVolumes>>,
    hosts: Rc<LaneHosts>,
    dir_pages: DirPages,
    writers: Writers,
    locks: Locks,
    audit: Audit,
    oob: RefCell<Option<LaneOob>>,
    counts: Arc<LaneCounts>,
    counters: Arc<FileCounters>,
    totals: Totals,
    dscp: Cell<Dscp>,
    began: SystemTime,
}

/// One call being served.
struct ServedCall {
    server: FileServer,
    /// Callbacks that its reply carries.
    in_flight_reply: RefCell<Vec<InFlightReply>>,
}

impl FileServer {
    /// Creates the file server of these volumes, whose clients are `hosts`; `locks`, `dir_page_versions` and `totals`
    /// are one for all lanes. Its calls are recorded by `audit`.
    pub fn new(
        attached: Rc<AttachedVolumes>,
        hosts: Rc<LaneHosts>,
        locks: &Locks,
        dir_page_versions: &DirPageVersions,
        totals: &Totals,
        audit: Audit,
    ) -> Self {
        let counts = LaneCounts { hosts: Arc::clone(hosts.counters()), ..LaneCounts::default() };
        let counts = totals.add(counts, hosts.tree());
        let inner = FileServerInner {
            attached: RefCell::new(attached),
            hosts,
            dir_pages: DirPages::new(IMAGE_PAGES_MAX, dir_page_versions),
            writers: Writers::new(WRITERS_MAX),
            locks: locks.clone(),
            audit,
            oob: RefCell::default(),
            counters: Arc::clone(&counts.files),
            counts,
            totals: totals.clone(),
            dscp: Cell::default(),
            began: lane::time::wall_clock(),
        };
        Self { inner: Rc::new(inner) }
    }

    /// Serves other volumes from the next call on.
    pub fn attach(&self, attached: Rc<AttachedVolumes>) {
        *self.inner.attached.borrow_mut() = attached;
    }

    /// Has packets to clients marked so, on connections that begin from now on.
    pub fn set_dscp(&self, dscp: Dscp) {
        self.inner.dscp.set(dscp);
    }

    /// Keeps so many pages of directories at most from now on, and none of those that it has.
    pub fn keep_pages(&self, pages_max: usize) {
        self.inner.dir_pages.bound(pages_max);
    }

    /// Offers out-of-band TCP by these connections, while they are listened for.
    pub fn offer_oob(&self, oob: &LaneOob) {
        *self.inner.oob.borrow_mut() = Some(oob.clone());
    }

    /// Hands over what the audit log has recorded.
    pub fn flush_audit(&self) {
        self.inner.audit.flush();
    }

    /// Returns what became of this lane's calls, by procedure.
    pub fn tally(&self) -> &Tally {
        &self.inner.counts.calls
    }

    /// Returns what is counted on this lane.
    pub fn counters(&self) -> &Arc<FileCounters> {
        &self.inner.counters
    }
}

impl Handler for FileServer {
    type Connection = Contact;
    type Error = AbortCode;

    fn connected(&self, connection: &ServerConnection) -> Contact {
        if self.inner.dscp.get() != Dscp::DEFAULT {
            connection.set_dscp(self.inner.dscp.get());
        }
        Contact::new(connection)
    }

    fn handle(&self, mut call: Call) -> impl Future<Output = Result<(), AbortCode>> + 'static {
        let serving = ServedCall { server: self.clone(), in_flight_reply: RefCell::default() };
        async move {
            let tally = &serving.server.inner.counts.calls;
            rxafs::serve(&serving, &mut call, tally).await?;
            let in_flight_reply = serving.in_flight_reply.take();
            if !in_flight_reply.is_empty() {
                // The reply was received or never will be: from here on callbacks of the client may be broken.
                let _ = call.closed().await;
            }
            Ok(())
        }
    }
}

impl std::fmt::Debug for FileServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileServer").finish_non_exhaustive()
    }
}

//@ limit: pages of directories kept
//@ section: AFS file server
//@ unit: page of 2 KiB
//@ all: lane: {}
//@ empty: the least used go; others wait for a directory that is read again
//@ counter: afs_images_built
//@ attack: afs-pools
/// Pages of directories that a lane keeps: 64 MiB.
const IMAGE_PAGES_MAX: usize = 32_768;
//@ limit: files kept open for clients that write
//@ section: AFS file server
//@ unit: file
//@ all: lane: {}, each for 10 s behind its last store, 2 s where its last name has gone
//@ empty: the least used go; others feel that a file is opened at the next store
//@ counter: none
//@ attack: afs-announced-stores
/// Files that a lane keeps open for the clients that write to them.
const WRITERS_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_bytes_are_charged_once_they_wait_and_many_before() {
        let remote = Some(SocketAddr::from(([192, 0, 2, 1], 7001)));
        let budget = lane::descriptors::budget();
        let held = || budget.counters().held.get();
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        for (len, before) in [(SENT_AT_ONCE, 0), (SENT_AT_ONCE + 1, 1)] {
            // What is sent at its first turn.
            let mut at_once = pin!(charged(remote, len, async {
                assert_eq!(held(), before, "{len}");
                Ok(())
            }));
            assert!(at_once.as_mut().poll(&mut cx).is_ready());
            // What waits.
            let turns = Cell::new(0);
            let waits = poll_fn(|_| {
                turns.set(turns.get() + 1);
                if turns.get() < 3 { Poll::Pending } else { Poll::Ready(Ok(())) }
            });
            {
                let mut waiting = pin!(charged(remote, len, waits));
                while waiting.as_mut().poll(&mut cx).is_pending() {
                    assert_eq!(held(), 1, "{len}");
                }
            }
            assert_eq!(held(), 0, "{len}");
        }
        // A client that may have no more is refused, few bytes or many.
        budget.set_limit(0);
        for len in [1, SENT_AT_ONCE + 1] {
            let mut call_failure = pin!(charged(remote, len, std::future::pending()));
            let Poll::Ready(outcome) = call_failure.as_mut().poll(&mut cx) else {
                panic!("it waits for ever")
            };
            assert!(outcome.is_err());
        }
    }
}
