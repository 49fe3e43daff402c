//! The places of a lane's connections: who holds how many, and who gives way when there are no more.
//!
//! Places are short when the lane has its maximum of connections, or the process no descriptors. While those that have never asked
//! for anything hold more than half, it is one of theirs: of the address that has most of them the one that came first. Else the
//! address (an IPv4 address, an IPv6 /64) that holds most gives one up, or one of those that hold as much:
//!
//! 1. of their connections that do nothing for anybody (idle between requests, in a handshake, in front of a head that
//!    does not come to its end) the one that has done so longest;
//! 2. if all of them are being answered and such an address holds more than a quarter of all places, the one that is answered
//!    longest;
//! 3. else the connection, of any address, that has done nothing longest.
//!
//! A newcomer never displaces an answer of an address that holds no more than his own; he is refused then.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet, VecDeque};
use std::net::{IpAddr, Shutdown};
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};

use lane::budget::give_back;
use lane::net::TcpStream;
use lane::time::now;
use slab::Slab;

use crate::address::address_of;
use crate::counters::ConnectionCounters;

/// One connection's place.
#[derive(Debug)]
pub struct Place {
    stream: Weak<TcpStream>,
    address: IpAddr,
    state: Cell<State>,
    /// When it came into this state.
    since: Cell<Instant>,
    /// A request of it was answered, or is.
    has_asked: Cell<bool>,
    gave_way: Cell<bool>,
}

/// What a connection does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// In its handshake, or before the end of a head.
    Opening,
    /// Waits for its next request.
    Idle,
    /// Being answered.
    Busy,
}

/// All places of a lane.
#[derive(Debug, Default)]
pub(crate) struct Places {
    open: RefCell<Slab<Rc<Place>>>,
    /// Places that each address holds, without those it has given up.
    held: RefCell<HashMap<IpAddr, usize>>,
    /// Given up, but not left yet.
    leaving: Cell<usize>,
    /// Who gives way next, as the last look at all places has shown.
    next: RefCell<VecDeque<Candidate>>,
    looked_at: Cell<Option<Instant>>,
}

/// A connection that would give way, if it is still as it was.
#[derive(Debug)]
struct Candidate {
    place: Weak<Place>,
    state: State,
    since: Instant,
}

impl Place {
    /// The handshake is done and nothing has come, or a request is answered.
    pub fn idle(&self, since: Instant) {
        self.become_(State::Idle, since);
    }

    /// A request has begun.
    pub fn opening(&self, since: Instant) {
        self.become_(State::Opening, since);
    }

    /// A request is being answered.
    pub fn busy(&self, since: Instant) {
        self.has_asked.set(true);
        self.become_(State::Busy, since);
    }

    /// Whether it was told to leave: there is nobody to say anything to any more.
    pub fn gave_way(&self) -> bool {
        self.gave_way.get()
    }

    fn become_(&self, state: State, since: Instant) {
        self.state.set(state);
        self.since.set(since);
    }

    fn does_nothing(&self) -> bool {
        self.state.get() != State::Busy
    }
}

impl Places {
    /// Places in use, but for those that are about to be free.
    pub(crate) fn held(&self) -> usize {
        self.open.borrow().len() - self.leaving.get()
    }

    /// Connections that are still there.
    pub(crate) fn len(&self) -> usize {
        self.open.borrow().len()
    }

    /// A place for a new connection, and the key to [`Places::remove`] it by.
    pub(crate) fn insert(&self, stream: &Rc<TcpStream>) -> (usize, Rc<Place>) {
        let place = Rc::new(Place {
            stream: Rc::downgrade(stream),
            address: address_of(stream.peer_addr().ip()),
            state: Cell::new(State::Opening),
            since: Cell::new(now()),
            has_asked: Cell::new(false),
            gave_way: Cell::new(false),
        });
        *self.held.borrow_mut().entry(place.address).or_default() += 1;
        (self.open.borrow_mut().insert(Rc::clone(&place)), place)
    }

    /// The connection of this key has left.
    pub(crate) fn remove(&self, key: usize) {
        let place = self.open.borrow_mut().remove(key);
        if place.gave_way.get() {
            self.leaving.update(|leaving| leaving - 1);
        } else {
            self.give_up(place.address);
        }
    }

    /// Calls `act` for every connection whose stream is still there.
    pub(crate) fn for_each(&self, mut act: impl FnMut(&TcpStream)) {
        for (_, place) in self.open.borrow().iter() {
            if let Some(stream) = place.stream.upgrade() {
                act(&stream);
            }
        }
    }

