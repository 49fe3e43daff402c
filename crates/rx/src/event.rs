//! Handles of connections and calls, and the events an endpoint reports about them.

use std::net::SocketAddr;

/// Handle of a connection in one endpoint. Stays invalid once the connection is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionHandle {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl ConnectionHandle {
    /// Returns the connection's place in a table of the endpoint's connections, below `connections_max`;
    /// reused once the connection is gone.
    pub fn slot(&self) -> usize {
        self.index as usize
    }
}

/// Handle of a call in one endpoint. Stays invalid once the call has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallHandle {
    /// Handle of the call's connection.
    pub connection: ConnectionHandle,
    pub(crate) channel: u8,
    /// Call number on the channel.
    pub number: u32,
}

impl CallHandle {
    /// Returns the channel that carries the call, 0 to 3.
    pub fn channel(&self) -> usize {
        usize::from(self.channel)
    }
}

/// Side of a connection on which this endpoint is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// Client side: we opened the connection and make calls.
    Client,
    /// Server side: the peer opened the connection, and we answer.
    Server,
}

/// Reason why a call died without an abort from the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeadReason {
    /// The peer sent nothing for the dead time.
    Silent,
    /// The network said twice that the peer cannot be reached, and nothing was heard between.
    Unreachable,
    /// The peer's own address reported the port closed, which is enough where the connection [says
    /// so](crate::ConnectOptions::ends_at_closed_port), and for a client of a server that drains.
    PortClosed,
    /// No data moved for the idle time.
    Idle,
    /// The hard time limit passed.
    HardLimit,
    /// The client began a newer call on the channel, or the connection was closed.
    Replaced,
}

/// Reason why a connection that a client opened is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConnectionEnd {
    /// The connection had no call for the time that one is kept.
    Idle,
    /// The connection had no call, and gave way when connections were short.
    Displaced,
    /// The connection was closed here.
    Closed,
    /// The connection failed, or was aborted by either side, with this code.
    Aborted(i32),
}

/// Event for the application. A call's last event is `Finished`, `Aborted` or `Dead`; all of its packets are
/// free by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A client made a call, which may already have readable bytes.
    NewCall {
        /// Handle of the call.
        call: CallHandle,
        /// Service of the call, after any upgrade.
        service: u16,
    },
    /// Bytes, or the end of the stream, can be read where there was nothing before.
    Readable(CallHandle),
    /// A call has room to write again after a write was refused for lack of room.
    Writable(CallHandle),
    /// The call ended well. For a client: the reply is read to its end. For a server: the reply has been
    /// received in full.
    Finished(CallHandle),
    /// The peer aborted the call, or the call broke a rule, with this code.
    Aborted {
        /// Handle of the call.
        call: CallHandle,
        /// Code of the abort.
        code: i32,
    },
    /// A time limit ended the call.
    Dead {
        /// Handle of the call.
        call: CallHandle,
        /// Limit that was exceeded.
        reason: DeadReason,
    },
    /// A client connection has a channel free again after `open_call` was refused.
    ChannelFree(ConnectionHandle),
    /// A client's connection that has had calls is removed; each of its calls has had its own event. Not told
    /// of one that has failed, see [`ConnectionAborted`](Self::ConnectionAborted).
    ConnectionEnded {
        /// Handle of the connection.
        connection: ConnectionHandle,
        /// Cause of the end.
        end: ConnectionEnd,
    },
    /// The connection failed with this code, and takes no more calls; each of its calls has its own event.
    ConnectionAborted {
        /// Handle of the connection.
        connection: ConnectionHandle,
        /// Code of the abort.
        code: i32,
    },
    /// A client came with a security class that is not offered, and was refused. At most once a second; its
    /// address may be another host's.
    ProofRefused {
        /// Address that the client's packet came from.
        remote: SocketAddr,
        /// Security index of the class.
        index: u8,
    },
}
