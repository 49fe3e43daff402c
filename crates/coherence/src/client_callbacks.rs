//! Callbacks that one lane has given to clients: which client caches which object, and until when.
//!
//! A callback that is to be broken stays in the table until its client has acknowledged the break, or will receive
//! it before it is served again: a second change of the object waits for the client like the first.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::rc::Rc;
use std::sync::Arc;

use hashbrown::HashTable;

use super::in_flight::InFlightTable;
use super::slab::{NONE, Slab};
use super::{CachedObject, Client, Holder, InFlightReplies, InFlightReply};

/// The callbacks of one lane, by client and object.
pub(crate) struct ClientCallbacks<O: CachedObject> {
    all: Slab<Callback>,
    /// Callbacks by client and object, both as their numbers on this lane.
    by_pair: HashTable<u32>,
    clients: Slab<LaneClient<O>>,
    by_holder: HashMap<Holder, u32>,
    volumes: Slab<LaneVolume<O>>,
    in_flight: Rc<InFlightTable>,
    serial: u32,
}

/// One callback that a client holds on an object.
pub(crate) struct Callback {
    /// A number that differs for each callback: numbers are given out again.
    pub(crate) serial: NonZeroU32,
    pub(crate) client: u32,
    /// The object, by its number among those that the lane tracks.
    pub(crate) tracked: u32,
    /// Seconds since the start of the table's clock.
    pub(crate) until: u32,
    /// Epoch of the client when the callback was given.
    epoch: u32,
    of_object: Links,
    of_client: Links,
    volume_epoch: u16,
    pub(crate) state: CallbackPhase,
}

/// State of a callback at its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallbackPhase {
    /// The callback's client does not know of it yet.
    Fresh,
    Delivered,
    /// The callback's client is being notified that it is broken.
    PendingBreak,
}

#[derive(Clone, Copy)]
struct Links {
    next: u32,
    before: u32,
}

/// A client as this lane knows it, with the list of its callbacks.
pub(crate) struct LaneClient<O: CachedObject> {
    pub(crate) client: Arc<Client<O>>,
    pub(crate) count: u32,
    /// The client's oldest callback, and its latest.
    first: u32,
    last: u32,
}

/// A volume on whose objects this lane has given callbacks.
pub(crate) struct LaneVolume<O: CachedObject> {
    pub(crate) volume: Arc<O::Volume>,
    epoch: u16,
    /// Objects of the volume with callbacks.
    pub(crate) objects: u32,
    /// Breaks under way that void all callbacks of the volume.
    pub(crate) pending_breaks: usize,
}

/// Validity of a callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallbackState {
    Valid,
    /// Void with all callbacks of its client of that epoch.
    VoidForClient,
    /// Void with all callbacks of its volume.
    VoidForVolume,
    Expired,
}

impl<O: CachedObject> Default for ClientCallbacks<O> {
    fn default() -> Self {
        Self {
            all: Slab::default(),
            by_pair: HashTable::new(),
            clients: Slab::default(),
            by_holder: HashMap::new(),
            volumes: Slab::default(),
            in_flight: Rc::default(),
            serial: 0,
        }
    }
}

impl<O: CachedObject> ClientCallbacks<O> {
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn end(&self) -> u32 {
        self.all.end()
    }

    pub(crate) fn clients(&self) -> impl Iterator<Item = (u32, &LaneClient<O>)> {
        self.clients.iter()
    }

    pub(crate) fn client(&self, client: u32) -> &Arc<Client<O>> {
        &self.clients[client].client
    }

    pub(crate) fn get(&self, number: u32) -> Option<&Callback> {
        self.all.get(number)
    }

    /// Returns the callback of this number, if it is still the one that had this serial number.
    pub(crate) fn get_mut(&mut self, number: u32, serial: NonZeroU32) -> Option<&mut Callback> {
        self.all.get_mut(number).filter(|callback| callback.serial == serial)
    }

    pub(crate) fn volume(&mut self, number: u16) -> &mut LaneVolume<O> {
        &mut self.volumes[u32::from(number)]
    }

