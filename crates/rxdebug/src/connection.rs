//! One connection as DEBUG shows it: `struct rx_debugConn`, 176 bytes.

use std::net::Ipv4Addr;

use super::DebugError;
use super::stats::{DebugFeature, DebugStats};
use super::wire::{Reader, Writer};
use rx::header::CHANNELS;
use rx::security::{SecurityKind, SecurityStats};

/// A connection and its four call channels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DebugConn {
    /// Peer address; the layout has room for IPv4 only, an IPv6 peer shows as 0.0.0.0.
    pub host: Ipv4Addr,
    /// Peer port.
    pub port: u16,
    /// Connection epoch.
    pub epoch: u32,
    /// Connection id, channel bits clear. Never `0xffff_ffff`, which marks the end of the list.
    pub cid: u32,
    /// Last serial sent.
    pub serial: u32,
    /// Abort code of the connection, 0 while it is well.
    pub error: i32,
    /// Bits of [`conn_flags`].
    pub flags: u8,
    /// Side that opened it.
    pub kind: ConnectionKind,
    /// Security class number.
    pub security_index: u8,
    /// Call channels.
    pub calls: [DebugCall; CHANNELS],
    /// Statistics of the security class; `None` if it keeps no counts.
    pub security: Option<SecurityStats>,
    /// Path MTU in use for the peer, bytes of packet.
    pub nat_mtu: u32,
}

impl DebugConn {
    /// Decodes an answer; `None` is the end of the list. `stats` tells the server's protocol version, on which
    /// the layout depends.
    pub fn decode(payload: &[u8], stats: &DebugStats) -> Result<Option<Self>, DebugError> {
        let mut r = Reader::new(payload, OLD_LEN)?;
        let host = Ipv4Addr::from(r.array());
        let cid = r.u32();
        if cid == END_CID {
            return Ok(None);
        }
        let serial = r.u32();
        let numbers: [u32; CHANNELS] = std::array::from_fn(|_| r.u32());
        let error = r.i32();
        let port = r.u16();
        let flags = r.u8();
        let kind = if r.u8() == 0 { ConnectionKind::Client } else { ConnectionKind::Server };
        let security_index = r.u8();
        if stats.supports(DebugFeature::AlignedConnections) {
            r.skip(3);
        }
        let [state, mode, call_flags, other]: [[u8; CHANNELS]; 4] = std::array::from_fn(|_| r.array());
        let calls = std::array::from_fn(|i| DebugCall {
            number: numbers[i],
            state: CallState::from_wire(state[i]),
            mode: CallMode::from_wire(mode[i]),
            flags: call_flags[i],
            has_input: other[i] & OTHER_IN != 0,
            has_output: other[i] & OTHER_OUT != 0,
        });
        let security = read_security(&mut r);
        let (epoch, nat_mtu) = (r.u32(), r.u32());
        Ok(Some(Self {
            host,
            port,
            epoch,
            cid,
            serial,
            error,
            flags,
            kind,
            security_index,
            calls,
            security,
            nat_mtu,
        }))
    }

    /// Returns the connection without what a stranger could use against the connection.
    pub(super) fn without_ids(self) -> Self {
        Self { epoch: 0, cid: 0, serial: 0, ..self }
    }

    /// Encodes a list entry; `None` is the end of the list.
    pub(super) fn encode_entry(conn: Option<Self>) -> Vec<u8> {
        let end = conn.is_none();
        let conn = conn.unwrap_or_default();
        let mut w = Writer::with_capacity(LEN);
        w.bytes(&conn.host.octets());
        w.u32(if end { END_CID } else { conn.cid });
        w.u32(conn.serial);
        conn.calls.iter().for_each(|call| w.u32(call.number));
        w.i32(conn.error);
        w.u16(conn.port);
        w.u8(conn.flags);
        w.u8(conn.kind as u8);
        w.u8(conn.security_index);
        w.zeros(3);
        conn.calls.iter().for_each(|call| w.u8(call.state.to_wire()));
        conn.calls.iter().for_each(|call| w.u8(call.mode.to_wire()));
        conn.calls.iter().for_each(|call| w.u8(call.flags));
        for call in &conn.calls {
            w.u8(if call.has_input { OTHER_IN } else { 0 } | if call.has_output { OTHER_OUT } else { 0 });
        }
        write_security(conn.security.as_ref(), &mut w);
        w.u32(conn.epoch);
        w.u32(conn.nat_mtu);
        w.zeros(9 * 4);
        w.finish()
    }
}

