//! The ACK payload: fixed part, soft-ACK table, trailer, and our extension.
//!
//! ```text
//!  0  bufferSpace u16 | maxSkew u16
//!  4  firstPacket u32      everything below is hard-acknowledged
//!  8  previousPacket u32   highest packet received (very old peers: a serial)
//! 12  serial u32           serial that prompted this ACK
//! 16  reason u8 | nAcks u8
//! 18  acks[nAcks]          bit 0: received; packet firstPacket + i
//! +0  3 bytes of zero
//! +3  maxMTU u32 | ifMTU u32 | rwind u32 | packets per jumbogram u32 (0: I do path-MTU discovery)
//! +19 "LNR1" | flags u16 | nRanges u16 | { first u32, count u32 } * nRanges       our extension
//! ```
//! OpenAFS and Linux read four trailer words and ignore what follows, so the extension needs no negotiation:
//! a peer that sends it understands it. Its ranges are runs of received packets above the 255-entry table,
//! ascending.

use crate::header::HEADER_LEN;
use crate::jumbo::JUMBO_PACKETS_MAX;

/// Bytes before the soft-ACK table.
pub const ACK_FIXED: usize = 18;
/// Most entries of the soft-ACK table.
pub const ACKS_MAX: usize = 255;
//@ limit: ranges of an ACK
//@ section: Rx
//@ unit: range
//@ connection: {}, ascending and apart
//@ empty: refused whole; others feel nothing
//@ counter: rx_refused{reason="ack_disordered"}
//@ attack: rx-ack-ranges
/// Most received ranges one extended ACK reports.
pub const RANGES_MAX: usize = 104;
/// Longest ACK payload we build, bytes: full table, trailer and extension.
pub const ACK_PAYLOAD_MAX: usize = ACK_FIXED + ACKS_MAX + PAD + TRAILER + EXTENSION + 8 * RANGES_MAX;
/// Window in packets to assume of a peer whose ACKs carry no trailer (AFS before 3.4).
pub const WINDOW_WITHOUT_TRAILER: u32 = 15;
/// Largest window in packets believed of a peer: the largest that any Rx states (AuriStor).
pub const WINDOW_MAX: u32 = 65_535;
/// Largest packet size in bytes believed of a peer: a UDP datagram holds no more.
pub const PACKET_BYTES_MAX: u32 = 65_507;

/// Reason why an ACK was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum AckReason {
    /// The packet of this serial asked for an ACK.
    Requested = 1,
    /// A packet came twice.
    Duplicate = 2,
    /// A packet came with a gap before it.
    OutOfSequence = 3,
    /// A packet lay beyond the receive window.
    ExceedsWindow = 4,
    /// No buffer was free for a packet.
    NoSpace = 5,
    /// The sender asks for an answer with [`AckReason::PingResponse`].
    Ping = 6,
    /// The ACK answers a ping.
    PingResponse = 7,
    /// The delayed-ACK timer ran out; no RTT sample.
    Delay = 8,
    /// Enough packets came, or the window opened.
    Idle = 9,
}

impl AckReason {
    /// Returns the reason for a wire value, if Rx defines it.
    pub fn from_wire(value: u8) -> Option<Self> {
        Some(match value {
            1 => Self::Requested,
            2 => Self::Duplicate,
            3 => Self::OutOfSequence,
            4 => Self::ExceedsWindow,
            5 => Self::NoSpace,
            6 => Self::Ping,
            7 => Self::PingResponse,
            8 => Self::Delay,
            9 => Self::Idle,
            _ => return None,
        })
    }
}

/// Trailer of an ACK: window and sizes that its sender can take. A parsed one is within bounds, whatever the
/// packet said: a window of 1 to [`WINDOW_MAX`], sizes up to [`PACKET_BYTES_MAX`], as many packets in a
/// jumbogram as fit one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trailer {
    /// Largest packet that the peer will accept, in bytes including the Rx header.
    pub max_mtu: u32,
    /// Packet size of the peer's interface, in bytes.
    pub if_mtu: u32,
    /// Receive window in packets, counted from `firstPacket`.
    pub window: u32,
    /// Packets that the peer takes in one jumbogram; 0 says that it does path-MTU discovery.
    pub jumbo_max: u32,
}

