//! Invalidation queues of the lanes, in shared memory, with a doorbell for each lane.

use std::collections::VecDeque;
use std::hash::RandomState;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Instant;

use lane::mesh::{AlreadyOpen, Exchange, Limits, Member, Port, Sender};
use smallvec::SmallVec;

use super::{
    Ack, Acks, CachedObject, CachedVolume, ChangeKind, Client, FilterSlot, Invalidation, NextStep,
    SnoopFilter,
};

/// The invalidation queues of all lanes.
pub struct InvalidationQueues<O: CachedObject> {
    queues: Box<[Mutex<InvalidationQueue<O>>]>,
    /// Snoop filters of the lanes, each from the first use of its number.
    snoop_filters: Box<[OnceLock<Arc<SnoopFilter>>]>,
    hasher: RandomState,
    /// Exchange that carries no messages, only rings.
    bells: Exchange<()>,
    /// Number of lanes that have ended and whose callbacks are orphaned.
    orphaned: AtomicU32,
}

struct InvalidationQueue<O: CachedObject> {
    /// Set while a lane serves the queue. Before and after that, every invalidation counts as acknowledged.
    is_open: bool,
    /// Number of lanes of this number that have ended and whose callbacks are orphaned. While there are any,
    /// invalidations are acknowledged when the clients were notified that the callbacks are void.
    orphaned: u32,
    /// Set if a service on the lane notifies clients.
    serves_clients: bool,
    /// Invalidations that the lane has to serve; at most as many as there are change locks in use.
    breaks: VecDeque<InvalidateRequest<O>>,
    /// Lease breaks for holders on this lane: one for each lease at most, and those sent before.
    lease_breaks: VecDeque<O::LeaseBreak>,
    /// Clients to be notified, each once.
    clients: VecDeque<Arc<Client<O>>>,
    /// Clients whose callbacks are void, to be acknowledged after the replies in flight to them from this lane.
    voided: VecDeque<(Arc<Client<O>>, Ack)>,
    /// Acknowledgements that the ended lane still owed.
    left: Vec<(Instant, Ack)>,
}

/// Numbers of lanes that were sent an invalidation, and that the snoop filter spared.
#[derive(Clone, Copy, Debug, Default)]
pub struct InvalidationCounts {
    /// Invalidations sent.
    pub sent: u64,
    /// Invalidations not sent, as the lane caches nothing of the names.
    pub filtered: u64,
}

/// One invalidation for one lane. Dropping it acknowledges.
pub struct InvalidateRequest<O> {
    /// The object, and how it is about to change.
    pub invalidation: Invalidation<O>,
    /// Acknowledgement that the change waits for.
    pub ack: Ack,
    asked: Instant,
}

/// Holds back the break that voids all callbacks of a client, while replies to it are in flight from other lanes.
struct VoidHold<O: CachedObject> {
    queues: Arc<InvalidationQueues<O>>,
    lane: Member,
    client: Arc<Client<O>>,
}

impl<O: CachedObject> Drop for VoidHold<O> {
    fn drop(&mut self) {
        self.queues.notify_next(self.lane, &self.client, self.client.release_all());
    }
}

impl<O: CachedObject> Default for InvalidationQueue<O> {
    fn default() -> Self {
        Self {
            is_open: false,
            orphaned: 0,
            serves_clients: false,
            breaks: VecDeque::new(),
            lease_breaks: VecDeque::new(),
            clients: VecDeque::new(),
            voided: VecDeque::new(),
            left: Vec::new(),
        }
    }
}

impl<O: CachedObject> InvalidationQueues<O> {
    /// Makes closed queues for `lanes_max` lanes.
    pub fn new(lanes_max: usize) -> Self {
        let queues = (0..lanes_max).map(|_| Mutex::default()).collect();
        let snoop_filters = (0..lanes_max).map(|_| OnceLock::new()).collect();
        let hasher = RandomState::new();
        Self {
            queues,
            snoop_filters,
            hasher,
            bells: Exchange::new(lanes_max, Limits { messages: 0, calls: 0 }),
            orphaned: AtomicU32::new(0),
        }
    }

