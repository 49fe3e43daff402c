//! Handles of connections and calls, and the events an endpoint reports about them.

use std::net::SocketAddr;

/// Names a connection of one endpoint. Stays invalid once the connection is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionHandle {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl ConnectionHandle {
    /// Returns the connection's place in a table of the endpoint's connections, below `connections_max`;
    /// taken again once it is gone.
    pub fn slot(&self) -> usize {
        self.index as usize
    }
}

/// Names a call of one endpoint. Stays invalid once the call has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallHandle {
    /// The call's connection.
    pub connection: ConnectionHandle,
    pub(crate) channel: u8,
    /// Call number on its channel.
    pub number: u32,
}

impl CallHandle {
    /// The channel that carries the call, 0 to 3.
    pub fn channel(&self) -> usize {
        usize::from(self.channel)
    }
}

/// Side of a connection that this endpoint is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// We opened it and make calls.
    Client,
    /// The peer opened it; we answer.
    Server,
}

/// Reason why a call died without an abort from the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeadReason {
    /// Nothing was heard for the dead time.
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

/// Reason why a connection that a client opened is no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConnectionEnd {
    /// The connection had no call for the time that one is kept.
    Idle,
    /// The connection had no call, and gave way when connections were short.
    Displaced,
    /// The connection was closed here.
    Closed,
    /// The connection failed, or was aborted by one of both sides, with this code.
    Aborted(i32),
}

/// Something the application should know. A call's last event is `Finished`, `Aborted` or `Dead`; all of its
/// packets are free by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A client made a call. Its bytes may already be readable.
    NewCall {
        /// The call.
        call: CallHandle,
        /// The service it is for, after any upgrade.
        service: u16,
    },
    /// Bytes, or the end of the stream, can be read where there was nothing before.
    Readable(CallHandle),
    /// A call has room to write again after a write was refused for lack of it.
    Writable(CallHandle),
    /// The call ended well. For a client: the reply is read to its end. For a server: the reply has been
    /// received in full.
    Finished(CallHandle),
    /// The peer, or a broken rule, ended the call with this code.
    Aborted {
        /// The call.
        call: CallHandle,
        /// Abort code.
        code: i32,
    },
    /// A time limit ended the call.
    Dead {
        /// The call.
        call: CallHandle,
        /// Limit that was exceeded.
        reason: DeadReason,
    },
    /// A client connection has a channel free again after `open_call` was refused.
    ChannelFree(ConnectionHandle),
    /// A connection that a client opened, and that has had calls, is removed; each of its calls has had its own event.
    /// Not told of one that has failed, see [`ConnectionAborted`](Self::ConnectionAborted).
    ConnectionEnded {
        /// The connection.
        connection: ConnectionHandle,
        /// Cause of the end.
        end: ConnectionEnd,
    },
    /// The connection failed with this code, and takes no more calls; each of its calls has its own event.
    ConnectionAborted {
        /// The connection.
        connection: ConnectionHandle,
        /// Abort code.
        code: i32,
    },
    /// A client came with a security class that is not offered and was refused. At most once a second; its
    /// address may be another host's.
    ProofRefused {
        /// Address that it came from.
        remote: SocketAddr,
        /// Security index of the class.
        index: u8,
    },
}
