//! The table of hosts, without packets or clocks: which host a client is that was met at an address, and
//! which gives way where there are too many.
//!
//! A host is found by where it calls from and by the identity that it tells. Two clients are never taken for one as
//! long as both answer. A client may give an identity that another client answers to, from an address which that one
//! does not count as its own. It is a host for itself then, and each is notified at its own address.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use budget::{Books, Shares};
use rx::source_of;
use xdr::afs::AfsUuid;

use super::host_identity::{HostAddress, HostIdentity};

/// Properties that the table has to know of its hosts.
pub(crate) trait Resident: Clone {
    /// Returns when it last asked for something, on a clock that rises.
    fn seen(&self) -> u32;

    /// Returns since when it does not answer when it is called, on the same clock.
    fn silent_since(&self) -> Option<u32>;
}

/// Number of hosts that there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableLimits {
    pub(crate) hosts_max: usize,
    /// Hosts of one address, or IPv6 network.
    pub(crate) per_source_max: usize,
    /// Hosts of one address that do not answer.
    pub(crate) silent_per_source_max: usize,
    /// Seconds of silence after which one of these gives way to another of its address.
    pub(crate) silent_s_min: u32,
}

/// Hosts by number, address and identity.
#[derive(Debug)]
pub(crate) struct HostTable<T> {
    limits: TableLimits,
    hosts: HashMap<u64, HostEntry<T>>,
    by_address: HashMap<SocketAddr, u64>,
    by_uuid: HashMap<AfsUuid, u64>,
    by_source: HashMap<IpAddr, Vec<u64>>,
    /// Number of hosts of each address and network.
    books: Books,
}

#[derive(Debug)]
struct HostEntry<T> {
    what: T,
    uuid: Option<AfsUuid>,
    /// Address where it is called first, then the others where it was met.
    places: Vec<HostAddress>,
    interfaces: Vec<IpAddr>,
    source: IpAddr,
}

/// The identification of a client at an address where it is not known yet, as far as it has come.
#[derive(Clone, Debug)]
pub(crate) struct HostIdentification {
    place: HostAddress,
    identity: HostIdentity,
    probed: Option<Probed>,
    was_reset: bool,
}

/// Result of a probe: the client of an identity answers where it was called until now, or does not.
#[derive(Clone, Copy, Debug)]
struct Probed {
    host: u64,
    at: SocketAddr,
    answers: bool,
}

/// A host that was removed from the table, and its addresses.
#[derive(Clone, Debug)]
pub(crate) struct RemovedHost<T> {
    pub(crate) what: T,
    /// Addresses where it can be notified of that; none if others are there by now.
    pub(crate) places: Vec<HostAddress>,
}

/// Next step for a client that was met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum IdentificationStep<T> {
    /// The client is this host.
    Known { host: T, how: AddressMatch },
    /// The client of this identity may answer where it was until now: it must be probed.
    Probe { host: u64, at: HostAddress, uuid: AfsUuid },
    /// The client must be notified that it has no callbacks from this server.
    Reset,
    /// The client is to become a host: [`HostTable::insert`].
    Make,
    /// The client is refused: too many hosts of its address do not answer, and have not been silent for long.
    Refused,
}

/// Match of a client's address with those of its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddressMatch {
    /// The host was met there before.
    Same,
    /// The host can be reached there too.
    Additional,
    /// The host is there instead of where it was called until now, where it may not have been for a while.
    Moved,
}

impl HostIdentification {
    pub(crate) fn new(place: HostAddress, identity: HostIdentity) -> Self {
        Self { place, identity, probed: None, was_reset: false }
    }

    /// Takes the result of [`IdentificationStep::Probe`].
    pub(crate) fn probed(&mut self, host: u64, at: SocketAddr, answers: bool) {
        self.probed = Some(Probed { host, at, answers });
    }

    /// Notes that [`IdentificationStep::Reset`] is done.
    pub(crate) fn reset(&mut self) {
        self.was_reset = true;
    }

    pub(crate) fn identity(&self) -> &HostIdentity {
        &self.identity
    }
}

impl<T: Resident> HostTable<T> {
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

    /// Returns the host that calls from there, if it is the same client as when that was found out.
    pub(crate) fn find(&self, address: SocketAddr, epoch: u32) -> Option<&T> {
        let entry = &self.hosts[self.by_address.get(&address)?];
        let is_it = |place: &&HostAddress| place.address == address && place.epoch == epoch;
        entry.places.iter().find(is_it).map(|_| &entry.what)
    }