/// ACK as parsed, with table and ranges borrowed from the datagram.
#[derive(Clone, Copy, Debug)]
pub struct Ack<'a> {
    /// First packet that is not hard-acknowledged.
    pub first: u32,
    /// Highest packet received (advisory).
    pub previous: u32,
    /// Serial of the packet that prompted the ACK.
    pub serial: u32,
    /// Reason of the ACK.
    pub reason: AckReason,
    /// One byte for each packet from `first`; bit 0 says received.
    pub table: &'a [u8],
    /// Window and sizes, when the peer sent all four words (or the three of AFS 3.4).
    pub trailer: Option<Trailer>,
    /// Ranges of 8 bytes each, when the peer speaks our extension.
    ranges: Option<&'a [u8]>,
}

impl<'a> Ack<'a> {
    /// Parses the payload of an ACK packet.
    pub fn parse(payload: &'a [u8]) -> Result<Self, AckError> {
        let (fixed, rest) = payload.split_first_chunk::<ACK_FIXED>().ok_or(AckError::Short)?;
        let reason = AckReason::from_wire(fixed[16]).ok_or(AckError::UnknownReason(fixed[16]))?;
        let (table, rest) = rest.split_at_checked(usize::from(fixed[17])).ok_or(AckError::TableCutOff)?;
        let rest = rest.get(PAD..).unwrap_or_default();
        Ok(Self {
            first: word(fixed, 4),
            previous: word(fixed, 8),
            serial: word(fixed, 12),
            reason,
            table,
            trailer: parse_trailer(rest),
            ranges: rest.get(TRAILER..).and_then(parse_extension),
        })
    }

    /// Returns whether the peer speaks our extension.
    pub fn is_extended(&self) -> bool {
        self.ranges.is_some()
    }

    /// Returns runs of received packets above the table: first packet and count.
    pub fn ranges(&self) -> impl Iterator<Item = (u32, u32)> + 'a {
        self.ranges.unwrap_or_default().chunks_exact(8).map(|range| (word(range, 0), word(range, 4)))
    }

    /// Returns the number of packets that the table reports as received.
    pub fn soft_acked(&self) -> usize {
        self.table.iter().filter(|entry| *entry & 1 == 1).count()
    }
}

/// Fields of an ACK to build; table and ranges are written by the caller's closures.
#[derive(Clone, Copy, Debug)]
pub struct AckFields {
    /// First packet that is not hard-acknowledged ([`Ack::first`]).
    pub first: u32,
    /// Highest packet received ([`Ack::previous`]).
    pub previous: u32,
    /// Serial of the packet that prompted the ACK ([`Ack::serial`]).
    pub serial: u32,
    /// Reason of the ACK ([`Ack::reason`]).
    pub reason: AckReason,
    /// Window and sizes that this side can take.
    pub trailer: Trailer,
    /// True to append our extension.
    pub extended: bool,
}

