//! Simulated network: directed links between nodes, with all that a datagram can suffer on the way.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::sim::socket_buffer::SocketBuffer;

/// Index of a node in the world.
pub(crate) type NodeId = usize;

/// Datagrams that a node gives the network to carry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing<'a> {
    pub(crate) to: SocketAddr,
    pub(crate) bytes: &'a [u8],
    /// True to drop a datagram that is too large on the way, rather than fragment it.
    pub(crate) dont_fragment: bool,
}

/// Link of one direction between two nodes.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    /// Propagation delay of the link.
    pub(crate) latency: Duration,
    /// Interval at which alone the receiver takes arrivals, as a NIC that gathers interrupts or a busy lane
    /// does.
    pub(crate) gather: Duration,
    /// Rate at which the queue empties, in bits of IP packets per second; `None` for no limit.
    pub(crate) bits_per_second: Option<u64>,
    /// Size of the drop-tail queue before the rate limit, in bytes of IP packets.
    pub(crate) queue_bytes: u64,
    /// Chance that a packet (or each fragment of a datagram) is lost.
    pub(crate) loss: f64,
    /// Chance that a datagram arrives twice, the second time up to `duplicate_delay` later.
    pub(crate) duplicate: f64,
    pub(crate) duplicate_delay: Duration,
    /// Chance that a datagram is held back by up to `reorder_delay`, so that later datagrams overtake.
    pub(crate) reorder: f64,
    pub(crate) reorder_delay: Duration,
    /// Largest UDP payload carried in one packet, in bytes.
    pub(crate) mtu: u16,
}

impl Link {
    /// Returns a link without faults or limits.
    pub(crate) fn clean(latency: Duration) -> Self {
        Self {
            latency,
            gather: Duration::ZERO,
            bits_per_second: None,
            queue_bytes: u64::MAX,
            loss: 0.0,
            duplicate: 0.0,
            duplicate_delay: Duration::ZERO,
            reorder: 0.0,
            reorder_delay: Duration::ZERO,
            mtu: 1472,
        }
    }
}

/// Fates of the datagrams sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fates {
    pub(crate) sent: u64,
    pub(crate) delivered: u64,
    pub(crate) duplicated: u64,
    pub(crate) reordered: u64,
    pub(crate) lost: u64,
    pub(crate) queue_full: u64,
    pub(crate) too_large: u64,
    pub(crate) partitioned: u64,
    pub(crate) no_such_address: u64,
}

/// Arrival of a datagram, as decided at its sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) at: Instant,
    pub(crate) node: NodeId,
    /// Source address that the receiver sees.
    pub(crate) from: SocketAddr,
}

/// All links of a world. The same seed and the same sends give the same arrivals.
#[derive(Debug)]
pub(crate) struct Network {
    rng: SmallRng,
    addresses: Vec<SocketAddr>,
    links: Vec<LinkState>,
    /// Times when the queue before each link, or before all links that share one, is empty.
    queues: Vec<Option<Instant>>,
    /// Time when the first datagram was sent.
    started: Option<Instant>,
    pub(crate) fates: Fates,
}

#[derive(Clone, Debug)]
struct LinkState {
    link: Link,
    /// Index of the link's queue.
    queue: usize,
    /// Buffer of the receiver's socket, in place of the queue.
    socket: Option<SocketBuffer>,
    cut_until: Option<Instant>,
}

impl Network {
    /// Makes a full mesh of `addresses.len()` nodes over copies of `link`.
    pub(crate) fn new(seed: u64, addresses: Vec<SocketAddr>, link: &Link) -> Self {
        let count = addresses.len() * addresses.len();
        Self {
            rng: SmallRng::seed_from_u64(seed),
            addresses,
            links: (0..count)
                .map(|queue| LinkState { link: link.clone(), queue, socket: None, cut_until: None })
                .collect(),
            queues: vec![None; count],
            started: None,
            fates: Fates::default(),
        }
    }

    /// Puts the links that the pairs name behind one queue, which empties at the rate of the links: a
    /// bottleneck.
    pub(crate) fn share_queue(&mut self, pairs: &[(NodeId, NodeId)]) {
        let Some(&(from, to)) = pairs.first() else { return };
        let queue = self.links[self.index(from, to)].queue;
        for &(from, to) in pairs {
            let index = self.index(from, to);
            self.links[index].queue = queue;
        }
    }

    /// Makes a NAT forget a mapping: from now on `node` sends from `address`, and datagrams to the old
    /// address go nowhere.
    pub(crate) fn rebind(&mut self, node: NodeId, address: SocketAddr) {
        self.addresses[node] = address;
    }

