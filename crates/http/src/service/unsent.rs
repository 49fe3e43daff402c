//! Bytes that sockets hold and have never sent: the kernel's memory, which a client that takes nothing fills.
//!
//! Every connection may have a little. That of a long body may have more, as far as its client has a share of
//! the lane's books, until the client has nearly all of it. What is under way is beside it: the kernel bounds
//! that by what the client's host acknowledges.

use std::rc::Rc;
use std::sync::Arc;

use lane::backend::SocketOption;
use lane::net::TcpStream;
use service::counters::ConnectionCounters;
use service::memory::{Charge, ReplyMemory};

use super::counters::HttpCounters;

/// Books of one lane.
pub(super) struct Unsent {
    memory: Rc<ReplyMemory>,
    /// Counters that are not shown: they would count as memory of replies.
    untold: Arc<ConnectionCounters>,
    counters: Arc<HttpCounters>,
}

/// The right of one socket to hold more, until this is dropped.
pub(super) struct UnsentRoom {
    _held: Charge,
    counters: Arc<HttpCounters>,
}

impl Unsent {
    pub(super) fn new(counters: Arc<HttpCounters>) -> Rc<Self> {
        Rc::new(Self { memory: ReplyMemory::new(LANE_BYTES), untold: Arc::default(), counters })
    }

    /// Lets a socket hold [`UNSENT_MAX`] bytes, if its client has a share of so many.
    pub(super) fn widen(&self, stream: &TcpStream) -> Option<UnsentRoom> {
        let account = self.memory.account(stream.peer_addr().ip(), &self.untold);
        let held = account.try_charge(ROOM_BYTES);
        let held = held.filter(|_| stream.set_option(SocketOption::UnsentMax(UNSENT_MAX)).is_ok());
        let Some(held) = held else {
            self.counters.unsent_room_refused.increment();
            return None;
        };
        self.counters.unsent_room_bytes.add(ROOM_BYTES as u64);
        Some(UnsentRoom { _held: held, counters: Arc::clone(&self.counters) })
    }

    /// Lets a socket hold no more than [`UNSENT_MIN`] again, if it does not: by two system calls.
    pub(super) fn narrow(&self, stream: &TcpStream) -> bool {
        stream.unacknowledged().is_ok_and(|left| left <= u64::from(UNSENT_MIN))
            && stream.set_option(SocketOption::UnsentMax(UNSENT_MIN)).is_ok()
    }
}

impl Drop for UnsentRoom {
    fn drop(&mut self) {
        self.counters.unsent_room_bytes.sub(ROOM_BYTES as u64);
    }
}

//@ limit: bytes that any socket of HTTP holds and has never sent
//@ section: HTTP
//@ unit: byte in the kernel, and a packet of at most 64 KiB above
//@ connection: {UNSENT_MIN:b} with its place; 128 KiB of HTTP/2
//@ address: as many times that as it has places
//@ all: lane: 1 GiB, {UNSENT_MIN:b} for each of its 16,384 places; process: what the kernel keeps for TCP (`net.ipv4.tcp_mem`)
//@ empty: the connection's next bytes wait, and it is reset after `stall_seconds`; others feel nothing
//@ counter: http_connections
//@ attack: http-stalled-files
//@ limit: bytes that a socket of HTTP/1.1 holds and has never sent
//@ section: HTTP
//@ unit: byte in the kernel, and a packet of at most 64 KiB above
//@ connection: {UNSENT_MIN:b}; {UNSENT_MAX:b} of a longer body, while its address has a share
//@ address: of what is beyond {UNSENT_MIN:b} three times what is free
//@ all: lane: {:b} beyond {UNSENT_MIN:b} for each connection
//@ empty: a long body goes on with {UNSENT_MIN:b}, in smaller steps; others feel nothing
//@ counter: http_unsent_room_bytes, http_unsent_room_refused
//@ attack: http-stalled-files
/// Bytes that the sockets of a lane may hold unsent beyond [`UNSENT_MIN`] each.
const LANE_BYTES: usize = 64 << 20;
/// Bytes that every socket may hold unsent.
pub(super) const UNSENT_MIN: u32 = 64 << 10;
/// Bytes that the socket of a long body may hold unsent: what 10 Gbit/s send while the lane serves others for
/// 400 microseconds.
const UNSENT_MAX: u32 = 512 << 10;
/// Bytes that the socket of a long body may hold beyond [`UNSENT_MIN`].
const ROOM_BYTES: usize = (UNSENT_MAX - UNSENT_MIN) as usize;