impl Default for DebugConn {
    fn default() -> Self {
        Self {
            host: Ipv4Addr::UNSPECIFIED,
            port: 0,
            epoch: 0,
            cid: 0,
            serial: 0,
            error: 0,
            flags: 0,
            kind: ConnectionKind::Server,
            security_index: 0,
            calls: Default::default(),
            security: None,
            nat_mtu: 0,
        }
    }
}

/// Side that opened a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ConnectionKind {
    /// The answering process.
    Client = 0,
    /// The peer is a server.
    Server = 1,
}

/// One call channel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DebugCall {
    /// Number of the current or last call; 0 before the first.
    pub number: u32,
    /// State of the call.
    pub state: CallState,
    /// Mode in which the application uses it.
    pub mode: CallMode,
    /// Bits of [`call_flags`].
    pub flags: u8,
    /// Received packets wait for the application.
    pub has_input: bool,
    /// Sent packets wait for their ACK, or for the window.
    pub has_output: bool,
}

/// Call states (`RX_STATE_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallState {
    /// The channel has never been used.
    #[default]
    NotInit,
    /// Server only: packets have arrived, no handler serves them yet.
    Precall,
    /// The call is under way.
    Active,
    /// The call is done; it is kept to answer retransmissions.
    Dally,
    /// The call is done; reply packets wait for their ACK.
    Hold,
    /// The call is being torn down.
    Reset,
    /// A value of a newer server.
    Unknown(u8),
}

impl CallState {
    fn from_wire(value: u8) -> Self {
        match value {
            0 => Self::NotInit,
            1 => Self::Precall,
            2 => Self::Active,
            3 => Self::Dally,
            4 => Self::Hold,
            5 => Self::Reset,
            other => Self::Unknown(other),
        }
    }

    fn to_wire(self) -> u8 {
        match self {
            Self::NotInit => 0,
            Self::Precall => 1,
            Self::Active => 2,
            Self::Dally => 3,
            Self::Hold => 4,
            Self::Reset => 5,
            Self::Unknown(value) => value,
        }
    }
}

/// Call modes (`RX_MODE_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallMode {
    /// Sending or ready to.
    Sending,
    /// Receiving or ready to.
    Receiving,
    /// The call failed.
    Error,
    /// All has been sent, or all has been read.
    Eof,
    /// No mode yet (0), or a value of a newer server.
    Unknown(u8),
}

impl CallMode {
    fn from_wire(value: u8) -> Self {
        match value {
            1 => Self::Sending,
            2 => Self::Receiving,
            3 => Self::Error,
            4 => Self::Eof,
            other => Self::Unknown(other),
        }
    }

    fn to_wire(self) -> u8 {
        match self {
            Self::Sending => 1,
            Self::Receiving => 2,
            Self::Error => 3,
            Self::Eof => 4,
            Self::Unknown(value) => value,
        }
    }
}

impl Default for CallMode {
    fn default() -> Self {
        Self::Unknown(0)
    }
}

/// Connection flag bits that `rxdebug` prints (`RX_CONN_*`).
pub mod conn_flags {
    /// A new call waits for a free channel.
    pub const MAKECALL_WAITING: u8 = 1;
    /// The connection is destroyed after its last call.
    pub const DESTROY_ME: u8 = 2;
    /// A packet checksum has been seen.
    pub const USING_PACKET_CKSUM: u8 = 4;
    /// The peer advertises its window.
    pub const KNOW_WINDOW: u8 = 8;
    /// The connection is to be removed.
    pub const RESET: u8 = 16;
    /// The connection is in use and not to be removed.
    pub const BUSY: u8 = 32;
    /// A call waits until the peer is known to be reachable.
    pub const ATTACHWAIT: u8 = 64;
}

/// Call flag bits that `rxdebug` prints (`RX_CALL_*`).
pub mod call_flags {
    /// The application waits for the next packet.
    pub const READER_WAIT: u8 = 1;
    /// The sender waits for room to prepare packets.
    pub const WAIT_WINDOW_ALLOC: u8 = 2;
    /// The sender waits for the window.
    pub const WAIT_WINDOW_SEND: u8 = 4;
    /// The sender waits for packet buffers.
    pub const WAIT_PACKETS: u8 = 8;
    /// The call waits for a handler.
    pub const WAIT_PROC: u8 = 16;
    /// All packets have been received.
    pub const RECEIVE_DONE: u8 = 32;
    /// The receive queue was cleared before service began.
    pub const CLEARED: u8 = 64;
}

