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
use vfs::{Breaker, Broken, ByLease, Telling, Volume};
use zerocopy::IntoBytes;

use crate::asker::Asker;
use crate::attributes::Known;
use crate::breaks::{Breaks, LeaseBroken, Told, level};
use crate::counters::TreeCounters;
use crate::hand::Hand;
use crate::names_at_hand::Pages;
use crate::open::Open;
use crate::opens::Opens;
use crate::root::Root;
use crate::share::{Inner as ShareInner, Share, ShareOptions};

/// One lane's part of what SMB does with trees. Cloning it is cheap.
#[derive(Clone)]
pub struct Tree {
    side: Rc<Side>,
    shares: Rc<Shares>,
}

/// What all shares of a lane have in common.
pub(crate) struct Side {
    opens: Arc<Opens>,
    hands: RefCell<NumberMap<u64, AtHand>>,
    /// Hands that there may be before those of closed opens are looked for.
    hands_mark: Cell<usize>,
    known: Known,
    pages: Pages,
    counters: Arc<TreeCounters>,
    /// The cache knows it, from the first share on, as long as the tree lives.
    breaker: Rc<dyn Breaker>,
    is_known: Cell<bool>,
    closer: Closer,
    /// Closes disconnected opens whose time is over.
    pub(crate) reaper: RefCell<Option<lane::Task<()>>>,
}

/// Closes opens that nobody has, on this lane.
#[derive(Clone)]
pub(crate) struct Closer {
    shares: Weakly<Shares>,
    side: Weakly<Side>,
}

type Shares = RefCell<HashMap<Arc<str>, Share>>;

#[derive(Clone)]
struct AtHand {
    open: Weak<Open>,
    hand: Rc<Hand>,
    /// Of the client, where another lane has made the open.
    _descriptors: Option<Rc<Descriptors>>,
}

struct Breaking {
    closer: Closer,
    opens: Arc<Opens>,
    breaks: Rc<dyn Breaks>,
    counters: Arc<TreeCounters>,
}

impl Tree {
    /// Of this lane, without a share: breaks of holders on it go to `breaks`.
    pub fn new(opens: Arc<Opens>, breaks: Rc<dyn Breaks>) -> Self {
        let counters = Arc::new(TreeCounters::default());
        let shares = Rc::<Shares>::default();
        let side = Rc::new_cyclic(|side| {
            let closer = Closer { shares: Rc::downgrade(&shares), side: side.clone() };
            let breaking = Breaking {
                closer: closer.clone(),
                opens: Arc::clone(&opens),
                breaks,
                counters: Arc::clone(&counters),
            };
            Side {
                opens,
                hands: RefCell::default(),
                hands_mark: Cell::new(HANDS_MARK_MIN),
                known: Known::new(),
                pages: Pages::default(),
                counters,
                breaker: Rc::new(breaking),
                is_known: Cell::new(false),
                closer,
                reaper: RefCell::default(),
            }
        });
        Self { side, shares }
    }

    /// Shows a volume, which was opened [with objects](vfs::VolumeSpec::with_objects), by this name; a share that had it is another
    /// from now on.
    pub fn add_share(&self, name: &str, volume: Volume, options: ShareOptions) -> Share {
        if !self.side.is_known.replace(true) {
            volume.cache().add_breaker(&self.side.breaker);
        }
        let name: Arc<str> = name.into();
        let inner = ShareInner {
            name: Arc::clone(&name),
            volume,
            options,
            side: Rc::clone(&self.side),
            shares_room: Cell::default(),
        };
        let share = Share { inner: Rc::new(inner), root: Root::whole() };
        self.shares.borrow_mut().insert(name, share.clone());
        share
    }

    /// Shows it no more. Opens in it go on until they are closed, by who has the share still.
    pub fn remove_share(&self, name: &str) {
        let removed = self.shares.borrow_mut().remove(name);
        drop(removed);
    }

    /// The share of this name, in any case of ASCII.
    pub fn share(&self, name: &str) -> Option<Share> {
        find(&self.shares.borrow(), name)
    }

    /// Every open of the process.
    pub fn opens(&self) -> &Arc<Opens> {
        &self.side.opens
    }

    /// What this lane has counted.
    pub fn counters(&self) -> &Arc<TreeCounters> {
        &self.side.counters
    }

    /// Closes opens whose session or tree connect has ended, or whose last connection is lost, with the deletions that come of it.
    pub fn close_all<'a>(&'a self, asker: &'a Asker, opens: Vec<Arc<Open>>) -> LocalBoxFuture<'a, ()> {
        Box::pin(async move {
            for open in opens {
                self.side.closer.close_by(asker, &open).await;
            }
        })
    }

