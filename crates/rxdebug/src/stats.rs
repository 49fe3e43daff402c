//! Process-wide numbers: `struct rx_debugStats` (packets, calls, threads; 56 bytes) and `struct rx_statistics`
//! (every counter; 71 words).

use std::time::Duration;

use super::DebugError;
use super::wire::{Reader, Writer};

/// Answer to the first request of every client; its version tells what else may be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DebugStats {
    /// Packets free in the pool.
    pub free_packets: u32,
    /// Packets allocated. Free packets alone hide a leak; the two numbers together show it.
    pub packets: u32,
    /// Times packets had to be taken back from calls.
    pub packet_reclaims: u32,
    /// Calls executed.
    pub calls_executed: u32,
    /// A call waits for a free packet.
    pub waiting_for_packets: bool,
    /// File descriptors in use, at most 255.
    pub used_fds: u8,
    /// Protocol version, a letter; see [`supports`](Self::supports).
    pub version: u8,
    /// Calls waiting for a handler.
    pub waiting_calls: u32,
    /// Server threads without work.
    pub idle_threads: u32,
    /// Calls that had to wait for a handler, ever.
    pub waited_calls: u32,
}

impl DebugStats {
    /// Decodes an answer.
    pub fn decode(payload: &[u8]) -> Result<Self, DebugError> {
        let mut r = Reader::new(payload, STATS_MIN_LEN)?;
        let (free_packets, packet_reclaims, calls_executed) = (r.u32(), r.u32(), r.u32());
        let waiting_for_packets = r.u8() != 0;
        let (used_fds, version) = (r.u8(), r.u8());
        r.skip(1);
        let (waiting_calls, idle_threads, waited_calls, packets) = (r.u32(), r.u32(), r.u32(), r.u32());
        Ok(Self {
            free_packets,
            packets,
            packet_reclaims,
            calls_executed,
            waiting_for_packets,
            used_fds,
            version,
            waiting_calls,
            idle_threads,
            waited_calls,
        })
    }

    /// Encodes the answer's payload.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut w = Writer::with_capacity(STATS_LEN);
        w.u32(self.free_packets);
        w.u32(self.packet_reclaims);
        w.u32(self.calls_executed);
        w.u8(self.waiting_for_packets.into());
        w.u8(self.used_fds);
        w.u8(self.version);
        w.u8(0);
        w.u32(self.waiting_calls);
        w.u32(self.idle_threads);
        w.u32(self.waited_calls);
        w.u32(self.packets);
        w.zeros(6 * 4);
        w.finish()
    }

    /// Returns whether the server that sent this knows `feature`.
    pub fn supports(&self, feature: DebugFeature) -> bool {
        self.version >= feature as u8
    }
}

impl Default for DebugStats {
    fn default() -> Self {
        Self {
            free_packets: 0,
            packets: 0,
            packet_reclaims: 0,
            calls_executed: 0,
            waiting_for_packets: false,
            used_fds: 0,
            version: LATEST_VERSION,
            waiting_calls: 0,
            idle_threads: 0,
            waited_calls: 0,
        }
    }
}

/// Features that servers learnt over time, each with the version letter that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum DebugFeature {
    /// [`super::DebugConn::security`].
    SecurityStats = b'L',
    /// [`super::DebugRequest::Connection`] and [`super::DebugRequest::RxStats`], with padded connections.
    AlignedConnections = b'M',
    /// [`DebugStats::waiting_calls`].
    WaitingCalls = b'N',
    /// [`DebugStats::idle_threads`].
    IdleThreads = b'O',
    /// [`RxStats::receive_cbuf_alloc_failures`] and its neighbour.
    NewPacketTypes = b'P',
    /// [`super::DebugRequest::Peer`].
    Peers = b'Q',
    /// [`DebugStats::waited_calls`].
    WaitedCalls = b'R',
    /// [`DebugStats::packets`].
    AllocatedPackets = b'S',
}

/// Sum and extremes of measured round trips.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RttTotals {
    /// Sum of all samples.
    pub total: Duration,
    /// Smallest sample.
    pub min: Duration,
    /// Largest sample.
    pub max: Duration,
}

