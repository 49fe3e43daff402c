//! Slots of a lane's connections: how many each client holds, and which connection is evicted when they are
//! short.
//!
//! Places are short when the lane has its maximum of connections, or the process no descriptors. While those that have never asked
//! for anything hold more than half, it is one of theirs: of the address that has most of them the one that came first. Else the
//! address (an IPv4 address, an IPv6 /64) that holds most gives one up, or one of those that hold as much. An IPv6 /56 or /48 holds most
//! where it holds more than that in proportion to its share ([`budget::Shares`]): twice as many as an address for a /48. Of it goes
//!
//! 1. of their connections that do nothing (idle between requests, in a handshake, in front of a head that
//!    does not come to its end) the one that has done so longest;
//! 2. if all of them are being answered and such an address holds more than a quarter of all places (a /48 half of them), the one that
//!    is answered longest;
//! 3. else the connection, of any address, that has done nothing longest.
//!
//! A newcomer never displaces an answer of an address that holds no more than the newcomer's own; it is
//! refused then.

use std::cell::{Cell, RefCell};
use std::collections::{HashSet, VecDeque};
use std::net::{IpAddr, Shutdown};
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};

use budget::{Books, Consumer, Shares};
use lane::net::TcpStream;
use lane::time::now;
use slab::Slab;

use crate::address::address_of;
use crate::counters::ConnectionCounters;

/// Slot of one connection among those of its lane.
#[derive(Debug)]
pub struct ConnectionSlot {
    stream: Weak<TcpStream>,
    consumer: Consumer,
    state: Cell<SlotState>,
    /// Time when the connection came into this state.
    since: Cell<Instant>,
    /// True once a request of the connection has been answered, or is being answered.
    has_asked: Cell<bool>,
    is_evicted: Cell<bool>,
}

/// State of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SlotState {
    /// The connection is in its handshake, or before the end of a request's head.
    Opening,
    /// The connection waits for its next request.
    Idle,
    /// A request is being answered.
    Busy,
}

/// Slots of a lane's connections. Where they are short, idle and slow connections are evicted.
#[derive(Debug)]
pub(crate) struct ConnectionSlots {
    open: RefCell<Slab<Rc<ConnectionSlot>>>,
    /// Slots held by each client, without evicted ones. Callers pass the number of slots with each call.
    books: RefCell<Books>,
    /// Number of evicted connections that have not left yet.
    leaving: Cell<usize>,
    /// Connections to evict next, by the last scan of all slots.
    next: RefCell<VecDeque<Candidate>>,
    looked_at: Cell<Option<Instant>>,
}

/// Connection that is to be evicted, if its state is still the same.
#[derive(Debug)]
struct Candidate {
    place: Weak<ConnectionSlot>,
    state: SlotState,
    since: Instant,
}

impl ConnectionSlot {
    /// Notes that the handshake is done without a request yet, or that a request is answered.
    pub fn idle(&self, since: Instant) {
        self.become_(SlotState::Idle, since);
    }

    /// Notes that a request has begun.
    pub fn opening(&self, since: Instant) {
        self.become_(SlotState::Opening, since);
    }

    /// Notes that a request is being answered.
    pub fn busy(&self, since: Instant) {
        self.has_asked.set(true);
        self.become_(SlotState::Busy, since);
    }

    /// Returns whether the connection was evicted: nothing is sent to its client any more.
    pub fn is_evicted(&self) -> bool {
        self.is_evicted.get()
    }

    fn become_(&self, state: SlotState, since: Instant) {
        self.state.set(state);
        self.since.set(since);
    }

    fn does_nothing(&self) -> bool {
        self.state.get() != SlotState::Busy
    }
}

impl Default for ConnectionSlots {
    fn default() -> Self {
        let books = RefCell::new(Books::new(usize::MAX, Shares::THRICE));
        let (open, leaving, next, looked_at) = Default::default();
        Self { open, books, leaving, next, looked_at }
    }
}

impl ConnectionSlots {
    /// Returns the number of slots in use, without those about to be free.
    pub(crate) fn held(&self) -> usize {
        self.open.borrow().len() - self.leaving.get()
    }

    /// Returns the number of connections that have not left.
    pub(crate) fn len(&self) -> usize {
        self.open.borrow().len()
    }

    /// Inserts a new connection; returns the key for [`ConnectionSlots::remove`] and the slot.
    pub(crate) fn insert(&self, stream: &Rc<TcpStream>) -> (usize, Rc<ConnectionSlot>) {
        self.insert_of(Rc::downgrade(stream), stream.peer_addr().ip())
    }

