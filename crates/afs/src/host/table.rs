//! The table of hosts, without packets or clocks: which host a client is that was met at an address, and who gives way where there
//! are too many.
//!
//! A host is found by where it calls from and by the identity that it tells. Two clients are never taken for one as long as both
//! answer: who tells an identity that another client answers to, from an address which that one does not count as its own, is
//! a host for itself, so that each is told on its own way.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use budget::{Books, Shares};
use rx::source_of;
use xdr::afs::AfsUuid;

use super::told::{Place, Told};

/// What the table has to know of those who are in it.
pub(crate) trait Resident: Clone {
    /// When it last asked for something, on a clock that rises.
    fn seen(&self) -> u32;

    /// Since when it does not answer when it is called, on the same clock.
    fn silent_since(&self) -> Option<u32>;
}

/// How many hosts there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableLimits {
    pub(crate) hosts_max: usize,
    /// Of one address, or IPv6 network.
    pub(crate) per_source_max: usize,
    /// Of one address, that do not answer.
    pub(crate) silent_per_source_max: usize,
    /// Seconds of silence after which one of these gives way to another of its address.
    pub(crate) silent_s_min: u32,
}

/// Hosts by number, address and identity.
#[derive(Debug)]
pub(crate) struct Table<T> {
    limits: TableLimits,
    hosts: HashMap<u64, Entry<T>>,
    by_address: HashMap<SocketAddr, u64>,
    by_uuid: HashMap<AfsUuid, u64>,
    by_source: HashMap<IpAddr, Vec<u64>>,
    /// Of which addresses and networks there are how many.
    books: Books,
}

#[derive(Debug)]
struct Entry<T> {
    what: T,
    uuid: Option<AfsUuid>,
    /// Where it is called first, then where else it was met.
    places: Vec<Place>,
    interfaces: Vec<IpAddr>,
    source: IpAddr,
}

/// A client that was met at an address where it is not known yet, and what has been found out of it.
#[derive(Clone, Debug)]
pub(crate) struct Meeting {
    place: Place,
    told: Told,
    probed: Option<Probed>,
    was_reset: bool,
}

/// Whether the client of an identity answers where it was called until now.
#[derive(Clone, Copy, Debug)]
struct Probed {
    host: u64,
    at: SocketAddr,
    answers: bool,
}

/// A host that is in the table no more.
#[derive(Clone, Debug)]
pub(crate) struct Left<T> {
    pub(crate) what: T,
    /// Where it can be told so; nowhere if others are there by now.
    pub(crate) places: Vec<Place>,
}

/// What is to be done next about a client that was met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step<T> {
    /// It is this host.
    Known { host: T, how: How },
    /// Look whether the client of this identity answers where it was until now.
    Probe { host: u64, at: Place, uuid: AfsUuid },
    /// Tell it that it relies on nothing of this server.
    Reset,
    /// Make a host of it: [`Table::insert`].
    Make,
    /// Too many hosts of its address do not answer, and have not been silent for long.
    Refused,
}

/// How a client is the host that it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// It was met there before.
    Again,
    /// It can be reached there too.
    Also,
    /// It is there instead of where it was called until now, where it may not have been for a while.
    Moved,
}

impl Meeting {
    pub(crate) fn new(place: Place, told: Told) -> Self {
        Self { place, told, probed: None, was_reset: false }
    }

    /// For [`Step::Probe`].
    pub(crate) fn probed(&mut self, host: u64, at: SocketAddr, answers: bool) {
        self.probed = Some(Probed { host, at, answers });
    }

    /// For [`Step::Reset`].
    pub(crate) fn reset(&mut self) {
        self.was_reset = true;
    }

    pub(crate) fn told(&self) -> &Told {
        &self.told
    }
}

