//! One peer as DEBUG shows it: `struct rx_debugPeer`, 132 bytes.

use std::net::Ipv4Addr;
use std::time::Duration;

use super::DebugError;
use super::wire::{Reader, Writer};

/// Data of one remote address. Sizes are bytes of packet, counts are packets since it became known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DebugPeer {
    /// Address; the layout has room for IPv4 only, an IPv6 peer shows as 0.0.0.0.
    pub host: Ipv4Addr,
    /// Port.
    pub port: u16,
    /// Largest packet by the local interface.
    pub if_mtu: u16,
    /// Largest packet agreed with the peer, without jumbograms.
    pub nat_mtu: u16,
    /// Largest packet the peer accepts.
    pub max_mtu: u16,
    /// Packet size in use.
    pub mtu: u16,
    /// Time when it became idle, seconds since 1970; 0 while in use.
    pub idle_when: u32,
    /// Connections that refer to it.
    pub references: u16,
    /// Smoothed round-trip time; the wire keeps eighths of a millisecond.
    pub rtt: Duration,
    /// Deviation of the round trip; the wire keeps quarters of a millisecond.
    pub rtt_dev: Duration,
    /// Retransmission timeout.
    pub timeout: Duration,
    /// DATA packets sent, retransmissions included.
    pub packets_sent: u32,
    /// Retransmissions.
    pub resends: u32,
    /// Packets per jumbogram: the peer's limit.
    pub max_dgram_packets: u16,
    /// Packets per jumbogram: what the local interface carries.
    pub if_dgram_packets: u16,
    /// Packets per jumbogram: in use.
    pub dgram_packets: u16,
    /// Congestion window new calls start with, packets.
    pub cwind: u16,
    /// Counts the reductions of that window.
    pub congest_seq: u16,
    /// Bytes sent.
    pub bytes_sent: u64,
    /// Bytes received.
    pub bytes_received: u64,
}

impl DebugPeer {
    /// Decodes an answer; `None` is the end of the list.
    pub fn decode(payload: &[u8]) -> Result<Option<Self>, DebugError> {
        let mut r = Reader::new(payload, MIN_LEN)?;
        let host = r.u32();
        if host == END_HOST {
            return Ok(None);
        }
        let (port, if_mtu, idle_when, references) = (r.u16(), r.u16(), r.u32(), r.u16());
        r.skip(BURST_LEN);
        let rtt = millis_from_fraction(r.u32(), 8);
        let rtt_dev = millis_from_fraction(r.u32(), 4);
        let (seconds, micros) = (r.u32(), r.u32());
        let timeout = Duration::from_secs(seconds.into()) + Duration::from_micros(micros.into());
        let (packets_sent, resends) = (r.u32(), r.u32());
        r.skip(SKEW_LEN);
        Ok(Some(Self {
            host: host.into(),
            port,
            if_mtu,
            idle_when,
            references,
            rtt,
            rtt_dev,
            timeout,
            packets_sent,
            resends,
            nat_mtu: r.u16(),
            max_mtu: r.u16(),
            max_dgram_packets: r.u16(),
            if_dgram_packets: r.u16(),
            mtu: r.u16(),
            cwind: r.u16(),
            dgram_packets: r.u16(),
            congest_seq: r.u16(),
            bytes_sent: r.u64(),
            bytes_received: r.u64(),
        }))
    }

    /// Encodes a list entry; `None` is the end of the list.
    pub(super) fn encode_entry(peer: Option<Self>) -> Vec<u8> {
        let end = peer.is_none();
        let peer = peer.unwrap_or_default();
        let mut w = Writer::with_capacity(LEN);
        w.u32(if end { END_HOST } else { peer.host.into() });
        w.u16(peer.port);
        w.u16(peer.if_mtu);
        w.u32(peer.idle_when);
        w.u16(peer.references);
        w.zeros(BURST_LEN);
        w.u32(millis_to_fraction(peer.rtt, 8));
        w.u32(millis_to_fraction(peer.rtt_dev, 4));
        w.u32(peer.timeout.as_secs().try_into().unwrap_or(u32::MAX));
        w.u32(peer.timeout.subsec_micros());
        w.u32(peer.packets_sent);
        w.u32(peer.resends);
        w.zeros(SKEW_LEN);
        w.u16(peer.nat_mtu);
        w.u16(peer.max_mtu);
        w.u16(peer.max_dgram_packets);
        w.u16(peer.if_dgram_packets);
        w.u16(peer.mtu);
        w.u16(peer.cwind);
        w.u16(peer.dgram_packets);
        w.u16(peer.congest_seq);
        w.u64(peer.bytes_sent);
        w.u64(peer.bytes_received);
        w.zeros(10 * 4);
        w.finish()
    }
}