/// Every counter of an Rx process, modulo 2^32. Arrays are indexed by packet type less one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RxStats {
    /// Packet allocations asked for.
    pub packet_requests: u32,
    /// Allocations refused for receiving.
    pub receive_alloc_failures: u32,
    /// Allocations refused for sending.
    pub send_alloc_failures: u32,
    /// Allocations refused for ACKs and the like.
    pub special_alloc_failures: u32,
    /// The socket got the large buffer it asked for.
    pub socket_greedy: u32,
    /// Datagrams too short or malformed.
    pub bogus_packet_on_read: u32,
    /// Address that the last of those came from: the address as a little-endian number, as stock servers send
    /// it.
    pub bogus_host: u32,
    /// Reads that found nothing.
    pub no_packet_on_read: u32,
    /// Data dropped for want of buffers.
    pub no_packet_buffers_on_read: u32,
    /// Waits for a packet or timeout.
    pub selects: u32,
    /// Waits for room to send.
    pub send_selects: u32,
    /// Packets read by type.
    pub packets_read: [u32; PACKET_TYPES],
    /// DATA packets read, each counted once.
    pub data_packets_read: u32,
    /// ACK packets read.
    pub ack_packets_read: u32,
    /// DATA packets read again.
    pub dup_packets_read: u32,
    /// DATA packets outside the window or out of place.
    pub spurious_packets_read: u32,
    /// Packets sent by type.
    pub packets_sent: [u32; PACKET_TYPES],
    /// ACK packets sent.
    pub ack_packets_sent: u32,
    /// PING ACKs sent.
    pub ping_packets_sent: u32,
    /// ABORT packets sent.
    pub abort_packets_sent: u32,
    /// BUSY packets sent.
    pub busy_packets_sent: u32,
    /// DATA packets sent for the first time.
    pub data_packets_sent: u32,
    /// Retransmissions.
    pub data_packets_resent: u32,
    /// Retransmissions made early because of NACKs.
    pub data_packets_pushed: u32,
    /// Transmissions avoided because the packet had been acknowledged meanwhile.
    pub ignore_acked_packet: u32,
    /// Round trips measured.
    pub rtt: RttTotals,
    /// Number of samples.
    pub rtt_samples: u32,
    /// Connections opened by peers.
    pub server_conns: u32,
    /// Connections opened here.
    pub client_conns: u32,
    /// Peers known.
    pub peers: u32,
    /// Calls allocated.
    pub calls: u32,
    /// Calls allocated and not in use.
    pub free_calls: u32,
    /// Sends the socket refused.
    pub net_send_failures: u32,
    /// Errors that ended the process's service.
    pub fatal_errors: u32,
    /// Packets dropped because their call had ended.
    pub ignore_packet_dally: u32,
    /// Continuation buffers refused for receiving.
    pub receive_cbuf_alloc_failures: u32,
    /// Continuation buffers refused for sending.
    pub send_cbuf_alloc_failures: u32,
    /// BUSY packets that ended or delayed calls.
    pub busies: u32,
}

impl RxStats {
    /// Decodes an answer. Counters that an older server does not send are 0.
    pub fn decode(payload: &[u8]) -> Result<Self, DebugError> {
        let mut r = Reader::new(payload, RX_STATS_MIN_LEN)?;
        let mut stats = Self::default();
        stats.each_word(|word| *word = r.u32());
        Ok(stats)
    }

    /// Encodes the answer's payload.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut w = Writer::with_capacity(RX_STATS_LEN);
        self.clone().each_word(|word| w.u32(*word));
        w.zeros(4 * 4);
        w.finish()
    }

    /// Visits the fields in wire order: the one place that knows it, for both directions.
    fn each_word(&mut self, mut visit: impl FnMut(&mut u32)) {
        visit(&mut self.packet_requests);
        visit(&mut self.receive_alloc_failures);
        visit(&mut self.send_alloc_failures);
        visit(&mut self.special_alloc_failures);
        visit(&mut self.socket_greedy);
        visit(&mut self.bogus_packet_on_read);
        visit(&mut self.bogus_host);
        visit(&mut self.no_packet_on_read);
        visit(&mut self.no_packet_buffers_on_read);
        visit(&mut self.selects);
        visit(&mut self.send_selects);
        self.packets_read.iter_mut().for_each(&mut visit);
        visit(&mut self.data_packets_read);
        visit(&mut self.ack_packets_read);
        visit(&mut self.dup_packets_read);
        visit(&mut self.spurious_packets_read);
        self.packets_sent.iter_mut().for_each(&mut visit);
        visit(&mut self.ack_packets_sent);
        visit(&mut self.ping_packets_sent);
        visit(&mut self.abort_packets_sent);
        visit(&mut self.busy_packets_sent);
        visit(&mut self.data_packets_sent);
        visit(&mut self.data_packets_resent);
        visit(&mut self.data_packets_pushed);
        visit(&mut self.ignore_acked_packet);
        visit_time(&mut self.rtt.total, &mut visit);
        visit_time(&mut self.rtt.min, &mut visit);
        visit_time(&mut self.rtt.max, &mut visit);
        visit(&mut self.rtt_samples);
        visit(&mut self.server_conns);
        visit(&mut self.client_conns);
        visit(&mut self.peers);
        visit(&mut self.calls);
        visit(&mut self.free_calls);
        visit(&mut self.net_send_failures);
        visit(&mut self.fatal_errors);
        visit(&mut self.ignore_packet_dally);
        visit(&mut self.receive_cbuf_alloc_failures);
        visit(&mut self.send_cbuf_alloc_failures);
        visit(&mut self.busies);
    }
}

