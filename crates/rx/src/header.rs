//! Codec of the 28-byte Rx packet header, packet types and flags (rx-spec; OpenAFS `rx_packet.h`).
//!
//! All fields are big-endian. Decoding checks only what every packet must satisfy; what a field may hold for
//! one type of packet is the business of the state machine that gets it.

/// Length of the Rx header, bytes.
pub const HEADER_LEN: usize = 28;
/// Calls that one connection carries at once; the low two bits of a connection id name the channel.
pub const CHANNELS: usize = 4;
/// Mask of the channel bits in a connection id.
pub const CHANNEL_MASK: u32 = CHANNELS as u32 - 1;
/// Epoch bit by which a connection is matched by epoch and id alone, whatever address the packet came from.
pub const EPOCH_ANY_ADDRESS: u32 = 0x8000_0000;
/// Value of `userStatus` on a client's first DATA packet that asks for the newer service.
pub const SERVICE_UPGRADE: u8 = 1;

/// Flag bits of the header.
pub mod flags {
    /// The packet was sent by the side that opened the connection.
    pub const CLIENT_INITIATED: u8 = 0x01;
    /// The receiver should acknowledge at once.
    pub const REQUEST_ACK: u8 = 0x02;
    /// The packet is the last DATA packet of this direction of the call.
    pub const LAST_PACKET: u8 = 0x04;
    /// Further packets follow in the same burst (advisory).
    pub const MORE_PACKETS: u8 = 0x08;
    /// The datagram has another sub-packet behind this one (DATA packets).
    pub const JUMBO: u8 = 0x20;
    /// The sender understands slow start (ACK packets). Shares its bit with [`JUMBO`].
    pub const SLOW_START_OK: u8 = 0x20;
}

/// Type of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PacketType {
    /// Data bytes of a call.
    Data = 1,
    /// Acknowledgement, selective and cumulative.
    Ack = 2,
    /// The channel still runs an older call.
    Busy = 3,
    /// A call (or, with call number 0, a connection) failed; carries a code.
    Abort = 4,
    /// Everything sent so far has been received.
    AckAll = 5,
    /// The server asks the client to prove its identity.
    Challenge = 6,
    /// The client proves its identity.
    Response = 7,
    /// Request or answer of `rxdebug`.
    Debug = 8,
    /// Reserved parameter exchange (types 9 to 12); always ignored.
    Params = 9,
    /// Version string request or answer; also a NAT keep-alive.
    Version = 13,
}

impl PacketType {
    /// Returns the type for a wire value, if Rx defines it.
    pub fn from_wire(value: u8) -> Option<Self> {
        Some(match value {
            1 => Self::Data,
            2 => Self::Ack,
            3 => Self::Busy,
            4 => Self::Abort,
            5 => Self::AckAll,
            6 => Self::Challenge,
            7 => Self::Response,
            8 => Self::Debug,
            9..=12 => Self::Params,
            13 => Self::Version,
            _ => return None,
        })
    }
}

/// Header of a packet, decoded to host byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Epoch, the start-up stamp of the client; with `cid` it names the connection.
    pub epoch: u32,
    /// Connection id with the channel in its low two bits.
    pub cid: u32,
    /// Call on the packet's channel; 0 for packets of the connection itself.
    pub call: u32,
    /// Packet of the call's direction, from 1; 0 on everything but DATA.
    pub seq: u32,
    /// Serial number, which counts every packet sent on the connection.
    pub serial: u32,
    /// Type of the packet.
    pub kind: PacketType,
    /// Flags, bits of [`flags`].
    pub flags: u8,
    /// User status; see [`SERVICE_UPGRADE`].
    pub user_status: u8,
    /// Security class of the connection.
    pub security: u8,
    /// Checksum or key number of the security class.
    pub checksum: u16,
    /// Service on the server's port.
    pub service: u16,
}

impl Header {
    /// Decodes the header at the front of `datagram` and returns it with the payload behind it.
    pub fn parse(datagram: &[u8]) -> Result<(Self, &[u8]), HeaderError> {
        let (bytes, payload) = datagram.split_first_chunk::<HEADER_LEN>().ok_or(HeaderError::Short)?;
        let kind = PacketType::from_wire(bytes[20]).ok_or(HeaderError::UnknownType(bytes[20]))?;
        let header = Self {
            epoch: word(bytes, 0),
            cid: word(bytes, 4),
            call: word(bytes, 8),
            seq: word(bytes, 12),
            serial: word(bytes, 16),
            kind,
            flags: bytes[21],
            user_status: bytes[22],
            security: bytes[23],
            checksum: u16::from_be_bytes([bytes[24], bytes[25]]),
            service: u16::from_be_bytes([bytes[26], bytes[27]]),
        };
        Ok((header, payload))
    }