impl Default for DebugPeer {
    fn default() -> Self {
        Self {
            host: Ipv4Addr::UNSPECIFIED,
            port: 0,
            if_mtu: 0,
            nat_mtu: 0,
            max_mtu: 0,
            mtu: 0,
            idle_when: 0,
            references: 0,
            rtt: Duration::ZERO,
            rtt_dev: Duration::ZERO,
            timeout: Duration::ZERO,
            packets_sent: 0,
            resends: 0,
            max_dgram_packets: 0,
            if_dgram_packets: 0,
            dgram_packets: 0,
            cwind: 0,
            congest_seq: 0,
            bytes_sent: 0,
            bytes_received: 0,
        }
    }
}

fn millis_from_fraction(value: u32, parts: u32) -> Duration {
    Duration::from_millis(value.into()) / parts
}

fn millis_to_fraction(time: Duration, parts: u128) -> u32 {
    u32::try_from(time.as_micros() * parts / 1000).unwrap_or(u32::MAX)
}

const END_HOST: u32 = 0xffff_ffff;
const LEN: usize = 132;
/// Length up to and with `bytesReceived`; the rest is spare.
const MIN_LEN: usize = 92;
/// `burstSize`, `burst`, `burstWait`: no server has filled them for decades.
const BURST_LEN: usize = 10;
/// Packet skew each way and `rateFlag`. Stock servers leave them 0, and stock clients show them unswapped.
const SKEW_LEN: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> DebugPeer {
        DebugPeer {
            host: Ipv4Addr::new(192, 0, 2, 9),
            port: 7001,
            if_mtu: 1444,
            nat_mtu: 1445,
            max_mtu: 1446,
            mtu: 1447,
            idle_when: 1_800_000_000,
            references: 3,
            rtt: Duration::from_micros(10_125),
            rtt_dev: Duration::from_micros(2_250),
            timeout: Duration::from_micros(1_230_004),
            packets_sent: 11,
            resends: 12,
            max_dgram_packets: 15,
            if_dgram_packets: 16,
            dgram_packets: 17,
            cwind: 18,
            congest_seq: 19,
            bytes_sent: 0x1_0000_0002,
            bytes_received: 0x3_0000_0004,
        }
    }

    #[test]
    fn fields_stand_at_the_offsets_of_rx_debugpeer() {
        let bytes = DebugPeer::encode_entry(Some(sample()));
        assert_eq!(bytes.len(), 132);
        assert_eq!(bytes[0..8], [192, 0, 2, 9, 0x1b, 0x59, 0x05, 0xa4], "host, port, ifMTU");
        assert_eq!(bytes[12..14], [0, 3], "refCount");
        assert_eq!(bytes[24..32], [0, 0, 0, 81, 0, 0, 0, 9], "rtt in 1/8 ms, rtt_dev in 1/4 ms");
        assert_eq!(bytes[32..36], [0, 0, 0, 1], "timeout.sec");
        assert_eq!(bytes[40..48], [0, 0, 0, 11, 0, 0, 0, 12], "nSent, reSends");
        assert_eq!(bytes[60..62], [0x05, 0xa5], "natMTU");
        assert_eq!(bytes[70..76], [0, 18, 0, 17, 0, 19], "cwind, nDgramPackets, congestSeq");
        assert_eq!(bytes[76..84], [0, 0, 0, 1, 0, 0, 0, 2], "bytesSent");
    }

    #[test]
    fn peer_survives_the_wire() {
        let bytes = DebugPeer::encode_entry(Some(sample()));
        assert_eq!(DebugPeer::decode(&bytes), Ok(Some(sample())));
        for len in 0..MIN_LEN {
            assert!(DebugPeer::decode(&bytes[..len]).is_err(), "{len}");
        }
    }
}
