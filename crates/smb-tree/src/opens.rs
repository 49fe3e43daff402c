//! Table of opens, process-wide: by FileId, by session; how many a session, an address, a user and all may have; which
//! holder gets breaks.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};

use budget::{Books, Consumer, Shares, Short, give_back};
use grants::Holder;
use lane::budget::{Budget, Share};
use smb_proto::numbers::NumberMap;
use smb_wire::{FileId, Status};
use vfs::RelPath;

use crate::app_instances::AppInstances;
use crate::break_timeouts::{BreakTimeouts, GrantHolder};
use crate::breaks::BreakTarget;
use crate::create::lease_key_conflict::SharedLeaseKeys;
use crate::disconnected::Disconnected;
use crate::open::Open;
use crate::replays::Replays;
use crate::request_context::RequestContext;
use crate::tunnel::Tunnel;

/// Bounds of opens and of locked ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpensLimits {
    /// Opens of the whole process. One client address, or one user, may have three times what is free of them.
    pub all_max: usize,
    /// Opens of one session.
    pub per_session_max: usize,
    /// Durable opens without a session, of the whole process.
    pub disconnected_max: usize,
    /// Durable opens without a session, of one client address.
    pub disconnected_per_address_max: usize,
    /// Locked ranges of the whole process. One client address, or one user, may have three times what is free of them.
    pub ranges_max: usize,
    /// Locked ranges of one session.
    pub ranges_per_session_max: usize,
}

impl Default for OpensLimits {
    fn default() -> Self {
        Self {
            //@ limit: opens
            //@ section: SMB
            //@ unit: open
            //@ connection: {per_session_max} of a session
            //@ address: three times what is free
            //@ all: process: {}
            //@ empty: STATUS_INSUFFICIENT_RESOURCES; STATUS_TOO_MANY_OPENED_FILES for a client that has its share; others feel nothing
            //@ counter: smb_opens_made, smb_opens_refused_limit
            //@ attack: smb-hoards
            all_max: 1 << 20,
            per_session_max: 65_536,
            //@ limit: durable opens whose session has ended
            //@ section: SMB
            //@ unit: open, for five minutes
            //@ address: {disconnected_per_address_max}
            //@ all: process: {}; each also counts as an open
            //@ empty: the oldest of the address, or of the address, network or user that has most for its share, is closed; others feel
            //@ nothing
            //@ counter: smb_durable_disconnected, smb_durable_closed
            //@ attack: smb-pools
            disconnected_max: 65_536,
            disconnected_per_address_max: 16_384,
            //@ limit: locked ranges
            //@ section: SMB
            //@ unit: range
            //@ connection: {ranges_per_session_max} of a session
            //@ address: three times what is free
            //@ all: process: {}
            //@ empty: STATUS_INSUFFICIENT_RESOURCES; others feel nothing
            //@ counter: smb_ranges_refused, vfs_grants_refused
            //@ attack: smb-trees
            ranges_max: 262_144,
            ranges_per_session_max: 65_536,
        }
    }
}

/// Number of opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpensUsage {
    /// Opens.
    pub opens: usize,
    /// Sessions that have some.
    pub sessions: usize,
    /// Durable opens whose session has ended.
    pub disconnected: usize,
}

/// Every open of the process.
pub struct Opens {
    limits: OpensLimits,
    shards: Box<[Mutex<OpensShard>]>,
    owners: Mutex<Owners>,
    break_targets: Mutex<HashMap<Holder, RegisteredTarget>>,
    break_timeouts: BreakTimeouts,
    ranges: Mutex<Ranges>,
    descriptors: Arc<Budget>,
    disconnected: Disconnected,
    replays: Arc<Replays>,
    app_instances: Arc<AppInstances>,
    tunnel: Tunnel,
    shared_lease_keys: Arc<SharedLeaseKeys>,
    next: AtomicU64,
}

/// Opens by FileId.Volatile.
type OpensShard = NumberMap<u64, Arc<Open>>;

struct Owners {
    sessions: HashMap<u64, HashSet<u64>>,
    books: Books,
}

/// Room for one open. Dropped, it is given back.
pub(crate) struct Room {
    /// The table that has the open: a weak reference, as else a table with opens would never go.
    opens: Weak<Opens>,
    /// 0 while it has none.
    session: AtomicU64,
    consumer: Consumer,
    volatile: u64,
    /// Ranges that the open has locked or is about to lock.
    ranges: AtomicUsize,
    /// The session that they are counted to: the first that locked one.
    ranges_of: OnceLock<u64>,
    /// Descriptors that the making lane holds open.
    _descriptors: Share,
}