    /// Opens the queue of a lane: from now on it receives invalidations.
    ///
    /// # Errors
    /// [`AlreadyOpen`].
    pub fn open(&self, lane: Member) -> Result<(), AlreadyOpen> {
        let mut queue = self.lock(lane);
        if std::mem::replace(&mut queue.is_open, true) {
            return Err(AlreadyOpen(lane));
        }
        Ok(())
    }

    /// Returns the snoop filter of a lane.
    pub fn snoop_filter(&self, lane: Member) -> &Arc<SnoopFilter> {
        self.snoop_filters[lane.index()].get_or_init(SnoopFilter::new)
    }

    /// Returns the slot in which a name is counted.
    pub fn slot(&self, directory: &Arc<O>, name: &[u8]) -> FilterSlot {
        FilterSlot::of(&self.hasher, directory, name)
    }

    /// Opens the lane's doorbell. The owner looks at its queue before it first waits.
    ///
    /// # Errors
    /// [`AlreadyOpen`].
    pub fn bell(&self, lane: Member) -> Result<Port<()>, AlreadyOpen> {
        self.bells.open(lane)
    }

    /// Returns the sender by which this lane rings the others' doorbells.
    pub fn ringer(&self, lane: Member) -> Sender<()> {
        self.bells.sender(lane)
    }

    /// Closes the queue of a lane; that acknowledges everything in it, but for what waits for callbacks that an
    /// earlier lane of the number has left. Returns the clients that other lanes are to notify.
    pub(crate) fn close(&self, lane: Member) -> VecDeque<Arc<Client<O>>> {
        let mut queue = self.lock(lane);
        if queue.orphaned > 0 {
            return Self::leave(queue);
        }
        let gone = std::mem::take(&mut *queue);
        drop(queue);
        gone.clients
    }

    /// Closes the queue of a lane that leaves callbacks ([`InvalidationQueues::close`]): requests are
    /// acknowledged when these are no longer orphaned.
    pub(crate) fn close_orphaned(&self, lane: Member) -> VecDeque<Arc<Client<O>>> {
        let mut queue = self.lock(lane);
        queue.orphaned += 1;
        self.orphaned.fetch_add(1, Ordering::SeqCst);
        Self::leave(queue)
    }

    fn leave(mut queue: MutexGuard<'_, InvalidationQueue<O>>) -> VecDeque<Arc<Client<O>>> {
        (queue.is_open, queue.serves_clients) = (false, false);
        // Replies that were in flight from there are delivered by now, or never.
        let voided = std::mem::take(&mut queue.voided);
        let calls = std::mem::take(&mut queue.clients);
        drop(queue);
        drop(voided);
        calls
    }

    /// Ends the wait for the orphaned callbacks of a lane. Calls `clear` where no lane has opened the queue since,
    /// and none can before it returns.
    pub(crate) fn end_orphaned(&self, lane: Member, clear: impl FnOnce()) {
        let mut queue = self.lock(lane);
        assert!(queue.orphaned > 0, "callbacks that are broken were orphaned");
        queue.orphaned -= 1;
        self.orphaned.fetch_sub(1, Ordering::SeqCst);
        if queue.orphaned > 0 {
            return;
        }
        let left = std::mem::take(&mut queue.left);
        let mut gone = None;
        if !queue.is_open {
            clear();
            gone = Some(std::mem::take(&mut *queue));
        }
        drop(queue);
        drop((left, gone));
    }

    /// Keeps an acknowledgement that an ending lane still owes; it was requested at `asked`.
    pub fn leave_ack(&self, lane: Member, asked: Instant, ack: Ack) {
        let mut queue = self.lock(lane);
        let answered = if queue.is_open || queue.orphaned > 0 {
            queue.left.push((asked, ack));
            None
        } else {
            Some(ack)
        };
        drop(queue);
        drop(answered);
    }

