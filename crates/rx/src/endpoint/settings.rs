//! Settings of an application for one connection.

use std::time::Instant;

use super::Endpoint;
use crate::config::{Limits, Priority};
use crate::connection::Connection;
use crate::dscp::Dscp;
use crate::event::ConnectionHandle;
use crate::rate::Rate;

impl Endpoint {
    /// Changes how long the calls of a connection may take, those under way too. False if it is gone.
    pub fn set_limits(&mut self, handle: ConnectionHandle, limits: Limits) -> bool {
        let Some(connection) = self.living(handle) else { return false };
        connection.core.limits = limits;
        self.shared.mark_ready(&mut self.connections[handle.index as usize].core);
        true
    }

    /// Changes the order in which connections' packets leave. A connection behind others has a burst after
    /// every few of theirs. False if the connection is gone.
    pub fn set_priority(&mut self, handle: ConnectionHandle, priority: Priority) -> bool {
        let Some(connection) = self.living(handle) else { return false };
        connection.core.priority = priority;
        self.shared.ready.set_priority(handle.index, priority);
        true
    }

    /// Sends each packet of a connection with this code point from now on: data, acknowledgements and the rest. What goes
    /// to addresses without a connection has none. False if the connection is gone.
    pub fn set_dscp(&mut self, handle: ConnectionHandle, dscp: Dscp) -> bool {
        let Some(connection) = self.living(handle) else { return false };
        connection.core.dscp = dscp;
        true
    }

    /// Bounds what the DATA of one connection takes, bytes a second with headers; `None` takes the bound away. False if it
    /// is gone.
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