/// Writes an ACK payload into `out` (at least [`ACK_PAYLOAD_MAX`] bytes) and returns its length.
///
/// `fill_table` gets 255 zeroed entries and returns how many it used; `next_range` gives the received runs
/// above the table until it returns `None`.
pub fn encode(
    out: &mut [u8],
    fields: &AckFields,
    fill_table: impl FnOnce(&mut [u8]) -> usize,
    mut next_range: impl FnMut() -> Option<(u32, u32)>,
) -> usize {
    out[0..4].fill(0);
    put(out, 4, fields.first);
    put(out, 8, fields.previous);
    put(out, 12, fields.serial);
    out[16] = fields.reason as u8;
    let used = fill_table(&mut out[ACK_FIXED..ACK_FIXED + ACKS_MAX]);
    debug_assert!(used <= ACKS_MAX);
    out[17] = used as u8;
    let mut at = ACK_FIXED + used;
    out[at..at + PAD].fill(0);
    at += PAD;
    put(out, at, fields.trailer.max_mtu);
    put(out, at + 4, fields.trailer.if_mtu);
    put(out, at + 8, fields.trailer.window);
    put(out, at + 12, fields.trailer.jumbo_max);
    at += TRAILER;
    if !fields.extended {
        return at;
    }
    let head = at;
    put(out, head, EXTENSION_MAGIC);
    at += EXTENSION;
    let mut count = 0u16;
    while usize::from(count) < RANGES_MAX
        && let Some((first, len)) = next_range()
    {
        put(out, at, first);
        put(out, at + 4, len);
        at += 8;
        count += 1;
    }
    out[head + 4..head + 6].fill(0);
    out[head + 6..head + 8].copy_from_slice(&count.to_be_bytes());
    at
}

/// Returns the bytes of a whole ACK packet whose table has `entries` entries, without our extension.
pub const fn packet_len(entries: usize) -> usize {
    HEADER_LEN + ACK_FIXED + entries + PAD + TRAILER
}

/// Reason why an ACK payload was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AckError {
    /// The payload is shorter than the fixed part.
    #[error("ACK payload shorter than {ACK_FIXED} bytes")]
    Short,
    /// `nAcks` counts more entries than the payload holds.
    #[error("soft-ACK table runs past the end of the packet")]
    TableCutOff,
    /// A reason that Rx does not define.
    #[error("unknown ACK reason {0}")]
    UnknownReason(u8),
}

fn parse_trailer(bytes: &[u8]) -> Option<Trailer> {
    if bytes.len() < 12 {
        return None;
    }
    let jumbo_max = if bytes.len() >= TRAILER { word(bytes, 12) } else { 1 };
    Some(Trailer {
        max_mtu: word(bytes, 0).min(PACKET_BYTES_MAX),
        if_mtu: word(bytes, 4).min(PACKET_BYTES_MAX),
        window: word(bytes, 8).clamp(1, WINDOW_MAX),
        jumbo_max: jumbo_max.min(JUMBO_PACKETS_MAX as u32),
    })
}

