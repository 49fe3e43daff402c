//! Callback table of one lane: its presence bits in shared objects, and the callbacks that it has given to clients.

use std::cell::RefCell;
use std::num::NonZeroU32;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hashbrown::HashTable;
use lane::mesh::Member;

use super::client_callbacks::{CallbackPhase, CallbackState, ClientCallbacks};
use super::slab::{NONE, Slab};
use super::{
    CachedObject, CachedVolume, Client, EndedLane, InFlightReplies, InFlightReply, Invalidation, Notice,
};

/// The shared objects of a lane and the callbacks that it has given on them.
pub struct CallbackTable<O: CachedObject> {
    lane: Member,
    /// Start of the table's clock, which counts seconds.
    epoch: Instant,
    table: RefCell<Table<O>>,
}

struct Table<O: CachedObject> {
    tracked: Slab<TrackedObject<O>>,
    by_object: HashTable<u32>,
    callbacks: ClientCallbacks<O>,
}

/// An object that the lane or one of its clients caches.
struct TrackedObject<O: CachedObject> {
    object: Arc<O>,
    /// Guards of the lane itself, without clients.
    uses: u32,
    /// Number of the first callback of a client.
    first: u32,
    /// Number of invalidations of the object, whichever client was spared.
    breaks: u32,
    /// Fingerprint of the last look, and the count of the version at it.
    seen: u32,
    seen_count: u32,
    volume: u16,
    is_seen: bool,
    /// The object had several names at the last look.
    is_linked: bool,
}

/// Result of one look at an object, in few bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation {
    /// Hash of the attributes by which two looks are told apart.
    pub fingerprint: u32,
    /// Count of the object's version at the look.
    pub count: u32,
    /// The object had several names.
    pub is_linked: bool,
}

/// Guard that keeps the lane a sharer of an object: the lane is invalidated before the object changes.
pub struct SharerGuard<O: CachedObject> {
    owner: Weak<CallbackTable<O>>,
    tracked: u32,
    object: Arc<O>,
}

/// Names the callback on which one reply depends.
#[derive(Clone, Copy, Debug)]
pub struct CallbackRef {
    number: u32,
    serial: NonZeroU32,
    tracked: u32,
    breaks: u32,
}

/// A callback break that is to be sent to a client.
pub struct PendingBreak<O: CachedObject> {
    /// The client that the break is for.
    pub client: Arc<Client<O>>,
    /// Moment at which the callback expires.
    pub until: Instant,
    /// Scope of the break.
    pub what: BreakScope<O>,
    /// Replies in flight that carry the callback.
    pub in_flight: Vec<Rc<InFlightReplies>>,
}

/// Scope of a callback break.
pub enum BreakScope<O: CachedObject> {
    /// One callback.
    Object {
        /// Number of the callback in its table.
        number: u32,
        /// Serial number of the callback.
        serial: NonZeroU32,
        /// Object of the callback.
        object: Arc<O>,
    },
    /// A volume.
    Volume(Arc<O::Volume>),
    /// All callbacks, whose break the client is being sent already.
    All,
}

impl<O: CachedObject> BreakScope<O> {
    /// Returns the notice to the client; `None` where it is being sent already.
    pub fn notice(&self) -> Option<Notice<O>> {
        match self {
            Self::Object { object, .. } => Some(Notice::Object(Arc::clone(object))),
            Self::Volume(volume) => Some(Notice::Volume(Arc::clone(volume))),
            Self::All => None,
        }
    }
}

/// The table is full of callbacks whose breaks are still pending.
#[derive(Debug)]
pub struct CallbackTableFull;

impl<O: CachedObject> CallbackTable<O> {
    /// Makes the table of a lane.
    pub fn new(lane: Member, now: Instant) -> Rc<Self> {
        Rc::new(Self { lane, epoch: now, table: RefCell::default() })
    }

