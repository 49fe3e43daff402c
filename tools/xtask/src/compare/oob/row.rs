//! The rows: what moves, beside which peer, and what has to be reached.

/// A row, and its bars: ratios of Linerate's figure and the peer's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) peer: Peer,
    pub(super) throughput_least: f64,
    pub(super) cpu_most: Option<f64>,
}

impl Row {
    /// Servers have one CPU and clients another; else all share all CPUs.
    pub(super) fn is_apart(&self) -> bool {
        self.peer != Peer::Nginx
    }
}

/// The peer that Linerate is measured beside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Peer {
    /// A thread that sends the file by sendfile, to one client.
    BareSend,
    /// A thread that writes what it receives, from one client.
    BareReceive,
    /// nginx, by wrk with a hundred connections.
    Nginx,
}

impl Peer {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::BareSend => "bare sendfile",
            Self::BareReceive => "bare receive and write",
            Self::Nginx => "nginx",
        }
    }
}

pub(super) const ROWS: [Row; 3] = [
    Row { name: "read 1 GiB, one client", peer: Peer::BareSend, throughput_least: 0.9, cpu_most: Some(1.1) },
    Row { name: "read 1 MiB, 100 clients", peer: Peer::Nginx, throughput_least: 1.0, cpu_most: None },
    Row { name: "write 1 GiB, one client", peer: Peer::BareReceive, throughput_least: 0.8, cpu_most: None },
];

/// Bytes of the file that one client reads or writes over and over.
pub(super) const FILE_BYTES: u64 = 1 << 30;
/// Bytes of that which each of a hundred reads, and of its call.
pub(super) const SMALL_BYTES: u64 = 1 << 20;
