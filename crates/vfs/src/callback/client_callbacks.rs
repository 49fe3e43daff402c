//! Callbacks that one lane has given to clients: which client caches which object, and until when.
//!
//! A promise that is to be broken stays on the books until its client has heard, or will before it is served
//! again: a second change of the object waits for the client like the first.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::rc::Rc;
use std::sync::Arc;

use hashbrown::HashTable;

use super::slab::{NONE, Slab};
use super::{Client, Holder, InFlightReplies};
use crate::object::SharedVolume;

/// The callbacks of one lane, by client and object.
#[derive(Default)]
pub(super) struct ClientCallbacks {
    all: Slab<Callback>,
    /// By client and object, as their numbers.
    by_pair: HashTable<u32>,
    clients: Slab<LaneClient>,
    by_holder: HashMap<Holder, u32>,
    volumes: Slab<LaneVolume>,
    /// Replies that are on their way with a promise.
    replies: HashMap<u32, Rc<InFlightReplies>>,
    serial: u32,
}

/// One callback that a client holds on an object.
pub(super) struct Callback {
    /// A number that differs for each callback: numbers are given out again.
    pub(super) serial: NonZeroU32,
    pub(super) client: u32,
    /// The object, by its number among those that the lane holds.
    pub(super) tracked: u32,
    /// In seconds of the lane's own.
    pub(super) until: u32,
    /// The client's, when it was given.
    epoch: u32,
    of_object: Links,
    of_client: Links,
    volume_epoch: u16,
    pub(super) state: CallbackPhase,
}

/// Whether the client knows of a callback, or is being told that it is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallbackPhase {
    /// The callback's client does not know of it yet.
    Fresh,
    Delivered,
    /// The callback's client is being told that it is over.
    PendingBreak,
}

#[derive(Clone, Copy)]
struct Links {
    next: u32,
    before: u32,
}

/// A client as this lane knows it, with the list of its callbacks.
pub(super) struct LaneClient {
    pub(super) client: Arc<Client>,
    pub(super) count: u32,
    /// The client's oldest callback, and its latest.
    first: u32,
    last: u32,
}

/// A volume on whose objects this lane has given callbacks.
pub(super) struct LaneVolume {
    pub(super) volume: Arc<SharedVolume>,
    epoch: u16,
    /// Objects of it on the books.
    pub(super) objects: u32,
    /// Tellings under way that all of it is void.
    pub(super) pending_breaks: usize,
}

/// Whether a callback is valid, and if not, why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallbackState {
    Valid,
    /// Void with all that its client was promised in that epoch.
    VoidForClient,
    /// Void with all that was promised of its volume.
    VoidForVolume,
    Expired,
}

impl ClientCallbacks {
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn end(&self) -> u32 {
        self.all.end()
    }

    pub(super) fn clients(&self) -> impl Iterator<Item = (u32, &LaneClient)> {
        self.clients.iter()
    }

    pub(super) fn client(&self, client: u32) -> &Arc<Client> {
        &self.clients[client].client
    }

    pub(super) fn get(&self, number: u32) -> Option<&Callback> {
        self.all.get(number)
    }

    /// The promise of this number, if it is still the one that had this serial number.
    pub(super) fn get_mut(&mut self, number: u32, serial: NonZeroU32) -> Option<&mut Callback> {
        self.all.get_mut(number).filter(|callback| callback.serial == serial)
    }

    pub(super) fn volume(&mut self, number: u16) -> &mut LaneVolume {
        &mut self.volumes[u32::from(number)]
    }

