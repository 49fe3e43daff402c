//! One lane's part: its shares, the files of opens as it has them, and the way of breaks to its clients.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::{Rc, Weak as Weakly};
use std::sync::{Arc, Weak};
use std::task::Waker;

use futures_util::future::LocalBoxFuture;
use lane::budget::Share as Descriptors;
use smb_proto::numbers::NumberMap;
use smb_wire::Guid;
use vfs::{ClientNotification, Invalidation, InvalidationListener, LeaseBreak, Volume};
use zerocopy::IntoBytes;

use crate::attributes::AttributeCache;
use crate::breaks::{BreakTarget, Breaks, LeaseBroken, level};
use crate::cached_names::PageLru;
use crate::counters::TreeCounters;
use crate::lane_handle::LaneHandle;
use crate::open::Open;
use crate::opens::Opens;
use crate::request_context::RequestContext;
use crate::root::Root;
use crate::share::{Share, ShareInner, ShareOptions};

/// One lane's part of what SMB does with trees. Cloning it is cheap.
#[derive(Clone)]
pub struct Tree {
    lane_state: Rc<LaneState>,
    shares: Rc<Shares>,
}

/// The state that all shares of one lane have in common.
pub(crate) struct LaneState {
    opens: Arc<Opens>,
    handles: RefCell<NumberMap<u64, HandleEntry>>,
    /// The number of handles from which those of closed opens are looked for.
    sweep_threshold: Cell<usize>,
    attribute_cache: AttributeCache,
    page_lru: PageLru,
    counters: Arc<TreeCounters>,
    /// The cache knows it, from the first share on, as long as the tree lives.
    breaker: Rc<dyn InvalidationListener>,
    is_registered: Cell<bool>,
    closer: OpenCloser,
    /// Closes disconnected opens whose time is over.
    pub(crate) reaper: RefCell<Option<lane::Task<()>>>,
}

/// Closes opens whose session has ended, on this lane.
#[derive(Clone)]
pub(crate) struct OpenCloser {
    shares: Weakly<Shares>,
    lane_state: Weakly<LaneState>,
}

type Shares = RefCell<HashMap<Arc<str>, Share>>;

/// An open and its handle on this lane.
#[derive(Clone)]
struct HandleEntry {
    open: Weak<Open>,
    handle: Rc<LaneHandle>,
    /// Descriptors charged to the client, where another lane has made the open.
    _descriptors: Option<Rc<Descriptors>>,
}

/// Sends the breaks of SMB's holders on this lane.
struct BreakHandler {
    closer: OpenCloser,
    opens: Arc<Opens>,
    breaks: Rc<dyn Breaks>,
    counters: Arc<TreeCounters>,
}

impl Tree {
    /// Creates the tree of this lane, without a share: breaks of holders on it go to `breaks`.
    pub fn new(opens: Arc<Opens>, breaks: Rc<dyn Breaks>) -> Self {
        let counters = Arc::new(TreeCounters::default());
        let shares = Rc::<Shares>::default();
        let lane_state = Rc::new_cyclic(|lane_state| {
            let closer = OpenCloser { shares: Rc::downgrade(&shares), lane_state: lane_state.clone() };
            let breaking = BreakHandler {
                closer: closer.clone(),
                opens: Arc::clone(&opens),
                breaks,
                counters: Arc::clone(&counters),
            };
            LaneState {
                opens,
                handles: RefCell::default(),
                sweep_threshold: Cell::new(SWEEP_THRESHOLD_MIN),
                attribute_cache: AttributeCache::new(),
                page_lru: PageLru::default(),
                counters,
                breaker: Rc::new(breaking),
                is_registered: Cell::new(false),
                closer,
                reaper: RefCell::default(),
            }
        });
        Self { lane_state, shares }
    }

    /// Shows a volume, which was opened [with objects](vfs::VolumeSpec::with_objects), by this name; a share that had it is another
    /// from now on.
    pub fn add_share(&self, name: &str, volume: Volume, options: ShareOptions) -> Share {
        if !self.lane_state.is_registered.replace(true) {
            volume.cache().add_invalidation_listener(&self.lane_state.breaker);
        }
        let name: Arc<str> = name.into();
        let inner = ShareInner {
            name: Arc::clone(&name),
            volume,
            options,
            lane_state: Rc::clone(&self.lane_state),
            shares_room: Cell::default(),
        };
        let share = Share { inner: Rc::new(inner), root: Root::whole() };
        self.shares.borrow_mut().insert(name, share.clone());
        share
    }

    /// Stops showing the share. Opens in it go on until they are closed, by tree connects that still have the
    /// share.
    pub fn remove_share(&self, name: &str) {
        let removed = self.shares.borrow_mut().remove(name);
        drop(removed);
    }

    /// Returns the share of this name, in any case of ASCII.
    pub fn share(&self, name: &str) -> Option<Share> {
        find(&self.shares.borrow(), name)
    }

    /// Returns every open of the process.
    pub fn opens(&self) -> &Arc<Opens> {
        &self.lane_state.opens
    }

    /// Returns what this lane has counted.
    pub fn counters(&self) -> &Arc<TreeCounters> {
        &self.lane_state.counters
    }

    /// Closes opens whose session or tree connect has ended, or whose last connection is lost, with the deletions that come of it.
    pub fn close_all<'a>(&'a self, ctx: &'a RequestContext, opens: Vec<Arc<Open>>) -> LocalBoxFuture<'a, ()> {
        Box::pin(async move {
            for open in opens {
                self.lane_state.closer.close_by(ctx, &open).await;
            }
        })
    }

