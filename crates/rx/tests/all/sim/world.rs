//! The virtual clock and event loop that drives nodes over a network.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::sim::network::{Link, Network, NodeId, Outgoing};
use crate::sim::wiretap::Wiretap;

/// Something with a socket: a protocol endpoint and the application on top of it. It has no clock of its own.
pub(crate) trait Node {
    /// Takes a datagram that has arrived.
    fn receive(&mut self, now: Instant, from: SocketAddr, datagram: &mut [u8]);

    /// Acts at the time that [`deadline`](Self::deadline) named.
    fn expire(&mut self, now: Instant);

    /// Lets the application work, then hands every datagram that is ready to `send`.
    fn transmit(&mut self, now: Instant, send: &mut dyn FnMut(Outgoing<'_>));

    /// Returns the time at which [`expire`](Self::expire) is wanted.
    fn deadline(&self) -> Option<Instant>;
}

/// A change in the network at a set time.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// Limit of the UDP payload in both directions between two nodes, in bytes.
    Mtu(NodeId, NodeId, u16),
    /// Stop of everything between two nodes for a while.
    Partition(NodeId, NodeId, Duration),
    /// Replacement of the path from one node to another.
    Path(NodeId, NodeId, Link),
    /// Change of a node's public address.
    Rebind(NodeId, SocketAddr),
}

/// Nodes with their network and a common time.
pub(crate) struct World<N> {
    pub(crate) nodes: Vec<N>,
    pub(crate) network: Network,
    pub(crate) wiretap: Wiretap,
    start: Instant,
    now: Instant,
    queue: BinaryHeap<Reverse<(Instant, u64, usize)>>,
    events: Vec<Event>,
    unused: Vec<usize>,
    sequence: u64,
    deadlines: Vec<Option<Instant>>,
}

#[derive(Debug)]
enum Event {
    Arrival { node: NodeId, from: SocketAddr, bytes: Vec<u8> },
    Fault(Fault),
}

impl<N: Node> World<N> {
    pub(crate) fn new(nodes: Vec<N>, network: Network, start: Instant) -> Self {
        let deadlines = vec![None; nodes.len()];
        Self {
            nodes,
            network,
            wiretap: Wiretap::default(),
            start,
            now: start,
            queue: BinaryHeap::new(),
            events: Vec::new(),
            unused: Vec::new(),
            sequence: 0,
            deadlines,
        }
    }

    /// Returns the virtual time since the start.
    pub(crate) fn elapsed(&self) -> Duration {
        self.now - self.start
    }

    /// Lets `fault` happen at `at` since the start.
    pub(crate) fn schedule(&mut self, at: Duration, fault: Fault) {
        let when = self.start + at;
        let bytes = Event::Fault(fault);
        let index = self.store(bytes);
        self.enqueue(when, index);
    }

    /// Runs until `done` holds, at most to `limit` since the start. False when time ran out or nothing is left
    /// to happen.
    pub(crate) fn run_until(&mut self, limit: Duration, mut done: impl FnMut(&[N]) -> bool) -> bool {
        for node in 0..self.nodes.len() {
            self.flush(node);
        }
        let limit = self.start + limit;
        let mut dirty = vec![false; self.nodes.len()];
        let mut stalled = 0;
        while !done(&self.nodes) {
            let Some(next) = self.next_time().filter(|&next| next <= limit) else {
                self.now = limit;
                return false;
            };
            stalled = if next <= self.now { stalled + 1 } else { 0 };
            assert!(
                stalled < STALL_LIMIT,
                "time stands still at {:?}: deadlines {:?} after it",
                self.elapsed(),
                self.deadlines.iter().map(|at| at.map(|at| at - self.start)).collect::<Vec<_>>(),
            );
            self.now = self.now.max(next);
            self.deliver(&mut dirty);
            self.expire(&mut dirty);
            for (node, dirty) in dirty.iter_mut().enumerate() {
                if std::mem::take(dirty) {
                    self.flush(node);
                }
            }
        }
        true
    }

    fn next_time(&self) -> Option<Instant> {
        let event = self.queue.peek().map(|Reverse((at, ..))| *at);
        self.deadlines.iter().copied().flatten().chain(event).min()
    }

    fn deliver(&mut self, dirty: &mut [bool]) {
        while let Some(&Reverse((at, _, index))) = self.queue.peek() {
            if at > self.now {
                break;
            }
            self.queue.pop();
            match &mut self.events[index] {
                Event::Arrival { node, from, bytes } => {
                    self.nodes[*node].receive(self.now, *from, bytes);
                    dirty[*node] = true;
                    self.unused.push(index);
                }
                Event::Fault(fault) => {
                    let fault = fault.clone();
                    self.strike(&fault);
                }
            }
        }
    }

    fn strike(&mut self, fault: &Fault) {
        match *fault {
            Fault::Mtu(a, b, mtu) => {
                self.network.link_mut(a, b).mtu = mtu;
                self.network.link_mut(b, a).mtu = mtu;
            }
            Fault::Partition(a, b, duration) => self.network.partition(a, b, self.now + duration),
            Fault::Path(from, to, ref link) => *self.network.link_mut(from, to) = link.clone(),
            Fault::Rebind(node, address) => self.network.rebind(node, address),
        }
    }

    fn expire(&mut self, dirty: &mut [bool]) {
        for (node, deadline) in self.deadlines.iter().enumerate() {
            if deadline.is_some_and(|at| at <= self.now) {
                self.nodes[node].expire(self.now);
                dirty[node] = true;
            }
        }
    }

    fn flush(&mut self, node: NodeId) {
        let Self { nodes, network, wiretap, now, queue, events, unused, sequence, .. } = self;
        nodes[node].transmit(*now, &mut |datagram| {
            let arrivals = network.send(*now, node, &datagram);
            wiretap.observe(datagram.bytes, arrivals[0].is_some());
            for arrival in arrivals.into_iter().flatten() {
                let index = recycle(events, unused, arrival.node, arrival.from, datagram.bytes);
                *sequence += 1;
                queue.push(Reverse((arrival.at, *sequence, index)));
            }
        });
        self.deadlines[node] = self.nodes[node].deadline();
    }

    fn store(&mut self, event: Event) -> usize {
        self.events.push(event);
        self.events.len() - 1
    }

    fn enqueue(&mut self, at: Instant, index: usize) {
        self.sequence += 1;
        self.queue.push(Reverse((at, self.sequence, index)));
    }
}

/// Puts a datagram into the event table, in the buffer of a delivered one where there is one.
fn recycle(
    events: &mut Vec<Event>,
    unused: &mut Vec<usize>,
    to: NodeId,
    source: SocketAddr,
    payload: &[u8],
) -> usize {
    if let Some(index) = unused.pop()
        && let Event::Arrival { node, from, bytes } = &mut events[index]
    {
        (*node, *from) = (to, source);
        bytes.clear();
        bytes.extend_from_slice(payload);
        return index;
    }
    events.push(Event::Arrival { node: to, from: source, bytes: payload.to_vec() });
    events.len() - 1
}

/// Rounds without progress of the clock after which a node's timer is taken never to settle.
const STALL_LIMIT: u32 = 100_000;
