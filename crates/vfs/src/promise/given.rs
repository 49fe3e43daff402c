//! Promises that one lane has given to clients: who relies on which object, and until when.
//!
//! A promise that is to be broken stays on the books until its client has heard, or will before it is served again: a second change
//! of the object waits for him like the first.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::rc::Rc;
use std::sync::Arc;

use hashbrown::HashTable;

use super::store::{NONE, Store};
use super::{Arrivals, Client, Holder};
use crate::object::SharedVolume;

/// The promises of a lane to clients.
#[derive(Default)]
pub(super) struct Given {
    all: Store<Promise>,
    /// By client and object, as their numbers.
    by_pair: HashTable<u32>,
    clients: Store<Here>,
    by_holder: HashMap<Holder, u32>,
    volumes: Store<VolumeHere>,
    /// Replies that are on their way with a promise.
    arrivals: HashMap<u32, Rc<Arrivals>>,
    serial: u32,
}

/// One promise to one client.
pub(super) struct Promise {
    /// Another for each promise: numbers are given out again.
    pub(super) serial: NonZeroU32,
    pub(super) client: u32,
    /// Which object, by its number among those that the lane holds.
    pub(super) held: u32,
    /// In seconds of the lane's own.
    pub(super) until: u32,
    /// The client's, when it was given.
    epoch: u32,
    of_object: Links,
    of_client: Links,
    volume_epoch: u16,
    pub(super) state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Its client does not know of it yet.
    Fresh,
    Told,
    /// Its client is being told that it is over.
    Leaving,
}

#[derive(Clone, Copy)]
struct Links {
    next: u32,
    before: u32,
}

/// A client as this lane knows it.
pub(super) struct Here {
    pub(super) client: Arc<Client>,
    pub(super) count: u32,
    /// Its oldest promise, and its latest.
    first: u32,
    last: u32,
}

/// A volume that this lane has promised something of.
pub(super) struct VolumeHere {
    pub(super) volume: Arc<SharedVolume>,
    epoch: u16,
    /// Objects of it on the books.
    pub(super) objects: u32,
    /// Tellings under way that all of it is void.
    pub(super) leaving: usize,
}

/// Where a promise stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Stands,
    /// Void with all that its client was promised in that epoch.
    VoidForClient,
    /// Void with all that was promised of its volume.
    VoidForVolume,
    Over,
}

impl Given {
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn end(&self) -> u32 {
        self.all.end()
    }

    pub(super) fn clients(&self) -> impl Iterator<Item = (u32, &Here)> {
        self.clients.iter()
    }

    pub(super) fn client(&self, client: u32) -> &Arc<Client> {
        &self.clients[client].client
    }

    pub(super) fn get(&self, number: u32) -> Option<&Promise> {
        self.all.get(number)
    }

    /// The promise of this number, if it is still the one that had this serial number.
    pub(super) fn get_mut(&mut self, number: u32, serial: NonZeroU32) -> Option<&mut Promise> {
        self.all.get_mut(number).filter(|promise| promise.serial == serial)
    }

    pub(super) fn volume(&mut self, number: u16) -> &mut VolumeHere {
        &mut self.volumes[u32::from(number)]
    }

    /// The number of a volume here; `None` when there are too many.
    pub(super) fn volume_number(&mut self, volume: &Arc<SharedVolume>) -> Option<u16> {
        let known = self.volumes.iter().find(|(_, here)| Arc::ptr_eq(&here.volume, volume));
        if let Some((number, _)) = known {
            return u16::try_from(number).ok();
        }
        if self.volumes.len() >= usize::from(u16::MAX) {
            return None;
        }
        let here = VolumeHere { volume: Arc::clone(volume), epoch: 0, objects: 0, leaving: 0 };
        u16::try_from(self.volumes.insert(here)).ok()
    }

    pub(super) fn known_volume(&self, volume: &Arc<SharedVolume>) -> Option<u16> {
        let known = self.volumes.iter().find(|(_, here)| Arc::ptr_eq(&here.volume, volume));
        known.and_then(|(number, _)| u16::try_from(number).ok())
    }

    pub(super) fn forget_volume(&mut self, number: u16) -> VolumeHere {
        self.volumes.remove(number.into())
    }

    /// All that was promised of a volume is void.
    pub(super) fn void_volume(&mut self, number: u16, clients: usize) {
        let here = self.volume(number);
        here.epoch = here.epoch.wrapping_add(1);
        here.leaving += clients;
    }

    pub(super) fn volumes(&self) -> impl Iterator<Item = &Arc<SharedVolume>> {
        self.volumes.iter().map(|(_, here)| &here.volume)
    }

    /// The promise to a client of an object held here.
    pub(super) fn find(&self, client: &Arc<Client>, held: u32) -> Option<u32> {
        let client = *self.by_holder.get(&client.holder())?;
        let is_it = |&number: &u32| {
            let promise = &self.all[number];
            promise.client == client && promise.held == held
        };
        self.by_pair.find(hash(client, held), is_it).copied()
    }

    /// Puts a promise on the books. `first` is the first of its object, which it goes before.
    pub(super) fn insert(
        &mut self,
        client: &Arc<Client>,
        held: u32,
        volume: u16,
        first: &mut u32,
        until: u32,
    ) -> u32 {
        let here = self.here(client);
        let promise = Promise {
            serial: self.next_serial(),
            client: here,
            held,
            until,
            epoch: client.promise(),
            of_object: Links { next: *first, before: NONE },
            of_client: Links { next: NONE, before: NONE },
            volume_epoch: self.volumes[volume.into()].epoch,
            state: State::Fresh,
        };
        let number = self.all.insert(promise);
        if let Some(next) = self.all.get_mut(*first) {
            next.of_object.before = number;
        }
        *first = number;
        self.append(number);
        let all = &self.all;
        self.by_pair
            .insert_unique(hash(here, held), number, |&number| hash(all[number].client, all[number].held));
        number
    }