    fn insert_of(&self, stream: Weak<TcpStream>, peer: IpAddr) -> (usize, Rc<ConnectionSlot>) {
        let place = Rc::new(ConnectionSlot {
            stream,
            consumer: address_of(peer).into(),
            state: Cell::new(SlotState::Opening),
            since: Cell::new(now()),
            has_asked: Cell::new(false),
            is_evicted: Cell::new(false),
        });
        self.books.borrow_mut().charge(place.consumer, 1);
        (self.open.borrow_mut().insert(Rc::clone(&place)), place)
    }

    /// Removes the connection of this key, which has left.
    pub(crate) fn remove(&self, key: usize) {
        let place = self.open.borrow_mut().remove(key);
        if place.is_evicted.get() {
            self.leaving.update(|leaving| leaving - 1);
        } else {
            self.books.borrow_mut().give_back(place.consumer, 1);
        }
    }

    /// Calls `act` for every connection that still has its stream.
    pub(crate) fn for_each(&self, mut act: impl FnMut(&TcpStream)) {
        for (_, place) in self.open.borrow().iter() {
            if let Some(stream) = place.stream.upgrade() {
                act(&stream);
            }
        }
    }

    /// Evicts a connection for `newcomer`, or for one that is not known yet. `false` when none has to. The
    /// place is free as soon as the connection's task has had its turn.
    pub(crate) fn make_room(&self, newcomer: Option<IpAddr>, counters: &ConnectionCounters) -> bool {
        let Some(place) = self.next_candidate().or_else(|| {
            self.look(newcomer);
            self.next_candidate()
        }) else {
            return false;
        };
        match place.state.get() {
            SlotState::Idle => &counters.evicted_idle,
            SlotState::Opening => &counters.evicted_opening,
            SlotState::Busy => &counters.evicted_busy,
        }
        .increment();
        place.is_evicted.set(true);
        self.leaving.update(|leaving| leaving + 1);
        self.books.borrow_mut().give_back(place.consumer, 1);
        if let Some(stream) = place.stream.upgrade() {
            // Its task finds the connection at its end, wherever it waits. One that is broken finds that too.
            let _ = stream.shutdown(Shutdown::Both);
        }
        true
    }

    /// Takes the next candidate whose state is as at the last scan.
    fn next_candidate(&self) -> Option<Rc<ConnectionSlot>> {
        let mut next = self.next.borrow_mut();
        if self.looked_at.get().is_none_or(|at| now().duration_since(at) > LOOK_LASTS) {
            next.clear();
        }
        std::iter::from_fn(|| next.pop_front()).find_map(|candidate| {
            let place = candidate.place.upgrade()?;
            let as_seen = place.state.get() == candidate.state && place.since.get() == candidate.since;
            (as_seen && !place.is_evicted.get()).then_some(place)
        })
    }

    /// Scans all slots for the connections to evict next. A scan costs a look at each connection, so it
    /// chooses several; but never so many that the client with most would have less than the second.
    fn look(&self, newcomer: Option<IpAddr>) {
        let of_silent = self.silent();
        if of_silent.held() * 2 > self.held() {
            let silent = |place: &ConnectionSlot| !place.has_asked.get();
            self.next.replace(self.longest_of_top(&of_silent, &silent));
            self.looked_at.set(Some(now()));
            return;
        }
        let books = self.books.borrow();
        let Some((_, most)) = books.heaviest() else { return };
        let mine = newcomer.map_or(0, |address| books.weight(address.into()));
        let of_top = |place: &ConnectionSlot| books.weight(place.consumer) == most;
        let mut next = self.longest_of_top(&books, &ConnectionSlot::does_nothing);
        let newcomer_holds_most = mine >= most;
        if next.is_empty() && !newcomer_holds_most {
            let greedy = most * 4 > self.held();
            if !greedy {
                next = self.longest(1, false, &ConnectionSlot::does_nothing);
            }
            if next.is_empty() && most > mine + 1 {
                next = self.longest(1, false, &of_top);
            }
        }
        self.next.replace(next);
        self.looked_at.set(Some(now()));
    }

    /// Counts the connections that have never sent a request, by client.
    fn silent(&self) -> Books {
        let mut silent = Books::new(usize::MAX, Shares::THRICE);
        for (_, place) in self.open.borrow().iter() {
            if !place.is_evicted.get() && !place.has_asked.get() {
                silent.charge(place.consumer, 1);
            }
        }
        silent
    }