    /// Makes the lane a sharer of the object. What is looked at from now on may be cached, unless the object [is
    /// changing](crate::ChangeLock::is_held). Of names in it, those may be cached that are [counted
    /// in](super::SnoopFilter).
    pub fn add_sharer(self: &Rc<Self>, object: &Arc<O>) -> SharerGuard<O> {
        let mut table = self.table.borrow_mut();
        let tracked = table.track(object);
        if table.tracked[tracked].uses == 0 {
            object.add_sharer(self.lane);
        }
        table.tracked[tracked].uses += 1;
        SharerGuard { owner: Rc::downgrade(self), tracked, object: Arc::clone(object) }
    }

    /// Returns the number of objects that the lane or its clients cache.
    pub fn object_count(&self) -> usize {
        self.table.borrow().tracked.len()
    }

    /// Returns the number of callbacks that clients hold.
    pub fn callback_count(&self) -> usize {
        self.table.borrow().callbacks.len()
    }

    /// Gives a client a callback on the object until `until`; the look comes after this. For a callback that it has
    /// already nothing is written that another lane reads. Where the table has `max` callbacks, the oldest ones of
    /// the client that has most are evicted: their breaks are added to `pending_breaks`.
    ///
    /// # Errors
    /// [`CallbackTableFull`].
    pub fn give(
        &self,
        client: &Arc<Client<O>>,
        object: &Arc<O>,
        until: Instant,
        now: Instant,
        max: usize,
        pending_breaks: &mut Vec<PendingBreak<O>>,
    ) -> Result<CallbackRef, CallbackTableFull> {
        let (until, now) = (self.seconds(until) + 1, self.seconds(now));
        let mut table = self.table.borrow_mut();
        let tracked = table.track(object);
        let number = match table.callbacks.find(client, tracked) {
            Some(number) => {
                let callback = &table.callbacks.get(number).expect("it was found");
                let standing = table.callbacks.state_at(callback, table.tracked[tracked].volume, now);
                let is_new =
                    standing != CallbackState::Valid || callback.state == CallbackPhase::PendingBreak;
                let volume = table.tracked[tracked].volume;
                table.callbacks.renew(number, volume, until, is_new);
                number
            }
            None => {
                // What is evicted for it may be the last of this object.
                table.tracked[tracked].uses += 1;
                let number = table.insert(self, client, tracked, until, max, pending_breaks);
                table.tracked[tracked].uses -= 1;
                let Some(number) = number else {
                    table.forget_unused(tracked);
                    return Err(CallbackTableFull);
                };
                number
            }
        };
        let serial = table.callbacks.get(number).expect("it was made").serial;
        Ok(CallbackRef { number, serial, tracked, breaks: table.tracked[tracked].breaks })
    }

    /// Returns whether the callback is valid and nothing of its object was invalidated since, whichever
    /// client was spared.
    pub fn is_valid(&self, callback_ref: CallbackRef, now: Instant) -> bool {
        let mut table = self.table.borrow_mut();
        let (breaks, volume) = match table.tracked.get(callback_ref.tracked) {
            Some(tracked) => (tracked.breaks, tracked.volume),
            None => return false,
        };
        let Some(callback) = table.callbacks.get_mut(callback_ref.number, callback_ref.serial) else {
            return false;
        };
        if callback.tracked != callback_ref.tracked
            || callback.state == CallbackPhase::PendingBreak
            || breaks != callback_ref.breaks
        {
            return false;
        }
        let callback = &table.callbacks.get(callback_ref.number).expect("looked at above");
        table.callbacks.state_at(callback, volume, self.seconds(now)) == CallbackState::Valid
    }

    /// Notes that the client is about to learn of the callback: from now on it is sent the break.
    pub fn note_delivered(&self, callback_ref: CallbackRef) {
        let mut table = self.table.borrow_mut();
        if let Some(callback) = table.callbacks.get_mut(callback_ref.number, callback_ref.serial) {
            callback.state = CallbackPhase::Delivered;
        }
    }

