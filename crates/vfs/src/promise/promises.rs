//! The promises of one lane: its bits in each object that something on this lane relies on, and the clients that it let rely on it.

use std::cell::RefCell;
use std::num::NonZeroU32;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hashbrown::HashTable;
use lane::mesh::Member;

use super::given::{Given, Standing, State};
use super::store::{NONE, Store};
use super::{Arrivals, Broken, Client, Displaced, Ended, Notice, OnItsWay, Sought};
use crate::attributes::Attributes;
use crate::object::{Judgement, LookMark, Object, SharedVolume};

/// The promises of a lane.
pub(crate) struct Promises {
    lane: Member,
    /// Its clock, in seconds.
    epoch: Instant,
    books: RefCell<Books>,
}

#[derive(Default)]
struct Books {
    held: Store<Held>,
    by_object: HashTable<u32>,
    given: Given,
}

/// An object that the lane relies on.
struct Held {
    object: Arc<Object>,
    /// Of the lane's own, without clients.
    uses: u32,
    /// The first promise to a client.
    first: u32,
    /// Counts what was broken of it, whoever was spared.
    breaks: u32,
    /// What it was like at the last look, and the version it had then.
    seen: u32,
    seen_count: u32,
    volume: u16,
    is_seen: bool,
    /// It had several names at the last look.
    is_linked: bool,
}

/// That the lane relies on an object itself, for as long as something on it wants that.
pub(crate) struct Promise {
    promises: Weak<Promises>,
    held: u32,
    object: Arc<Object>,
}

/// A promise as one reply relies on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    number: u32,
    serial: NonZeroU32,
    held: u32,
    breaks: u32,
}

/// A client that has to be told, and of what.
pub(crate) struct Leaving {
    pub(crate) client: Arc<Client>,
    pub(crate) until: Instant,
    pub(crate) what: Left,
    /// Replies on their way that say the contrary.
    pub(crate) arriving: Vec<Rc<Arrivals>>,
}

/// What a client has to be told of.
pub(crate) enum Left {
    /// One promise, and the object that it was of.
    Object { number: u32, serial: NonZeroU32, object: Arc<Object> },
    /// A volume.
    Volume(Arc<SharedVolume>),
    /// That all is void, of which he is being told already.
    All,
}

impl Left {
    /// What is said of it; `None` where it is said already.
    pub(crate) fn notice(&self) -> Option<Notice> {
        match self {
            Self::Object { object, .. } => Some(Notice::Object(Arc::clone(object))),
            Self::Volume(volume) => Some(Notice::Volume(Arc::clone(volume))),
            Self::All => None,
        }
    }
}

/// The table is full of promises whose clients have yet to hear that they are over.
#[derive(Debug)]
pub(crate) struct Full;

impl Promises {
    pub(crate) fn new(lane: Member, now: Instant) -> Rc<Self> {
        Rc::new(Self { lane, epoch: now, books: RefCell::default() })
    }

    /// The lane relies on the object itself: what is looked at from now on may be kept, unless the object
    /// [is changing](Object::is_changing); of names in it what is [counted in](super::Marks).
    pub(crate) fn hold(self: &Rc<Self>, object: &Arc<Object>) -> Promise {
        let mut books = self.books.borrow_mut();
        let held = books.hold(object);
        if books.held[held].uses == 0 {
            object.rely(self.lane);
        }
        books.held[held].uses += 1;
        Promise { promises: Rc::downgrade(self), held, object: Arc::clone(object) }
    }

    /// How many objects the lane relies on.
    pub(crate) fn len(&self) -> usize {
        self.books.borrow().held.len()
    }

    /// Promises to clients on the books.
    pub(crate) fn given(&self) -> usize {
        self.books.borrow().given.len()
    }

