//! Configuration of a simulated world: sizes, delays, and rates of faults. Rates are probabilities from 0 to
//! 1; all may be changed while a world runs.

use std::ops::Range;
use std::time::Duration;

use super::net::KernelTls;
use crate::backend::uring::RingOptions;
use crate::buffer::BufferCounts;

/// Configuration of a whole world. The default is a healthy network and disk with the timing of real ones:
/// bytes arrive split anywhere and reads miss the cache, but nothing is lost and nothing fails.
#[derive(Clone, Debug)]
pub struct Config {
    /// Network of all hosts.
    pub net: NetConfig,
    /// File system of each host.
    pub fs: FsConfig,
    /// Helper threads of each host, beside its lanes.
    pub helpers: HelperConfig,
    /// Mail between the lanes of a host.
    pub mesh: MeshConfig,
    /// Send and read buffers of each lane.
    pub buffers: BufferCounts,
    /// Most descriptors that a host may have open; beyond, `EMFILE`.
    pub descriptors_max: usize,
    /// Virtual time after which an unfinished world is taken for hung.
    pub time_limit: Duration,
}

/// Configuration of the network of all hosts.
#[derive(Clone, Debug, Default)]
pub struct NetConfig {
    /// Link between hosts without settings of their own.
    pub link: LinkConfig,
    /// Behaviour of TCP streams.
    pub tcp: TcpConfig,
    /// Behaviour of UDP datagrams.
    pub udp: UdpConfig,
    /// Receive buffers of each lane.
    pub receive: ReceiveConfig,
}

/// Rings of buffers that one lane receives into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiveConfig {
    /// Buffers that streams share.
    pub buffers: usize,
    /// Size of each buffer, in bytes.
    pub buffer_bytes: usize,
    /// Buffers that UDP sockets share, each for a coalesced datagram of any size.
    pub datagram_buffers: usize,
}

/// Link between two hosts, in one direction.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkConfig {
    /// Shortest time of a packet on the way.
    pub latency: Duration,
    /// Longest random time on top of the latency. It alone never reorders.
    pub jitter: Duration,
    /// Bytes per second; `None` for no limit.
    pub bandwidth: Option<u64>,
    /// Bytes that wait for a limited link before datagrams are dropped.
    pub queue_bytes: usize,
    /// Rate of lost packets. Streams send them again after a while.
    pub loss: f64,
    /// Rate of datagrams that later ones overtake.
    pub reorder: f64,
    /// Extra time of an overtaken datagram, at most.
    pub reorder_delay: Duration,
    /// Rate of datagrams that arrive twice.
    pub duplicate: f64,
    /// Largest IP packet, in bytes. Larger datagrams are fragmented, or vanish if they must not be.
    pub mtu: usize,
}

/// Behaviour of TCP streams.
#[derive(Clone, Debug)]
pub struct TcpConfig {
    /// Most bytes that a sender may have unacknowledged.
    pub send_buffer: usize,
    /// Most bytes that a receiver may have untaken.
    pub recv_buffer: usize,
    /// Sizes of the largest segment, of which each connection draws one.
    pub segments: Vec<usize>,
    /// Rate of segments, and of received buffers, cut short at a random byte.
    pub split: f64,
    /// Rate of sends that take only part of what fits.
    pub partial_send: f64,
    /// Rate of accepts that fail, with `EMFILE`, `ENFILE`, `ENOBUFS`, `ENOMEM` or `ECONNABORTED`; the
    /// connection waits on.
    pub accept_error: f64,
    /// Rate of deliveries at which something on the way resets the connection.
    pub reset: f64,
    /// Time after which a partition resets a connection. Attempts to connect give up after it too.
    pub timeout: Duration,
    /// Maker of TLS records for streams that are given a key; `None` as in a kernel without the module.
    pub kernel_tls: Option<KernelTls>,
}

/// Behaviour of UDP datagrams.
#[derive(Clone, Debug)]
pub struct UdpConfig {
    /// Rate at which a datagram joins the one before, where GRO may join them.
    pub coalesce: f64,
    /// Rate of sends refused for a moment, as by a full device queue.
    pub would_block: f64,
    /// Rate of batches of which only the first datagrams are taken.
    pub partial_send: f64,
}