    /// The number of a volume here; `None` when there are too many.
    pub(super) fn volume_number(&mut self, volume: &Arc<SharedVolume>) -> Option<u16> {
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

    pub(super) fn known_volume(&self, volume: &Arc<SharedVolume>) -> Option<u16> {
        let known = self.volumes.iter().find(|(_, known)| Arc::ptr_eq(&known.volume, volume));
        known.and_then(|(number, _)| u16::try_from(number).ok())
    }

    pub(super) fn forget_volume(&mut self, number: u16) -> LaneVolume {
        self.volumes.remove(number.into())
    }

    /// All that was promised of a volume is void.
    pub(super) fn void_volume(&mut self, number: u16, clients: usize) {
        let known = self.volume(number);
        known.epoch = known.epoch.wrapping_add(1);
        known.pending_breaks += clients;
    }

    pub(super) fn volumes(&self) -> impl Iterator<Item = &Arc<SharedVolume>> {
        self.volumes.iter().map(|(_, known)| &known.volume)
    }

    /// The promise to a client of an object held here.
    pub(super) fn find(&self, client: &Arc<Client>, tracked: u32) -> Option<u32> {
        let client = *self.by_holder.get(&client.holder())?;
        let is_it = |&number: &u32| {
            let callback = &self.all[number];
            callback.client == client && callback.tracked == tracked
        };
        self.by_pair.find(hash(client, tracked), is_it).copied()
    }

    /// Puts a promise on the books. `first` is the first of its object, which it goes before.
    pub(super) fn insert(
        &mut self,
        client: &Arc<Client>,
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

    /// Gives a promise anew that was void or leaving: the client may still rely on the one before.
    pub(super) fn renew(&mut self, number: u32, volume: u16, until: u32, is_new: bool) {
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

    /// Takes a promise off the books.
    pub(super) fn remove(&mut self, number: u32, first: &mut u32) {
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
        self.replies.remove(&number);
        if self.clients[client].count == 0 {
            let gone = self.clients.remove(client);
            self.by_holder.remove(&gone.client.holder());
        }
    }

    /// The promises of an object, of which `first` is the first.
    pub(super) fn of_object(&self, first: u32) -> impl Iterator<Item = u32> + '_ {
        std::iter::successors(Some(first), |&number| Some(self.all.get(number)?.of_object.next))
            .take_while(|&number| number != NONE)
    }

    /// The promises of a client, the oldest first.
    pub(super) fn of_client(&self, client: u32) -> impl Iterator<Item = u32> + '_ {
        let first = self.clients[client].first;
        std::iter::successors(Some(first), |&number| Some(self.all.get(number)?.of_client.next))
            .take_while(|&number| number != NONE)
    }

    pub(super) fn state_at(&self, callback: &Callback, volume: u16, now: u32) -> CallbackState {
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

    /// The replies in flight that carry this callback; none yet where it is new.
    pub(super) fn replies_of(&mut self, number: u32) -> &Rc<InFlightReplies> {
        self.replies.entry(number).or_default()
    }

    /// The replies in flight that carry this callback, if there are any.
    pub(super) fn in_flight(&self, number: u32) -> Option<&Rc<InFlightReplies>> {
        self.replies.get(&number).filter(|replies| !replies.is_empty())
    }

    /// The replies in flight that carry a callback on an object that `is_of` selects, by client.
    pub(super) fn in_flight_by_client(
        &self,
        is_of: impl Fn(u32) -> bool,
    ) -> HashMap<u32, Vec<Rc<InFlightReplies>>> {
        let mut all = HashMap::<u32, Vec<_>>::new();
        for (&number, replies) in &self.replies {
            if let Some(callback) = self.all.get(number).filter(|callback| is_of(callback.tracked)) {
                all.entry(callback.client).or_default().push(Rc::clone(replies));
            }
        }
        all
    }

    /// The replies in flight to a client.
    pub(super) fn in_flight_to(&self, client: &Arc<Client>) -> Vec<Rc<InFlightReplies>> {
        let Some(&known) = self.by_holder.get(&client.holder()) else { return Vec::new() };
        let is_to = |number: &u32| self.all.get(*number).is_some_and(|callback| callback.client == known);
        let all = self.replies.iter().filter(|(number, replies)| is_to(number) && !replies.is_empty());
        all.map(|(_, replies)| Rc::clone(replies)).collect()
    }

    /// Forgets in-flight replies that have ended.
    pub(super) fn forget_in_flight(&mut self, number: u32, replies: &Rc<InFlightReplies>) {
        // The number may be another promise's by now.
        if self.replies.get(&number).is_some_and(|known| Rc::ptr_eq(known, replies)) {
            self.replies.remove(&number);
        }
    }

    fn lane_client(&mut self, client: &Arc<Client>) -> u32 {
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