/// Locked ranges: their number, in all and of each consumer.
struct Ranges {
    sessions: HashMap<u64, usize>,
    books: Books,
}

/// The destination of a holder's breaks, with the number of its opens.
struct RegisteredTarget {
    target: BreakTarget,
    grant_holder: GrantHolder,
    /// Opens that the holder has registered.
    break_registrations: usize,
}

/// Registers the destination of a holder's breaks for one open. Dropped, the registration ends.
pub(crate) struct BreakRegistration {
    opens: Weak<Opens>,
    holder: Holder,
}

impl Opens {
    /// Makes an empty table of opens.
    pub fn new(limits: OpensLimits) -> Arc<Self> {
        Self::with_descriptors(limits, Arc::clone(lane::descriptors::budget()))
    }

    fn with_descriptors(limits: OpensLimits, descriptors: Arc<Budget>) -> Arc<Self> {
        let start = lane::random::array();
        let books = |limit| Books::new(limit, Shares::THRICE);
        let owners = Owners { sessions: HashMap::new(), books: books(limits.all_max) };
        let ranges = Ranges { sessions: HashMap::new(), books: books(limits.ranges_max) };
        Arc::new(Self {
            limits,
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            owners: Mutex::new(owners),
            break_targets: Mutex::default(),
            break_timeouts: BreakTimeouts::default(),
            ranges: Mutex::new(ranges),
            descriptors,
            disconnected: Disconnected::default(),
            replays: Arc::default(),
            app_instances: Arc::default(),
            tunnel: Tunnel::default(),
            shared_lease_keys: Arc::default(),
            // Numbers of an earlier run are not this run's.
            next: AtomicU64::new(u64::from_le_bytes(start) >> 16),
        })
    }

    /// Returns the session's open of this id, for a request about it: the CREATE that made it does not come again.
    ///
    /// # Errors
    /// `STATUS_FILE_CLOSED`.
    pub fn find(&self, session: u64, id: FileId) -> Result<Arc<Open>, Status> {
        //= MS-SMB2 3.3.5.10
        //# An open is looked up by FileId.Volatile; DurableFileId must be FileId.Persistent.
        self.seen(session, id).inspect(|open| open.end_replay()).ok_or(Status::FILE_CLOSED)
    }

    /// Returns the open of this FileId, for display only: the session's, as `find` finds it, and nothing is done to it.
    pub fn seen(&self, session: u64, id: FileId) -> Option<Arc<Open>> {
        self.find_any(id.volatile.get()).filter(|open| open.id() == id && open.session() == session)
    }

    /// Returns the open of this FileId.Persistent, in any session.
    pub(crate) fn find_durable(&self, persistent: u64) -> Option<Arc<Open>> {
        self.find_any((persistent ^ SPREAD).wrapping_mul(SPREAD_INVERSE))
    }

    /// Returns the open of this FileId.Volatile, in any session.
    pub(crate) fn find_any(&self, volatile: u64) -> Option<Arc<Open>> {
        self.shard(volatile).get(&volatile).cloned()
    }

    /// Returns all opens of a session.
    pub fn of_session(&self, session: u64) -> Vec<Arc<Open>> {
        let ids: Vec<_> = self.owners().sessions.get(&session).into_iter().flatten().copied().collect();
        ids.into_iter().filter_map(|id| self.shard(id).get(&id).cloned()).collect()
    }

    /// Returns how many a session has.
    pub fn count_of(&self, session: u64) -> usize {
        self.owners().sessions.get(&session).map_or(0, HashSet::len)
    }

    /// Returns the opens of one tree connect of a session.
    pub fn of_tree(&self, session: u64, tree: u32) -> Vec<Arc<Open>> {
        let all = self.of_session(session).into_iter();
        all.filter(|open| open.tree() == tree).collect()
    }

    /// Returns all opens, for display.
    pub fn all(&self) -> Vec<Arc<Open>> {
        self.shards.iter().flat_map(|shard| lock(shard).values().cloned().collect::<Vec<_>>()).collect()
    }