    /// Promises a client to tell it before the object changes, if that is before `until`; the look comes after this. Of a promise that it
    /// has already nothing is written that another lane reads. With `max` promises on the books the oldest ones of who has most
    /// leave: they are in `leaving`.
    pub(crate) fn give(
        &self,
        client: &Arc<Client>,
        object: &Arc<Object>,
        until: Instant,
        now: Instant,
        max: usize,
        leaving: &mut Vec<Leaving>,
    ) -> Result<Ticket, Full> {
        let (until, now) = (self.seconds(until) + 1, self.seconds(now));
        let mut books = self.books.borrow_mut();
        let held = books.hold(object);
        let number = match books.given.find(client, held) {
            Some(number) => {
                let promise = &books.given.get(number).expect("it was found");
                let standing = books.given.standing(promise, books.held[held].volume, now);
                let is_anew = standing != Standing::Stands || promise.state == State::Leaving;
                let volume = books.held[held].volume;
                books.given.renew(number, volume, until, is_anew);
                number
            }
            None => {
                // What leaves for it may be the last of this object.
                books.held[held].uses += 1;
                let number = books.insert(self, client, held, until, max, leaving);
                books.held[held].uses -= 1;
                let Some(number) = number else {
                    books.let_go(held);
                    return Err(Full);
                };
                number
            }
        };
        let serial = books.given.get(number).expect("it was made").serial;
        Ok(Ticket { number, serial, held, breaks: books.held[held].breaks })
    }

    /// Whether the promise stands and nothing of its object was broken since, whoever was spared.
    pub(crate) fn stands(&self, ticket: Ticket, now: Instant) -> bool {
        let mut books = self.books.borrow_mut();
        let (breaks, volume) = match books.held.get(ticket.held) {
            Some(held) => (held.breaks, held.volume),
            None => return false,
        };
        let Some(promise) = books.given.get_mut(ticket.number, ticket.serial) else { return false };
        if promise.held != ticket.held || promise.state == State::Leaving || breaks != ticket.breaks {
            return false;
        }
        let promise = &books.given.get(ticket.number).expect("looked at above");
        books.given.standing(promise, volume, self.seconds(now)) == Standing::Stands
    }

    /// Its client is about to know of it: it is told when it is over.
    pub(crate) fn note_told(&self, ticket: Ticket) {
        let mut books = self.books.borrow_mut();
        if let Some(promise) = books.given.get_mut(ticket.number, ticket.serial) {
            promise.state = State::Told;
        }
    }

    /// A reply with the promise is on its way.
    pub(crate) fn on_its_way(self: &Rc<Self>, ticket: Ticket) -> OnItsWay {
        self.books.borrow_mut().given.arrivals(ticket.number).one_more(self, ticket.number)
    }

    /// None is any more.
    pub(super) fn have_arrived(&self, number: u32, arrivals: &Rc<Arrivals>) {
        self.books.borrow_mut().given.forget_arrivals(number, arrivals);
    }

    /// Replies on their way to a client that carry promises.
    pub(crate) fn arriving_to(&self, client: &Arc<Client>) -> Vec<Rc<Arrivals>> {
        self.books.borrow().given.arriving_to(client)
    }

    /// What follows from a look at an object that was begun with this mark: from one that shows what the last on this lane has shown nothing,
    /// which takes no lock; else as the [object](Object::judge) has it.
    pub(crate) fn judge(&self, object: &Arc<Object>, mark: LookMark, now: &Attributes) -> Judgement {
        let mut books = self.books.borrow_mut();
        let Some(held) = books.find(object) else { return object.judge(mark, now) };
        let (held, seen) = (&mut books.held[held], fingerprint(now));
        held.is_linked = now.nlink > 1;
        if held.is_seen && (held.seen, held.seen_count) == (seen, mark.version.count) {
            return Judgement::Known;
        }
        let judged = object.judge(mark, now);
        if judged == Judgement::Known {
            (held.is_seen, held.seen, held.seen_count) = (true, seen, mark.version.count);
        }
        judged
    }

    /// The object was changed by us once more at the version that it was last seen with: how it looked then says nothing now.
    pub(crate) fn forget_look(&self, object: &Arc<Object>) {
        let mut books = self.books.borrow_mut();
        if let Some(held) = books.find(object) {
            books.held[held].is_seen = false;
        }
    }

    /// Who relies on something.
    pub(crate) fn clients(&self) -> Vec<Arc<Client>> {
        self.books.borrow().given.clients().map(|(_, here)| Arc::clone(&here.client)).collect()
    }

    /// Whether clients rely on the object.
    pub(crate) fn is_given(&self, object: &Arc<Object>) -> bool {
        let books = self.books.borrow();
        books.find(object).is_some_and(|held| books.held[held].first != NONE)
    }

