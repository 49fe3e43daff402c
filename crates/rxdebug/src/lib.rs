//! VERSION and DEBUG packets: what `rxdebug` asks and a server answers (OpenAFS `rx.h`, `struct rx_debug*`).
//!
//! Both sides are here. A lane's [`LaneDesk`] answers what its endpoint was asked, together with the desks of those that
//! share its address; a client sends [`Query`] packets and decodes the payloads. Nothing here is authenticated or
//! reliable: a client repeats an unanswered query, and a server limits how many it answers, because answers outgrow
//! requests.

mod client;
mod connection;
mod desk;
mod error;
mod lane_desk;
mod peer;
mod share;
mod stats;
mod survey;
mod wire;

pub use self::client::{Query, RETRY_AFTER};
pub use self::connection::{
    CallMode, CallState, ConnectionKind, DebugCall, DebugConn, call_flags, conn_flags,
};
pub use self::error::{BAD_TYPE, DebugError};
pub use self::lane_desk::{DeskMail, LaneDesk};
pub use self::peer::DebugPeer;
pub use self::stats::{DebugFeature, DebugStats, PACKET_TYPES, RttTotals, RxStats};
use self::wire::{Reader, Writer};
pub use rx::security::{SecurityKind, SecurityStats};
pub use rx::version::{VERSION_LEN, decode_version, encode_version};

/// Kind of a DEBUG request. Payload: `{ type u32, index u32 }`, big-endian.
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
        Ok(Self::of(kind, index))
    }

    /// Creates the request of two words.
    pub fn of(kind: u32, index: u32) -> Self {
        match kind {
            1 => Self::Stats,
            2 => Self::InterestingConnection(index),
            3 => Self::Connection(index),
            4 => Self::RxStats,
            5 => Self::Peer(index),
            other => Self::Unknown(other),
        }
    }

    /// Encodes the request payload.
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

/// Length of a DEBUG request, bytes.
const REQUEST_LEN: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_shorter_than_two_words_is_none() {
        assert_eq!(DebugRequest::parse(&[0; 7]), Err(DebugError::Short { need: 8, got: 7 }));
    }

    #[test]
    fn no_payload_panics_a_decoder() {
        bolero::check!().for_each(|bytes: &[u8]| {
            let stats = DebugStats::decode(bytes).unwrap_or_default();
            let _ = DebugConn::decode(bytes, &stats);
            let _ = DebugPeer::decode(bytes);
            let _ = RxStats::decode(bytes);
            let _ = decode_version(bytes);
            let _ = DebugRequest::parse(bytes);
        });
    }
}