    /// Returns how many there are.
    pub fn usage(&self) -> OpensUsage {
        let owners = self.owners();
        let (opens, sessions) = (owners.books.held(), owners.sessions.len());
        OpensUsage { opens, sessions, disconnected: self.disconnected.len() }
    }

    /// Returns what was configured.
    pub(crate) fn limits(&self) -> &OpensLimits {
        &self.limits
    }

    pub(crate) fn disconnected(&self) -> &Disconnected {
        &self.disconnected
    }

    pub(crate) fn replays(&self) -> &Arc<Replays> {
        &self.replays
    }

    pub(crate) fn app_instances(&self) -> &Arc<AppInstances> {
        &self.app_instances
    }

    /// Returns the keys of leases by which two files are open.
    pub(crate) fn shared_lease_keys(&self) -> &Arc<SharedLeaseKeys> {
        &self.shared_lease_keys
    }

    /// Returns the long names of what was found by short ones.
    pub(crate) fn tunnel(&self) -> &Tunnel {
        &self.tunnel
    }

    /// Takes room for one more of this session and client.
    ///
    /// # Errors
    /// `STATUS_INSUFFICIENT_RESOURCES`; `STATUS_TOO_MANY_OPENED_FILES` where it is the session's, the address's or the user's fault.
    pub(crate) fn room(self: &Arc<Self>, session: u64, consumer: Consumer) -> Result<Room, Status> {
        let mut owners = self.owners();
        let of_session = owners.sessions.get(&session).map_or(0, HashSet::len);
        if of_session >= self.limits.per_session_max {
            return Err(Status::TOO_MANY_OPENED_FILES);
        }
        let descriptors = owners.take(self, consumer)?;
        let volatile = self.next.fetch_add(1, Ordering::Relaxed);
        owners.sessions.entry(session).or_default().insert(volatile);
        Ok(self.new_room(session, consumer, volatile, descriptors))
    }

    /// Takes room for an open of an earlier process by the number that it had there, without a session. `None` where
    /// there is none, or one of this process has the number. Those to come have greater ones.
    pub(crate) fn room_again(self: &Arc<Self>, volatile: u64, consumer: Consumer) -> Option<Room> {
        if self.find_any(volatile).is_some() {
            return None;
        }
        let descriptors = self.owners().take(self, consumer).ok()?;
        self.next.fetch_max(volatile + 1, Ordering::Relaxed);
        Some(self.new_room(0, consumer, volatile, descriptors))
    }

    /// Takes the descriptors that one lane may hold for an open of a client.
    ///
    /// # Errors
    /// `STATUS_TOO_MANY_OPENED_FILES` where its address or user has its share of them, or there are no more.
    pub(crate) fn descriptors_of(&self, consumer: Consumer) -> Result<Share, Status> {
        let taken = self.descriptors.take(consumer, DESCRIPTORS_PER_OPEN);
        taken.map_err(|_| Status::TOO_MANY_OPENED_FILES)
    }

    fn new_room(
        self: &Arc<Self>,
        session: u64,
        consumer: Consumer,
        volatile: u64,
        _descriptors: Share,
    ) -> Room {
        let (ranges, ranges_of) = (AtomicUsize::new(0), OnceLock::new());
        let session = AtomicU64::new(session);
        Room { opens: Arc::downgrade(self), session, consumer, volatile, ranges, ranges_of, _descriptors }
    }

    /// Detaches an open from its session; `false` where it had none.
    pub(crate) fn detach_session(&self, open: &Open) -> bool {
        let mut owners = self.owners();
        if open.session() == 0 {
            return false;
        }
        owners.leave(open.session(), open.id().volatile.get());
        open.room.session.store(0, Ordering::Release);
        open.tree.store(0, Ordering::Release);
        true
    }

    /// Attaches an open without a session to `session` and `tree`.
    ///
    /// # Errors
    /// `STATUS_TOO_MANY_OPENED_FILES` where the session has as many as it may.
    pub(crate) fn attach_session(&self, open: &Open, session: u64, tree: u32) -> Result<(), Status> {
        let mut owners = self.owners();
        let of_session = owners.sessions.entry(session).or_default();
        if of_session.len() >= self.limits.per_session_max {
            return Err(Status::TOO_MANY_OPENED_FILES);
        }
        of_session.insert(open.id().volatile.get());
        open.tree.store(tree, Ordering::Release);
        open.room.session.store(session, Ordering::Release);
        Ok(())
    }

