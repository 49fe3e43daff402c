//! The table against clients that move, restart, change addresses with each other, are copied, and die.

use std::cell::Cell;
use std::rc::Rc;

use lane::backend::sim::seeds;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::*;

const LIMITS: TableLimits =
    TableLimits { hosts_max: 24, per_source_max: 6, silent_per_source_max: 3, silent_s_min: 60 };

/// A host as the table sees it.
#[derive(Clone, Debug)]
struct Known {
    number: u64,
    seen: Rc<Cell<u32>>,
    silent_since: Rc<Cell<Option<u32>>>,
}

impl Resident for Known {
    fn seen(&self) -> u32 {
        self.seen.get()
    }

    fn silent_since(&self) -> Option<u32> {
        self.silent_since.get()
    }
}

impl PartialEq for Known {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

/// A client: one that has a cache.
#[derive(Clone, Debug)]
struct Client {
    uuid: Option<AfsUuid>,
    epoch: u32,
    address: SocketAddr,
    /// Addresses of its own beside the one that it calls from.
    others: Vec<IpAddr>,
    answers: bool,
}

struct Scene {
    rng: SmallRng,
    table: HostTable<Known>,
    clients: Vec<Client>,
    /// By client: the host that it was at its last call, unless it began anew since.
    hosts: Vec<Option<u64>>,
    numbers: u64,
    clock: u32,
}

fn ip(n: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, n])
}

impl Scene {
    fn new(seed: u64) -> Self {
        let rng = SmallRng::seed_from_u64(seed);
        let clients = (0..CLIENTS).map(|n| Client {
            uuid: (n % 5 != 0).then(|| AfsUuid([n as u8 + 1; 16])),
            epoch: n as u32,
            address: SocketAddr::new(ip(n as u8 / 3), 7001 + n as u16 % 3),
            others: vec![ip(100 + n as u8)],
            answers: true,
        });
        let clients = clients.collect();
        Self { rng, table: HostTable::new(LIMITS), clients, hosts: vec![None; CLIENTS], numbers: 0, clock: 0 }
    }

    /// Returns an address that no other client has.
    fn free_address(&mut self) -> SocketAddr {
        loop {
            let port = 7001 + self.rng.random_range(0..4);
            let address = SocketAddr::new(ip(self.rng.random_range(0..10)), port);
            if self.clients.iter().all(|client| client.address != address) {
                return address;
            }
        }
    }

    /// The client calls, and what the table wants done is done as the world is now. `None`: it is refused.
    fn call(&mut self, n: usize) -> Option<Known> {
        self.clock += 1;
        let client = self.clients[n].clone();
        if let Some(known) = self.table.find(client.address, client.epoch) {
            known.seen.set(self.clock);
            return Some(known.clone());
        }
        let interfaces = client.others.iter().copied().chain([client.address.ip()]).collect();
        let place = HostAddress { address: client.address, epoch: client.epoch, local: None };
        let mut identification =
            HostIdentification::new(place, HostIdentity { uuid: client.uuid, interfaces });
        let mut was_reset = false;
        for _ in 0..8 {
            let mut left = Vec::new();
            let step = self.table.step(&identification, self.clock, &mut left);
            let step = match step {
                IdentificationStep::Make => {
                    self.numbers += 1;
                    let known = Known {
                        number: self.numbers,
                        seen: Cell::new(self.clock).into(),
                        silent_since: Rc::default(),
                    };
                    assert!(was_reset, "nobody is made a host who may rely on something");
                    self.table.insert(known.number, known.clone(), &identification, &mut left);
                    IdentificationStep::Known { host: known, how: AddressMatch::Same }
                }
                step => step,
            };
            self.table.check();
            assert!(left.iter().all(|left| self.table.places(left.what.number).is_empty()));
            match step {
                IdentificationStep::Known { host, .. } => {
                    host.seen.set(self.clock);
                    return Some(host);
                }
                IdentificationStep::Probe { host, at, uuid } => {
                    let is_it = |other: &Client| other.uuid == Some(uuid) && other.address == at.address;
                    let answers = self.clients.iter().any(|other| other.answers && is_it(other));
                    identification.probed(host, at.address, answers);
                }
                IdentificationStep::Reset => {
                    was_reset = true;
                    identification.reset();
                }
                IdentificationStep::Refused => return None,
                IdentificationStep::Make => unreachable!("made above"),
            }
        }
        panic!("a client that stays where it is becomes a host");
    }