/// Parses the ranges of our extension: without the magic the ACK is a padded path-MTU probe, not an error;
/// ranges cut off are not read.
fn parse_extension(bytes: &[u8]) -> Option<&[u8]> {
    if bytes.len() < EXTENSION || word(bytes, 0) != EXTENSION_MAGIC {
        return None;
    }
    let count = usize::from(u16::from_be_bytes([bytes[6], bytes[7]])).min(RANGES_MAX);
    let ranges = &bytes[EXTENSION..];
    Some(&ranges[..(count * 8).min(ranges.len() / 8 * 8)])
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn put(out: &mut [u8], at: usize, value: u32) {
    out[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

const PAD: usize = 3;
const TRAILER: usize = 16;
const EXTENSION: usize = 8;
const EXTENSION_MAGIC: u32 = u32::from_be_bytes(*b"LNR1");

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(extended: bool) -> AckFields {
        AckFields {
            first: 10,
            previous: 15,
            serial: 99,
            reason: AckReason::OutOfSequence,
            trailer: Trailer { max_mtu: 1444, if_mtu: 1500, window: 32, jumbo_max: 0 },
            extended,
        }
    }

    fn build(extended: bool, ranges: &[(u32, u32)]) -> Vec<u8> {
        let mut out = vec![0xff; ACK_PAYLOAD_MAX];
        let mut ranges = ranges.iter().copied();
        let table = |table: &mut [u8]| {
            table[..3].copy_from_slice(&[0, 1, 1]);
            3
        };
        let len = encode(&mut out, &fields(extended), table, || ranges.next());
        out.truncate(len);
        out
    }

    #[test]
    fn stock_ack_bytes_stand_where_the_wire_format_puts_them() {
        let bytes = build(false, &[]);
        assert_eq!(bytes.len(), packet_len(3) - HEADER_LEN);
        assert_eq!(bytes[..18], [0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 15, 0, 0, 0, 99, 3, 3]);
        assert_eq!(bytes[18..24], [0, 1, 1, 0, 0, 0]);
        assert_eq!(bytes[24..], [0, 0, 5, 164, 0, 0, 5, 220, 0, 0, 0, 32, 0, 0, 0, 0]);
    }

    #[test]
    fn parsing_returns_what_was_built() {
        let bytes = build(true, &[(300, 7), (400, 1)]);
        let ack = Ack::parse(&bytes).expect("valid");
        assert_eq!((ack.first, ack.previous, ack.serial), (10, 15, 99));
        assert_eq!(ack.table, [0, 1, 1]);
        assert_eq!(ack.soft_acked(), 2);
        assert_eq!(ack.trailer, Some(fields(true).trailer));
        assert!(ack.is_extended());
        assert_eq!(ack.ranges().collect::<Vec<_>>(), [(300, 7), (400, 1)]);
    }

    #[test]
    fn table_past_the_end_is_refused() {
        let mut bytes = build(false, &[]);
        bytes.truncate(ACK_FIXED + 2);
        assert_eq!(Ack::parse(&bytes).unwrap_err(), AckError::TableCutOff);
        assert_eq!(Ack::parse(&bytes[..17]).unwrap_err(), AckError::Short);
    }

    #[test]
    fn unknown_reason_is_refused() {
        let mut bytes = build(false, &[]);
        bytes[16] = 0;
        assert_eq!(Ack::parse(&bytes).unwrap_err(), AckError::UnknownReason(0));
    }

    #[test]
    fn old_peers_send_shorter_trailers() {
        let bytes = build(false, &[]);
        let three_words = Ack::parse(&bytes[..bytes.len() - 4]).expect("valid").trailer.expect("three words");
        assert_eq!((three_words.window, three_words.jumbo_max), (32, 1));
        assert_eq!(Ack::parse(&bytes[..bytes.len() - 8]).expect("valid").trailer, None);
        assert_eq!(Ack::parse(&bytes[..21]).expect("valid").trailer, None);
    }

    #[test]
    fn trailers_are_believed_within_bounds_only() {
        let mut bytes = build(false, &[]);
        let at = bytes.len() - TRAILER;
        bytes[at..].fill(0xff);
        let wild = Ack::parse(&bytes).expect("valid").trailer.expect("four words");
        assert_eq!(
            (wild.max_mtu, wild.if_mtu, wild.window),
            (PACKET_BYTES_MAX, PACKET_BYTES_MAX, WINDOW_MAX)
        );
        assert_eq!(wild.jumbo_max, JUMBO_PACKETS_MAX as u32);
        bytes[at..].fill(0);
        let none = Ack::parse(&bytes).expect("valid").trailer.expect("four words");
        assert_eq!((none.window, none.jumbo_max), (1, 0));
    }

    #[test]
    fn zero_padding_is_a_probe_not_an_extension() {
        let mut bytes = build(false, &[]);
        bytes.resize(1400, 0);
        let ack = Ack::parse(&bytes).expect("valid");
        assert!(!ack.is_extended());
        assert_eq!(ack.ranges().count(), 0);
    }

    #[test]
    fn range_count_that_lies_reads_only_what_is_there() {
        let mut bytes = build(true, &[(300, 7)]);
        let at = bytes.len() - 10;
        bytes[at..at + 2].copy_from_slice(&[0xff, 0xff]);
        assert_eq!(Ack::parse(&bytes).expect("valid").ranges().collect::<Vec<_>>(), [(300, 7)]);
    }

    #[test]
    fn ranges_beyond_the_limit_are_not_written() {
        let many: Vec<_> = (0..200).map(|i| (1000 + 2 * i, 1)).collect();
        let bytes = build(true, &many);
        assert_eq!(Ack::parse(&bytes).expect("valid").ranges().count(), RANGES_MAX);
    }
}
