//! Settings of an application for one connection.

use std::time::Instant;

use super::Endpoint;
use crate::config::{Limits, Priority};
use crate::connection::Connection;
use crate::dscp::Dscp;
use crate::event::ConnectionHandle;
use crate::rate::Rate;

impl Endpoint {
    /// Sets the time limits of a connection's calls, those under way too. Returns false when the connection
    /// is gone.
    pub fn set_limits(&mut self, handle: ConnectionHandle, limits: Limits) -> bool {
        let Some(connection) = self.living(handle) else { return false };
        connection.core.limits = limits;
        self.shared.mark_ready(&mut self.connections[handle.index as usize].core);
        true
    }

    /// Sets the order in which the connection's packets leave among others. A connection behind others has a
    /// burst after every few of theirs. False if the connection is gone.
    pub fn set_priority(&mut self, handle: ConnectionHandle, priority: Priority) -> bool {
        let Some(connection) = self.living(handle) else { return false };
        connection.core.priority = priority;
        self.shared.ready.set_priority(handle.index, priority);
        true
    }

    /// Sets the code point of each packet that a connection sends from now on: data, acknowledgements and the
    /// rest. Packets to addresses without a connection have none. Returns false when the connection is gone.
    pub fn set_dscp(&mut self, handle: ConnectionHandle, dscp: Dscp) -> bool {
        let Some(connection) = self.living(handle) else { return false };
        connection.core.dscp = dscp;
        true
    }

    /// Bounds the rate of one connection's DATA, in bytes a second with headers; `None` removes the bound.
    /// Returns false when the connection is gone.
    pub fn set_rate(
        &mut self,
        now: Instant,
        handle: ConnectionHandle,
        bytes_per_second: Option<u64>,
    ) -> bool {
        let Some(connection) = self.living(handle) else { return false };
        match (&mut connection.core.rate, bytes_per_second) {
            (Some(rate), Some(bytes)) => rate.change(now, bytes),
            (rate, bytes) => *rate = bytes.map(|bytes| Rate::new(now, bytes)),
        }
        self.shared.mark_ready(&mut self.connections[handle.index as usize].core);
        true
    }

    fn living(&mut self, handle: ConnectionHandle) -> Option<&mut Connection> {
        let connection = self.connections.get_mut(handle.index as usize)?;
        (connection.core.handle() == handle).then_some(connection)
    }
}