    /// Makes somebody give way for `newcomer`, or for one who is not known yet. `false` when nobody has to. The place
    /// is free as soon as the connection's task has had its turn.
    pub(crate) fn make_room(&self, newcomer: Option<IpAddr>, counters: &ConnectionCounters) -> bool {
        let newcomer = newcomer.map(address_of);
        let Some(place) = self.next_candidate().or_else(|| {
            self.look(newcomer);
            self.next_candidate()
        }) else {
            return false;
        };
        match place.state.get() {
            State::Idle => &counters.gave_way_idle,
            State::Opening => &counters.gave_way_opening,
            State::Busy => &counters.gave_way_busy,
        }
        .increment();
        place.gave_way.set(true);
        self.leaving.update(|leaving| leaving + 1);
        self.give_up(place.address);
        if let Some(stream) = place.stream.upgrade() {
            // Its task finds the connection at its end, wherever it waits. One that is broken finds that too.
            let _ = stream.shutdown(Shutdown::Both);
        }
        true
    }

    fn give_up(&self, address: IpAddr) {
        give_back(&mut self.held.borrow_mut(), address, 1);
    }

    /// The next who is still as the last look has seen him.
    fn next_candidate(&self) -> Option<Rc<Place>> {
        let mut next = self.next.borrow_mut();
        if self.looked_at.get().is_none_or(|at| now().duration_since(at) > LOOK_LASTS) {
            next.clear();
        }
        std::iter::from_fn(|| next.pop_front()).find_map(|candidate| {
            let place = candidate.place.upgrade()?;
            let as_seen = place.state.get() == candidate.state && place.since.get() == candidate.since;
            (as_seen && !place.gave_way.get()).then_some(place)
        })
    }

    /// Looks at all places for those who give way next. It costs a look at each connection, so it looks ahead for
    /// several; but never so far that who holds most would have less than the second.
    fn look(&self, newcomer: Option<IpAddr>) {
        let of_silent = self.silent();
        if of_silent.values().sum::<usize>() * 2 > self.held() {
            let silent = |place: &Place| !place.has_asked.get();
            self.next.replace(self.longest_of_top(&of_silent, &silent));
            self.looked_at.set(Some(now()));
            return;
        }
        let held = self.held.borrow();
        let Some(most) = held.values().copied().max() else { return };
        let mine = newcomer.and_then(|address| held.get(&address).copied()).unwrap_or(0);
        let of_top = |place: &Place| held.get(&place.address) == Some(&most);
        let mut next = self.longest_of_top(&held, &Place::does_nothing);
        let newcomer_holds_most = mine >= most;
        if next.is_empty() && !newcomer_holds_most {
            let greedy = most * 4 > self.held();
            if !greedy {
                next = self.longest(1, false, &Place::does_nothing);
            }
            if next.is_empty() && most > mine + 1 {
                next = self.longest(1, false, &of_top);
            }
        }
        self.next.replace(next);
        self.looked_at.set(Some(now()));
    }

    /// Of each address those that have never asked for anything.
    fn silent(&self) -> HashMap<IpAddr, usize> {
        let mut silent = HashMap::new();
        for (_, place) in self.open.borrow().iter() {
            if !place.gave_way.get() && !place.has_asked.get() {
                *silent.entry(place.address).or_default() += 1;
            }
        }
        silent
    }

    /// Of the address that has most of these, or those that have as many: who has been as he is longest. Who has come just now among
    /// thousands that hold as little is not the one who goes.
    fn longest_of_top(
        &self,
        of: &HashMap<IpAddr, usize>,
        which: &dyn Fn(&Place) -> bool,
    ) -> VecDeque<Candidate> {
        let Some(most) = of.values().copied().max() else { return VecDeque::new() };
        let tops = of.values().filter(|places| **places == most).count();
        let second = of.values().copied().filter(|places| *places < most).max().unwrap_or(0);
        // Where several hold as much each has one look ahead at most.
        let ahead = (if tops == 1 { (most - second) / 2 } else { tops / 2 }).clamp(1, AHEAD_MAX);
        self.longest(ahead, tops > 1, &|place| of.get(&place.address) == Some(&most) && which(place))
    }

    fn longest(
        &self,
        ahead: usize,
        one_of_each: bool,
        which: &dyn Fn(&Place) -> bool,
    ) -> VecDeque<Candidate> {
        let open = self.open.borrow();
        let places = open.iter().map(|(_, place)| place);
        let mut found: Vec<_> = places.filter(|place| !place.gave_way.get() && which(place)).collect();
        found.sort_unstable_by_key(|place| place.since.get());
        let mut seen = HashSet::new();
        let candidate = |place: &Rc<Place>| Candidate {
            place: Rc::downgrade(place),
            state: place.state.get(),
            since: place.since.get(),
        };
        let chosen = found.into_iter().filter(|place| !one_of_each || seen.insert(place.address));
        chosen.take(ahead).map(candidate).collect()
    }
}

/// How many are chosen in one look.
const AHEAD_MAX: usize = 64;
/// Afterwards another may hold most.
const LOOK_LASTS: Duration = Duration::from_secs(1);
