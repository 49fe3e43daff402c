//! Counts of what the network did.

/// Counts of what happened on the network since the world began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetStats {
    /// Connections accepted by listeners' hosts.
    pub connections: u64,
    /// Attempts to connect that found no listener.
    pub refused: u64,
    /// Attempts put off because the accept queue was full.
    pub accept_overflows: u64,
    /// Resets that reached an end of a connection.
    pub resets: u64,
    /// Datagrams put on the way, each of a batch.
    pub datagrams_sent: u64,
    /// Datagrams that reached a socket, duplicates included.
    pub datagrams_delivered: u64,
    /// Datagrams lost at random.
    pub lost: u64,
    /// Datagrams lost to a partition or a host without power.
    pub cut: u64,
    /// Datagrams larger than a link's MTU that might not be fragmented.
    pub too_big: u64,
    /// Datagrams that a link's MTU cut up; a datagram is lost if one fragment is lost.
    pub fragmented: u64,
    /// Datagrams dropped because a link of limited width was busy.
    pub queue_overflows: u64,
    /// Datagrams dropped because the receiver did not take what came before.
    pub receive_overflows: u64,
    /// Datagrams that have no receiver.
    pub unroutable: u64,
    /// Datagrams that arrived twice.
    pub duplicated: u64,
    /// Datagrams that later ones could overtake.
    pub reordered: u64,
}