    /// Returns the number of a volume in this table; `None` when there are too many.
    pub(crate) fn volume_number(&mut self, volume: &Arc<O::Volume>) -> Option<u16> {
        let known = self.volumes.iter().find(|(_, known)| Arc::ptr_eq(&known.volume, volume));
        if let Some((number, _)) = known {
            return u16::try_from(number).ok();
        }
        if self.volumes.len() >= usize::from(u16::MAX) {
            return None;
        }
        let known = LaneVolume { volume: Arc::clone(volume), epoch: 0, objects: 0, pending_breaks: 0 };
        u16::try_from(self.volumes.insert(known)).ok()
    }

    pub(crate) fn known_volume(&self, volume: &Arc<O::Volume>) -> Option<u16> {
        let known = self.volumes.iter().find(|(_, known)| Arc::ptr_eq(&known.volume, volume));
        known.and_then(|(number, _)| u16::try_from(number).ok())
    }

    pub(crate) fn forget_volume(&mut self, number: u16) -> LaneVolume<O> {
        self.volumes.remove(number.into())
    }

    /// Voids all callbacks of a volume.
    pub(crate) fn void_volume(&mut self, number: u16, clients: usize) {
        let known = self.volume(number);
        known.epoch = known.epoch.wrapping_add(1);
        known.pending_breaks += clients;
    }

    pub(crate) fn volumes(&self) -> impl Iterator<Item = &Arc<O::Volume>> {
        self.volumes.iter().map(|(_, known)| &known.volume)
    }

    /// Returns the callback of a client on a tracked object.
    pub(crate) fn find(&self, client: &Arc<Client<O>>, tracked: u32) -> Option<u32> {
        let client = *self.by_holder.get(&client.holder())?;
        let is_it = |&number: &u32| {
            let callback = &self.all[number];
            callback.client == client && callback.tracked == tracked
        };
        self.by_pair.find(hash(client, tracked), is_it).copied()
    }

    /// Adds a callback, ahead of `first`, which is the first of its object.
    pub(crate) fn insert(
        &mut self,
        client: &Arc<Client<O>>,
        tracked: u32,
        volume: u16,
        first: &mut u32,
        until: u32,
    ) -> u32 {
        let known = self.lane_client(client);
        let callback = Callback {
            serial: self.next_serial(),
            client: known,
            tracked,
            until,
            epoch: client.issue_callback(),
            of_object: Links { next: *first, before: NONE },
            of_client: Links { next: NONE, before: NONE },
            volume_epoch: self.volumes[volume.into()].epoch,
            state: CallbackPhase::Fresh,
        };
        let number = self.all.insert(callback);
        if let Some(next) = self.all.get_mut(*first) {
            next.of_object.before = number;
        }
        *first = number;
        self.append(number);
        let all = &self.all;
        self.by_pair.insert_unique(hash(known, tracked), number, |&number| {
            hash(all[number].client, all[number].tracked)
        });
        number
    }

    /// Gives a callback anew that was void or being broken: the client may still rely on the one before.
    pub(crate) fn renew(&mut self, number: u32, volume: u16, until: u32, is_new: bool) {
        let serial = self.next_serial();
        let volume_epoch = self.volumes[volume.into()].epoch;
        let epoch = self.clients[self.all[number].client].client.issue_callback();
        let callback = &mut self.all[number];
        callback.until = callback.until.max(until);
        if is_new {
            (callback.serial, callback.epoch, callback.volume_epoch) = (serial, epoch, volume_epoch);
            callback.state = CallbackPhase::Delivered;
        }
        self.take_out(number);
        self.append(number);
    }

    /// Removes a callback.
    pub(crate) fn remove(&mut self, number: u32, first: &mut u32) {
        self.take_out(number);
        let Callback { client, tracked, of_object, .. } = self.all.remove(number);
        match self.all.get_mut(of_object.before) {
            Some(before) => before.of_object.next = of_object.next,
            None => *first = of_object.next,
        }
        if let Some(next) = self.all.get_mut(of_object.next) {
            next.of_object.before = of_object.before;
        }
        if let Ok(entry) = self.by_pair.find_entry(hash(client, tracked), |&other| other == number) {
            entry.remove();
        }
        self.in_flight.remove(number);
        if self.clients[client].count == 0 {
            let gone = self.clients.remove(client);
            self.by_holder.remove(&gone.client.holder());
        }
    }