    /// Returns the link from `from` to `to`, to be changed in a running network.
    pub(crate) fn link_mut(&mut self, from: NodeId, to: NodeId) -> &mut Link {
        let index = self.index(from, to);
        &mut self.links[index].link
    }

    /// Makes datagrams from `from` to `to` find room in the buffer of a socket, which `to` reads at the
    /// link's rate. The path before it has no queue.
    pub(crate) fn receive_by(&mut self, from: NodeId, to: NodeId, socket: SocketBuffer) {
        let index = self.index(from, to);
        self.links[index].socket = Some(socket);
    }

    /// Stops everything between two nodes, either way, until the given time.
    pub(crate) fn partition(&mut self, a: NodeId, b: NodeId, until: Instant) {
        for (from, to) in [(a, b), (b, a)] {
            let index = self.index(from, to);
            self.links[index].cut_until = Some(until);
        }
    }

    /// Decides the fate of a datagram; returns at most two arrivals.
    pub(crate) fn send(
        &mut self,
        now: Instant,
        from: NodeId,
        datagram: &Outgoing<'_>,
    ) -> [Option<Arrival>; 2] {
        self.fates.sent += 1;
        let Some(to) = self.addresses.iter().position(|&address| address == datagram.to) else {
            self.fates.no_such_address += 1;
            return [None; 2];
        };
        let source = self.addresses[from];
        let index = self.index(from, to);
        let Some(mut at) = self.pass(now, index, datagram) else { return [None; 2] };
        let link = &self.links[index].link;
        if self.rng.random_bool(link.reorder) {
            at += link.reorder_delay.mul_f64(self.rng.random());
            self.fates.reordered += 1;
        }
        let link = &self.links[index].link;
        if !link.gather.is_zero() {
            let since = (at - *self.started.get_or_insert(now)).as_nanos();
            let early = since.next_multiple_of(link.gather.as_nanos()) - since;
            at += Duration::from_nanos(early as u64);
        }
        self.fates.delivered += 1;
        let first = Arrival { at, node: to, from: source };
        let second = self.rng.random_bool(link.duplicate).then(|| {
            self.fates.duplicated += 1;
            let later = link.duplicate_delay.mul_f64(self.rng.random());
            Arrival { at: at + later, ..first }
        });
        [Some(first), second]
    }

    /// Takes a datagram through size limit, partition, queue and loss; returns when it comes out at the other
    /// end.
    fn pass(&mut self, now: Instant, index: usize, datagram: &Outgoing<'_>) -> Option<Instant> {
        let LinkState { link, queue, socket, cut_until } = &mut self.links[index];
        let busy_until = &mut self.queues[*queue];
        let fragments = datagram.bytes.len().div_ceil(usize::from(link.mtu)).max(1);
        if fragments > 1 && datagram.dont_fragment {
            self.fates.too_large += 1;
            return None;
        }
        if cut_until.is_some_and(|until| now < until) {
            self.fates.partitioned += 1;
            return None;
        }
        let wire_bytes = (datagram.bytes.len() + fragments * IP_AND_UDP) as u64;
        let mut leaves = now;
        if let Some(rate) = link.bits_per_second {
            let idle_at = busy_until.map_or(now, |busy| busy.max(now));
            let queued_bytes = (idle_at - now).as_nanos() * u128::from(rate) / 8_000_000_000;
            leaves = idle_at + Duration::from_nanos((wire_bytes * 8).saturating_mul(1_000_000_000) / rate);
            let has_room = match socket {
                Some(socket) => {
                    socket.read_until(now);
                    socket.take(datagram.bytes.len(), fragments, leaves)
                }
                None => queued_bytes as u64 + wire_bytes <= link.queue_bytes,
            };
            if !has_room {
                self.fates.queue_full += 1;
                return None;
            }
            *busy_until = Some(leaves);
        }
        if (0..fragments).any(|_| self.rng.random_bool(link.loss)) {
            self.fates.lost += 1;
            return None;
        }
        Some(leaves + link.latency)
    }

    fn index(&self, from: NodeId, to: NodeId) -> usize {
        from * self.addresses.len() + to
    }
}

/// Bytes of IPv4 and UDP header around each datagram or, near enough, fragment.
pub(crate) const IP_AND_UDP: usize = 28;

fn address(port: u16) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], port))
}

fn outgoing(bytes: &[u8]) -> Outgoing<'_> {
    Outgoing { to: address(2), bytes, dont_fragment: true }
}

fn pair(seed: u64, link: &Link) -> Network {
    Network::new(seed, vec![address(1), address(2)], link)
}

