//! Interface between a lane and what it runs on: io_uring in production ([`uring`]), a seeded world in tests
//! ([`sim`]). Everything above this trait, futures and services alike, is the same code in both.
//!
//! Methods come in four families, to be called in this order:
//! - *clock*: `now`, `wall_clock`;
//! - *immediate*: `try_*`, `stat`, sockets' set-up and options. They never block and never park;
//! - *pending*: `poll_*` on a socket's own queues, and `submit` / `poll_op` / `forget` for single operations;
//! - *loop*: `turn`, called by the lane between two rounds of its tasks.

use std::ffi::CString;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant, SystemTime};

use crate::buffer::RecvBuf;
use crate::counters::LaneCounters;
use crate::helper::Job;
use crate::helper::queue::Client;
use crate::socket::ktls::KtlsRefusal;
use crate::socket::unreachable::Unreachable;
use crate::socket::{fragment, gro, options, pktinfo, traffic_class};

use self::operation::{Op, Opened, Outcome};
use self::pipe::Pipe;
use self::uring::tree_lock::TreeLock;

pub use self::descriptor::Descriptor;
pub use self::file::{
    Allocate, AttributeChange, DirEntry, DirPart, EntryChange, FileHandle, FileKind, HeldLock, LockKind,
    NameStat, NamesPart, OpenHow, OpenKind, RenameHow, SeekTo, SetTime, Stat, StatxExtra, SystemStat,
    Timestamp, WatchEvent, XattrHow,
};

#[cfg(feature = "sim")]
pub mod sim;
pub mod uring;

pub(crate) mod operation;

mod current;
mod descriptor;
mod file;
mod keep_alive;
mod pipe;
mod receive;
mod released;

pub use self::keep_alive::with_keepalive;
pub use self::released::Released;

pub(crate) use self::current::{enter, try_with};
pub(crate) use self::keep_alive::KeepAlive;
pub(crate) use self::operation::OpFuture;

/// Fills `bytes` with unpredictable random bytes (getrandom(2)).
pub(crate) fn kernel_random(bytes: &mut [u8]) -> io::Result<()> {
    getrandom::fill(bytes).map_err(io::Error::from)
}

/// Descriptor of a backend: a socket, file or directory. In [`uring`] it is the kernel's number. It is a
/// plain name; a [`Descriptor`] owns what it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fd(pub i32);

/// Id of an operation handed to [`Backend::submit`] until its outcome is taken or forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct OpId(pub u64);

/// Interface of a lane to the kernel, or to a simulated world. One instance belongs to one lane and is never
/// shared.
pub(crate) trait Backend {
    /// Returns monotonic time, read once per turn and cached: cheap to ask for every request.
    fn now(&self) -> Instant;

    /// Returns monotonic time, read now: for measurements within a long turn.
    fn clock(&self) -> Instant;

    /// Returns how long the lane's thread has run so far; `None` for simulated lanes, which have no thread.
    /// One system call.
    fn busy(&self) -> Option<Duration> {
        None
    }

    /// Returns the time of day, for dates in protocols and logs.
    fn wall_clock(&self) -> SystemTime;

    /// Fills `bytes` with unpredictable random bytes.
    fn random(&self, bytes: &mut [u8]) -> io::Result<()>;