    pub(crate) fn insert(&self, open: &Arc<Open>) {
        self.shard(open.id().volatile.get()).insert(open.id().volatile.get(), Arc::clone(open));
    }

    /// Removes the open; `false` where another has before.
    pub(crate) fn remove(&self, open: &Open) -> bool {
        self.shard(open.id().volatile.get()).remove(&open.id().volatile.get()).is_some()
    }

    /// Registers the destination of breaks of `holder`, which an open of `path` by `ctx` has got.
    pub(crate) fn register_break_target(
        self: &Arc<Self>,
        holder: Holder,
        target: BreakTarget,
        ctx: &RequestContext,
        path: RelPath<'_>,
    ) -> BreakRegistration {
        match lock(&self.break_targets).entry(holder) {
            Entry::Occupied(mut known) => known.get_mut().break_registrations += 1,
            Entry::Vacant(new) => {
                let grant_holder = self.break_timeouts.grant_holder(ctx, path);
                new.insert(RegisteredTarget { target, grant_holder, break_registrations: 1 });
            }
        }
        BreakRegistration { opens: Arc::downgrade(self), holder }
    }

    /// Replaces the destination of a holder's breaks.
    pub(crate) fn set_break_target(&self, holder: Holder, target: BreakTarget) {
        if let Some(known) = lock(&self.break_targets).get_mut(&holder) {
            known.target = target;
        }
    }

    /// Returns the number of opens that a holder has registered.
    pub(crate) fn break_registrations(&self, holder: Holder) -> usize {
        lock(&self.break_targets).get(&holder).map_or(0, |known| known.break_registrations)
    }

    /// Returns the destination of a holder's breaks; `None` without one.
    pub(crate) fn break_target(&self, holder: Holder) -> Option<BreakTarget> {
        lock(&self.break_targets).get(&holder).map(|known| known.target)
    }

    /// Clients that did not answer in time.
    pub(crate) fn break_timeouts(&self) -> &BreakTimeouts {
        &self.break_timeouts
    }

    /// Begins the time in which a holder has to acknowledge a break.
    pub(crate) fn await_acknowledgement(&self, holder: Holder) {
        let known = lock(&self.break_targets).get(&holder).map(|known| (known.target, known.grant_holder));
        if let Some((target, grant_holder)) = known {
            self.break_timeouts.break_sent(target.into(), grant_holder);
        }
    }

    fn shard(&self, volatile: u64) -> MutexGuard<'_, OpensShard> {
        lock(&self.shards[volatile as usize % SHARDS])
    }

    fn owners(&self) -> MutexGuard<'_, Owners> {
        lock(&self.owners)
    }
}

impl Room {
    /// Returns what the open in it is called.
    pub(crate) fn id(&self) -> FileId {
        //= MS-SMB2 3.3.5.9
        //# FileId.Persistent is the open's DurableFileId, unique over all opens; FileId.Volatile the one in the session's table.
        FileId::new(self.volatile.wrapping_mul(SPREAD) ^ SPREAD, self.volatile)
    }

    /// Returns the session of the open in it; 0 while it has none.
    pub(crate) fn session(&self) -> u64 {
        self.session.load(Ordering::Acquire)
    }

    /// Returns the consumer to whose shares the open in it is counted.
    pub(crate) fn consumer(&self) -> Consumer {
        self.consumer
    }

    /// Takes room for `count` more locked ranges.
    ///
    /// # Errors
    /// `STATUS_INSUFFICIENT_RESOURCES` where the session, the address, the user or the process has as many as it may.
    pub(crate) fn take_ranges(&self, count: usize) -> Result<(), Status> {
        let opens = self.opens.upgrade().ok_or(Status::INSUFFICIENT_RESOURCES)?;
        let mut held = lock(&opens.ranges);
        let session = *self.ranges_of.get_or_init(|| self.session());
        let of_session = held.sessions.get(&session).copied().unwrap_or_default();
        if of_session + count > opens.limits.ranges_per_session_max {
            return Err(Status::INSUFFICIENT_RESOURCES);
        }
        held.books.take(self.consumer, count).map_err(|_| Status::INSUFFICIENT_RESOURCES)?;
        self.add_ranges(&mut held, session, count);
        Ok(())
    }