    /// What is about to change: whom that concerns, but for who is spared. They leave; [`Promises::has_left`] ends it.
    pub(crate) fn break_given(&self, broken: &Broken, now: Instant) -> Vec<Leaving> {
        let mut leaving = Vec::new();
        let mut books = self.books.borrow_mut();
        books.break_object(self, broken, self.seconds(now), &mut leaving);
        if broken.what.is_of_subtree() {
            books.break_volume(self, broken.object.volume(), self.seconds(now), &mut leaving);
        }
        leaving
    }

    /// A client has heard, or will before it is served again.
    pub(crate) fn has_left(&self, left: &Left) {
        let mut books = self.books.borrow_mut();
        match left {
            Left::Object { number, serial, .. } => {
                let promise = books.given.get_mut(*number, *serial);
                if promise.is_some_and(|promise| promise.state == State::Leaving) {
                    books.remove(*number, self.lane);
                }
            }
            Left::Volume(volume) => {
                let Some(number) = books.given.known_volume(volume) else { return };
                books.given.volume(number).leaving -= 1;
                books.forget_volume(number, self.lane);
            }
            Left::All => {}
        }
    }

    /// Objects that clients rely on and that were last found at a place where something else is now, or nothing, or that may have had one of
    /// their other names there, among `count` of them from number `from` on; and the number to go on from, `None` when all have been looked at.
    pub(crate) fn displaced(&self, sought: &Sought, from: u32, count: u32) -> (Vec<Displaced>, Option<u32>) {
        let books = self.books.borrow();
        let end = books.held.end().min(from.saturating_add(count));
        let all = (from..end).filter_map(|number| books.held.get(number)).filter(|held| held.first != NONE);
        let displaced = all.filter_map(|held| sought.displaced(&held.object, held.is_linked)).collect();
        (displaced, (end < books.held.end()).then_some(end))
    }

    /// Objects that clients rely on and that were last found in this directory, and where there, among `count` of them from number `from`
    /// on; and the number to go on from, as [`Promises::displaced`].
    pub(crate) fn given_in(
        &self,
        directory: &Arc<Object>,
        from: u32,
        count: u32,
    ) -> (Vec<Displaced>, Option<u32>) {
        let books = self.books.borrow();
        let end = books.held.end().min(from.saturating_add(count));
        let all = (from..end).filter_map(|number| books.held.get(number)).filter(|held| held.first != NONE);
        let found = all.filter_map(|held| {
            let at = held.object.placed_in(directory)?;
            Some(Displaced { object: Arc::clone(&held.object), at })
        });
        (found.collect(), (end < books.held.end()).then_some(end))
    }

    /// Takes promises that are over off the books, among `count` of them from number `from` on. Gives the number to go on from,
    /// `None` when all have been looked at, and how many were over.
    pub(crate) fn sweep(&self, from: u32, count: u32, now: Instant) -> (Option<u32>, usize) {
        let now = self.seconds(now);
        let mut books = self.books.borrow_mut();
        let end = books.given.end().min(from.saturating_add(count));
        let mut over = 0;
        for number in from..end {
            let Some(promise) = books.given.get(number) else { continue };
            let volume = books.held[promise.held].volume;
            let is_over = match books.given.standing(promise, volume, now) {
                Standing::Stands => false,
                Standing::Over => promise.state != State::Leaving,
                Standing::VoidForClient => !books.given.client(promise.client).is_to_hear_all(),
                Standing::VoidForVolume => books.given.volume(volume).leaving == 0,
            };
            if is_over {
                books.remove(number, self.lane);
                over += 1;
            }
        }
        ((end < books.given.end()).then_some(end), over)
    }

    /// The lane ends: its clients, who can no longer be told what it promised them, and the objects, whose bits are the caller's to
    /// take back.
    pub(crate) fn end(&self) -> Ended {
        let books = self.books.take();
        let clients = books.given.clients().map(|(_, here)| Arc::clone(&here.client)).collect();
        // What the lane remembered goes with it.
        books.held.iter().for_each(|(_, held)| held.object.end_relying(self.lane));
        let objects = books.held.iter().map(|(_, held)| Arc::clone(&held.object)).collect();
        Ended { clients, objects, volumes: books.given.volumes().cloned().collect() }
    }