    /// Counts a reply that carries this callback as in flight.
    pub fn in_flight_reply(&self, callback_ref: CallbackRef) -> InFlightReply {
        self.table.borrow().callbacks.in_flight_reply(callback_ref.number)
    }

    /// Returns the replies in flight to a client that carry callbacks.
    pub fn in_flight_to(&self, client: &Arc<Client<O>>) -> Vec<Rc<InFlightReplies>> {
        self.table.borrow().callbacks.in_flight_to(client)
    }

    /// Returns whether a look shows what the last one on this lane has shown. Where it does not, `judge` says
    /// whether it shows nothing new either; the look is the last one then.
    pub fn is_known(&self, object: &Arc<O>, observation: Observation, judge: impl FnOnce() -> bool) -> bool {
        let mut table = self.table.borrow_mut();
        let Some(tracked) = table.find(object) else { return judge() };
        let tracked = &mut table.tracked[tracked];
        let Observation { fingerprint, count, is_linked } = observation;
        tracked.is_linked = is_linked;
        if tracked.is_seen && (tracked.seen, tracked.seen_count) == (fingerprint, count) {
            return true;
        }
        let is_known = judge();
        if is_known {
            (tracked.is_seen, tracked.seen, tracked.seen_count) = (true, fingerprint, count);
        }
        is_known
    }

    /// Forgets the last observation of an object, which this server changed without a new version.
    pub fn forget_observed(&self, object: &Arc<O>) {
        let mut table = self.table.borrow_mut();
        if let Some(tracked) = table.find(object) {
            table.tracked[tracked].is_seen = false;
        }
    }

    /// Returns the clients that hold callbacks.
    pub fn clients(&self) -> Vec<Arc<Client<O>>> {
        self.table.borrow().callbacks.clients().map(|(_, known)| Arc::clone(&known.client)).collect()
    }

    /// Returns whether clients hold callbacks on the object.
    pub fn has_clients_of(&self, object: &Arc<O>) -> bool {
        let table = self.table.borrow();
        table.find(object).is_some_and(|tracked| table.tracked[tracked].first != NONE)
    }

    /// Begins the callback breaks of an invalidation, but for the spared holder. [`CallbackTable::remove_broken`]
    /// ends them.
    pub fn begin_breaks(&self, invalidation: &Invalidation<O>, now: Instant) -> Vec<PendingBreak<O>> {
        let mut pending_breaks = Vec::new();
        let mut table = self.table.borrow_mut();
        table.break_object(self, invalidation, self.seconds(now), &mut pending_breaks);
        if invalidation.what.is_of_subtree() {
            table.break_volume(self, invalidation.object.volume(), self.seconds(now), &mut pending_breaks);
        }
        pending_breaks
    }

    /// Removes a callback whose break the client has acknowledged, or will receive before it is served again.
    pub fn remove_broken(&self, left: &BreakScope<O>) {
        let mut table = self.table.borrow_mut();
        match left {
            BreakScope::Object { number, serial, .. } => {
                let callback = table.callbacks.get_mut(*number, *serial);
                if callback.is_some_and(|callback| callback.state == CallbackPhase::PendingBreak) {
                    table.remove(*number, self.lane);
                }
            }
            BreakScope::Volume(volume) => {
                let Some(number) = table.callbacks.known_volume(volume) else { return };
                let known = table.callbacks.volume(number);
                assert!(known.pending_breaks > 0, "a break of a volume ends once");
                known.pending_breaks -= 1;
                table.forget_volume(number, self.lane);
            }
            BreakScope::All => {}
        }
    }

    /// Returns what `select` makes of the objects with callbacks, among `count` from number `from` on, and the
    /// number to go on from; `None` when all have been looked at. It is given the object, and whether that had
    /// several names at the last look.
    pub fn select<T>(
        &self,
        from: u32,
        count: u32,
        select: impl Fn(&Arc<O>, bool) -> Option<T>,
    ) -> (Vec<T>, Option<u32>) {
        let table = self.table.borrow();
        let end = table.tracked.end().min(from.saturating_add(count));
        let all = (from..end)
            .filter_map(|number| table.tracked.get(number))
            .filter(|tracked| tracked.first != NONE);
        let selected = all.filter_map(|tracked| select(&tracked.object, tracked.is_linked)).collect();
        (selected, (end < table.tracked.end()).then_some(end))
    }