    /// Returns the connections of the address or network that has most, or of those with as many, by age. One
    /// that has just come among thousands that hold as little is not the one to go.
    fn longest_of_top(&self, of: &Books, which: &dyn Fn(&ConnectionSlot) -> bool) -> VecDeque<Candidate> {
        let Some((_, most)) = of.heaviest() else { return VecDeque::new() };
        let tops = of.weights().filter(|(_, weight)| *weight == most).count();
        let second =
            of.weights().map(|(_, weight)| weight).filter(|weight| *weight < most).max().unwrap_or(0);
        // Where several hold as much each has one look ahead at most.
        let ahead = (if tops == 1 { (most - second) / 2 } else { tops / 2 }).clamp(1, AHEAD_MAX);
        self.longest(ahead, tops > 1, &|place| of.weight(place.consumer) == most && which(place))
    }

    fn longest(
        &self,
        ahead: usize,
        one_of_each: bool,
        which: &dyn Fn(&ConnectionSlot) -> bool,
    ) -> VecDeque<Candidate> {
        let open = self.open.borrow();
        let places = open.iter().map(|(_, place)| place);
        let mut found: Vec<_> = places.filter(|place| !place.is_evicted.get() && which(place)).collect();
        found.sort_unstable_by_key(|place| place.since.get());
        let mut seen = HashSet::new();
        let candidate = |place: &Rc<ConnectionSlot>| Candidate {
            place: Rc::downgrade(place),
            state: place.state.get(),
            since: place.since.get(),
        };
        let chosen = found.into_iter().filter(|place| !one_of_each || seen.insert(place.consumer.address));
        chosen.take(ahead).map(candidate).collect()
    }
}

/// Most connections that are chosen in one scan.
const AHEAD_MAX: usize = 64;
/// Time for which a scan counts: afterwards another client may hold most.
const LOOK_LASTS: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use lane::backend::sim::{Config, World};

    use super::*;

    fn v6(high: u128) -> IpAddr {
        Ipv6Addr::from_bits(0x2001_0db8 << 96 | high << 64 | 1).into()
    }

    /// Runs `story` in a simulated lane, for its clock.
    fn in_a_lane(story: impl FnOnce(ConnectionSlots, ConnectionCounters) + 'static) {
        let world = World::new(1, Config::default());
        let host = world.host("10.0.0.1");
        world
            .block_on(&host, async move { story(ConnectionSlots::default(), ConnectionCounters::default()) });
    }

    /// Inserts a connection of this peer that is being answered, or waits for its next request.
    fn place(places: &ConnectionSlots, peer: IpAddr, is_busy: bool) -> (usize, Rc<ConnectionSlot>) {
        let (key, place) = places.insert_of(Weak::new(), peer);
        place.busy(now());
        if !is_busy {
            place.idle(now());
        }
        (key, place)
    }

    #[test]
    fn a_network_of_many_addresses_gives_way_to_others_and_to_its_own() {
        // By /64 and /56, each of which holds one or some.
        for step in [1, 256] {
            in_a_lane(move |places, counters| {
                let others: Vec<_> =
                    (0..40).map(|n| place(&places, [192, 0, 2, n % 20].into(), false)).collect();
                let crowd: Vec<_> = (0..100).map(|n| place(&places, v6(n * step), false)).collect();
                for _ in 0..60 {
                    assert!(places.make_room(Some([198, 51, 100, 7].into()), &counters));
                }
                let is_evicted = |of: &[(usize, Rc<ConnectionSlot>)]| {
                    of.iter().filter(|(_, place)| place.is_evicted()).count()
                };
                assert_eq!((is_evicted(&others), is_evicted(&crowd)), (0, 60), "by {step}");
                others.into_iter().chain(crowd).for_each(|(key, _)| places.remove(key));
                assert!(places.books.borrow().is_empty() && places.leaving.get() == 0);
            });
        }
    }

    #[test]
    fn a_newcomer_of_the_network_that_holds_most_ends_no_answer() {
        in_a_lane(|places, counters| {
            let _crowd: Vec<_> = (0..100).map(|n| place(&places, v6(n * 256), true)).collect();
            let other = place(&places, [192, 0, 2, 1].into(), true);
            assert!(!places.make_room(Some(v6(200 * 256)), &counters));
            assert!(places.make_room(Some([198, 51, 100, 7].into()), &counters));
            assert_eq!((counters.evicted_busy.get(), other.1.is_evicted()), (1, false));
        });
    }

    #[test]
    fn among_those_who_have_never_asked_the_network_with_most_gives_way() {
        in_a_lane(|places, counters| {
            let two: Vec<_> = (0..2).map(|_| places.insert_of(Weak::new(), [192, 0, 2, 1].into())).collect();
            let _crowd: Vec<_> = (0..50).map(|n| places.insert_of(Weak::new(), v6(n))).collect();
            assert!((0..20).all(|_| places.make_room(None, &counters)));
            assert_eq!(two.iter().filter(|(_, place)| place.is_evicted()).count(), 0);
        });
    }
}
