//! Jumbograms: several DATA packets of one call in a single datagram (AFS 3.5).
//!
//! ```text
//! | header 28 | 1412 bytes | jumbo header 4 | 1412 bytes | ... | jumbo header 4 | 1..=1412 bytes |
//! jumbo header: | flags u8 | pad u8 | checksum u16 |
//! ```
//! The JUMBO flag stands on every sub-packet but the last; `seq` and `serial` count up by one each; the rest
//! is inherited. The endpoint takes them from any peer, and sends them to stock peers that state they take
//! them (`jumbo_path.rs`).

use crate::header::{HEADER_LEN, Header, flags};

/// Payload of every sub-packet but the last, in bytes.
pub const JUMBO_PAYLOAD: usize = 1412;
/// Header between two sub-packets, in bytes.
pub const JUMBO_HEADER: usize = 4;
/// Most sub-packets accepted in one datagram (Linux sends up to 46, its hard limit is 47).
pub const JUMBO_PACKETS_MAX: usize = 47;

/// Returns whether the DATA packet `after` may follow `before` in a datagram.
///
/// The two must be neighbours of one call, sent one after the other, with `before` as long as a part. The
/// bytes that a jumbo header may have overwritten are not compared.
pub(crate) fn continues(before: &[u8], after: &[u8]) -> bool {
    let follows = |at: usize| {
        let count = |bytes: &[u8]| bytes[at..].first_chunk().map_or(0, |count| u32::from_be_bytes(*count));
        count(after) == count(before).wrapping_add(1)
    };
    before.len() == HEADER_LEN + JUMBO_PAYLOAD
        && before[..SEQ_AT] == after[..SEQ_AT]
        && follows(SEQ_AT)
        && follows(SERIAL_AT)
}

/// Offset in a header where epoch, connection, channel and call end, and the sequence number begins.
const SEQ_AT: usize = 12;
const SERIAL_AT: usize = 16;

/// Returns the bytes of a datagram of `parts` full parts.
pub(crate) const fn jumbogram_len(parts: u8) -> usize {
    HEADER_LEN + parts as usize * (JUMBO_PAYLOAD + JUMBO_HEADER) - JUMBO_HEADER
}

/// Iterator over the DATA packets of a datagram: one, or the parts of a jumbogram.
#[derive(Clone, Debug)]
pub struct SubPackets<'a> {
    next: Option<Header>,
    rest: &'a [u8],
    taken: usize,
}

impl<'a> SubPackets<'a> {
    /// Splits the payload that followed `header`.
    pub fn new(header: Header, payload: &'a [u8]) -> Self {
        Self { next: Some(header), rest: payload, taken: 0 }
    }
}

impl<'a> Iterator for SubPackets<'a> {
    type Item = Result<(Header, &'a [u8]), JumboError>;

    /// Returns the next part. A jumbogram that lies about its length gives one error and ends; parts before
    /// the lie are good.
    fn next(&mut self) -> Option<Self::Item> {
        let header = self.next.take()?;
        if header.flags & flags::JUMBO == 0 {
            return Some(Ok((header, self.rest)));
        }
        self.taken += 1;
        if self.taken >= JUMBO_PACKETS_MAX {
            return Some(Err(JumboError::TooMany));
        }
        let Some((body, rest)) = self.rest.split_at_checked(JUMBO_PAYLOAD) else {
            return Some(Err(JumboError::Short));
        };
        let Some((jumbo, rest)) = rest.split_first_chunk::<JUMBO_HEADER>() else {
            return Some(Err(JumboError::Short));
        };
        self.rest = rest;
        self.next = Some(Header {
            seq: header.seq.wrapping_add(1),
            serial: header.serial.wrapping_add(1),
            flags: jumbo[0] & !flags::CLIENT_INITIATED | header.flags & flags::CLIENT_INITIATED,
            user_status: 0,
            checksum: u16::from_be_bytes([jumbo[2], jumbo[3]]),
            ..header
        });
        let plain = Header { flags: header.flags & !flags::JUMBO, ..header };
        Some(Ok((plain, body)))
    }
}

/// Reason why the rest of a jumbogram was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JumboError {
    /// A sub-packet announces a successor that does not follow.
    #[error("jumbogram ends inside a sub-packet")]
    Short,
    /// The datagram has more than [`JUMBO_PACKETS_MAX`] sub-packets.
    #[error("jumbogram has too many sub-packets")]
    TooMany,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::PacketType;

    fn header(flags: u8) -> Header {
        Header {
            epoch: 1,
            cid: 4,
            call: 1,
            seq: 10,
            serial: 20,
            kind: PacketType::Data,
            flags,
            user_status: 1,
            security: 0,
            checksum: 0,
            service: 1,
        }
    }

    #[test]
    fn plain_packet_is_one_part() {
        let parts: Vec<_> = SubPackets::new(header(0), b"abc").collect();
        assert_eq!(parts, vec![Ok((header(0), &b"abc"[..]))]);
    }

    #[test]
    fn parts_count_up_and_inherit_the_rest() {
        let mut payload = vec![1; JUMBO_PAYLOAD];
        payload.extend([flags::LAST_PACKET, 0, 0xbe, 0xef]);
        payload.extend([2; 5]);
        let parts: Vec<_> = SubPackets::new(header(flags::JUMBO | flags::CLIENT_INITIATED), &payload)
            .map(Result::unwrap)
            .collect();
        assert_eq!(parts.len(), 2);
        assert_eq!(parts[0].0.flags, flags::CLIENT_INITIATED);
        assert_eq!(parts[0].1.len(), JUMBO_PAYLOAD);
        let second = parts[1].0;
        assert_eq!((second.seq, second.serial, second.checksum, second.user_status), (11, 21, 0xbeef, 0));
        assert_eq!(second.flags, flags::LAST_PACKET | flags::CLIENT_INITIATED);
        assert_eq!(parts[1].1, [2; 5]);
    }

    #[test]
    fn lying_jumbogram_ends_with_an_error() {
        let payload = [0; JUMBO_PAYLOAD + 2];
        let parts: Vec<_> = SubPackets::new(header(flags::JUMBO), &payload).collect();
        assert_eq!(parts, vec![Err(JumboError::Short)]);
        let parts: Vec<_> = SubPackets::new(header(flags::JUMBO), &[]).collect();
        assert_eq!(parts, vec![Err(JumboError::Short)]);
    }

    #[test]
    fn more_sub_packets_than_any_peer_sends_are_cut_off() {
        let mut payload = Vec::new();
        for _ in 0..60 {
            payload.extend([0; JUMBO_PAYLOAD]);
            payload.extend([flags::JUMBO, 0, 0, 0]);
        }
        let parts: Vec<_> = SubPackets::new(header(flags::JUMBO), &payload).collect();
        assert_eq!(parts.len(), JUMBO_PACKETS_MAX);
        assert_eq!(parts.last(), Some(&Err(JumboError::TooMany)));
    }
}