const MS: Duration = Duration::from_millis(1);

#[test]
fn rate_limit_spaces_datagrams_and_a_full_queue_drops() {
    let link = Link { bits_per_second: Some(8_000_000), queue_bytes: 3_000, ..Link::clean(5 * MS) };
    let (mut network, now) = (pair(1, &link), Instant::now());
    let bytes = [0; 1000 - IP_AND_UDP];
    for n in 1..=3 {
        let [arrival, _] = network.send(now, 0, &outgoing(&bytes));
        assert_eq!(arrival.map(|a| a.at - now), Some(n * MS + 5 * MS));
    }
    assert_eq!(network.send(now, 0, &outgoing(&bytes)), [None; 2]);
    assert_eq!(network.fates.queue_full, 1);
    let [arrival, _] = network.send(now + MS, 0, &outgoing(&bytes));
    assert_eq!(arrival.map(|a| a.at - now), Some(4 * MS + 5 * MS), "one has left, one fits again");
}

#[test]
fn links_behind_one_queue_share_its_rate_and_room() {
    let link = Link { bits_per_second: Some(8_000_000), queue_bytes: 3_000, ..Link::clean(5 * MS) };
    let mut network = Network::new(1, vec![address(1), address(2), address(3)], &link);
    network.share_queue(&[(0, 1), (2, 1)]);
    let (bytes, now) = ([0; 1000 - IP_AND_UDP], Instant::now());
    for (n, from) in [(1, 0), (2, 2), (3, 0)] {
        let [arrival, _] = network.send(now, from, &outgoing(&bytes));
        assert_eq!(arrival.map(|a| a.at - now), Some(n * MS + 5 * MS));
    }
    assert_eq!(network.send(now, 2, &outgoing(&bytes)), [None; 2]);
    assert!(network.send(now, 1, &Outgoing { to: address(1), ..outgoing(&bytes) })[0].is_some());
}

#[test]
fn fault_rates_are_what_the_link_says() {
    let reorder_delay = 3 * MS;
    let link = Link { loss: 0.1, duplicate: 0.05, reorder: 0.2, reorder_delay, ..Link::clean(MS) };
    let (mut network, now) = (pair(7, &link), Instant::now());
    for _ in 0..100_000 {
        network.send(now, 0, &outgoing(b"x"));
    }
    let Fates { lost, duplicated, reordered, delivered, .. } = network.fates;
    assert!((9_500..10_500).contains(&lost), "{lost}");
    assert!((17_000..19_000).contains(&reordered), "{reordered}");
    assert!((4_200..4_800).contains(&duplicated), "{duplicated}");
    assert_eq!(delivered + lost, 100_000);
}

#[test]
fn same_seed_gives_the_same_arrivals() {
    let link = Link { loss: 0.3, duplicate: 0.3, reorder: 0.3, reorder_delay: MS, ..Link::clean(MS) };
    let now = Instant::now();
    let arrivals = |seed| -> Vec<_> {
        let mut network = pair(seed, &link);
        (0..100).map(|_| network.send(now, 0, &outgoing(b"x"))).collect()
    };
    assert_eq!(arrivals(3), arrivals(3));
    assert_ne!(arrivals(3), arrivals(4));
}

#[test]
fn oversized_datagram_is_dropped_with_df_and_fragmented_without() {
    let (mut network, now) = (pair(1, &Link { mtu: 1000, ..Link::clean(MS) }), Instant::now());
    let bytes = [0; 1001];
    assert_eq!(network.send(now, 0, &outgoing(&bytes)), [None; 2]);
    assert_eq!(network.fates.too_large, 1);
    let [arrival, _] = network.send(now, 0, &Outgoing { dont_fragment: false, ..outgoing(&bytes) });
    assert!(arrival.is_some());
}

#[test]
fn partition_ends_and_a_rebound_address_replaces_the_old_one() {
    let (mut network, now) = (pair(1, &Link::clean(MS)), Instant::now());
    network.partition(1, 0, now + 10 * MS);
    assert_eq!(network.send(now, 0, &outgoing(b"x")), [None; 2]);
    assert!(network.send(now + 10 * MS, 0, &outgoing(b"x"))[0].is_some());
    network.rebind(1, address(9));
    assert_eq!(network.send(now + 10 * MS, 0, &outgoing(b"x")), [None; 2]);
    let [arrival, _] = network.send(now + 10 * MS, 1, &Outgoing { to: address(1), ..outgoing(b"x") });
    assert_eq!(arrival.map(|a| a.from), Some(address(9)));
}