    /// Returns the callbacks of an object, of which `first` is the first.
    pub(crate) fn of_object(&self, first: u32) -> impl Iterator<Item = u32> + '_ {
        std::iter::successors(Some(first), |&number| Some(self.all.get(number)?.of_object.next))
            .take_while(|&number| number != NONE)
    }

    /// Returns the callbacks of a client, the oldest first.
    pub(crate) fn of_client(&self, client: u32) -> impl Iterator<Item = u32> + '_ {
        let first = self.clients[client].first;
        std::iter::successors(Some(first), |&number| Some(self.all.get(number)?.of_client.next))
            .take_while(|&number| number != NONE)
    }

    pub(crate) fn state_at(&self, callback: &Callback, volume: u16, now: u32) -> CallbackState {
        let client = self.client(callback.client);
        if callback.epoch != client.epoch() || client.is_retired() {
            CallbackState::VoidForClient
        } else if callback.volume_epoch != self.volumes[volume.into()].epoch {
            CallbackState::VoidForVolume
        } else if callback.until <= now {
            CallbackState::Expired
        } else {
            CallbackState::Valid
        }
    }

    /// Counts a reply that carries this callback as in flight.
    pub(crate) fn in_flight_reply(&self, number: u32) -> InFlightReply {
        self.in_flight.begin(number)
    }

    /// Returns the replies in flight that carry this callback, if there are any.
    pub(crate) fn in_flight(&self, number: u32) -> Option<Rc<InFlightReplies>> {
        self.in_flight.of(number)
    }

    /// Returns the replies in flight that carry a callback on an object that `is_of` selects, by client.
    pub(crate) fn in_flight_by_client(
        &self,
        is_of: impl Fn(u32) -> bool,
    ) -> HashMap<u32, Vec<Rc<InFlightReplies>>> {
        let mut all = HashMap::<u32, Vec<_>>::new();
        for (number, replies) in self.in_flight.all() {
            if let Some(callback) = self.all.get(number).filter(|callback| is_of(callback.tracked)) {
                all.entry(callback.client).or_default().push(replies);
            }
        }
        all
    }

    /// Returns the replies in flight to a client.
    pub(crate) fn in_flight_to(&self, client: &Arc<Client<O>>) -> Vec<Rc<InFlightReplies>> {
        let Some(&known) = self.by_holder.get(&client.holder()) else { return Vec::new() };
        let is_to = |number: u32| self.all.get(number).is_some_and(|callback| callback.client == known);
        let all = self.in_flight.all().into_iter().filter(|&(number, _)| is_to(number));
        all.map(|(_, replies)| replies).collect()
    }

    fn lane_client(&mut self, client: &Arc<Client<O>>) -> u32 {
        if let Some(&known) = self.by_holder.get(&client.holder()) {
            return known;
        }
        let known = LaneClient { client: Arc::clone(client), count: 0, first: NONE, last: NONE };
        let number = self.clients.insert(known);
        self.by_holder.insert(client.holder(), number);
        number
    }

    fn next_serial(&mut self) -> NonZeroU32 {
        self.serial = self.serial.wrapping_add(1).max(1);
        NonZeroU32::new(self.serial).expect("it is at least 1")
    }

    /// Makes it the latest of its client.
    fn append(&mut self, number: u32) {
        let known = &mut self.clients[self.all[number].client];
        known.count += 1;
        let before = std::mem::replace(&mut known.last, number);
        if before == NONE {
            known.first = number;
        }
        self.all[number].of_client = Links { next: NONE, before };
        if let Some(before) = self.all.get_mut(before) {
            before.of_client.next = number;
        }
    }

    fn take_out(&mut self, number: u32) {
        let Callback { client, of_client, .. } = self.all[number];
        let known = &mut self.clients[client];
        known.count -= 1;
        match self.all.get_mut(of_client.before) {
            Some(before) => before.of_client.next = of_client.next,
            None => known.first = of_client.next,
        }
        match self.all.get_mut(of_client.next) {
            Some(next) => next.of_client.before = of_client.before,
            None => known.last = of_client.before,
        }
    }
}

fn hash(client: u32, tracked: u32) -> u64 {
    super::spread(u64::from(client) << 32 | u64::from(tracked))
}
