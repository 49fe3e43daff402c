//! Messages between the lanes that share an address. Packets that came to the wrong lane (a client on two
//! networks, a burst that the kernel steered by its first packet, a lane that has just come back) go to the
//! lane that owns their connection; so do questions about the whole process and their answers.
//!
//! No lane ever waits for another: a full box drops the packets, which Rx treats as loss in the network.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll};

use lane::mesh::{self, Exchange, Limits, Member, Port, Refused, Sender};
use lane::socket::reuseport::Steering;
use lane::socket::unreachable::Unreachable;

use rx::LaneMap;
use rxdebug::DeskMail;

/// Message from one lane to another.
#[derive(Debug)]
pub(super) enum Mail {
    Packets(Handed),
    Desk(DeskMail),
    /// Report about a packet of a connection that the other lane owns.
    Unreachable(Unreachable),
}

/// Datagrams of one sender, equal in size but for the last, handed to another lane.
#[derive(Debug)]
pub(super) struct Handed {
    pub(super) remote: SocketAddr,
    pub(super) local: Option<IpAddr>,
    pub(super) segment: usize,
    pub(super) bytes: Vec<u8>,
    /// Number of handovers so far.
    pub(super) hops: u8,
}

/// Message that was not delivered.
#[derive(Debug)]
pub(super) enum Undelivered {
    /// The other lane's box is full.
    Full(Mail),
    /// The other lane has ended.
    Gone(Mail),
}

/// Membership of one lane in a [`LaneGroup`]: hands packets to the other lanes and takes those handed over.
#[derive(Debug)]
pub struct LaneGroupLink {
    lane: usize,
    lane_map: Arc<LaneMap>,
    /// Ends of the mesh; `None` without other lanes.
    ends: Option<(Sender<Mail>, Port<Mail>)>,
}

/// Lanes of a server that share an address. Each joins with a driver, leaves as that ends, and may join
/// again. Clones are handles to the same group.
#[derive(Clone, Debug)]
pub struct LaneGroup {
    lane_map: Arc<LaneMap>,
    /// Exchange between the lanes; `None` with a single lane.
    exchange: Option<Exchange<Mail>>,
}

impl LaneGroup {
    /// Makes the group of a listener group's lanes, none of which has joined. `capacity` is that of
    /// [`LaneGroupLink::over`].
    pub fn over(steering: &Steering, capacity: usize) -> Self {
        let silos = steering.silos().iter().map(|silo| silo.lanes.clone()).collect();
        Self::of(LaneMap::new(silos), capacity)
    }

    /// Makes the group of `lanes` lanes of one silo ([`over`](Self::over)).
    pub fn between(lanes: usize, capacity: usize) -> Self {
        Self::of(LaneMap::one_silo(lanes), capacity)
    }

    fn of(lane_map: LaneMap, capacity: usize) -> Self {
        let lanes = lane_map.lanes();
        (0..lanes).for_each(|lane| lane_map.leave(lane));
        let exchange = (lanes > 1).then(|| Exchange::new(lanes, Limits { messages: capacity, calls: 0 }));
        Self { lane_map: Arc::new(lane_map), exchange }
    }

    /// Returns the link of a lane, for its driver; `None` as long as the lane has another.
    ///
    /// # Panics
    /// When there is no such lane.
    pub fn join(&self, lane: usize) -> Option<LaneGroupLink> {
        if !self.lane_map.enter(lane) {
            return None;
        }
        let opened = self.exchange.as_ref().map(|exchange| exchange.open(Member::from(lane))).transpose();
        // Earlier links have left, and their port is about to close.
        let Ok(port) = opened else {
            self.lane_map.leave(lane);
            return None;
        };
        let ends = port.map(|port| (port.sender(), port));
        Some(LaneGroupLink { lane, lane_map: Arc::clone(&self.lane_map), ends })
    }

    /// Returns whether any lane has a link.
    pub fn is_in_use(&self) -> bool {
        self.lane_map.is_anybody_present()
    }
}

impl LaneGroupLink {
    /// Makes the links among all lanes of a listener group, in the order of the lanes. `capacity` bounds what
    /// waits from each lane to each other, in runs of packets.
    ///
    /// Where the group has several silos, a client's connection is owned by a lane of the silo that its packets
    /// reach.
    pub fn over(steering: &Steering, capacity: usize) -> Vec<Self> {
        let silos = steering.silos().iter().map(|silo| silo.lanes.clone()).collect();
        Self::among(LaneMap::new(silos), capacity)
    }

    /// Makes the links for `lanes` lanes of one silo ([`over`](Self::over)).
    pub fn between(lanes: usize, capacity: usize) -> Vec<Self> {
        Self::among(LaneMap::one_silo(lanes), capacity)
    }

    /// Makes the link of a lane that shares its address with no other.
    pub fn alone() -> Self {
        let lane_map = Arc::new(LaneMap::one_silo(1));
        Self { lane: 0, lane_map, ends: None }
    }

    fn among(lane_map: LaneMap, capacity: usize) -> Vec<Self> {
        let lane_group = LaneGroup::of(lane_map, capacity);
        let lanes = 0..lane_group.lane_map.lanes();
        lanes.map(|lane| lane_group.join(lane).expect("each joins once")).collect()
    }

    /// Returns the number of this lane in the group.
    pub fn lane(&self) -> usize {
        self.lane
    }

    /// Returns the number of lanes that share the address.
    pub fn lanes(&self) -> usize {
        self.lane_map.lanes()
    }

    pub(super) fn lane_map(&self) -> &Arc<LaneMap> {
        &self.lane_map
    }

    /// Sends mail to another lane, at once or not at all.
    pub(super) fn send(&mut self, to: usize, mail: Mail) -> Result<(), Undelivered> {
        let Some((sender, _)) = self.ends.as_ref().filter(|_| to != self.lane && to < self.lanes()) else {
            return Err(Undelivered::Gone(mail));
        };
        sender.cast(Member::from(to), mail).map_err(|refused| match refused {
            Refused::Full(mail) if self.lane_map.is_present(to) => Undelivered::Full(mail),
            Refused::Full(mail) | Refused::Gone(mail) => Undelivered::Gone(mail),
        })
    }

    /// Takes at most `max` messages of other lanes; registers the waker when there are none.
    pub(super) fn poll_recv(&mut self, cx: &mut Context<'_>, out: &mut Vec<Mail>, max: usize) -> Poll<()> {
        let Some((_, port)) = &mut self.ends else { return Poll::Pending };
        while out.len() < max
            && let Poll::Ready(Some(taken)) = port.poll_recv(cx)
        {
            if let mesh::Mail::Cast(_, mail) = taken {
                out.push(mail);
            }
        }
        if out.is_empty() { Poll::Pending } else { Poll::Ready(()) }
    }
}

impl Drop for LaneGroupLink {
    fn drop(&mut self) {
        self.lane_map.leave(self.lane);
    }
}