/// Visits a `struct clock`: seconds, microseconds.
fn visit_time(time: &mut Duration, visit: &mut impl FnMut(&mut u32)) {
    let mut seconds = u32::try_from(time.as_secs()).unwrap_or(u32::MAX);
    let mut micros = time.subsec_micros();
    visit(&mut seconds);
    visit(&mut micros);
    *time = Duration::from_secs(seconds.into()) + Duration::from_micros(micros.into());
}

/// Packet types counted apart.
pub const PACKET_TYPES: usize = 13;

/// The version these layouts are of.
const LATEST_VERSION: u8 = b'S';
const STATS_LEN: usize = 56;
/// Length up to and with the version byte and its spare.
const STATS_MIN_LEN: usize = 16;
const RX_STATS_LEN: usize = 71 * 4;
/// Length up to and with `fatalErrors`: what the first servers with this request sent.
const RX_STATS_MIN_LEN: usize = 63 * 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stats_fields_stand_at_the_offsets_of_rx_debugstats() {
        let stats = DebugStats {
            free_packets: 1,
            packets: 8,
            packet_reclaims: 2,
            calls_executed: 3,
            waiting_for_packets: true,
            used_fds: 4,
            version: b'S',
            waiting_calls: 5,
            idle_threads: 6,
            waited_calls: 7,
        };
        let bytes = stats.encode();
        assert_eq!(bytes.len(), 56);
        assert_eq!((bytes[3], bytes[7], bytes[11]), (1, 2, 3));
        assert_eq!(bytes[12..16], [1, 4, b'S', 0]);
        assert_eq!((bytes[19], bytes[23], bytes[27], bytes[31]), (5, 6, 7, 8));
        assert_eq!(DebugStats::decode(&bytes), Ok(stats));
    }

    #[test]
    fn older_version_lacks_what_came_later() {
        let stats = DebugStats { version: b'P', ..DebugStats::default() };
        assert!(stats.supports(DebugFeature::NewPacketTypes));
        assert!(!stats.supports(DebugFeature::Peers));
        assert!(DebugStats::default().supports(DebugFeature::AllocatedPackets));
    }

    #[test]
    fn rx_stats_words_stand_in_the_order_of_rx_statistics() {
        let mut stats = RxStats::default();
        let mut count = 0;
        stats.each_word(|word| {
            *word = count;
            count += 1;
        });
        assert_eq!(count, 67, "71 words less four spares");
        assert_eq!(stats.packets_read[0], 11);
        assert_eq!(stats.data_packets_read, 24);
        assert_eq!(stats.packets_sent[12], 40);
        assert_eq!(stats.data_packets_resent, 46);
        assert_eq!(stats.rtt.min, Duration::new(51, 52_000));
        assert_eq!(stats.rtt_samples, 55);
        assert_eq!(stats.busies, 66);
        let bytes = stats.encode();
        assert_eq!(bytes.len(), 284);
        assert_eq!(bytes[46 * 4..47 * 4], [0, 0, 0, 46]);
        assert_eq!(RxStats::decode(&bytes), Ok(stats));
    }

    #[test]
    fn counters_an_older_server_does_not_send_are_zero() {
        let stats = RxStats { fatal_errors: 4, busies: 9, ..RxStats::default() };
        let old = RxStats::decode(&stats.encode()[..RX_STATS_MIN_LEN]).expect("old layout");
        assert_eq!((old.fatal_errors, old.busies), (4, 0));
    }
}
