//! Share of one lane in the answer to a DEBUG question, and the sum of the lanes' shares.

use std::net::SocketAddr;
use std::ops::AddAssign;

use super::{DebugConn, DebugPeer, DebugStats, PACKET_TYPES, RttTotals, RxStats};
use rx::EndpointStats;
use rx::header::PacketType;

/// Question to a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Query {
    /// The lane's counters and table sizes.
    Totals,
    /// The first [`PAGE`] connections from a place in its table on; with a call under way only, if `interesting`.
    Connections { from: u32, interesting: bool },
    /// The first [`PAGE`] peers in the order of addresses, after this one.
    Peers { after: Option<SocketAddr> },
}

/// A lane's answer.
#[derive(Clone, Debug)]
pub(crate) enum Share {
    /// The lane has answered too many already, or could not be asked.
    Refused,
    Totals(Box<Totals>),
    /// `next` is where to go on; `None` at the end of the table.
    Connections {
        entries: Vec<DebugConn>,
        next: Option<u32>,
    },
    /// Peers in the order of addresses; `more` when the lane has others after them.
    Peers {
        entries: Vec<(SocketAddr, DebugPeer)>,
        more: bool,
    },
}

/// Counters and table sizes of one lane, or of several added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) stats: EndpointStats,
    pub(crate) packets: u64,
    pub(crate) packets_free: u64,
    /// Calls that wait for a packet.
    pub(crate) waiting_for_packets: u64,
    pub(crate) sockets: u64,
    pub(crate) server_connections: u64,
    pub(crate) client_connections: u64,
    pub(crate) peers: u64,
    pub(crate) calls: u64,
}

impl Query {
    /// Returns what a lane that has ended would answer.
    pub(crate) fn nothing(self) -> Share {
        match self {
            Self::Totals => Share::Totals(Box::default()),
            Self::Connections { .. } => Share::Connections { entries: Vec::new(), next: None },
            Self::Peers { .. } => Share::Peers { entries: Vec::new(), more: false },
        }
    }
}

impl Totals {
    pub(super) fn debug_stats(&self) -> DebugStats {
        DebugStats {
            free_packets: clip(self.packets_free),
            packets: clip(self.packets),
            packet_reclaims: clip(self.stats.packets_reclaimed),
            calls_executed: clip(self.stats.calls_accepted),
            waiting_for_packets: self.waiting_for_packets > 0,
            used_fds: u8::try_from(self.sockets).unwrap_or(u8::MAX),
            ..DebugStats::default()
        }
    }

    pub(super) fn rx_stats(&self) -> RxStats {
        let stats = &self.stats;
        RxStats {
            packets_read: by_type([
                (PacketType::Data, stats.data_received),
                (PacketType::Ack, stats.acks_received),
                (PacketType::Busy, stats.busies_received),
                (PacketType::Abort, stats.aborts_received),
            ]),
            packets_sent: by_type([
                (PacketType::Data, stats.data_sent),
                (PacketType::Ack, stats.acks_sent),
                (PacketType::Busy, stats.busies_sent),
                (PacketType::Abort, stats.aborts_sent),
                (PacketType::Challenge, stats.challenges_sent),
                (PacketType::Response, stats.responses_sent),
                (PacketType::Debug, stats.debugs_sent),
                (PacketType::Version, stats.versions_sent),
            ]),
            data_packets_read: clip(stats.data_received),
            ack_packets_read: clip(stats.acks_received),
            dup_packets_read: clip(stats.duplicates),
            spurious_packets_read: clip(stats.unknown_calls + stats.old_calls + stats.strays),
            bogus_packet_on_read: clip(stats.bad_headers),
            no_packet_buffers_on_read: clip(stats.no_buffers + stats.over_share),
            receive_alloc_failures: clip(stats.no_buffers + stats.over_share),
            send_alloc_failures: clip(stats.transmit_starved),
            ack_packets_sent: clip(stats.acks_sent),
            ping_packets_sent: clip(stats.pings_sent),
            abort_packets_sent: clip(stats.aborts_sent),
            busy_packets_sent: clip(stats.busies_sent),
            data_packets_sent: clip(stats.data_sent - stats.resends),
            data_packets_resent: clip(stats.resends),
            rtt: RttTotals::default(),
            server_conns: clip(self.server_connections),
            client_conns: clip(self.client_connections),
            peers: clip(self.peers),
            calls: clip(self.calls),
            busies: clip(stats.busies_sent),
            ..RxStats::default()
        }
    }
}

impl AddAssign for Totals {
    fn add_assign(&mut self, other: Self) {
        self.stats += other.stats;
        self.packets += other.packets;
        self.packets_free += other.packets_free;
        self.waiting_for_packets += other.waiting_for_packets;
        self.sockets += other.sockets;
        self.server_connections += other.server_connections;
        self.client_connections += other.client_connections;
        self.peers += other.peers;
        self.calls += other.calls;
    }
}

impl DebugPeer {
    /// Adds what another lane knows of the same address. Counts are summed; round trips and sizes are those of the
    /// lane that has sent more.
    pub(super) fn merge(&mut self, other: Self) {
        let (counts, measures) = if other.packets_sent > self.packets_sent {
            (self.clone(), other)
        } else {
            (other, self.clone())
        };
        *self = Self {
            references: measures.references.saturating_add(counts.references),
            packets_sent: measures.packets_sent.wrapping_add(counts.packets_sent),
            resends: measures.resends.wrapping_add(counts.resends),
            bytes_sent: measures.bytes_sent.wrapping_add(counts.bytes_sent),
            bytes_received: measures.bytes_received.wrapping_add(counts.bytes_received),
            ..measures
        };
    }
}

fn by_type<const N: usize>(counts: [(PacketType, u64); N]) -> [u32; PACKET_TYPES] {
    let mut all = [0; PACKET_TYPES];
    counts.into_iter().for_each(|(kind, count)| all[kind as usize - 1] = clip(count));
    all
}

/// Wraps a count to 32 bits, as Rx counts.
fn clip(count: u64) -> u32 {
    count as u32
}

/// Entries of a table that a lane tells at once.
pub(crate) const PAGE: usize = 64;