    /// Acknowledges what lanes that have ended were sent by `asked`: their clients have had their time.
    pub fn end_waits(&self, asked: Instant) {
        for queue in &self.queues {
            let mut queue = queue.lock().expect("nobody panics while holding it");
            if queue.orphaned == 0 {
                continue;
            }
            // An open queue is served: its lane answers.
            let over: VecDeque<InvalidateRequest<O>> = match queue.is_open {
                true => VecDeque::new(),
                false => {
                    let all = queue.breaks.drain(..);
                    let (over, rest) = all.partition(|request: &InvalidateRequest<O>| request.asked <= asked);
                    queue.breaks = rest;
                    over
                }
            };
            let left: Vec<_> = queue.left.extract_if(.., |(since, _)| *since <= asked).collect();
            drop(queue);
            drop((over, left));
        }
    }

    /// Notes that a service on this lane notifies clients from now on.
    pub fn serve_clients(&self, lane: Member) {
        self.lock(lane).serves_clients = true;
    }

    /// Queues a client for notification on its home lane, or on another where that has ended. Returns the lane whose
    /// doorbell is to be rung; `None` where no lane serves clients.
    fn queue_client(&self, home: Member, client: &Arc<Client<O>>) -> Option<Member> {
        let others = (0..self.queues.len()).map(Member::from);
        std::iter::once(home).chain(others).find(|&lane| {
            let mut queue = self.lock(lane);
            let serves_clients = queue.is_open && queue.serves_clients;
            if serves_clients {
                queue.clients.push_back(Arc::clone(client));
            }
            serves_clients
        })
    }

    /// Takes the next client to be notified from a lane's queue.
    pub fn next_client(&self, lane: Member) -> Option<Arc<Client<O>>> {
        self.lock(lane).clients.pop_front()
    }

    /// Has a copy of `ack` kept by every lane, but for `except`, until no reply is in flight from there to a client
    /// whose callbacks are void.
    pub fn await_in_flight(&self, except: Member, client: &Arc<Client<O>>, ack: &Ack) {
        self.await_replies(except, Some(except), client, ack);
    }

    fn await_replies(&self, from: Member, except: Option<Member>, client: &Arc<Client<O>>, ack: &Ack) {
        let ringer = self.ringer(from);
        for lane in (0..self.queues.len()).map(Member::from).filter(|&lane| Some(lane) != except) {
            let mut queue = self.lock(lane);
            if queue.is_open {
                queue.voided.push_back((Arc::clone(client), ack.clone()));
                drop(queue);
                ringer.ring(lane);
            }
        }
    }

    /// Releases one hold of the break that voids all callbacks of a client ([`Client::release_all`]), once no reply
    /// to it is in flight from any lane.
    pub(crate) fn release_after_replies(self: &Arc<Self>, from: Member, client: &Arc<Client<O>>) {
        let hold = VoidHold { queues: Arc::clone(self), lane: from, client: Arc::clone(client) };
        self.await_replies(from, None, client, &Ack::orphaned(Arc::new(hold)));
    }

    /// Takes the next step in notifying a client: has its pending breaks sent on the lane that `next` names, or on
    /// another where that has ended.
    pub fn notify_next(self: &Arc<Self>, from: Member, client: &Arc<Client<O>>, next: NextStep) {
        match next {
            NextStep::Nothing => {}
            NextStep::Notify(home) => match self.queue_client(home, client) {
                Some(home) => {
                    self.ringer(from).ring(home);
                }
                None => client.give_up(),
            },
            NextStep::AwaitReplies => self.release_after_replies(from, client),
        }
    }

    /// Takes the next client of [`InvalidationQueues::await_in_flight`] from a lane's queue.
    pub fn next_voided(&self, lane: Member) -> Option<(Arc<Client<O>>, Ack)> {
        self.lock(lane).voided.pop_front()
    }

    /// Takes the next invalidation from a lane's queue.
    pub fn next_request(&self, lane: Member) -> Option<InvalidateRequest<O>> {
        let mut queue = self.lock(lane);
        let request = queue.breaks.pop_front()?;
        if queue.orphaned > 0 {
            // Clients of an earlier lane of this number may hold callbacks of which this lane knows nothing.
            queue.left.push((request.asked, request.ack.clone()));
        }
        Some(request)
    }

    /// Takes the next lease break from a lane's queue.
    pub fn next_lease_break(&self, lane: Member) -> Option<O::LeaseBreak> {
        self.lock(lane).lease_breaks.pop_front()
    }