    /// Clients of these opens are told of breaks on this lane from now on.
    pub fn adopt(&self, opens: &[Arc<Open>]) {
        for open in opens {
            if let Some(share) = self.share(open.share_name()) {
                open.grants().move_here(share.volume().cache());
            }
        }
    }

    pub(crate) fn side(&self) -> &Rc<Side> {
        &self.side
    }
}

impl Closer {
    /// Closes an open on behalf of who made it.
    pub(crate) async fn close(&self, open: Arc<Open>) {
        self.close_by(&open.made_by, &open).await;
    }

    async fn close_by(&self, asker: &Asker, open: &Arc<Open>) {
        let share = self.shares.upgrade().and_then(|shares| find(&shares.borrow(), open.share_name()));
        match share {
            Some(share) => {
                // There is nobody to be told why a name stayed.
                let _ = share.close(asker, open, 0).await;
            }
            None => {
                if let Some(side) = self.side.upgrade() {
                    side.let_go(open);
                }
            }
        }
    }
}

/// The share of this name, in any case of ASCII.
fn find(shares: &HashMap<Arc<str>, Share>, name: &str) -> Option<Share> {
    let in_any_case = || shares.values().find(|share| share.name().eq_ignore_ascii_case(name));
    shares.get(name).or_else(in_any_case).cloned()
}

impl Side {
    pub(crate) fn opens(&self) -> &Arc<Opens> {
        &self.opens
    }

    pub(crate) fn counters(&self) -> &Arc<TreeCounters> {
        &self.counters
    }

    pub(crate) fn closer(&self) -> Closer {
        self.closer.clone()
    }

    /// The open is no more.
    pub(crate) fn let_go(&self, open: &Open) {
        let hand = self.hands.borrow_mut().remove(&open.id().volatile.get());
        drop(hand);
        let watching = open.state().watching.close();
        watching.into_iter().for_each(Waker::wake);
        if self.opens.remove(open) {
            self.counters.closed(open);
        }
    }

    pub(crate) fn hand(&self, open: &Open) -> Option<Rc<Hand>> {
        let hands = self.hands.borrow();
        hands.get(&open.id().volatile.get()).map(|at_hand| Rc::clone(&at_hand.hand))
    }

    /// Keeps what an open is of; where somebody was faster, his.
    pub(crate) fn keep_hand(
        &self,
        open: &Arc<Open>,
        hand: Rc<Hand>,
        descriptors: Option<Descriptors>,
    ) -> Rc<Hand> {
        let mut hands = self.hands.borrow_mut();
        let swept = if hands.len() < self.hands_mark.get() { Vec::new() } else { self.swept(&mut hands) };
        let at_hand = AtHand { open: Arc::downgrade(open), hand, _descriptors: descriptors.map(Rc::new) };
        let at = hands.entry(open.id().volatile.get()).or_insert_with(|| at_hand.clone());
        let is_link = |at_hand: &AtHand| at_hand.hand.link().is_some();
        let before = (is_link(&at_hand) && !is_link(at)).then(|| std::mem::replace(at, at_hand));
        let kept = Rc::clone(&at.hand);
        drop(hands);
        drop((swept, before));
        kept
    }

    /// Takes out what was closed on other lanes: twice as many as are left may come before the next time.
    fn swept(&self, hands: &mut NumberMap<u64, AtHand>) -> Vec<AtHand> {
        let closed = hands.extract_if(|_, at_hand| at_hand.open.strong_count() == 0);
        let closed: Vec<_> = closed.map(|(_, at_hand)| at_hand).collect();
        self.counters.lane_handles_reaped.add(closed.len() as u64);
        self.hands_mark.set((2 * hands.len()).max(HANDS_MARK_MIN));
        closed
    }

    pub(crate) fn pages(&self) -> &Pages {
        &self.pages
    }

    pub(crate) fn known(&self) -> &Known {
        &self.known
    }
}

impl Breaker for Breaking {
    fn tell(&self, _: &Broken) -> Option<Telling> {
        None
    }

    /// SMB's clients rely on leases alone.
    fn tells(&self) -> bool {
        false
    }

    fn give_back(&self, asked: &ByLease) {
        let told = asked.told;
        let way = Side::gives_way(&self.closer, &self.opens, told.holder, told.to);
        self.counters.durable_gave_way_conflict.add(way.closed);
        if !way.is_heard {
            return;
        }
        if told.acknowledge {
            self.opens.asks(told.holder);
        }
        match self.opens.told(told.holder) {
            Some(Told::Oplock { open, session }) => {
                self.counters.breaks_oplock.increment();
                self.breaks.oplock(open, session, level(told.to));
            }
            Some(Told::Lease { client, key }) => {
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

/// The bytes of a GUID, as grants have them.
pub(crate) fn guid_bytes(guid: Guid) -> [u8; 16] {
    guid.as_bytes().try_into().expect("sixteen bytes")
}

const HANDS_MARK_MIN: usize = 256;