    /// Gives a promise anew that was void or leaving: the client may still rely on the one before.
    pub(super) fn renew(&mut self, number: u32, volume: u16, until: u32, is_anew: bool) {
        let serial = self.next_serial();
        let volume_epoch = self.volumes[volume.into()].epoch;
        let epoch = self.clients[self.all[number].client].client.promise();
        let promise = &mut self.all[number];
        promise.until = promise.until.max(until);
        if is_anew {
            (promise.serial, promise.epoch, promise.volume_epoch) = (serial, epoch, volume_epoch);
            promise.state = State::Told;
        }
        self.take_out(number);
        self.append(number);
    }

    /// Takes a promise off the books.
    pub(super) fn remove(&mut self, number: u32, first: &mut u32) {
        self.take_out(number);
        let Promise { client, held, of_object, .. } = self.all.remove(number);
        match self.all.get_mut(of_object.before) {
            Some(before) => before.of_object.next = of_object.next,
            None => *first = of_object.next,
        }
        if let Some(next) = self.all.get_mut(of_object.next) {
            next.of_object.before = of_object.before;
        }
        if let Ok(entry) = self.by_pair.find_entry(hash(client, held), |&other| other == number) {
            entry.remove();
        }
        self.arrivals.remove(&number);
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

    pub(super) fn standing(&self, promise: &Promise, volume: u16, now: u32) -> Standing {
        let client = self.client(promise.client);
        if promise.epoch != client.epoch() || client.is_retired() {
            Standing::VoidForClient
        } else if promise.volume_epoch != self.volumes[volume.into()].epoch {
            Standing::VoidForVolume
        } else if promise.until <= now {
            Standing::Over
        } else {
            Standing::Stands
        }
    }

    /// One more reply is on its way with this promise.
    pub(super) fn arrivals(&mut self, number: u32) -> &Rc<Arrivals> {
        self.arrivals.entry(number).or_default()
    }

    /// Replies on their way with this promise, if there are any.
    pub(super) fn arriving(&self, number: u32) -> Option<&Rc<Arrivals>> {
        self.arrivals.get(&number).filter(|arrivals| !arrivals.is_over())
    }

    /// By client: replies on their way with a promise of an object that `is_of` says.
    pub(super) fn arriving_by_client(&self, is_of: impl Fn(u32) -> bool) -> HashMap<u32, Vec<Rc<Arrivals>>> {
        let mut all = HashMap::<u32, Vec<_>>::new();
        for (&number, arrivals) in &self.arrivals {
            if let Some(promise) = self.all.get(number).filter(|promise| is_of(promise.held)) {
                all.entry(promise.client).or_default().push(Rc::clone(arrivals));
            }
        }
        all
    }

    /// Replies on their way to a client.
    pub(super) fn arriving_to(&self, client: &Arc<Client>) -> Vec<Rc<Arrivals>> {
        let Some(&here) = self.by_holder.get(&client.holder()) else { return Vec::new() };
        let is_to = |number: &u32| self.all.get(*number).is_some_and(|promise| promise.client == here);
        let all = self.arrivals.iter().filter(|(number, arrivals)| is_to(number) && !arrivals.is_over());
        all.map(|(_, arrivals)| Rc::clone(arrivals)).collect()
    }

    /// They are over.
    pub(super) fn forget_arrivals(&mut self, number: u32, arrivals: &Rc<Arrivals>) {
        // The number may be another promise's by now.
        if self.arrivals.get(&number).is_some_and(|known| Rc::ptr_eq(known, arrivals)) {
            self.arrivals.remove(&number);
        }
    }

    fn here(&mut self, client: &Arc<Client>) -> u32 {
        if let Some(&here) = self.by_holder.get(&client.holder()) {
            return here;
        }
        let here = Here { client: Arc::clone(client), count: 0, first: NONE, last: NONE };
        let number = self.clients.insert(here);
        self.by_holder.insert(client.holder(), number);
        number
    }

    fn next_serial(&mut self) -> NonZeroU32 {
        self.serial = self.serial.wrapping_add(1).max(1);
        NonZeroU32::new(self.serial).expect("it is at least 1")
    }

    /// Makes it the latest of its client.
    fn append(&mut self, number: u32) {
        let here = &mut self.clients[self.all[number].client];
        here.count += 1;
        let before = std::mem::replace(&mut here.last, number);
        if before == NONE {
            here.first = number;
        }
        self.all[number].of_client = Links { next: NONE, before };
        if let Some(before) = self.all.get_mut(before) {
            before.of_client.next = number;
        }
    }

    fn take_out(&mut self, number: u32) {
        let Promise { client, of_client, .. } = self.all[number];
        let here = &mut self.clients[client];
        here.count -= 1;
        match self.all.get_mut(of_client.before) {
            Some(before) => before.of_client.next = of_client.next,
            None => here.first = of_client.next,
        }
        match self.all.get_mut(of_client.next) {
            Some(next) => next.of_client.before = of_client.before,
            None => here.last = of_client.before,
        }
    }
}

fn hash(client: u32, held: u32) -> u64 {
    super::spread(u64::from(client) << 32 | u64::from(held))
}