    /// Removes callbacks that are over, among `count` of them from number `from` on. Returns the number to go on
    /// from, `None` when all have been looked at, and how many were removed.
    pub fn sweep(&self, from: u32, count: u32, now: Instant) -> (Option<u32>, usize) {
        let now = self.seconds(now);
        let mut table = self.table.borrow_mut();
        let end = table.callbacks.end().min(from.saturating_add(count));
        let mut over = 0;
        for number in from..end {
            let Some(callback) = table.callbacks.get(number) else { continue };
            let volume = table.tracked[callback.tracked].volume;
            let is_over = match table.callbacks.state_at(callback, volume, now) {
                CallbackState::Valid => false,
                CallbackState::Expired => callback.state != CallbackPhase::PendingBreak,
                CallbackState::VoidForClient => !table.callbacks.client(callback.client).has_void_pending(),
                CallbackState::VoidForVolume => table.callbacks.volume(volume).pending_breaks == 0,
            };
            if is_over {
                table.remove(number, self.lane);
                over += 1;
            }
        }
        ((end < table.callbacks.end()).then_some(end), over)
    }

    /// Ends the table with its lane. Returns the clients, whose callbacks can no longer be broken one by one, and
    /// the objects, whose bits the caller clears.
    pub fn end(&self) -> EndedLane<O> {
        let table = self.table.take();
        let clients = table.callbacks.clients().map(|(_, known)| Arc::clone(&known.client)).collect();
        // What the lane cached goes with it.
        table.tracked.iter().for_each(|(_, tracked)| tracked.object.remove_sharer(self.lane));
        let objects = table.tracked.iter().map(|(_, tracked)| Arc::clone(&tracked.object)).collect();
        EndedLane { clients, objects, volumes: table.callbacks.volumes().cloned().collect() }
    }

    fn seconds(&self, at: Instant) -> u32 {
        u32::try_from(at.saturating_duration_since(self.epoch).as_secs()).unwrap_or(u32::MAX - 1)
    }

    fn moment(&self, seconds: u32) -> Instant {
        self.epoch + Duration::from_secs(seconds.into())
    }
}

impl<O: CachedObject> Default for Table<O> {
    fn default() -> Self {
        Self { tracked: Slab::default(), by_object: HashTable::new(), callbacks: ClientCallbacks::default() }
    }
}

impl<O: CachedObject> Table<O> {
    fn find(&self, object: &Arc<O>) -> Option<u32> {
        let is_it = |&number: &u32| Arc::ptr_eq(&self.tracked[number].object, object);
        self.by_object.find(hash(object), is_it).copied()
    }

    fn track(&mut self, object: &Arc<O>) -> u32 {
        if let Some(tracked) = self.find(object) {
            return tracked;
        }
        let tracked = TrackedObject {
            object: Arc::clone(object),
            uses: 0,
            first: NONE,
            breaks: 0,
            seen: 0,
            seen_count: 0,
            volume: 0,
            is_seen: false,
            is_linked: false,
        };
        let number = self.tracked.insert(tracked);
        let tracked = &self.tracked;
        self.by_object.insert_unique(hash(object), number, |&number| hash(&tracked[number].object));
        number
    }

    /// Removes an object that neither the lane nor a client caches any more.
    fn forget_unused(&mut self, number: u32) {
        let tracked = &self.tracked[number];
        if tracked.uses > 0 || tracked.first != NONE {
            return;
        }
        if let Ok(entry) = self.by_object.find_entry(hash(&tracked.object), |&other| other == number) {
            entry.remove();
        }
        self.tracked.remove(number);
    }