impl<T: Resident> Table<T> {
    pub(crate) fn new(limits: TableLimits) -> Self {
        let (hosts, by_address, by_uuid, by_source) =
            (HashMap::new(), HashMap::new(), HashMap::new(), HashMap::new());
        let books = Books::new(limits.hosts_max, Shares::THRICE);
        Self { limits, hosts, by_address, by_uuid, by_source, books }
    }

    pub(crate) fn len(&self) -> usize {
        self.hosts.len()
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &T> {
        self.hosts.values().map(|entry| &entry.what)
    }

    /// Who calls from there, if it is the same client as when that was found out.
    pub(crate) fn find(&self, address: SocketAddr, epoch: u32) -> Option<&T> {
        let entry = &self.hosts[self.by_address.get(&address)?];
        let is_it = |place: &&Place| place.address == address && place.epoch == epoch;
        entry.places.iter().find(is_it).map(|_| &entry.what)
    }

    /// Where a host is called first, then where else it was met; nothing for one that has left.
    pub(crate) fn places(&self, host: u64) -> &[Place] {
        self.hosts.get(&host).map_or(&[], |entry| &entry.places)
    }

    /// What is to be done next about a client that was met. Hosts whose last address it has are `left` behind.
    pub(crate) fn step(&mut self, meeting: &Meeting, now: u32, left: &mut Vec<Left<T>>) -> Step<T> {
        let place = meeting.place;
        let here = self.by_address.get(&place.address).copied();
        let is_same = here.is_some_and(|here| self.hosts[&here].uuid == meeting.told.uuid);
        let owner = meeting.told.uuid.and_then(|uuid| Some((*self.by_uuid.get(&uuid)?, uuid)));
        match (here, owner) {
            // Without an identity it may be another client that has the address by now.
            (Some(_), _) if is_same && meeting.told.uuid.is_none() && !meeting.was_reset => Step::Reset,
            (Some(host), _) if is_same => self.meet_again(host, meeting),
            (_, Some((host, uuid))) => match meeting.probed.filter(|probed| self.is_of(probed, host)) {
                None => Step::Probe { host, at: self.hosts[&host].places[0], uuid },
                Some(Probed { answers: false, .. }) => self.follow(host, meeting, left),
                Some(_) if self.counts(host, place.address.ip()) => self.add_place(host, place, left),
                Some(_) => self.new_one(meeting, now),
            },
            _ => self.new_one(meeting, now),
        }
    }

    /// Makes a host of a client that was met. Who gives way for it is `left` behind, and hosts whose last address it has.
    pub(crate) fn insert(&mut self, host: u64, what: T, meeting: &Meeting, left: &mut Vec<Left<T>>) {
        let place = meeting.place;
        self.take(place.address, left);
        let source = source_of(place.address.ip());
        if let (silent, Some((_, longest))) = self.silent_of(source)
            && silent >= self.limits.silent_per_source_max
        {
            self.drop_host(longest, left);
        }
        if self.by_source.get(&source).is_some_and(|hosts| hosts.len() >= self.limits.per_source_max) {
            self.thin(&[source], 1, left);
        } else if self.hosts.len() >= self.limits.hosts_max {
            let (books, most) = (&self.books, self.books.heaviest().map_or(0, |(_, weight)| weight));
            let of = self.by_source.keys().copied();
            let sources: Vec<_> = of.filter(|source| books.weight((*source).into()) > most / 2).collect();
            self.thin(&sources, GIVE_WAY_AT_ONCE.min(self.limits.hosts_max / 8 + 1), left);
        }
        let Told { uuid, interfaces } = meeting.told.clone();
        if let Some(uuid) = uuid {
            self.by_uuid.entry(uuid).or_insert(host);
        }
        self.by_address.insert(place.address, host);
        self.join_source(host, source);
        self.hosts.insert(host, Entry { what, uuid, places: vec![place], interfaces, source });
    }

    /// A host answers there: it is called there first from now on.
    pub(crate) fn prefer(&mut self, host: u64, address: SocketAddr) {
        let Some(entry) = self.hosts.get_mut(&host) else { return };
        let Some(at) = entry.places.iter().position(|place| place.address == address) else { return };
        entry.places[..=at].rotate_right(1);
        self.set_source(host);
    }

    /// Takes a host out; false where it is not in.
    pub(crate) fn remove(&mut self, host: u64) -> bool {
        let Some(entry) = self.hosts.remove(&host) else { return false };
        for place in &entry.places {
            self.by_address.remove(&place.address);
        }
        if let Some(uuid) = entry.uuid
            && self.by_uuid.get(&uuid) == Some(&host)
        {
            self.by_uuid.remove(&uuid);
        }
        self.leave_source(host, entry.source);
        true
    }

    /// Takes out those who have asked for nothing since `before`.
    pub(crate) fn remove_idle(&mut self, before: u32, left: &mut Vec<Left<T>>) {
        let idle = self.hosts.iter().filter(|(_, entry)| entry.what.seen() < before);
        let idle: Vec<_> = idle.map(|(&host, _)| host).collect();
        idle.into_iter().for_each(|host| self.drop_host(host, left));
    }

    fn is_of(&self, probed: &Probed, host: u64) -> bool {
        probed.host == host && probed.at == self.hosts[&host].places[0].address
    }

    /// Whether a host counts an address as its own, beside the one where it is called.
    fn counts(&self, host: u64, ip: IpAddr) -> bool {
        let entry = &self.hosts[&host];
        entry.places[0].address.ip() != ip && entry.interfaces.contains(&ip)
    }

    fn new_one(&self, meeting: &Meeting, now: u32) -> Step<T> {
        if !meeting.was_reset {
            return Step::Reset;
        }
        let (silent, longest) = self.silent_of(source_of(meeting.place.address.ip()));
        let gives_way =
            longest.is_some_and(|(since, _)| now.saturating_sub(since) >= self.limits.silent_s_min);
        if silent >= self.limits.silent_per_source_max && !gives_way { Step::Refused } else { Step::Make }
    }

    /// How many hosts of an address do not answer, and which of them for the longest time: since when.
    fn silent_of(&self, source: IpAddr) -> (usize, Option<(u32, u64)>) {
        let hosts = self.by_source.get(&source).into_iter().flatten();
        let silent = hosts.filter_map(|host| Some((self.hosts[host].what.silent_since()?, *host)));
        silent.fold((0, None), |(count, longest), one| {
            (count + 1, Some(longest.map_or(one, |other| one.min(other))))
        })
    }

    /// The client that is known at this address, by connections of another epoch.
    fn meet_again(&mut self, host: u64, meeting: &Meeting) -> Step<T> {
        let entry = self.hosts.get_mut(&host).expect("its address leads to it");
        let place = entry.places.iter_mut().find(|place| place.address == meeting.place.address);
        *place.expect("its address leads to it") = meeting.place;
        entry.interfaces.clone_from(&meeting.told.interfaces);
        Step::Known { host: entry.what.clone(), how: How::Again }
    }

    /// The client is not where it was, but here.
    fn follow(&mut self, host: u64, meeting: &Meeting, left: &mut Vec<Left<T>>) -> Step<T> {
        let place = meeting.place;
        self.take(place.address, left);
        let entry = self.hosts.get_mut(&host).expect("its identity leads to it");
        entry.interfaces.clone_from(&meeting.told.interfaces);
        let before = std::mem::replace(&mut entry.places[0], place);
        self.by_address.remove(&before.address);
        self.by_address.insert(place.address, host);
        let what = entry.what.clone();
        self.set_source(host);
        Step::Known { host: what, how: How::Moved }
    }

    /// The client is where it was, and here too.
    fn add_place(&mut self, host: u64, place: Place, left: &mut Vec<Left<T>>) -> Step<T> {
        self.take(place.address, left);
        let entry = self.hosts.get_mut(&host).expect("its identity leads to it");
        if entry.places.len() == PLACES_MAX {
            let before = entry.places.pop().expect("there are some");
            self.by_address.remove(&before.address);
        }
        entry.places.push(place);
        self.by_address.insert(place.address, host);
        Step::Known { host: entry.what.clone(), how: How::Also }
    }

    /// An address is another client's by now.
    fn take(&mut self, address: SocketAddr, left: &mut Vec<Left<T>>) {
        let Some(host) = self.by_address.get(&address).copied() else { return };
        let entry = self.hosts.get_mut(&host).expect("its address leads to it");
        if entry.places.len() == 1 {
            left.push(Left { what: entry.what.clone(), places: Vec::new() });
            self.remove(host);
            return;
        }
        entry.places.retain(|place| place.address != address);
        self.by_address.remove(&address);
        self.set_source(host);
    }

    /// The hosts of these addresses that were last seen longest ago give way.
    fn thin(&mut self, sources: &[IpAddr], count: usize, left: &mut Vec<Left<T>>) {
        let hosts = sources.iter().filter_map(|source| self.by_source.get(source)).flatten();
        let mut hosts: Vec<_> = hosts.map(|host| (self.hosts[host].what.seen(), *host)).collect();
        let count = count.min(hosts.len());
        if count > 0 && count < hosts.len() {
            hosts.select_nth_unstable(count - 1);
        }
        hosts[..count].iter().for_each(|&(_, host)| self.drop_host(host, left));
    }

    fn drop_host(&mut self, host: u64, left: &mut Vec<Left<T>>) {
        let Entry { what, places, .. } = &self.hosts[&host];
        left.push(Left { what: what.clone(), places: places.clone() });
        self.remove(host);
    }

    /// Its first place may be another by now.
    fn set_source(&mut self, host: u64) {
        let entry = self.hosts.get_mut(&host).expect("the caller has found it");
        let source = source_of(entry.places[0].address.ip());
        let before = std::mem::replace(&mut entry.source, source);
        if before != source {
            self.leave_source(host, before);
            self.join_source(host, source);
        }
    }

    fn join_source(&mut self, host: u64, source: IpAddr) {
        self.by_source.entry(source).or_default().push(host);
        self.books.charge(source.into(), 1);
    }

    fn leave_source(&mut self, host: u64, source: IpAddr) {
        let Some(hosts) = self.by_source.get_mut(&source) else { return };
        self.books.give_back(source.into(), 1);
        hosts.retain(|other| *other != host);
        if hosts.is_empty() {
            self.by_source.remove(&source);
        }
    }

    /// Every way leads to a host that knows of it, and the shares are kept.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let places: usize = self.hosts.values().map(|entry| entry.places.len()).sum();
        assert_eq!(self.by_address.len(), places);
        for (host, entry) in &self.hosts {
            assert!((1..=PLACES_MAX).contains(&entry.places.len()));
            assert!(entry.places.iter().all(|place| self.by_address[&place.address] == *host));
            assert_eq!(entry.source, source_of(entry.places[0].address.ip()));
            assert!(self.by_source[&entry.source].contains(host));
        }
        assert!(self.by_uuid.iter().all(|(uuid, host)| self.hosts[host].uuid == Some(*uuid)));
        let of_sources: usize = self.by_source.values().map(Vec::len).sum();
        assert_eq!(of_sources, self.hosts.len());
        assert_eq!(self.books.held(), self.hosts.len());
        assert!(self.hosts.len() <= self.limits.hosts_max);
    }
}

//@ limit: addresses of a host
//@ section: AFS hosts
//@ unit: address
//@ all: process: {} of a host
//@ empty: the last one is forgotten
//@ counter: none
//@ attack: afs-pools
/// As many addresses as a client can tell (AFS_MAX_INTERFACE_ADDR).
const PLACES_MAX: usize = 32;
/// Looking for who was seen longest ago goes through the table, so this many leave for it.
const GIVE_WAY_AT_ONCE: usize = 64;

#[cfg(test)]
mod tests;
