//! Rx, the RPC transport of AFS over UDP: client and server, wire-compatible with OpenAFS, AuriStorFS and
//! Linux.
//!
//! [`Endpoint`] takes datagrams and times, gives datagrams, events and the next timeout, and holds no socket, clock or
//! thread; crate `rx-lane` puts it on lanes. `docs/design/rx.md` explains the state machines, timers and extensions.

pub mod abort;
pub mod ack;
mod call;
mod checks;
mod config;
pub mod congestion;
mod connection;
mod cookie;
mod dscp;
mod endpoint;
mod event;
pub mod header;
pub mod jumbo;
mod jumbo_path;
pub mod packet;
mod peer;
pub mod pmtud;
mod rate;
mod ready;
mod receive;
mod recovery;
pub mod rtt;
pub mod security;
mod send_limit;
mod shared;
mod socket_room;
mod source;
mod stats;
mod transmit;
mod validated_addresses;
pub mod version;
mod window;

#[cfg(test)]
mod tests;

pub use call::{ReadBatch, WriteBatch, WriteError};
pub use config::{EndpointConfig, Jumbograms, Limits, Priority};
pub use dscp::Dscp;
pub use endpoint::{
    Arrival, CallMut, CallView, ConnectError, ConnectOptions, ConnectionView, Endpoint, LaneMap, OpenError,
    Question, ReadError, Route, Service,
};
pub use event::{CallHandle, ConnectionEnd, ConnectionHandle, DeadReason, Event, Side};
pub use packet::PacketPool;
pub use peer::{Peer, PeerCounters, TokenBucket};
pub use source::{AddressRange, may_take_more, source_of};
pub use stats::EndpointStats;
pub use transmit::{BURST_BYTES_MAX, SEGMENTS_MAX, Transmit};