    fn insert(
        &mut self,
        owner: &CallbackTable<O>,
        client: &Arc<Client<O>>,
        tracked: u32,
        until: u32,
        max: usize,
        pending_breaks: &mut Vec<PendingBreak<O>>,
    ) -> Option<u32> {
        if self.callbacks.len() >= max {
            self.make_room(owner, pending_breaks);
            if self.callbacks.len() >= max + max / EVICTED_PART + EVICTED_MIN {
                return None;
            }
        }
        let object = &self.tracked[tracked].object;
        let volume = self.callbacks.volume_number(object.volume())?;
        if self.tracked[tracked].first == NONE {
            object.callback_lanes().set(owner.lane);
            object.volume().callback_lanes().set(owner.lane);
            self.callbacks.volume(volume).objects += 1;
            self.tracked[tracked].volume = volume;
        }
        let first = &mut self.tracked[tracked].first;
        Some(self.callbacks.insert(client, tracked, volume, first, until))
    }

    /// Breaks the oldest callbacks of the client that has most.
    fn make_room(&mut self, owner: &CallbackTable<O>, pending_breaks: &mut Vec<PendingBreak<O>>) {
        let most = self.callbacks.clients().max_by_key(|(_, known)| known.count).map(|(number, _)| number);
        let Some(most) = most else { return };
        let stays = |&number: &u32| {
            self.callbacks.get(number).is_some_and(|one| one.state != CallbackPhase::PendingBreak)
        };
        let oldest: Vec<u32> = self.callbacks.of_client(most).filter(stays).take(EVICTED_AT_ONCE).collect();
        for number in oldest {
            pending_breaks.extend(self.begin_break(owner, number));
        }
    }

    /// Begins the break of one callback; `None` where no client knows of it, and it is over at once.
    fn begin_break(&mut self, owner: &CallbackTable<O>, number: u32) -> Option<PendingBreak<O>> {
        let callback = self.callbacks.get(number).expect("it is in the table");
        let (serial, tracked, client) = (callback.serial, callback.tracked, callback.client);
        if callback.state == CallbackPhase::Fresh {
            self.remove(number, owner.lane);
            return None;
        }
        let until = owner.moment(callback.until);
        let in_flight = self.callbacks.in_flight(number).into_iter().collect();
        self.callbacks.get_mut(number, serial).expect("looked at above").state = CallbackPhase::PendingBreak;
        let object = Arc::clone(&self.tracked[tracked].object);
        let (client, what) =
            (Arc::clone(self.callbacks.client(client)), BreakScope::Object { number, serial, object });
        Some(PendingBreak { client, until, what, in_flight })
    }

    fn break_object(
        &mut self,
        owner: &CallbackTable<O>,
        invalidation: &Invalidation<O>,
        now: u32,
        pending_breaks: &mut Vec<PendingBreak<O>>,
    ) {
        let Some(number) = self.find(&invalidation.object) else { return };
        let tracked = &mut self.tracked[number];
        // Its attributes become others, which are the server's own doing.
        tracked.is_seen = false;
        tracked.breaks = tracked.breaks.wrapping_add(1);
        let (first, volume) = (tracked.first, tracked.volume);
        let all: Vec<u32> = self.callbacks.of_object(first).collect();
        for number in all {
            let callback = self.callbacks.get(number).expect("it is in the table");
            let client = self.callbacks.client(callback.client);
            let is_spared =
                invalidation.spared == Some(client.holder()) && !invalidation.what.is_of_subtree();
            match self.callbacks.state_at(callback, volume, now) {
                CallbackState::Valid | CallbackState::VoidForVolume if is_spared => {}
                CallbackState::Valid | CallbackState::VoidForVolume => {
                    pending_breaks.extend(self.begin_break(owner, number))
                }
                CallbackState::Expired if callback.state != CallbackPhase::PendingBreak => {
                    self.remove(number, owner.lane)
                }
                CallbackState::Expired => {}
                // Else this lane would be asked of each change until the next sweep.
                CallbackState::VoidForClient if !client.has_void_pending() => self.remove(number, owner.lane),
                CallbackState::VoidForClient => {
                    let (client, until) = (Arc::clone(client), owner.moment(callback.until));
                    pending_breaks.push(PendingBreak {
                        client,
                        until,
                        what: BreakScope::All,
                        in_flight: Vec::new(),
                    });
                }
            }
        }
    }