    /// Makes this lane the one that sends breaks to the clients of these opens.
    pub fn adopt(&self, opens: &[Arc<Open>]) {
        for open in opens {
            if let Some(share) = self.share(open.share_name()) {
                open.grants().set_home_lane(share.volume().cache());
            }
        }
    }

    pub(crate) fn lane_state(&self) -> &Rc<LaneState> {
        &self.lane_state
    }
}

impl OpenCloser {
    /// Closes an open on behalf of its maker.
    pub(crate) async fn close(&self, open: Arc<Open>) {
        self.close_by(&open.made_by, &open).await;
    }

    async fn close_by(&self, ctx: &RequestContext, open: &Arc<Open>) {
        let share = self.shares.upgrade().and_then(|shares| find(&shares.borrow(), open.share_name()));
        match share {
            Some(share) => {
                // No client can learn why a name stayed.
                let _ = share.close(ctx, open, 0).await;
            }
            None => {
                if let Some(lane_state) = self.lane_state.upgrade() {
                    lane_state.forget_open(open);
                }
            }
        }
    }
}

/// Returns the share of this name, in any case of ASCII.
fn find(shares: &HashMap<Arc<str>, Share>, name: &str) -> Option<Share> {
    let in_any_case = || shares.values().find(|share| share.name().eq_ignore_ascii_case(name));
    shares.get(name).or_else(in_any_case).cloned()
}

impl LaneState {
    pub(crate) fn opens(&self) -> &Arc<Opens> {
        &self.opens
    }

    pub(crate) fn counters(&self) -> &Arc<TreeCounters> {
        &self.counters
    }

    pub(crate) fn closer(&self) -> OpenCloser {
        self.closer.clone()
    }

    /// Removes a closed open from the table, with the lane's handle.
    pub(crate) fn forget_open(&self, open: &Open) {
        let handle = self.handles.borrow_mut().remove(&open.id().volatile.get());
        drop(handle);
        let directory_watch = open.state().directory_watch.close();
        directory_watch.into_iter().for_each(Waker::wake);
        if self.opens.remove(open) {
            self.counters.closed(open);
        }
    }

    pub(crate) fn handle(&self, open: &Open) -> Option<Rc<LaneHandle>> {
        let handles = self.handles.borrow();
        handles.get(&open.id().volatile.get()).map(|entry| Rc::clone(&entry.handle))
    }

    /// Keeps the lane's handle of an open, and returns it; where there is one already, that one.
    pub(crate) fn keep_handle(
        &self,
        open: &Arc<Open>,
        handle: Rc<LaneHandle>,
        descriptors: Option<Descriptors>,
    ) -> Rc<LaneHandle> {
        let mut handles = self.handles.borrow_mut();
        let swept =
            if handles.len() < self.sweep_threshold.get() { Vec::new() } else { self.swept(&mut handles) };
        let entry =
            HandleEntry { open: Arc::downgrade(open), handle, _descriptors: descriptors.map(Rc::new) };
        let at = handles.entry(open.id().volatile.get()).or_insert_with(|| entry.clone());
        let is_link = |entry: &HandleEntry| entry.handle.link().is_some();
        let before = (is_link(&entry) && !is_link(at)).then(|| std::mem::replace(at, entry));
        let kept = Rc::clone(&at.handle);
        drop(handles);
        drop((swept, before));
        kept
    }

    /// Removes the handles of opens that other lanes have closed. The next sweep comes when there are twice as many as are left.
    fn swept(&self, handles: &mut NumberMap<u64, HandleEntry>) -> Vec<HandleEntry> {
        let closed = handles.extract_if(|_, entry| entry.open.strong_count() == 0);
        let closed: Vec<_> = closed.map(|(_, entry)| entry).collect();
        self.counters.lane_handles_reaped.add(closed.len() as u64);
        self.sweep_threshold.set((2 * handles.len()).max(SWEEP_THRESHOLD_MIN));
        closed
    }

    pub(crate) fn page_lru(&self) -> &PageLru {
        &self.page_lru
    }

    pub(crate) fn attribute_cache(&self) -> &AttributeCache {
        &self.attribute_cache
    }
}

impl InvalidationListener for BreakHandler {
    fn invalidate(&self, _: &Invalidation) -> Option<ClientNotification> {
        None
    }

    /// Returns false: SMB's clients rely on leases alone.
    fn has_clients(&self) -> bool {
        false
    }

    fn break_lease(&self, asked: &LeaseBreak) {
        let told = asked.grant_break;
        let disconnected = LaneState::close_conflicting(&self.closer, &self.opens, told.holder, told.to);
        self.counters.durable_gave_way_conflict.add(disconnected.closed);
        if !disconnected.has_connected {
            return;
        }
        if told.acknowledge {
            self.opens.await_acknowledgement(told.holder);
        }
        match self.opens.break_target(told.holder) {
            Some(BreakTarget::Oplock { open, session }) => {
                self.counters.breaks_oplock.increment();
                self.breaks.oplock(open, session, level(told.to));
            }
            Some(BreakTarget::Lease { client, key }) => {
                self.counters.breaks_lease.increment();
                self.breaks.lease(&LeaseBroken {
                    client,
                    key,
                    from: told.from.bits().into(),
                    to: told.to.bits().into(),
                    epoch: told.epoch,
                    acknowledge: told.acknowledge,
                    names: told.names,
                });
            }
            None => self.counters.breaks_of_closed_opens.increment(),
        }
    }
}

/// Returns the bytes of a GUID, as grants have them.
pub(crate) fn guid_bytes(guid: Guid) -> [u8; 16] {
    guid.as_bytes().try_into().expect("sixteen bytes")
}

const SWEEP_THRESHOLD_MIN: usize = 256;