    /// Queues a lease break on the lane of the lease's holder, if that lane is open.
    pub fn queue_lease_break(&self, ringer: &Sender<()>, lane: Member, unsent: O::LeaseBreak) {
        let mut queue = self.lock(lane);
        if queue.is_open {
            queue.lease_breaks.push_back(unsent);
            drop(queue);
            ringer.ring(lane);
        }
    }

    /// Sends the invalidations to every other lane that may cache something of them. The caller holds the change
    /// locks of the objects.
    pub fn invalidate(
        &self,
        ringer: &Sender<()>,
        all: &[Invalidation<O>],
        acks: &Acks,
        asked_at: Instant,
    ) -> InvalidationCounts {
        let mut asked = InvalidationCounts::default();
        for invalidation in all {
            let mut slots = None;
            self.await_orphaned(ringer.member(), acks, asked_at);
            for (lane, has_callbacks) in sharers_of(invalidation).filter(|&(lane, _)| lane != ringer.member())
            {
                let slots = slots.get_or_insert_with(|| self.slots(invalidation));
                if !has_callbacks && !self.may_cache(lane, invalidation, slots) {
                    asked.filtered += 1;
                    continue;
                }
                let mut queue = self.lock(lane);
                if !queue.is_open && queue.orphaned == 0 {
                    continue;
                }
                queue.breaks.push_back(InvalidateRequest {
                    invalidation: invalidation.clone(),
                    ack: acks.issue(),
                    asked: asked_at,
                });
                drop(queue);
                ringer.ring(lane);
                asked.sent += 1;
            }
        }
        asked
    }

    /// Has a change by a lane wait for the callbacks that an earlier lane of its number has left: the lane knows
    /// nothing of them.
    fn await_orphaned(&self, lane: Member, acks: &Acks, asked_at: Instant) {
        if self.orphaned.load(Ordering::SeqCst) == 0 {
            return;
        }
        let mut queue = self.lock(lane);
        if queue.orphaned > 0 {
            queue.left.push((asked_at, acks.issue()));
        }
    }

    /// Returns the slots of the names that change.
    fn slots(&self, invalidation: &Invalidation<O>) -> SmallVec<[FilterSlot; 2]> {
        match &invalidation.what {
            ChangeKind::Names(names) => {
                names.iter().map(|name| self.slot(&invalidation.object, name)).collect()
            }
            _ => SmallVec::new(),
        }
    }

    /// Returns whether a lane that shares the object and has given no callback on it may cache something that
    /// the change makes untrue.
    fn may_cache(&self, lane: Member, invalidation: &Invalidation<O>, slots: &[FilterSlot]) -> bool {
        let snoop_filters = self.snoop_filter(lane);
        match &invalidation.what {
            ChangeKind::Names(_) => snoop_filters.has_any(slots),
            // These are asked of the kernel at every use.
            ChangeKind::Content | ChangeKind::Attributes => snoop_filters.matches_all(),
            ChangeKind::Place
            | ChangeKind::Subtree
            | ChangeKind::Gone
            | ChangeKind::Rights
            | ChangeKind::Unknown => true,
        }
    }

    fn lock(&self, lane: Member) -> MutexGuard<'_, InvalidationQueue<O>> {
        self.queues[lane.index()].lock().expect("nobody panics while holding it")
    }
}

/// Returns the lanes that share what is about to change, each once, and whether their clients hold callbacks on it.
fn sharers_of<O: CachedObject>(invalidation: &Invalidation<O>) -> impl Iterator<Item = (Member, bool)> {
    let object = invalidation.object.callback_lanes();
    let volume = invalidation.what.is_of_subtree().then(|| invalidation.object.volume().callback_lanes());
    let has_callbacks = move |lane| object.has(lane) || volume.is_some_and(|volume| volume.has(lane));
    let of_volume = volume.into_iter().flat_map(|volume| volume.iter()).filter(|&lane| !object.has(lane));
    let with_callbacks = object.iter().chain(of_volume).map(|lane| (lane, true));
    let sharers = invalidation.object.sharers().into_iter().flat_map(|sharers| sharers.iter());
    with_callbacks.chain(sharers.filter(move |&lane| !has_callbacks(lane)).map(|lane| (lane, false)))
}