    fn seconds(&self, at: Instant) -> u32 {
        u32::try_from(at.saturating_duration_since(self.epoch).as_secs()).unwrap_or(u32::MAX - 1)
    }

    fn moment(&self, seconds: u32) -> Instant {
        self.epoch + Duration::from_secs(seconds.into())
    }
}

impl Books {
    fn find(&self, object: &Arc<Object>) -> Option<u32> {
        let is_it = |&number: &u32| Arc::ptr_eq(&self.held[number].object, object);
        self.by_object.find(hash(object), is_it).copied()
    }

    fn hold(&mut self, object: &Arc<Object>) -> u32 {
        if let Some(held) = self.find(object) {
            return held;
        }
        let held = Held {
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
        let number = self.held.insert(held);
        let held = &self.held;
        self.by_object.insert_unique(hash(object), number, |&number| hash(&held[number].object));
        number
    }

    /// Takes an object off the books if nobody wants it any more.
    fn let_go(&mut self, number: u32) {
        let held = &self.held[number];
        if held.uses > 0 || held.first != NONE {
            return;
        }
        if let Ok(entry) = self.by_object.find_entry(hash(&held.object), |&other| other == number) {
            entry.remove();
        }
        self.held.remove(number);
    }

    fn insert(
        &mut self,
        promises: &Promises,
        client: &Arc<Client>,
        held: u32,
        until: u32,
        max: usize,
        leaving: &mut Vec<Leaving>,
    ) -> Option<u32> {
        if self.given.len() >= max {
            self.make_room(promises, leaving);
            if self.given.len() >= max + max / LEAVING_PART + LEAVING_MIN {
                return None;
            }
        }
        let object = &self.held[held].object;
        let volume = self.given.volume_number(object.volume())?;
        if self.held[held].first == NONE {
            object.promises().set(promises.lane);
            object.volume().promises().set(promises.lane);
            self.given.volume(volume).objects += 1;
            self.held[held].volume = volume;
        }
        let first = &mut self.held[held].first;
        Some(self.given.insert(client, held, volume, first, until))
    }

    /// The oldest promises of who has most leave.
    fn make_room(&mut self, promises: &Promises, leaving: &mut Vec<Leaving>) {
        let most = self.given.clients().max_by_key(|(_, here)| here.count).map(|(number, _)| number);
        let Some(most) = most else { return };
        let stays = |&number: &u32| self.given.get(number).is_some_and(|one| one.state != State::Leaving);
        let oldest: Vec<u32> = self.given.of_client(most).filter(stays).take(LEAVING_AT_ONCE).collect();
        for number in oldest {
            leaving.extend(self.leave(promises, number));
        }
    }

    /// A promise is to be over once its client has heard; `None` for one that no client knows of, which is over now.
    fn leave(&mut self, promises: &Promises, number: u32) -> Option<Leaving> {
        let promise = self.given.get(number).expect("it is on the books");
        let (serial, held, client) = (promise.serial, promise.held, promise.client);
        if promise.state == State::Fresh {
            self.remove(number, promises.lane);
            return None;
        }
        let until = promises.moment(promise.until);
        let arriving = self.given.arriving(number).cloned().into_iter().collect();
        self.given.get_mut(number, serial).expect("looked at above").state = State::Leaving;
        let object = Arc::clone(&self.held[held].object);
        let (client, what) = (Arc::clone(self.given.client(client)), Left::Object { number, serial, object });
        Some(Leaving { client, until, what, arriving })
    }

    fn break_object(&mut self, promises: &Promises, broken: &Broken, now: u32, leaving: &mut Vec<Leaving>) {
        let Some(number) = self.find(&broken.object) else { return };
        let held = &mut self.held[number];
        // Its attributes become others, which are the server's own doing.
        held.is_seen = false;
        held.breaks = held.breaks.wrapping_add(1);
        let (first, volume) = (held.first, held.volume);
        let all: Vec<u32> = self.given.of_object(first).collect();
        for number in all {
            let promise = self.given.get(number).expect("it is on the books");
            let client = self.given.client(promise.client);
            let is_spared = broken.spared == Some(client.holder()) && !broken.what.is_of_subtree();
            match self.given.standing(promise, volume, now) {
                Standing::Stands | Standing::VoidForVolume if is_spared => {}
                Standing::Stands | Standing::VoidForVolume => leaving.extend(self.leave(promises, number)),
                Standing::Over if promise.state != State::Leaving => self.remove(number, promises.lane),
                Standing::Over => {}
                // Else this lane would be asked of each change until the next sweep.
                Standing::VoidForClient if !client.is_to_hear_all() => self.remove(number, promises.lane),
                Standing::VoidForClient => {
                    let (client, until) = (Arc::clone(client), promises.moment(promise.until));
                    leaving.push(Leaving { client, until, what: Left::All, arriving: Vec::new() });
                }
            }
        }
    }

    /// All that was promised of a volume is void: clients hear it as one.
    fn break_volume(
        &mut self,
        promises: &Promises,
        volume: &Arc<SharedVolume>,
        now: u32,
        leaving: &mut Vec<Leaving>,
    ) {
        let Some(number) = self.given.known_volume(volume) else { return };
        // Of what was void before everybody has heard then.
        let is_heard = self.given.volume(number).leaving == 0;
        let is_of_it = |&promise: &u32| {
            let promise = self.given.get(promise);
            promise.is_some_and(|promise| {
                self.held[promise.held].volume == number
                    && !(is_heard && self.given.standing(promise, number, now) == Standing::VoidForVolume)
            })
        };
        let concerned = self
            .given
            .clients()
            .filter(|&(client, _)| self.given.of_client(client).any(|one| is_of_it(&one)));
        let clients: Vec<_> = concerned.map(|(client, here)| (client, Arc::clone(&here.client))).collect();
        let mut arriving = self.given.arriving_by_client(|held| self.held[held].volume == number);
        self.given.void_volume(number, clients.len());
        for (here, client) in clients {
            let (until, what) = (promises.moment(u32::MAX - 1), Left::Volume(Arc::clone(volume)));
            let arriving = arriving.remove(&here).unwrap_or_default();
            leaving.push(Leaving { client, until, what, arriving });
        }
    }

    fn remove(&mut self, number: u32, lane: Member) {
        let held = self.given.get(number).expect("it is on the books").held;
        self.given.remove(number, &mut self.held[held].first);
        if self.held[held].first == NONE {
            self.held[held].object.promises().clear(lane);
            let volume = self.held[held].volume;
            self.given.volume(volume).objects -= 1;
            self.forget_volume(volume, lane);
            self.let_go(held);
        }
    }

    /// Takes the lane's bit of a volume back if it has promised nothing of it.
    fn forget_volume(&mut self, number: u16, lane: Member) {
        let here = self.given.volume(number);
        if here.objects == 0 && here.leaving == 0 {
            self.given.forget_volume(number).volume.promises().clear(lane);
        }
    }
}

impl Promise {
    pub(crate) fn object(&self) -> &Arc<Object> {
        &self.object
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        let Some(promises) = self.promises.upgrade() else { return };
        let mut books = promises.books.borrow_mut();
        // The lane has ended its books otherwise.
        if books.held.get(self.held).is_some_and(|held| Arc::ptr_eq(&held.object, &self.object)) {
            books.held[self.held].uses -= 1;
            if books.held[self.held].uses == 0 {
                self.object.end_relying(promises.lane);
            }
            books.let_go(self.held);
        }
    }
}

fn hash(object: &Arc<Object>) -> u64 {
    super::spread(Arc::as_ptr(object) as u64)
}

/// What tells two looks at a file apart, in few bits.
fn fingerprint(of: &Attributes) -> u32 {
    let time = of.ctime.secs.cast_unsigned() << 30 ^ u64::from(of.ctime.nanos);
    (super::spread(time ^ super::spread(of.size)) >> 32) as u32
}

/// Promises that leave at once where there is no room: as many as a client is told of at once.
const LEAVING_AT_ONCE: usize = 50;
/// Promises that are leaving may take this part beyond what there is room for, and this many in any case.
const LEAVING_PART: usize = 8;
const LEAVING_MIN: usize = 64;