    fn happen(&mut self) {
        let n = self.rng.random_range(0..CLIENTS);
        let other = self.rng.random_range(0..CLIENTS);
        match self.rng.random_range(0..12) {
            0 => self.clients[n].address = self.free_address(),
            1 => {
                // It begins anew, with or without a new identity.
                self.clients[n].epoch = self.rng.random();
                if self.rng.random() && self.clients[n].uuid.is_some() {
                    self.clients[n].uuid = Some(AfsUuid(self.rng.random()));
                    self.hosts[n] = None;
                }
            }
            2 => {
                let (a, b) = (self.clients[n].address, self.clients[other].address);
                (self.clients[n].address, self.clients[other].address) = (b, a);
                // They are other machines, so other connections.
                self.clients[n].epoch = self.rng.random();
                self.clients[other].epoch = self.rng.random();
            }
            3 => {
                // A machine is copied, with its identity.
                self.clients[n].uuid = self.clients[other].uuid;
                self.clients[n].epoch = self.rng.random();
                self.hosts[n] = None;
            }
            4 => self.clients[n].answers ^= true,
            5 => {
                let known: Vec<_> = self.table.all().cloned().collect();
                if let Some(known) = known.choose(&mut self.rng) {
                    known.silent_since.set(self.rng.random::<bool>().then_some(self.clock));
                }
            }
            6 => {
                let mut left = Vec::new();
                self.table.remove_idle(self.clock.saturating_sub(200), &mut left);
            }
            7 => {
                let places = self.hosts[n].map_or(Vec::new(), |host| self.table.places(host).to_vec());
                if let Some(place) = places.choose(&mut self.rng) {
                    self.table.prefer(self.hosts[n].unwrap(), place.address);
                }
            }
            _ => {
                // A calling client can be asked for its identity.
                self.clients[n].answers = true;
                let host = self.call(n);
                self.hosts[n] = host.map(|known| known.number);
                self.judge(n);
            }
        }
        self.table.check();
    }

    /// After a call: the client is found, and it alone is told where it is.
    fn judge(&self, n: usize) {
        let (client, Some(host)) = (&self.clients[n], self.hosts[n]) else { return };
        let found = self.table.find(client.address, client.epoch).expect("it has just been met");
        assert_eq!(found.number, host);
        for (m, other) in self.clients.iter().enumerate() {
            if m == n || !other.answers {
                continue;
            }
            if let Some(others) = self.table.find(other.address, other.epoch) {
                assert_ne!(others.number, host, "{client:?} and {other:?} are two");
            }
        }
    }
}

#[test]
fn two_clients_that_answer_are_two_hosts_and_each_is_found_where_it_is() {
    seeds(300, |seed| {
        let mut scene = Scene::new(seed);
        for _ in 0..400 {
            scene.happen();
        }
    });
}

#[test]
fn a_client_that_comes_from_another_address_stays_the_host_that_it_was() {
    let mut scene = Scene::new(1);
    let host = scene.call(1).unwrap();
    // Another port, as behind a NAT that has forgotten it; then another address.
    for address in ["10.0.0.0:9000", "10.0.9.9:7001"] {
        scene.clients[1].address = address.parse().unwrap();
        assert_eq!(scene.call(1), Some(host.clone()));
        assert_eq!(scene.table.places(host.number).len(), 1, "where it was it is no more");
        assert_eq!(scene.table.places(host.number)[0].address, scene.clients[1].address);
    }
    assert_eq!(scene.table.len(), 1);
}

#[test]
fn a_client_with_two_addresses_is_one_host_and_one_that_only_tells_its_identity_is_another() {
    let mut scene = Scene::new(1);
    let host = scene.call(1).unwrap();
    // It has two networks.
    let second = Client { address: SocketAddr::new(ip(101), 7001), ..scene.clients[1].clone() };
    scene.clients.push(second);
    assert_eq!(scene.call(CLIENTS), Some(host.clone()));
    assert_eq!(scene.table.places(host.number).len(), 2);
    assert_eq!(
        scene.table.places(host.number)[0].address,
        scene.clients[1].address,
        "it is called as before"
    );
    // Two behind one address, and one elsewhere, that all say they are it, while it answers.
    for address in ["10.0.0.0:9000", "10.0.0.0:9001", "10.0.9.9:7001"] {
        let address = address.parse().unwrap();
        scene.clients.push(Client { address, epoch: 77, others: vec![ip(200)], ..scene.clients[1].clone() });
        let other = scene.call(scene.clients.len() - 1).unwrap();
        assert_ne!(other, host);
        assert_eq!(scene.call(scene.clients.len() - 1), Some(other), "and stays it");
    }
    assert_eq!(scene.table.len(), 4);
    scene.table.check();
}

#[test]
fn who_has_an_address_by_now_is_told_there_and_who_had_it_is_not() {
    let mut scene = Scene::new(1);
    let (one, other) = (scene.call(1).unwrap(), scene.call(4).unwrap());
    scene.clients[4].address = scene.clients[1].address;
    scene.clients[1].address = "10.0.9.9:7001".parse().unwrap();
    assert_eq!(scene.call(4), Some(other.clone()));
    assert_eq!(scene.table.len(), 1);
    assert!(scene.table.places(one.number).is_empty(), "nobody can be told there");
    assert_ne!(scene.call(1), Some(one), "so it begins anew");
}