    /// Writes the header into the first [`HEADER_LEN`] bytes of a packet.
    pub fn encode(&self, out: &mut [u8; HEADER_LEN]) {
        out[0..4].copy_from_slice(&self.epoch.to_be_bytes());
        out[4..8].copy_from_slice(&self.cid.to_be_bytes());
        out[8..12].copy_from_slice(&self.call.to_be_bytes());
        out[12..16].copy_from_slice(&self.seq.to_be_bytes());
        out[16..20].copy_from_slice(&self.serial.to_be_bytes());
        out[20] = self.kind as u8;
        out[21] = self.flags;
        out[22] = self.user_status;
        out[23] = self.security;
        out[24..26].copy_from_slice(&self.checksum.to_be_bytes());
        out[26..28].copy_from_slice(&self.service.to_be_bytes());
    }

    /// Returns the channel of the packet, 0 to 3.
    pub fn channel(&self) -> usize {
        (self.cid & CHANNEL_MASK) as usize
    }

    /// Returns the connection id without its channel bits.
    pub fn connection_id(&self) -> u32 {
        self.cid & !CHANNEL_MASK
    }

    /// Returns whether the side that opened the connection sent the packet.
    pub fn from_client(&self) -> bool {
        self.flags & flags::CLIENT_INITIATED != 0
    }

    /// Returns whether the sender wants an ACK at once.
    pub fn wants_ack(&self) -> bool {
        self.flags & flags::REQUEST_ACK != 0
    }

    /// Returns whether the packet is the last DATA packet of its direction.
    pub fn is_last(&self) -> bool {
        self.flags & flags::LAST_PACKET != 0
    }
}

/// Rewrites the two header fields that change when a packet is sent again.
#[inline]
pub(crate) fn restamp(packet: &mut [u8], serial: u32, flags: u8) {
    let header: &mut [u8; HEADER_LEN] = packet.first_chunk_mut().expect("a buffer holds a header");
    header[16..20].copy_from_slice(&serial.to_be_bytes());
    header[21] = flags;
}

/// Returns whether `a` comes after `b` on the circle of 32-bit serials.
pub(crate) fn serial_after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

/// Reason why bytes are not an Rx packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// The bytes are fewer than [`HEADER_LEN`].
    #[error("datagram shorter than the 28-byte Rx header")]
    Short,
    /// The packet type is one that Rx does not define.
    #[error("unknown packet type {0}")]
    UnknownType(u8),
}

fn word(bytes: &[u8; HEADER_LEN], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Header {
        Header {
            epoch: 0x8001_0203,
            cid: 0x1234_5676,
            call: 7,
            seq: 9,
            serial: 11,
            kind: PacketType::Data,
            flags: flags::CLIENT_INITIATED | flags::LAST_PACKET,
            user_status: 1,
            security: 2,
            checksum: 0xabcd,
            service: 52,
        }
    }

    #[test]
    fn header_bytes_stand_where_the_wire_format_puts_them() {
        let mut out = [0; HEADER_LEN];
        sample().encode(&mut out);
        let expected = [
            0x80, 1, 2, 3, 0x12, 0x34, 0x56, 0x76, 0, 0, 0, 7, 0, 0, 0, 9, 0, 0, 0, 11, 1, 5, 1, 2, 0xab,
            0xcd, 0, 52,
        ];
        assert_eq!(out, expected);
    }

    #[test]
    fn decoding_returns_what_was_encoded_and_the_payload() {
        let mut packet = [0xee; HEADER_LEN + 3];
        sample().encode(packet.first_chunk_mut().expect("long enough"));
        let (header, payload) = Header::parse(&packet).expect("valid");
        assert_eq!(header, sample());
        assert_eq!(payload, [0xee; 3]);
        assert_eq!(header.channel(), 2);
        assert_eq!(header.connection_id(), 0x1234_5674);
    }

    #[test]
    fn short_and_unknown_packets_are_refused() {
        assert_eq!(Header::parse(&[0; 27]), Err(HeaderError::Short));
        for kind in [0u8, 14, 255] {
            let mut packet = [0; HEADER_LEN];
            packet[20] = kind;
            assert_eq!(Header::parse(&packet), Err(HeaderError::UnknownType(kind)));
        }
    }

    #[test]
    fn serials_compare_around_the_wrap() {
        assert!(serial_after(1, u32::MAX));
        assert!(!serial_after(u32::MAX, 1));
        assert!(!serial_after(5, 5));
    }
}