    /// Returns the address where a host is called first, then the others where it was met; nothing for one
    /// that has left.
    pub(crate) fn places(&self, host: u64) -> &[HostAddress] {
        self.hosts.get(&host).map_or(&[], |entry| &entry.places)
    }

    /// Returns what is to be done next about a client that was met. Hosts whose last address it has are
    /// `removed` behind.
    pub(crate) fn step(
        &mut self,
        identification: &HostIdentification,
        now: u32,
        removed: &mut Vec<RemovedHost<T>>,
    ) -> IdentificationStep<T> {
        let place = identification.place;
        let here = self.by_address.get(&place.address).copied();
        let is_same = here.is_some_and(|here| self.hosts[&here].uuid == identification.identity.uuid);
        let owner = identification.identity.uuid.and_then(|uuid| Some((*self.by_uuid.get(&uuid)?, uuid)));
        match (here, owner) {
            // Without an identity it may be another client that has the address by now.
            (Some(_), _)
                if is_same && identification.identity.uuid.is_none() && !identification.was_reset =>
            {
                IdentificationStep::Reset
            }
            (Some(host), _) if is_same => self.identify_again(host, identification),
            (_, Some((host, uuid))) => {
                match identification.probed.filter(|probed| self.is_of(probed, host)) {
                    None => IdentificationStep::Probe { host, at: self.hosts[&host].places[0], uuid },
                    Some(Probed { answers: false, .. }) => self.follow(host, identification, removed),
                    Some(_) if self.counts(host, place.address.ip()) => self.add_place(host, place, removed),
                    Some(_) => self.new_one(identification, now),
                }
            }
            _ => self.new_one(identification, now),
        }
    }

    /// Makes a host of a client that was met. A host that gives way for it is `removed` afterwards, and hosts
    /// whose last address it has.
    pub(crate) fn insert(
        &mut self,
        host: u64,
        what: T,
        identification: &HostIdentification,
        removed: &mut Vec<RemovedHost<T>>,
    ) {
        let place = identification.place;
        self.take(place.address, removed);
        let source = source_of(place.address.ip());
        if let (silent, Some((_, longest))) = self.silent_of(source)
            && silent >= self.limits.silent_per_source_max
        {
            self.drop_host(longest, removed);
        }
        if self.by_source.get(&source).is_some_and(|hosts| hosts.len() >= self.limits.per_source_max) {
            self.thin(&[source], 1, removed);
        } else if self.hosts.len() >= self.limits.hosts_max {
            let (books, most) = (&self.books, self.books.heaviest().map_or(0, |(_, weight)| weight));
            let of = self.by_source.keys().copied();
            let sources: Vec<_> = of.filter(|source| books.weight((*source).into()) > most / 2).collect();
            self.thin(&sources, GIVE_WAY_AT_ONCE.min(self.limits.hosts_max / 8 + 1), removed);
        }
        let HostIdentity { uuid, interfaces } = identification.identity.clone();
        if let Some(uuid) = uuid {
            self.by_uuid.entry(uuid).or_insert(host);
        }
        self.by_address.insert(place.address, host);
        self.join_source(host, source);
        self.hosts.insert(host, HostEntry { what, uuid, places: vec![place], interfaces, source });
    }

    /// Has a host called first at an address where it answers.
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

    /// Takes out those that have asked for nothing since `before`.
    pub(crate) fn remove_idle(&mut self, before: u32, removed: &mut Vec<RemovedHost<T>>) {
        let idle = self.hosts.iter().filter(|(_, entry)| entry.what.seen() < before);
        let idle: Vec<_> = idle.map(|(&host, _)| host).collect();
        idle.into_iter().for_each(|host| self.drop_host(host, removed));
    }

    fn is_of(&self, probed: &Probed, host: u64) -> bool {
        probed.host == host && probed.at == self.hosts[&host].places[0].address
    }

    /// Returns whether a host counts an address as its own, beside the one where it is called.
    fn counts(&self, host: u64, ip: IpAddr) -> bool {
        let entry = &self.hosts[&host];
        entry.places[0].address.ip() != ip && entry.interfaces.contains(&ip)
    }

    fn new_one(&self, identification: &HostIdentification, now: u32) -> IdentificationStep<T> {
        if !identification.was_reset {
            return IdentificationStep::Reset;
        }
        let (silent, longest) = self.silent_of(source_of(identification.place.address.ip()));
        let gives_way =
            longest.is_some_and(|(since, _)| now.saturating_sub(since) >= self.limits.silent_s_min);
        if silent >= self.limits.silent_per_source_max && !gives_way {
            IdentificationStep::Refused
        } else {
            IdentificationStep::Make
        }
    }