#[test]
fn when_places_are_short_who_has_most_gives_way_and_of_his_the_oldest() {
    let mut scene = Scene::new(1);
    // Six of one address, then as many others as there is room for.
    let mut of_one = Vec::new();
    for n in 0..LIMITS.per_source_max as u16 + 1 {
        let (address, uuid) = (SocketAddr::new(ip(50), 7001 + n), Some(AfsUuid([100 + n as u8; 16])));
        scene.clients.push(Client { address, uuid, ..scene.clients[1].clone() });
        of_one.push(scene.call(scene.clients.len() - 1).unwrap());
        scene.table.check();
    }
    assert_eq!(scene.table.len(), LIMITS.per_source_max);
    assert!(scene.table.places(of_one[0].number).is_empty(), "its own oldest");
    for n in 0..LIMITS.hosts_max as u8 {
        let (address, uuid) = (SocketAddr::new(ip(60 + n), 7001), Some(AfsUuid([200 + n; 16])));
        scene.clients.push(Client { address, uuid, ..scene.clients[1].clone() });
        let known = scene.call(scene.clients.len() - 1).unwrap();
        assert!(!scene.table.places(known.number).is_empty());
        scene.table.check();
        if n < 18 {
            assert_eq!(scene.table.len(), LIMITS.per_source_max + usize::from(n) + 1);
        } else if n == 18 {
            let left = of_one.iter().filter(|known| !scene.table.places(known.number).is_empty());
            assert!(left.count() < LIMITS.per_source_max, "he has most");
            assert_eq!(scene.table.len(), LIMITS.hosts_max - 4 + 1, "an eighth, and one more, leave at once");
        }
    }
}

#[test]
fn when_places_are_short_a_network_of_many_addresses_gives_way_before_an_address_with_some() {
    let mut scene = Scene::new(1);
    scene.clients.truncate(0);
    let mut join = |address: IpAddr, n: u16| {
        scene.clock += 1;
        scene.numbers += 1;
        let place = HostAddress { address: SocketAddr::new(address, 7000 + n), epoch: 1, local: None };
        let told = HostIdentity { uuid: None, interfaces: Vec::new() };
        let (seen, silent_since) = (Cell::new(scene.clock).into(), Rc::default());
        let known = Known { number: scene.numbers, seen, silent_since };
        let mut left = Vec::new();
        scene.table.insert(known.number, known, &HostIdentification::new(place, told), &mut left);
        scene.table.check();
        left.into_iter().flat_map(|left| left.places).map(|place| place.address.ip()).collect::<Vec<_>>()
    };
    for n in 0..4 {
        assert!(join(ip(1), n).is_empty());
    }
    // Each of its addresses has one.
    let of_48 = |n: u16| format!("2001:db8:1:{:x}::1", n << 8).parse::<IpAddr>().unwrap();
    for n in 0..20 {
        assert!(join(of_48(n), n).is_empty());
    }
    let left = join(ip(2), 1);
    assert!(!left.is_empty() && left.iter().all(IpAddr::is_ipv6), "{left:?}");
}

#[test]
fn an_address_of_which_many_do_not_answer_gets_no_more_hosts_until_they_have_been_silent_for_a_while() {
    let mut scene = Scene::new(1);
    for n in 0..4 {
        let (address, uuid) = (SocketAddr::new(ip(50), 7001 + n), Some(AfsUuid([100 + n as u8; 16])));
        scene.clients.push(Client { address, uuid, ..scene.clients[1].clone() });
        let known = scene.call(scene.clients.len() - 1);
        assert_eq!(known.is_some(), n < 3);
        known.into_iter().for_each(|known| known.silent_since.set(Some(scene.clock)));
    }
    let first = scene.table.find(SocketAddr::new(ip(50), 7001), scene.clients[1].epoch).unwrap();
    let (first, since) = (first.clone(), first.silent_since.replace(None));
    assert!(scene.call(scene.clients.len() - 1).is_some(), "one of them answers again");
    assert!(scene.call(1).is_some(), "of others it is no matter");
    // All are silent, four by now: the one that has been so longest gives way, a minute after it was called
    // in vain.
    first.silent_since.set(since);
    for known in scene.table.all().filter(|known| known.number != first.number) {
        known.silent_since.set(Some(scene.clock));
    }
    let (address, uuid) = (SocketAddr::new(ip(50), 7100), Some(AfsUuid([110; 16])));
    scene.clients.push(Client { address, uuid, ..scene.clients[1].clone() });
    scene.clock = since.unwrap() + LIMITS.silent_s_min - 2;
    assert_eq!(scene.call(scene.clients.len() - 1), None);
    let known = scene.call(scene.clients.len() - 1).expect("a minute has passed");
    assert!(scene.table.places(first.number).is_empty(), "it gave way");
    assert!(!scene.table.places(known.number).is_empty());
}

const CLIENTS: usize = 12;
