//! Memory that a zero-copy send left with the kernel until the peer acknowledges the bytes.

use std::io;

use super::stream::{Conn, Side};
use super::{ConnId, Network, SocketId, not_connected};
use crate::backend::sim::ops::OpKey;

/// Bytes of a stream up to a position, not yet acknowledged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unreleased {
    conn: ConnId,
    side: Side,
    upto: u64,
}

impl Network {
    /// Returns all that the stream has taken until now.
    pub(crate) fn unreleased(&self, socket: SocketId) -> io::Result<Unreleased> {
        let (conn, side) = self.stream_of(socket)?;
        let upto = self.conns.get(&conn).map(|c| c.taken(side)).ok_or_else(not_connected)?;
        Ok(Unreleased { conn, side, upto })
    }

    /// Returns whether `bytes` will not be sent again. If not, `op` is woken when to look.
    pub(in crate::backend::sim) fn is_released(&mut self, bytes: &Unreleased, op: OpKey) -> bool {
        let Some(conn) = self.conns.get_mut(&bytes.conn) else { return true };
        let released = conn.has_released(bytes.side, bytes.upto);
        if !released {
            conn.ends[bytes.side as usize].unreleased.push(op);
        }
        released
    }
}

impl Conn {
    /// Returns the number of bytes that the side's sender took.
    fn taken(&self, side: Side) -> u64 {
        self.flows[side as usize].taken()
    }

    fn has_released(&self, side: Side, upto: u64) -> bool {
        self.ends[side as usize].broken || self.flows[side as usize].acked() >= upto
    }
}