    /// Counts ranges that are locked already, whether there is room for them or not.
    pub(crate) fn has_ranges(&self, count: usize) {
        let Some(opens) = self.opens.upgrade() else { return };
        let mut held = lock(&opens.ranges);
        let session = *self.ranges_of.get_or_init(|| self.session());
        held.books.charge(self.consumer, count);
        self.add_ranges(&mut held, session, count);
    }

    fn add_ranges(&self, held: &mut Ranges, session: u64, count: usize) {
        if count > 0 {
            *held.sessions.entry(session).or_default() += count;
            self.ranges.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Gives back the room of `count` ranges that are unlocked.
    pub(crate) fn give_ranges(&self, count: usize) {
        let Some(opens) = self.opens.upgrade() else { return };
        let mut held = lock(&opens.ranges);
        let count = count.min(self.ranges.load(Ordering::Relaxed));
        let Some(session) = self.ranges_of.get().filter(|_| count > 0) else { return };
        self.ranges.fetch_sub(count, Ordering::Relaxed);
        give_back(&mut held.sessions, *session, count);
        held.books.give_back(self.consumer, count);
    }
}

impl Owners {
    /// Counts one more open to a client, and gives the descriptors for it.
    ///
    /// # Errors
    /// As [`Opens::room`].
    fn take(&mut self, opens: &Opens, consumer: Consumer) -> Result<Share, Status> {
        if self.books.free() == 0 {
            return Err(Status::INSUFFICIENT_RESOURCES);
        }
        let descriptors = opens.descriptors_of(consumer)?;
        self.books.take(consumer, 1).map_err(|short| match short {
            Short::All => Status::INSUFFICIENT_RESOURCES,
            Short::Share(_) => Status::TOO_MANY_OPENED_FILES,
        })?;
        Ok(descriptors)
    }

    fn leave(&mut self, session: u64, volatile: u64) {
        if let Entry::Occupied(mut session) = self.sessions.entry(session) {
            session.get_mut().remove(&volatile);
            if session.get().is_empty() {
                session.remove();
            }
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let Some(opens) = self.opens.upgrade() else { return };
        self.give_ranges(usize::MAX);
        let mut owners = opens.owners();
        owners.leave(self.session(), self.volatile);
        owners.books.give_back(self.consumer, 1);
    }
}

impl Drop for BreakRegistration {
    fn drop(&mut self) {
        let Some(opens) = self.opens.upgrade() else { return };
        let mut target = lock(&opens.break_targets);
        let mut over = None;
        if let Entry::Occupied(mut known) = target.entry(self.holder) {
            known.get_mut().break_registrations -= 1;
            if known.get().break_registrations == 0 {
                over = Some(known.remove().target);
            }
        }
        drop(target);
        if let Some(target) = over {
            opens.break_timeouts.closed(target.into());
        }
    }
}

impl std::fmt::Debug for Opens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Opens").field("usage", &self.usage()).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nobody panics while holding it")
}

const SHARDS: usize = 64;
/// Odd, so that no two numbers get one id.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
const SPREAD_INVERSE: u64 = inverse(SPREAD);

/// Returns the inverse of an odd number, modulo 2^64: each round doubles how many bits are right.
const fn inverse(odd: u64) -> u64 {
    let (mut inverse, mut round) = (odd, 0);
    while round < 5 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse)));
        round += 1;
    }
    inverse
}

