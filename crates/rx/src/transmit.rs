//! Burst of packets for one `sendmsg`: equal sizes, one destination, last packet perhaps shorter.

use std::borrow::Cow;
use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr};

use smallvec::SmallVec;

use crate::header::HEADER_LEN;
use crate::jumbo::{JUMBO_HEADER, continues};
use crate::packet::{PacketPool, PacketRef};

/// Most packets in one burst (`UDP_MAX_SEGMENTS` of kernels before 6.9).
pub const SEGMENTS_MAX: usize = 64;
/// Most bytes in one burst: a UDP datagram over IPv4.
pub const BURST_BYTES_MAX: usize = 65_507;

/// Run of packets to hand to one `sendmsg` with UDP_SEGMENT.
///
/// The packets stay pinned in the pool, their bytes unchanged, until `Endpoint::transmit_done` takes the
/// transmit back.
#[derive(Debug)]
#[must_use = "a transmit that is not given back keeps its packets in use"]
pub struct Transmit {
    /// Address to send the burst to.
    pub destination: SocketAddr,
    /// Address to send the burst from: where the peer's packets arrive on a host with several.
    pub src_ip: Option<IpAddr>,
    /// Traffic class of the packets, 0 for none; see [`Endpoint::set_dscp`](crate::Endpoint::set_dscp).
    pub class: u8,
    /// Size of every packet but the last, in bytes.
    pub segment_size: usize,
    /// Size of all packets together, in bytes.
    pub len: usize,
    /// Set for a path-MTU probe: sent with "don't fragment" set, and EMSGSIZE is its loss. Everything else
    /// should go without, since its size is not proved for every path.
    pub dont_fragment: bool,
    packets: SmallVec<[PacketRef; SEGMENTS_MAX]>,
    /// Bits by place of the packets that continue the jumbogram of the packet before.
    joined: u64,
    /// Bytes of the last datagram so far if packets may join it, else 0.
    growing: usize,
    closed: bool,
}

impl Transmit {
    /// Returns the number of datagrams in the burst.
    pub fn segments(&self) -> usize {
        self.packets.len() - self.joined.count_ones() as usize
    }

    /// Returns the bytes of the datagrams from place `first` on, in order; a jumbogram is several slices.
    pub fn slices<'p>(&self, pool: &'p PacketPool, first: usize) -> SmallVec<[IoSlice<'p>; SEGMENTS_MAX]> {
        if self.joined == 0 {
            let packets = self.packets.get(first..).unwrap_or_default();
            return packets.iter().map(|&packet| IoSlice::new(pool.bytes_of(packet))).collect();
        }
        let mut starts = (0..self.packets.len()).filter(|place| !self.is_joined(*place));
        let from = starts.nth(first).unwrap_or(self.packets.len());
        (from..self.packets.len()).map(|place| IoSlice::new(self.bytes(place, pool))).collect()
    }

    /// Returns the datagrams one by one.
    pub fn datagrams<'p>(&'p self, pool: &'p PacketPool) -> impl Iterator<Item = Cow<'p, [u8]>> {
        let mut place = 0;
        std::iter::from_fn(move || {
            let mut datagram = Cow::Borrowed(pool.bytes_of(*self.packets.get(place)?));
            place += 1;
            while place < self.packets.len() && self.is_joined(place) {
                datagram.to_mut().extend_from_slice(self.bytes(place, pool));
                place += 1;
            }
            Some(datagram)
        })
    }

    fn is_joined(&self, place: usize) -> bool {
        self.joined >> place & 1 == 1
    }

    fn bytes<'p>(&self, place: usize, pool: &'p PacketPool) -> &'p [u8] {
        let bytes = pool.bytes_of(self.packets[place]);
        if self.is_joined(place) { &bytes[HEADER_LEN - JUMBO_HEADER..] } else { bytes }
    }

    pub(crate) fn new(
        destination: SocketAddr,
        src_ip: Option<IpAddr>,
        class: u8,
        dont_fragment: bool,
    ) -> Self {
        Self {
            destination,
            src_ip,
            class,
            segment_size: 0,
            len: 0,
            dont_fragment,
            packets: SmallVec::new(),
            joined: 0,
            growing: 0,
            closed: false,
        }
    }

    /// Adds a packet of `len` bytes as a datagram to a burst that is not [full](Self::is_full). Returns false
    /// when it does not fit the run. One that `may_grow` may be [continued](Self::join).
    #[inline]
    pub(crate) fn push(&mut self, packet: PacketRef, len: usize, may_grow: bool) -> bool {
        if self.packets.is_empty() {
            self.segment_size = len;
        } else if self.growing != 0 && self.growing < self.segment_size
            || len > self.segment_size
            || self.len + len > BURST_BYTES_MAX
        {
            return false;
        }
        self.closed = len < self.segment_size && !may_grow;
        self.growing = if may_grow { len } else { 0 };
        self.len += len;
        self.packets.push(packet);
        true
    }

    /// Adds a packet to the last datagram of a burst that is not full, which becomes a jumbogram of at most
    /// `parts_max`.
    ///
    /// Returns how many packets that has; `None` if the packet does not continue it, or the datagram would be
    /// longer than the run's others.
    pub(crate) fn join(&mut self, packet: PacketRef, parts_max: u8, pool: &mut PacketPool) -> Option<usize> {
        let (&before, last) = (self.packets.last()?, self.packets.len() - 1);
        if self.growing == 0 {
            return None;
        }
        let first = (0..=last).rev().find(|&place| !self.is_joined(place))?;
        let parts = last - first + 2;
        let more = pool.bytes_of(packet).len() - (HEADER_LEN - JUMBO_HEADER);
        let longer = first > 0 && self.growing + more > self.segment_size;
        if parts > parts_max.into()
            || longer
            || self.len + more > BURST_BYTES_MAX
            || !continues(pool.bytes_of(before), pool.bytes_of(packet))
        {
            return None;
        }
        pool.join(before, self.is_joined(last), packet);
        self.joined |= 1 << self.packets.len();
        self.packets.push(packet);
        self.growing += more;
        self.len += more;
        if first == 0 {
            self.segment_size = self.growing;
        }
        Some(parts)
    }

    /// Closes the burst, so that no packet follows.
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    pub(crate) fn is_full(&self, segments_max: usize) -> bool {
        self.closed || self.packets.len() >= segments_max.min(SEGMENTS_MAX)
    }

    pub(crate) fn into_packets(self) -> impl Iterator<Item = PacketRef> {
        self.packets.into_iter()
    }
}