    /// Reads from the page cache into one room after another, if all can be read without waiting: `Ok(None)`
    /// means "submit it instead". A result shorter than the room means the end of the file, or that the rest
    /// would have to be waited for.
    fn try_read_at(&self, file: Fd, offset: u64, into: &mut [IoSliceMut<'_>]) -> io::Result<Option<usize>>;

    /// Returns how many bytes from `offset` on, at most `len`, are in the page cache, as far as known without
    /// waiting; 0 when the first is missing. Bytes beyond the end of the file count as cached.
    fn resident(&self, file: Fd, offset: u64, len: usize) -> io::Result<usize>;

    /// Opens from the name cache; `Ok(None)` means "submit it instead".
    fn try_open_at(&self, dir: Fd, path: &CString, how: OpenHow) -> io::Result<Option<Descriptor>>;

    /// Returns the attributes of an open file, as the kernel has them in memory.
    fn stat(&self, file: Fd) -> io::Result<Stat>;

    /// Duplicates the descriptor of a file, for a thread beside the lane that checks where its pages lie.
    /// Refused for files that are all memory, where the check could make pages, and by simulated backends.
    fn lend_file(&self, file: Fd) -> io::Result<OwnedFd>;

    /// Opens the directory that a volume exports. Blocks: for start-up and configuration only.
    fn open_root(&self, path: &std::path::Path) -> io::Result<Descriptor>;

    /// Returns the value of an extended attribute. Blocks, as `open_root`.
    fn xattr_at_start(&self, file: Fd, name: &CString, max: usize) -> io::Result<Vec<u8>>;

    /// Sets an extended attribute and syncs it. Blocks, as `open_root`.
    fn set_xattr_at_start(&self, file: Fd, name: &CString, value: &[u8]) -> io::Result<()>;

    /// Locks a directory and all beneath it for this process; `None` where the file system has no locks. Does
    /// not wait for others.
    fn lock_at_start(&self, dir: Fd) -> io::Result<Option<TreeLock>>;

    /// Returns the absolute path of the same file without symbolic links, `.` and `..`. Blocks, as
    /// `open_root`.
    fn canonical(&self, path: &std::path::Path) -> io::Result<std::path::PathBuf>;

    /// Sends as much as the socket takes at once; `Ok(None)` when it takes nothing now.
    fn try_send(&self, socket: Fd, parts: &[IoSlice<'_>], more: bool) -> io::Result<Option<usize>>;

    /// Moves file pages to a stream socket without a copy.
    ///
    /// Waits for pages that are not in memory: see [`Backend::resident`]; `Ok(None)` when the socket takes
    /// nothing now, `Ok(Some(0))` when the file ends at or before `offset`.
    fn try_send_file(&self, socket: Fd, file: Fd, offset: u64, len: usize) -> io::Result<Option<usize>>;

    /// Sends equal-size datagrams (the last may be shorter) gathered from `parts` in one call;
    /// `Ok(None)` when the socket takes nothing now.
    fn try_send_datagrams(&self, socket: Fd, batch: &DatagramBatch<'_>) -> io::Result<Option<usize>>;

    fn tcp_listen(&self, addr: SocketAddr, options: &ListenOptions) -> io::Result<Descriptor>;

    /// Takes over a socket made elsewhere, such as by a listener group. Simulated backends refuse.
    fn adopt(&self, socket: OwnedFd, kind: SocketKind) -> io::Result<Descriptor>;

    /// Takes over a stream that another lane gave away.
    fn adopt_stream(&self, stream: Released) -> io::Result<Descriptor>;

    /// Releases a stream, from which nothing was received or asked for yet, for another lane to adopt.
    ///
    /// # Errors
    /// `EBUSY` when something was. The stream stays here then.
    fn release(&self, stream: Fd) -> io::Result<Released>;

    /// Takes a file off the lane; no operation may be at work on it.
    ///
    /// # Errors
    /// `EBUSY` while one is that was given up. The file stays here then.
    fn release_file(&self, file: Fd) -> io::Result<Released>;

    /// Returns what the kernel noted of the last packet of a connection with `peer`; `None` when unknown.
    fn incoming(&self, stream: Fd, peer: SocketAddr, what: Incoming) -> Option<u32>;

    /// Makes a bound UDP socket with receive coalescing (GRO) and local-address reporting on, whose datagrams
    /// may be fragmented.
    fn udp_bind(&self, addr: SocketAddr, options: &UdpOptions) -> io::Result<Descriptor>;

    /// Makes a TCP socket for `Op::Connect` to `peer`.
    fn tcp_socket(&self, peer: SocketAddr) -> io::Result<Descriptor>;

    /// Returns the socket's own address.
    fn local_addr(&self, socket: Fd) -> io::Result<SocketAddr>;

    fn set_option(&self, socket: Fd, option: SocketOption) -> io::Result<()>;

    /// Lets the kernel make the TLS records of a connected stream from now on, or gives it the next key.
    ///
    /// See [`crate::socket::ktls::set_transmit_key`] for `crypto_info` and for what must be sent before.
    fn set_ktls_key(&self, stream: Fd, crypto_info: &[u8]) -> Result<(), KtlsRefusal>;

    /// Returns whether the kernel takes more than one key for a TLS stream.
    fn can_change_ktls_key(&self) -> bool;

    /// Sends `bytes` with control messages, laid out as [`crate::socket::control`] writes them; `Ok(None)` when
    /// the stream takes nothing now.
    fn try_send_control(&self, stream: Fd, bytes: &[u8], control: &[u8]) -> io::Result<Option<usize>>;

    /// Returns the bytes that a stream took for sending and its peer has not acknowledged yet (SIOCOUTQ).
    /// Under kernel TLS those of the records, which are a few more.
    fn unacknowledged(&self, stream: Fd) -> io::Result<u64>;

    /// Returns how long a stream waits for an acknowledgment before it sends again (TCP_INFO).
    fn retransmission_timeout(&self, stream: Fd) -> io::Result<Duration>;

    /// Ends one or both directions of a stream.
    fn shutdown(&self, socket: Fd, how: std::net::Shutdown) -> io::Result<()>;

    /// Closes a descriptor. Whatever is in flight on it is cancelled first; its buffers stay with the backend
    /// until the kernel has let go of them.
    fn close(&self, fd: Fd);

    /// Polls for the next accepted connection of a listener.
    fn poll_accept(&self, listener: Fd, cx: &mut Context<'_>) -> Poll<io::Result<(Descriptor, SocketAddr)>>;

    /// Polls for the next bytes of a stream, in a buffer of the backend. An empty buffer is the end of the
    /// stream.
    fn poll_recv(&self, socket: Fd, cx: &mut Context<'_>) -> Poll<io::Result<RecvBuf>>;

    /// Pauses the lane's own receive of a stream: returns the next bytes that it brought, none at the end of
    /// the stream.
    ///
    /// Once there are none left and it rests, returns [`RecvPaused::Resting`]. Then a task may receive into
    /// memory of its own.
    fn poll_quiet(&self, stream: Fd, cx: &mut Context<'_>) -> Poll<io::Result<RecvPaused>>;

    /// Puts back bytes that were taken from a stream and are not wanted yet.
    fn put_back(&self, stream: Fd, bytes: RecvBuf);

    /// Appends every datagram that has arrived, at most `max`, to `out`. At least one when ready.
    fn poll_recv_datagrams(
        &self,
        socket: Fd,
        cx: &mut Context<'_>,
        out: &mut Vec<Datagram>,
        max: usize,
    ) -> Poll<io::Result<()>>;

    /// Returns the next report of a datagram that did not reach its destination, if
    /// [`SocketOption::ReportUnreachable`] is on. Reports may exist after a failed receive, and after sends,
    /// which are repeated where only such a report failed them. Costs no system call.
    fn try_take_unreachable(&self, socket: Fd) -> Option<Unreachable>;

    /// Starts an operation, and returns its id.
    fn submit(&self, op: Op) -> OpId;

    /// Takes the outcome of an operation. After `Ready` the id is no longer valid.
    fn poll_op(&self, id: OpId, cx: &mut Context<'_>) -> Poll<Outcome>;

    /// Gives up on an operation: it is cancelled if possible, and its outcome abandoned. Until then
    /// `keep_alive` is kept.
    fn forget(&self, id: OpId, keep_alive: Option<KeepAlive>);

    /// Takes an empty pipe; `None` when the lane has lent all it may.
    fn pipe(&self) -> io::Result<Option<Pipe>>;

    /// Registers a descriptor that an operation opened; a file that it made in the directory `made_in` lies
    /// on its file system.
    fn own(&self, opened: Opened, made_in: Option<Fd>) -> Descriptor;

    /// Begins to watch a file for changes of itself, a directory for those of its entries as well.
    fn watch(&self, fd: Fd) -> io::Result<Watch>;

    /// Stops a watch, whose remaining events may still come.
    fn unwatch(&self, watch: Watch);

    /// Polls for changes seen on this lane's watches since the last call.
    fn poll_watch_events(&self, cx: &mut Context<'_>) -> Poll<io::Result<Vec<WatchEvent>>>;

    /// Hands operations to the kernel, waits as `park` says, and wakes tasks whose operations completed.
    fn turn(&self, park: Park) -> io::Result<()>;

    /// Lets the next wait of [`Backend::turn`] gather completions for `wait` before it ends; see
    /// [`crate::time::gather`]. Simulated lanes wake up in no time, and so do not gather.
    fn gather(&self, wait: Duration) {
        let _ = wait;
    }

    /// Returns what wakes the lane from another thread while it is parked in [`Backend::turn`].
    fn unparker(&self) -> std::sync::Arc<dyn Unpark>;

    /// Queues blocking work for the silo's helpers; returns it when this client has no room left.
    fn offload(&self, client: Option<Client>, job: Job) -> Result<(), Job>;

    fn counters(&self) -> &LaneCounters;

    /// Returns the delayed doorbells of simulated backends; `None` for real ones.
    fn slow_bells(&self) -> Option<&dyn DelayedDoorbells> {
        None
    }
}

/// Delay of doorbells between simulated lanes.
pub trait DelayedDoorbells {
    /// Runs `ring` after a delay by the seed, and then calls the waker that it returns.
    fn later(&self, ring: Box<dyn FnOnce() -> Option<Waker>>);
}

/// Handle that wakes a parked lane from any thread.
pub trait Unpark: Send + Sync {
    /// Makes the lane's current or next park end, and returns whether it was parked. Cheap when the lane is
    /// not.
    fn unpark(&self) -> bool;
}

/// Time for which a turn may wait in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Park {
    /// No wait: tasks are ready, and only completed operations are collected.
    No,
    /// Wait until this time at most, or for an event (`None`).
    Until(Option<Instant>),
}

/// Identity of a stream, also when its descriptor number belongs to another one later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StreamToken(pub(crate) u64);

/// Outcome of pausing the receives of a stream.
pub(crate) enum RecvPaused {
    /// The stream has brought these bytes first.
    Bytes(RecvBuf),
    /// The lane receives nothing from the stream.
    Resting(StreamToken),
}

/// Watch of a file or directory, as named in [`WatchEvent`]s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Watch(pub i32);

/// Kind of an adopted descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketKind {
    /// Listening TCP socket.
    Listener,
    /// Bound UDP socket.
    Udp,
    /// Connected TCP socket.
    Stream,
}

/// Trace of the way a connection came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// Index of the interface, as packet filters see it: a bond's, not that of the NIC in it.
    Interface,
    /// Instance of NAPI, hence the NIC's queue, even behind a bond.
    NapiId,
    /// CPU that handled the packet.
    Cpu,
}

//@ limit: reports of unreachable peers (ICMP)
//@ section: Rx
//@ unit: report, 64 bytes quoted
//@ connection: two end its calls, 1.5 s apart and with nothing heard between; one of a closed port those to a host that is called back
//@ all: lane: {} untaken of a socket
//@ empty: dropped, and what quotes no recent packet of a call is ignored; others feel two system calls a report
//@ counter: rx_unreachable, lane_unreachable_dropped
//@ attack: rx-spoofed-flood
/// Reports of unreachable destinations that a socket keeps for its task; later ones are dropped and counted.
pub(crate) const UNREACHABLE_MAX: usize = 64;

/// Options of a listener.
#[derive(Clone, Debug)]
pub struct ListenOptions {
    /// Connections that the kernel keeps waiting for `accept`.
    pub backlog: u32,
    /// True to share the address with other listeners (SO_REUSEPORT).
    pub reuse_port: bool,
}

/// Options of a UDP socket.
#[derive(Clone, Debug)]
pub struct UdpOptions {
    /// True to share the address with other sockets (SO_REUSEPORT).
    pub reuse_port: bool,
    /// Size of the kernel's receive buffer, in bytes.
    pub recv_buffer: usize,
    /// Size of the kernel's send buffer, in bytes.
    pub send_buffer: usize,
    /// True for receive coalescing (UDP_GRO). Otherwise every datagram arrives alone.
    pub gro: bool,
    /// True to report the traffic class of received datagrams.
    pub traffic_class: bool,
}

/// Option of a live socket.
#[derive(Clone, Copy, Debug)]
pub enum SocketOption {
    /// Upper bound on the sending rate, bytes per second (SO_MAX_PACING_RATE).
    PacingRate(u64),
    /// Mark of every packet sent from now on, retransmitted ones too (SO_MARK); 0 removes it. Needs
    /// CAP_NET_ADMIN.
    Mark(u32),
    /// True to send segments without waiting to fill them (TCP_NODELAY).
    NoDelay(bool),
    /// Size of the kernel's send buffer, in bytes.
    SendBuffer(usize),
    /// Bytes that may wait in the kernel before they are sent: above, the stream takes no more, and below
    /// half it is writable again (TCP_NOTSENT_LOWAT).
    UnsentMax(u32),
    /// Close by reset: unsent bytes are dropped and the peer learns the transfer failed (SO_LINGER 0).
    ResetOnClose,
    /// Reports of datagrams that did not reach their destination (IP_RECVERR, IPV6_RECVERR): a receive fails
    /// when there is one. For UDP sockets.
    ReportUnreachable,
}

/// Datagrams for one destination in one call: UDP_SEGMENT where the kernel has it.
#[derive(Debug)]
pub struct DatagramBatch<'a> {
    /// Destination of the datagrams.
    pub to: SocketAddr,
    /// Source address; `None` for any of this host's.
    pub from: Option<IpAddr>,
    /// Traffic class of the packets (IPv4's TOS octet): code point and two bits of ECN; 0 for none.
    pub class: u8,
    /// Payload bytes of every datagram but the last.
    pub segment: u16,
    /// True to send the datagrams whole or not at all: EMSGSIZE where the interface is too narrow, dropped
    /// where the path is. For probes of the path's MTU; costs four more system calls. Otherwise datagrams may
    /// be fragmented.
    pub dont_fragment: bool,
    /// Payloads, one after another.
    pub parts: &'a [IoSlice<'a>],
}

/// Received UDP buffer: one datagram, or several of equal size coalesced by GRO.
#[derive(Debug)]
pub struct Datagram {
    /// Payload bytes, to be split every `segment` bytes.
    pub buf: RecvBuf,
    /// Address of the sender.
    pub from: SocketAddr,
    /// Address of ours that the datagram was sent to, if known.
    pub local: Option<IpAddr>,
    /// Index of the interface that the datagram came in on, 0 if unknown.
    pub ifindex: u32,
    /// Traffic class of the datagrams, if the socket [reports it](`UdpOptions::traffic_class`); 0 otherwise.
    pub class: u8,
    /// Bytes of each datagram but the last; equals the length when there is one.
    pub segment: u16,
}

impl<'a> DatagramBatch<'a> {
    /// Makes a batch from any address, of no class, which may be fragmented.
    pub fn new(to: SocketAddr, segment: u16, parts: &'a [IoSlice<'a>]) -> Self {
        Self { to, from: None, class: 0, segment, dont_fragment: false, parts }
    }
}

impl Datagram {
    /// Returns the datagrams in this buffer.
    pub fn segments(&self) -> impl Iterator<Item = &[u8]> {
        self.buf.chunks(usize::from(self.segment.max(1)))
    }
}

impl Default for ListenOptions {
    fn default() -> Self {
        Self { backlog: 4096, reuse_port: false }
    }
}

impl UdpOptions {
    /// Sets all options but `reuse_port` on a socket that is not bound yet.
    ///
    /// Sets also what every datagram socket of a lane has: it tells by which address a packet came, and
    /// fragments what is longer than the path takes.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn prepare(&self, socket: impl AsFd + Copy) -> io::Result<()> {
        options::set_receive_buffer(socket, self.recv_buffer)?;
        options::set_send_buffer(socket, self.send_buffer)?;
        pktinfo::enable(socket)?;
        fragment::allow(socket)?;
        if self.traffic_class {
            traffic_class::report(socket)?;
        }
        if self.gro { gro::enable(socket) } else { Ok(()) }
    }
}

impl Default for UdpOptions {
    fn default() -> Self {
        Self {
            reuse_port: false,
            recv_buffer: 16 << 20,
            send_buffer: 4 << 20,
            gro: true,
            traffic_class: false,
        }
    }
}