    /// Returns how many hosts of an address do not answer, and which of them for the longest time: since
    /// when.
    fn silent_of(&self, source: IpAddr) -> (usize, Option<(u32, u64)>) {
        let hosts = self.by_source.get(&source).into_iter().flatten();
        let silent = hosts.filter_map(|host| Some((self.hosts[host].what.silent_since()?, *host)));
        silent.fold((0, None), |(count, longest), one| {
            (count + 1, Some(longest.map_or(one, |other| one.min(other))))
        })
    }

    /// Identifies a client that is known at this address, by connections of another epoch.
    fn identify_again(&mut self, host: u64, identification: &HostIdentification) -> IdentificationStep<T> {
        let entry = self.hosts.get_mut(&host).expect("its address leads to it");
        let place = entry.places.iter_mut().find(|place| place.address == identification.place.address);
        *place.expect("its address leads to it") = identification.place;
        entry.interfaces.clone_from(&identification.identity.interfaces);
        IdentificationStep::Known { host: entry.what.clone(), how: AddressMatch::Same }
    }

    /// Moves a host whose client is not where it was, but here.
    fn follow(
        &mut self,
        host: u64,
        identification: &HostIdentification,
        removed: &mut Vec<RemovedHost<T>>,
    ) -> IdentificationStep<T> {
        let place = identification.place;
        self.take(place.address, removed);
        let entry = self.hosts.get_mut(&host).expect("its identity leads to it");
        entry.interfaces.clone_from(&identification.identity.interfaces);
        let before = std::mem::replace(&mut entry.places[0], place);
        self.by_address.remove(&before.address);
        self.by_address.insert(place.address, host);
        let what = entry.what.clone();
        self.set_source(host);
        IdentificationStep::Known { host: what, how: AddressMatch::Moved }
    }

    /// Adds an address to a host whose client is where it was, and here too.
    fn add_place(
        &mut self,
        host: u64,
        place: HostAddress,
        removed: &mut Vec<RemovedHost<T>>,
    ) -> IdentificationStep<T> {
        self.take(place.address, removed);
        let entry = self.hosts.get_mut(&host).expect("its identity leads to it");
        if entry.places.len() == PLACES_MAX {
            let before = entry.places.pop().expect("there are some");
            self.by_address.remove(&before.address);
        }
        entry.places.push(place);
        self.by_address.insert(place.address, host);
        IdentificationStep::Known { host: entry.what.clone(), how: AddressMatch::Additional }
    }

    /// Takes an address from its host, as it is another client's by now.
    fn take(&mut self, address: SocketAddr, removed: &mut Vec<RemovedHost<T>>) {
        let Some(host) = self.by_address.get(&address).copied() else { return };
        let entry = self.hosts.get_mut(&host).expect("its address leads to it");
        if entry.places.len() == 1 {
            removed.push(RemovedHost { what: entry.what.clone(), places: Vec::new() });
            self.remove(host);
            return;
        }
        entry.places.retain(|place| place.address != address);
        self.by_address.remove(&address);
        self.set_source(host);
    }

    /// Removes the hosts of these addresses that were last seen longest ago.
    fn thin(&mut self, sources: &[IpAddr], count: usize, removed: &mut Vec<RemovedHost<T>>) {
        let hosts = sources.iter().filter_map(|source| self.by_source.get(source)).flatten();
        let mut hosts: Vec<_> = hosts.map(|host| (self.hosts[host].what.seen(), *host)).collect();
        let count = count.min(hosts.len());
        if count > 0 && count < hosts.len() {
            hosts.select_nth_unstable(count - 1);
        }
        hosts[..count].iter().for_each(|&(_, host)| self.drop_host(host, removed));
    }

    fn drop_host(&mut self, host: u64, removed: &mut Vec<RemovedHost<T>>) {
        let HostEntry { what, places, .. } = &self.hosts[&host];
        removed.push(RemovedHost { what: what.clone(), places: places.clone() });
        self.remove(host);
    }

    /// Sets the host's first place, which may be another by now.
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

    /// Asserts that each address and identity leads to a host that has it, and that the shares are kept.
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
/// Most addresses of a host: as many as a client can list (AFS_MAX_INTERFACE_ADDR).
const PLACES_MAX: usize = 32;
/// Looking for the host that was seen longest ago goes through the table, so this many leave for it.
const GIVE_WAY_AT_ONCE: usize = 64;

#[cfg(test)]
mod tests;