fn read_security(r: &mut Reader<'_>) -> Option<SecurityStats> {
    let kind = r.u8();
    let level = r.u8();
    r.skip(10);
    let stats = SecurityStats {
        kind: security_kind(kind),
        level,
        flags: r.u32(),
        expires: r.u32(),
        packets_received: r.u32(),
        packets_sent: r.u32(),
        bytes_received: r.u32(),
        bytes_sent: r.u32(),
    };
    r.skip(4 * 2 + 8 * 4);
    (kind != 0).then_some(stats)
}

fn write_security(stats: Option<&SecurityStats>, w: &mut Writer) {
    let Some(stats) = stats else { return w.zeros(SECURITY_LEN) };
    w.u8(match stats.kind {
        SecurityKind::Null => 1,
        SecurityKind::Vab => 2,
        SecurityKind::Kad => 3,
        SecurityKind::Gk => 4,
        SecurityKind::Unknown(value) => value,
    });
    w.u8(stats.level);
    w.zeros(10);
    w.u32(stats.flags);
    w.u32(stats.expires);
    w.u32(stats.packets_received);
    w.u32(stats.packets_sent);
    w.u32(stats.bytes_received);
    w.u32(stats.bytes_sent);
    w.zeros(4 * 2 + 8 * 4);
}

fn security_kind(value: u8) -> SecurityKind {
    match value {
        1 => SecurityKind::Null,
        2 => SecurityKind::Vab,
        3 => SecurityKind::Kad,
        4 => SecurityKind::Gk,
        other => SecurityKind::Unknown(other),
    }
}

const END_CID: u32 = 0xffff_ffff;
const OTHER_IN: u8 = 1;
const OTHER_OUT: u8 = 2;
const SECURITY_LEN: usize = 76;
const LEN: usize = 176;
/// The oldest layout: it ends after the call states.
const OLD_LEN: usize = 53;

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> DebugConn {
        let mut conn = DebugConn {
            host: Ipv4Addr::new(192, 0, 2, 7),
            port: 7001,
            epoch: 0x8011_2233,
            cid: 0x0102_0304,
            serial: 99,
            error: -5,
            flags: conn_flags::KNOW_WINDOW,
            kind: ConnectionKind::Server,
            security_index: 2,
            calls: Default::default(),
            security: Some(SecurityStats {
                kind: SecurityKind::Kad,
                level: 2,
                flags: 2,
                expires: 1_800_000_000,
                packets_received: 1,
                packets_sent: 2,
                bytes_received: 3,
                bytes_sent: 4,
            }),
            nat_mtu: 1444,
        };
        conn.calls[1] = DebugCall {
            number: 17,
            state: CallState::Active,
            mode: CallMode::Sending,
            flags: call_flags::WAIT_WINDOW_SEND,
            has_input: true,
            has_output: true,
        };
        conn
    }

    #[test]
    fn fields_stand_at_the_offsets_of_rx_debugconn() {
        let bytes = DebugConn::encode_entry(Some(sample()));
        assert_eq!(bytes.len(), 176);
        assert_eq!(bytes[0..4], [192, 0, 2, 7]);
        assert_eq!(bytes[4..8], [1, 2, 3, 4]);
        assert_eq!(bytes[16..20], [0, 0, 0, 17], "callNumber[1]");
        assert_eq!(bytes[28..32], [0xff, 0xff, 0xff, 0xfb], "error");
        assert_eq!(bytes[32..40], [0x1b, 0x59, 8, 1, 2, 0, 0, 0], "port, flags, type, securityIndex");
        assert_eq!((bytes[41], bytes[45], bytes[49], bytes[53]), (2, 1, 4, 3), "state, mode, flags, other");
        assert_eq!(bytes[56..58], [3, 2], "secStats type and level");
        assert_eq!(bytes[91], 4, "secStats.bytesSent");
        assert_eq!(bytes[132..140], [0x80, 0x11, 0x22, 0x33, 0, 0, 0x05, 0xa4], "epoch, natMTU");
    }

    #[test]
    fn connection_survives_the_wire() {
        let stats = DebugStats::default();
        let bytes = DebugConn::encode_entry(Some(sample()));
        assert_eq!(DebugConn::decode(&bytes, &stats), Ok(Some(sample())));
        for len in 0..OLD_LEN {
            assert!(DebugConn::decode(&bytes[..len], &stats).is_err(), "{len}");
        }
    }

    #[test]
    fn version_l_servers_send_no_padding() {
        let mut bytes = DebugConn::encode_entry(Some(sample()));
        bytes.drain(37..40);
        let old = DebugStats { version: b'L', ..DebugStats::default() };
        let conn = DebugConn::decode(&bytes, &old).expect("decodes").expect("an entry");
        assert_eq!(conn.calls, sample().calls);
    }
}