/// Configuration of one host's file system.
#[derive(Clone, Debug, PartialEq)]
pub struct FsConfig {
    /// Rate of inline reads that miss the page cache.
    pub cold_read: f64,
    /// Rate of inline opens that miss the name cache.
    pub cold_open: f64,
    /// Rate of reads that give less than asked for.
    pub short_read: f64,
    /// Rate of reads that fail with `EIO`.
    pub read_error: f64,
    /// Rate of writes that take less than given.
    pub short_write: f64,
    /// Rate of writes that fail with `EIO` or `ENOSPC`.
    pub write_error: f64,
    /// Rate of syncs that fail with `EIO`: data since the last one is torn on the disk, and no later sync
    /// writes it again.
    pub sync_error: f64,
    /// Rate of opens, look-ups, listings and readings of attributes that fail with `EIO`.
    pub name_error: f64,
    /// Rate of changes of names, sizes and attributes that fail with `EIO`.
    pub change_error: f64,
    /// Rate of opens by handle that fail with `ESTALE`.
    pub stale_handle: f64,
    /// Rate of syncs of a file that sync its name too, as on ext4 and xfs; POSIX does not promise it.
    pub sync_names: f64,
    /// Order in which changes of names and attributes reach the disk.
    pub journal: JournalKind,
    /// True to refuse all changes with `EROFS`.
    pub read_only: bool,
    /// True when the server is root: permission bits do not bind it, files are given to other owners, and
    /// have `trusted.` attributes.
    pub privileged: bool,
    /// True when the server may open by handle (CAP_DAC_READ_SEARCH); else `EPERM`.
    pub open_by_handle: bool,
    /// True when files have handles; else `EOPNOTSUPP`, as on overlayfs.
    pub handles: bool,
    /// True when files can be made without a name (O_TMPFILE); else `EOPNOTSUPP`, as on NFS and FUSE.
    pub unnamed: bool,
    /// True when files can share their content (FICLONE), as on xfs and btrfs; else `EOPNOTSUPP`.
    pub reflinks: bool,
    /// Room of the file system, in bytes; beyond, `ENOSPC`. Blocks have 4 KiB, holes none, reflinked files
    /// share theirs.
    pub capacity_bytes: u64,
    /// Part of the capacity that is kept for root, as ext4 does: not free to others, and written to all the
    /// same, as every lane is root here.
    pub reserved_bytes: u64,
    /// Number of inodes; beyond, `ENOSPC`.
    pub capacity_inodes: u64,
    /// Quota of bytes over all files, which have one owner; beyond, `EDQUOT`.
    pub quota_bytes: u64,
    /// Quota of inodes; beyond, `EDQUOT`.
    pub quota_inodes: u64,
    /// User at its quota: files given to it are refused with `EDQUOT`.
    pub full_user: Option<u32>,
    /// Most names of one file, and directories in one; beyond, `EMLINK`.
    pub links_max: u32,
    /// Most bytes of all extended attributes of one inode, each with 16 of overhead; beyond, `ENOSPC`.
    pub xattr_bytes_max: usize,
    /// Range of the time that an operation takes.
    pub delay: Range<Duration>,
    /// Rate of operations that take [`FsConfig::slow_delay`].
    pub slow: f64,
    /// Range of the time that a slow operation takes: a disk's bad day.
    pub slow_delay: Duration,
    /// Step of the clock that stamps files: changes within one step share a time.
    pub timestamp_step: Duration,
}

/// Order in which changes of names, sizes and attributes reach the disk, unless they are synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalKind {
    /// Changes reach the disk in the order they were made, each whole: ext4, xfs, btrfs. A sync of one makes
    /// those before it safe.
    Ordered,
    /// Changes reach the disk in any order, each name and each inode on its own: all that POSIX promises. A
    /// rename may leave both names, or neither, as on ext2.
    Unordered,
}

/// Helper threads of one host, which run what lanes [offload](crate::offload).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HelperConfig {
    /// Number of helper threads.
    pub threads: usize,
    /// Most jobs that wait for a thread.
    pub queue_max: usize,
    /// Range of the time that a job takes, whatever it does.
    pub delay: Range<Duration>,
}

/// Mail between the lanes of one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeshConfig {
    /// Range of the time until a lane takes mail, as when it or its CPU is busy.
    pub delay: Range<Duration>,
}

impl Config {
    /// Returns a configuration without chance: fixed delays, whole segments, warm caches. For tests that
    /// count packets or time.
    pub fn clean() -> Self {
        let mut config = Self::default();
        config.net.link.jitter = Duration::ZERO;
        config.net.tcp.split = 0.0;
        config.net.tcp.partial_send = 0.0;
        config.net.tcp.segments = vec![1448];
        config.net.udp.coalesce = 1.0;
        config.net.udp.would_block = 0.0;
        config.fs.cold_read = 0.0;
        config.fs.cold_open = 0.0;
        config.fs.short_read = 0.0;
        config.fs.short_write = 0.0;
        config.fs.delay = Duration::from_micros(100)..Duration::from_micros(100);
        config.mesh.delay = Duration::from_micros(5)..Duration::from_micros(5);
        config.helpers.delay = Duration::from_micros(100)..Duration::from_micros(100);
        config
    }