    /// Voids all callbacks of a volume: clients are sent one break for all.
    fn break_volume(
        &mut self,
        owner: &CallbackTable<O>,
        volume: &Arc<O::Volume>,
        now: u32,
        pending_breaks: &mut Vec<PendingBreak<O>>,
    ) {
        let Some(number) = self.callbacks.known_volume(volume) else { return };
        // Of what was void before every client has heard then.
        let is_kernel_watched = self.callbacks.volume(number).pending_breaks == 0;
        let is_of_it = |&callback: &u32| {
            let callback = self.callbacks.get(callback);
            callback.is_some_and(|callback| {
                self.tracked[callback.tracked].volume == number
                    && !(is_kernel_watched
                        && self.callbacks.state_at(callback, number, now) == CallbackState::VoidForVolume)
            })
        };
        let concerned = self
            .callbacks
            .clients()
            .filter(|&(client, _)| self.callbacks.of_client(client).any(|one| is_of_it(&one)));
        let clients: Vec<_> = concerned.map(|(client, known)| (client, Arc::clone(&known.client))).collect();
        let mut in_flight =
            self.callbacks.in_flight_by_client(|tracked| self.tracked[tracked].volume == number);
        self.callbacks.void_volume(number, clients.len());
        for (known, client) in clients {
            let (until, what) = (owner.moment(u32::MAX - 1), BreakScope::Volume(Arc::clone(volume)));
            let in_flight = in_flight.remove(&known).unwrap_or_default();
            pending_breaks.push(PendingBreak { client, until, what, in_flight });
        }
    }

    fn remove(&mut self, number: u32, lane: Member) {
        let tracked = self.callbacks.get(number).expect("it is in the table").tracked;
        self.callbacks.remove(number, &mut self.tracked[tracked].first);
        if self.tracked[tracked].first == NONE {
            self.tracked[tracked].object.callback_lanes().clear(lane);
            let volume = self.tracked[tracked].volume;
            self.callbacks.volume(volume).objects -= 1;
            self.forget_volume(volume, lane);
            self.forget_unused(tracked);
        }
    }

    /// Clears the lane's bit of a volume if no callback on its objects is left.
    fn forget_volume(&mut self, number: u16, lane: Member) {
        let known = self.callbacks.volume(number);
        if known.objects == 0 && known.pending_breaks == 0 {
            self.callbacks.forget_volume(number).volume.callback_lanes().clear(lane);
        }
    }
}

impl<O: CachedObject> SharerGuard<O> {
    /// Returns the object that the lane shares.
    pub fn object(&self) -> &Arc<O> {
        &self.object
    }
}

impl<O: CachedObject> Drop for SharerGuard<O> {
    fn drop(&mut self) {
        let Some(owner) = self.owner.upgrade() else { return };
        let mut table = owner.table.borrow_mut();
        // Otherwise the table has ended with its lane.
        if table.tracked.get(self.tracked).is_some_and(|tracked| Arc::ptr_eq(&tracked.object, &self.object)) {
            table.tracked[self.tracked].uses -= 1;
            if table.tracked[self.tracked].uses == 0 {
                self.object.remove_sharer(owner.lane);
            }
            table.forget_unused(self.tracked);
        }
    }
}

fn hash<O>(object: &Arc<O>) -> u64 {
    super::spread(Arc::as_ptr(object) as u64)
}

/// Callbacks evicted at once where there is no room: as many as one notification of a client names.
const EVICTED_AT_ONCE: usize = 50;
/// Callbacks that are being evicted may take this part beyond the maximum, and this many in any case.
const EVICTED_PART: usize = 8;
const EVICTED_MIN: usize = 64;
