//! The asking side: whole packets to send, and which datagram answers them.

use std::time::Duration;

use super::DebugRequest;
use rx::header::{HEADER_LEN, Header, PacketType, flags};

/// One question to a server, outside any connection.
///
/// The call number tells answers apart, so a client numbers its queries; the packet is the same when repeated.
#[derive(Clone, Debug)]
pub struct Query {
    number: u32,
    kind: PacketType,
    packet: Vec<u8>,
}

impl Query {
    /// Creates a DEBUG request. `number` must differ from that of the client's other queries.
    pub fn debug(number: u32, request: DebugRequest) -> Self {
        Self::new(number, PacketType::Debug, &request.encode())
    }

    /// Creates a VERSION request.
    pub fn version(number: u32) -> Self {
        // Stock clients send one byte of payload.
        Self::new(number, PacketType::Version, &[0])
    }

    /// Returns the datagram to send.
    pub fn packet(&self) -> &[u8] {
        &self.packet
    }

    /// Returns the payload of `datagram` if it answers this query.
    pub fn answer<'a>(&self, datagram: &'a [u8]) -> Option<&'a [u8]> {
        let (header, payload) = Header::parse(datagram).ok()?;
        let ours = header.kind == self.kind && header.call == self.number && !header.from_client();
        ours.then_some(payload)
    }

    fn new(number: u32, kind: PacketType, payload: &[u8]) -> Self {
        let header = Header {
            epoch: QUERY_EPOCH,
            cid: 0,
            call: number,
            seq: 0,
            serial: 0,
            kind,
            flags: flags::CLIENT_INITIATED | flags::LAST_PACKET,
            user_status: 0,
            security: 0,
            checksum: 0,
            service: 0,
        };
        let mut bytes = [0; HEADER_LEN];
        header.encode(&mut bytes);
        Self { number, kind, packet: [&bytes, payload].concat() }
    }
}

/// Time for which to wait for an answer before sending the query again, and for the last time of all. Stock
/// `rxdebug` waits the same.
pub const RETRY_AFTER: [Duration; 5] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
    Duration::from_secs(16),
];

/// The epoch stock clients put into queries.
const QUERY_EPOCH: u32 = 999;

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(query: &Query, change: impl FnOnce(&mut Header)) -> Vec<u8> {
        let (mut header, _) = Header::parse(query.packet()).expect("own packet");
        header.flags &= !flags::CLIENT_INITIATED;
        change(&mut header);
        let mut bytes = [0; HEADER_LEN];
        header.encode(&mut bytes);
        [bytes.as_slice(), b"payload"].concat()
    }

    #[test]
    fn query_looks_like_a_stock_clients() {
        let query = Query::debug(101, DebugRequest::Peer(3));
        let (header, payload) = Header::parse(query.packet()).expect("own packet");
        assert_eq!((header.epoch, header.cid, header.call, header.flags), (999, 0, 101, 0x05));
        assert_eq!(header.kind, PacketType::Debug);
        assert_eq!(payload, [0, 0, 0, 5, 0, 0, 0, 3]);
        assert_eq!(Query::version(7).packet().len(), HEADER_LEN + 1);
    }

    #[test]
    fn answer_is_matched_by_number_type_and_direction() {
        let query = Query::version(7);
        assert_eq!(query.answer(&answered(&query, |_| {})), Some(b"payload".as_slice()));
        assert_eq!(query.answer(&answered(&query, |h| h.call = 8)), None);
        assert_eq!(query.answer(&answered(&query, |h| h.kind = PacketType::Debug)), None);
        assert_eq!(query.answer(query.packet()), None, "a reflected request is no answer");
        assert_eq!(query.answer(&[0; 5]), None);
    }
}
