//! VERSION and DEBUG packets: what `rxdebug` asks and a server answers (OpenAFS `rx.h`, `struct rx_debug*`).
//!
//! Both sides are here. A server implements [`DebugSource`] and sends what [`answer`] returns; a client sends
//! [`Query`] packets and decodes the payloads. Nothing here is authenticated or reliable: a client repeats an
//! unanswered query, and a server should limit how many it answers, because answers outgrow requests.

mod client;
mod connection;
mod peer;
mod stats;
mod wire;

pub use self::client::{Query, RETRY_AFTER};
pub use self::connection::{
    CallMode, CallState, ConnectionKind, DebugCall, DebugConn, SecurityKind, SecurityStats, call_flags,
    conn_flags,
};
pub use self::peer::DebugPeer;
pub use self::stats::{DebugFeature, DebugStats, PACKET_TYPES, RttTotals, RxStats};
use self::wire::{Reader, Writer};

/// What a DEBUG request asks for. Payload: `{ type u32, index u32 }`, big-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DebugRequest {
    /// Type 1: packets, calls, threads.
    Stats,
    /// Type 2: the `index`-th connection among those with a call under way.
    InterestingConnection(u32),
    /// Type 3: the `index`-th of all connections.
    Connection(u32),
    /// Type 4: every Rx counter.
    RxStats,
    /// Type 5: the `index`-th peer.
    Peer(u32),
    /// Any other type; the answer is [`BAD_TYPE`].
    Unknown(u32),
}

impl DebugRequest {
    /// Decodes a request payload; longer ones are accepted, as stock servers do.
    pub fn parse(payload: &[u8]) -> Result<Self, DebugError> {
        let mut r = Reader::new(payload, REQUEST_LEN)?;
        let (kind, index) = (r.u32(), r.u32());
        Ok(match kind {
            1 => Self::Stats,
            2 => Self::InterestingConnection(index),
            3 => Self::Connection(index),
            4 => Self::RxStats,
            5 => Self::Peer(index),
            other => Self::Unknown(other),
        })
    }

    /// The request payload.
    pub fn encode(self) -> Vec<u8> {
        let (kind, index) = match self {
            Self::Stats => (1, 0),
            Self::InterestingConnection(index) => (2, index),
            Self::Connection(index) => (3, index),
            Self::RxStats => (4, 0),
            Self::Peer(index) => (5, index),
            Self::Unknown(kind) => (kind, 0),
        };
        let mut w = Writer::with_capacity(REQUEST_LEN);
        w.u32(kind);
        w.u32(index);
        w.finish()
    }
}

/// What a server knows about itself, as of now. An index past the end answers `None`.
///
/// Clients walk connections and peers by index, one packet each, while the tables change: an entry may be seen
/// twice or missed, and that is accepted.
pub trait DebugSource {
    /// Packets, calls and threads.
    fn stats(&self) -> DebugStats;
    /// The `index`-th connection; of those with a call under way only, when `interesting` is set.
    fn connection(&self, index: u32, interesting: bool) -> Option<DebugConn>;
    /// All counters.
    fn rx_stats(&self) -> RxStats;
    /// The `index`-th peer.
    fn peer(&self, index: u32) -> Option<DebugPeer>;
}

/// The payload that answers a DEBUG request. An unknown type is answered with [`BAD_TYPE`] twice; only a
/// payload too short to be a request is an error, and gets no answer.
pub fn answer(payload: &[u8], source: &dyn DebugSource) -> Result<Vec<u8>, DebugError> {
    Ok(match DebugRequest::parse(payload)? {
        DebugRequest::Stats => source.stats().encode(),
        DebugRequest::InterestingConnection(index) => DebugConn::encode_entry(source.connection(index, true)),
        DebugRequest::Connection(index) => DebugConn::encode_entry(source.connection(index, false)),
        DebugRequest::RxStats => source.rx_stats().encode(),
        DebugRequest::Peer(index) => DebugPeer::encode_entry(source.peer(index)),
        DebugRequest::Unknown(_) => {
            let mut w = Writer::with_capacity(REQUEST_LEN);
            w.i32(BAD_TYPE);
            w.i32(BAD_TYPE);
            w.finish()
        }
    })
}

/// The payload that answers a VERSION request: `text`, cut at 64 bytes, padded with NUL to 65.
pub fn encode_version(text: &str) -> [u8; VERSION_LEN] {
    let mut payload = [0; VERSION_LEN];
    let mut len = text.len().min(VERSION_LEN - 1);
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    payload[..len].copy_from_slice(&text.as_bytes()[..len]);
    payload
}

