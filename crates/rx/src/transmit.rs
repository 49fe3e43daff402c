//! A burst of packets for one `sendmsg`: equal sizes, one destination, last packet perhaps shorter.

use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr};

use smallvec::SmallVec;

use crate::packet::{PacketPool, PacketRef};

/// Most packets in one burst (`UDP_MAX_SEGMENTS` of kernels before 6.9).
pub const SEGMENTS_MAX: usize = 64;
/// Most bytes in one burst: a UDP datagram over IPv4.
pub const BURST_BYTES_MAX: usize = 65_507;

/// A run of packets to hand to one `sendmsg` with UDP_SEGMENT.
///
/// The packets stay pinned in the pool, their bytes unchanged, until `Endpoint::transmit_done` takes the
/// transmit back.
#[derive(Debug)]
#[must_use = "a transmit that is not given back keeps its packets in use"]
pub struct Transmit {
    /// Where to send it.
    pub destination: SocketAddr,
    /// Address to send it from: where the peer's packets arrive on a host with several.
    pub src_ip: Option<IpAddr>,
    /// Traffic class of its packets, 0 for none; see [`Endpoint::set_dscp`](crate::Endpoint::set_dscp).
    pub class: u8,
    /// Size of every packet but the last, bytes.
    pub segment_size: usize,
    /// Size of all packets together, bytes.
    pub len: usize,
    /// A path-MTU probe: send with "don't fragment" set, and take EMSGSIZE as its loss. Everything else should
    /// go without, since its size is not proved for every path.
    pub dont_fragment: bool,
    packets: SmallVec<[PacketRef; SEGMENTS_MAX]>,
    closed: bool,
}

impl Transmit {
    /// Packets in the burst.
    pub fn segments(&self) -> usize {
        self.packets.len()
    }

    /// The packets' bytes, in order.
    pub fn slices<'p>(&self, pool: &'p PacketPool) -> SmallVec<[IoSlice<'p>; SEGMENTS_MAX]> {
        self.packets.iter().map(|&packet| IoSlice::new(pool.bytes_of(packet))).collect()
    }

    /// The packets one by one, as datagrams.
    pub fn datagrams<'p>(&'p self, pool: &'p PacketPool) -> impl Iterator<Item = &'p [u8]> {
        self.packets.iter().map(|&packet| pool.bytes_of(packet))
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
            closed: false,
        }
    }

    /// Adds a packet of `len` bytes unless it does not fit the run; then says false.
    pub(crate) fn push(&mut self, packet: PacketRef, len: usize, segments_max: usize) -> bool {
        if self.packets.is_empty() {
            self.segment_size = len;
        } else if self.is_full(segments_max) || len > self.segment_size || self.len + len > BURST_BYTES_MAX {
            return false;
        }
        self.closed = len < self.segment_size;
        self.len += len;
        self.packets.push(packet);
        true
    }

    /// Lets nothing follow the packets in it.
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