    /// Returns a bad network and a slow disk: loss, reordering, duplicates, stalls. Correct programs survive
    /// all of it: no resets and no failing reads; tests add those where they expect them.
    pub fn rough() -> Self {
        let mut config = Self::default();
        let link = &mut config.net.link;
        link.jitter = Duration::from_millis(5);
        link.loss = 0.02;
        link.reorder = 0.02;
        link.duplicate = 0.02;
        config.net.tcp.split = 0.5;
        config.net.tcp.partial_send = 0.5;
        config.net.tcp.send_buffer = 16 << 10;
        config.net.tcp.recv_buffer = 16 << 10;
        config.net.tcp.accept_error = 0.1;
        config.net.udp.would_block = 0.1;
        config.net.udp.partial_send = 0.1;
        config.fs.cold_read = 0.5;
        config.fs.cold_open = 0.5;
        config.fs.short_read = 0.5;
        config.fs.short_write = 0.5;
        config.fs.slow = 0.05;
        config.mesh.delay = Duration::ZERO..Duration::from_millis(5);
        config
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            net: NetConfig::default(),
            fs: FsConfig::default(),
            helpers: HelperConfig::default(),
            mesh: MeshConfig::default(),
            buffers: BufferCounts { small: 64, large: 16 },
            descriptors_max: 1024,
            time_limit: Duration::from_secs(24 * 3600),
        }
    }
}

impl Default for HelperConfig {
    fn default() -> Self {
        let delay = Duration::from_micros(20)..Duration::from_millis(2);
        Self { threads: 2, queue_max: 256, delay }
    }
}

impl Default for MeshConfig {
    fn default() -> Self {
        Self { delay: Duration::ZERO..Duration::from_micros(50) }
    }
}

impl LinkConfig {
    /// Returns the link between processes of one host.
    pub(super) fn loopback() -> Self {
        Self { latency: Duration::from_micros(10), jitter: Duration::ZERO, mtu: 65_536, ..Self::default() }
    }
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self {
            latency: Duration::from_micros(50),
            jitter: Duration::from_micros(50),
            bandwidth: None,
            queue_bytes: 1 << 20,
            loss: 0.0,
            reorder: 0.0,
            reorder_delay: Duration::from_millis(10),
            duplicate: 0.0,
            mtu: 1500,
        }
    }
}

impl Default for TcpConfig {
    fn default() -> Self {
        Self {
            send_buffer: 256 << 10,
            recv_buffer: 256 << 10,
            segments: vec![536, 1448, 8948, 65_160],
            split: 0.1,
            partial_send: 0.1,
            accept_error: 0.0,
            reset: 0.0,
            timeout: Duration::from_secs(120),
            kernel_tls: None,
        }
    }
}

impl Default for ReceiveConfig {
    /// Returns the configuration of real lanes.
    fn default() -> Self {
        let ring = RingOptions::default();
        Self {
            buffers: ring.stream_buffers.into(),
            buffer_bytes: ring.stream_buffer_bytes,
            datagram_buffers: ring.datagram_buffers.into(),
        }
    }
}

impl Default for UdpConfig {
    fn default() -> Self {
        Self { coalesce: 0.8, would_block: 0.01, partial_send: 0.0 }
    }
}

impl Default for FsConfig {
    fn default() -> Self {
        Self {
            cold_read: 0.1,
            cold_open: 0.1,
            short_read: 0.1,
            read_error: 0.0,
            short_write: 0.1,
            write_error: 0.0,
            sync_error: 0.0,
            name_error: 0.0,
            change_error: 0.0,
            stale_handle: 0.0,
            sync_names: 0.5,
            journal: JournalKind::Ordered,
            read_only: false,
            privileged: false,
            open_by_handle: true,
            handles: true,
            unnamed: true,
            reflinks: true,
            capacity_bytes: 1 << 40,
            reserved_bytes: 0,
            capacity_inodes: 1 << 24,
            quota_bytes: u64::MAX,
            quota_inodes: u64::MAX,
            full_user: None,
            links_max: 65_000,
            xattr_bytes_max: 4096,
            delay: Duration::from_micros(20)..Duration::from_millis(2),
            slow: 0.0,
            slow_delay: Duration::from_secs(2),
            timestamp_step: Duration::from_millis(4),
        }
    }
}