/// Descriptors of an open: one to read by and one to write by, or one to list by.
const DESCRIPTORS_PER_OPEN: usize = 2;

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv6Addr};

    use budget::UserNumber;

    use super::*;

    /// One open, or one range, of a client; the session is another one for each.
    fn at(address: impl Into<IpAddr>, user: Option<i32>) -> Consumer {
        Consumer { address: address.into(), user: user.map(UserNumber) }
    }

    /// Clients that are one by their /64, /56, /48 or user, and how many times what is free they may have together.
    fn crowds() -> [(Vec<Consumer>, usize); 4] {
        let v6 = |high: u128, low: u128| Ipv6Addr::from_bits(0x2001_0db8 << 96 | high << 64 | low);
        [
            ((0..64).map(|low| at(v6(0, low), None)).collect(), 3),
            ((0..64).map(|high| at(v6(high, 1), Some(high as i32))).collect(), 4),
            ((0..64).map(|high| at(v6(high << 8, 1), None)).collect(), 6),
            ((0..64).map(|last| at([192, 0, 2, last], Some(7))).collect(), 3),
        ]
    }

    #[test]
    fn opens_are_left_to_others_by_who_has_many_addresses() {
        for (crowd, times) in crowds() {
            let limits = OpensLimits { all_max: 700, ..OpensLimits::default() };
            let opens = Opens::with_descriptors(limits, Budget::new(1 << 20));
            let rooms: Vec<_> = (0..2000).filter_map(|n| opens.room(n as u64, crowd[n % 64]).ok()).collect();
            let refused = opens.room(1, crowd[0]).err();
            assert_eq!(refused, Some(Status::TOO_MANY_OPENED_FILES));
            assert_eq!(rooms.len(), 700 * times / (times + 1), "of {times} times what is free");
            assert!(opens.room(1, at([198, 51, 100, 7], Some(8))).is_ok());
            drop(rooms);
            assert!(opens.owners().books.is_empty());
        }
    }

    #[test]
    fn locked_ranges_are_left_to_others_by_who_has_many_addresses() {
        for (crowd, times) in crowds() {
            let limits = OpensLimits { ranges_max: 700, ..OpensLimits::default() };
            let opens = Opens::with_descriptors(limits, Budget::new(1 << 20));
            let room = |n: usize, consumer| opens.room(n as u64, consumer).unwrap();
            let rooms: Vec<_> = crowd.iter().enumerate().map(|(n, consumer)| room(n, *consumer)).collect();
            let taken = (0..2000).filter(|n| rooms[n % 64].take_ranges(1).is_ok()).count();
            assert_eq!(taken, 700 * times / (times + 1), "of {times} times what is free");
            assert!(room(99, at([198, 51, 100, 7], Some(8))).take_ranges(16).is_ok());
            drop(rooms);
            assert!(lock(&opens.ranges).books.is_empty());
        }
    }

    #[test]
    fn an_address_has_its_share_of_the_descriptors_and_others_have_theirs() {
        let budget = Budget::new(1000);
        let opens = Opens::with_descriptors(OpensLimits::default(), Arc::clone(&budget));
        let [one, other] = [at([10, 0, 0, 1], None), at([10, 0, 0, 2], None)];
        let mut rooms = Vec::new();
        let refused = loop {
            match opens.room(1 + rooms.len() as u64 % 8, one) {
                Ok(room) => rooms.push(room),
                Err(refused) => break refused,
            }
        };
        assert_eq!((refused, rooms.len()), (Status::TOO_MANY_OPENED_FILES, 375), "whatever sessions it has");
        assert!((0..40).all(|_| opens.room(99, other).is_ok()));
        rooms.truncate(10);
        assert!(opens.room(1, one).is_ok());
        drop(rooms);
        assert_eq!((opens.usage().opens, budget.counters().held.get()), (0, 0));
    }

    #[test]
    fn a_durable_file_id_leads_back_to_the_open() {
        let opens = Opens::new(OpensLimits::default());
        for _ in 0..100 {
            let room = opens.room(1, at([10, 0, 0, 1], None)).unwrap();
            let persistent = room.id().persistent.get();
            assert_eq!((persistent ^ SPREAD).wrapping_mul(SPREAD_INVERSE), room.id().volatile.get());
        }
    }

    #[test]
    fn locked_ranges_are_bounded_by_session_address_and_process() {
        let limits = OpensLimits { ranges_max: 100, ranges_per_session_max: 40, ..OpensLimits::default() };
        let opens = Opens::new(limits);
        let room = |session, last| opens.room(session, at([10, 0, 0, last], None)).unwrap();
        let (one, beside, second) = (room(1, 1), room(1, 1), room(2, 1));
        assert!(one.take_ranges(30).is_ok() && beside.take_ranges(10).is_ok());
        assert_eq!(beside.take_ranges(1), Err(Status::INSUFFICIENT_RESOURCES), "of the session");
        assert!(second.take_ranges(35).is_ok());
        assert_eq!(second.take_ranges(1), Err(Status::INSUFFICIENT_RESOURCES), "of the address");
        let other = room(3, 2);
        assert!(other.take_ranges(20).is_ok());
        assert_eq!(other.take_ranges(6), Err(Status::INSUFFICIENT_RESOURCES), "of all");
        one.give_ranges(10);
        assert!(other.take_ranges(6).is_ok());
        drop((one, beside, second, other));
        let held = lock(&opens.ranges);
        assert!(held.books.is_empty() && held.sessions.is_empty());
    }
}