/// The text of a VERSION answer, up to its NUL; bytes that are not UTF-8 are replaced.
pub fn decode_version(payload: &[u8]) -> String {
    let text = payload.split(|&byte| byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

/// Why a DEBUG payload could not be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DebugError {
    /// Too short for what it should be.
    #[error("debug payload of {got} bytes, at least {need} expected")]
    Short {
        /// Smallest acceptable length.
        need: usize,
        /// Length seen.
        got: usize,
    },
    /// The server answered [`BAD_TYPE`].
    #[error("the server does not know this debug request")]
    Unsupported,
}

/// Refuses the two-word answer to an unknown request, which could otherwise pass for data.
fn refuse_bad_type(payload: &[u8]) -> Result<(), DebugError> {
    match payload {
        [a @ .., _, _, _, _] if *a == BAD_TYPE.to_be_bytes() => Err(DebugError::Unsupported),
        _ => Ok(()),
    }
}

/// Answer to an unknown request type (`RX_DEBUGI_BADTYPE`).
pub const BAD_TYPE: i32 = -8;

/// Length of a VERSION answer, bytes.
pub const VERSION_LEN: usize = 65;

/// Length of a DEBUG request, bytes.
const REQUEST_LEN: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    struct Two;

    impl DebugSource for Two {
        fn stats(&self) -> DebugStats {
            DebugStats { free_packets: 7, packets: 9, ..DebugStats::default() }
        }
        fn connection(&self, index: u32, interesting: bool) -> Option<DebugConn> {
            let count = if interesting { 1 } else { 2 };
            (index < count).then(|| DebugConn { cid: 0x10 * (index + 1), ..DebugConn::default() })
        }
        fn rx_stats(&self) -> RxStats {
            RxStats { data_packets_resent: 3, ..RxStats::default() }
        }
        fn peer(&self, index: u32) -> Option<DebugPeer> {
            (index < 2).then(|| DebugPeer { port: 7000 + index as u16, ..DebugPeer::default() })
        }
    }

    fn ask(request: DebugRequest) -> Vec<u8> {
        answer(&request.encode(), &Two).expect("whole request")
    }

    #[test]
    fn each_request_gets_its_own_kind_of_answer() {
        let stats = DebugStats::decode(&ask(DebugRequest::Stats)).expect("stats");
        assert_eq!((stats.free_packets, stats.packets), (7, 9));
        let rx = RxStats::decode(&ask(DebugRequest::RxStats)).expect("rxstats");
        assert_eq!(rx.data_packets_resent, 3);
        let conn = DebugConn::decode(&ask(DebugRequest::Connection(1)), &stats).expect("conn");
        assert_eq!(conn.expect("second").cid, 0x20);
        let peer = DebugPeer::decode(&ask(DebugRequest::Peer(1))).expect("peer");
        assert_eq!(peer.expect("second").port, 7001);
    }

    #[test]
    fn walk_past_the_last_entry_gets_the_end_marker() {
        let stats = DebugStats::default();
        let end = ask(DebugRequest::Connection(2));
        assert_eq!(end[4..8], [0xff; 4], "cid of the end marker");
        assert_eq!(DebugConn::decode(&end, &stats), Ok(None));
        assert_eq!(DebugConn::decode(&ask(DebugRequest::InterestingConnection(1)), &stats), Ok(None));
        let end = ask(DebugRequest::Peer(u32::MAX));
        assert_eq!(end[0..4], [0xff; 4], "host of the end marker");
        assert_eq!(DebugPeer::decode(&end), Ok(None));
    }

    #[test]
    fn unknown_request_is_answered_with_minus_eight_twice() {
        let bytes = ask(DebugRequest::Unknown(6));
        assert_eq!(bytes, [0xff, 0xff, 0xff, 0xf8, 0xff, 0xff, 0xff, 0xf8]);
        assert_eq!(RxStats::decode(&bytes), Err(DebugError::Unsupported));
        assert_eq!(DebugStats::decode(&bytes), Err(DebugError::Unsupported));
        assert_eq!(DebugPeer::decode(&bytes), Err(DebugError::Unsupported));
        assert_eq!(DebugConn::decode(&bytes, &DebugStats::default()), Err(DebugError::Unsupported));
    }

    #[test]
    fn request_shorter_than_two_words_gets_no_answer() {
        assert_eq!(answer(&[0; 7], &Two), Err(DebugError::Short { need: 8, got: 7 }));
    }

    #[test]
    fn version_text_is_cut_at_64_bytes_on_a_character() {
        assert_eq!(decode_version(&encode_version("Linerate 0.1")), "Linerate 0.1");
        let long = "é".repeat(40) + "x";
        let payload = encode_version(&("x".to_owned() + &long));
        assert_eq!(payload[64], 0);
        assert_eq!(decode_version(&payload), "x".to_owned() + &"é".repeat(31));
        assert_eq!(decode_version(&[]), "");
    }

    #[test]
    fn no_payload_panics_a_decoder() {
        bolero::check!().for_each(|bytes: &[u8]| {
            let stats = DebugStats::decode(bytes).unwrap_or_default();
            let _ = DebugConn::decode(bytes, &stats);
            let _ = DebugPeer::decode(bytes);
            let _ = RxStats::decode(bytes);
            let _ = decode_version(bytes);
            let _ = answer(bytes, &Two);
        });
    }
}
