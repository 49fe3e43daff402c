//! Opening of the ring, and the sockets and options that are plain calls.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use io_uring::{IoUring, cqueue};
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use crate::affinity;
use crate::backend::{ListenOptions, SocketOption};
use crate::probe::RingRefusal;

/// Sizes of a lane's ring and of the memory for receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingOptions {
    /// Submission queue entries; completions have four times as many.
    pub entries: u32,
    /// Buffers that stream receives share; a power of two, at most 32768.
    pub stream_buffers: u16,
    /// Bytes of each buffer that stream receives share.
    pub stream_buffer_bytes: usize,
    /// Buffers that datagram receives share; a power of two, at most 32768. Made with the first UDP socket.
    pub datagram_buffers: u16,
    /// Bytes of each datagram buffer: a coalesced datagram of up to 65,507 bytes and its addresses.
    pub datagram_buffer_bytes: usize,
    /// True to register the lane's send and read buffers with the ring. That takes all their memory at start
    /// (of the default 100 MiB a quarter of a second of CPU), and saves the kernel a look at pages for each
    /// operation.
    pub register_buffers: bool,
    /// Place where changes of names and attributes are made that may wait for a disk.
    pub file_operations: FileOperations,
    /// Time for which the end of a lane waits for operations that the kernel does not let go of, such as
    /// reads of a dead disk.
    pub patience: Duration,
}

/// Party that makes the calls that change names, attributes and lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileOperations {
    /// The ring makes the calls where the running kernel's has the operation; else the silo's helpers do.
    Ring,
    /// The silo's helpers make the calls, as on a kernel with a ring that has none of these operations.
    Helpers,
}

/// Reason why a lane's ring could not be made. The text says what to change.
#[derive(Debug, thiserror::Error)]
pub enum RingError {
    /// The kernel refuses to make the ring.
    #[error("{refusal}. Linerate needs it; to change that: {}", refusal.advice())]
    Refused {
        /// Reason of the refusal, as far as the machine tells.
        refusal: RingRefusal,
    },
    /// The receive buffers were refused.
    #[error("cannot register the lane's receive buffers: {0}")]
    Buffers(io::Error),
    /// A descriptor for waking the lane could not be had.
    #[error("cannot make the lane's wake-up descriptor: {0}")]
    Park(io::Error),
}

impl Default for RingOptions {
    fn default() -> Self {
        Self {
            entries: 1024,
            //@ limit: receives that found the ring empty
            //@ section: Lanes
            //@ unit: place in the line
            //@ connection: 1
            //@ all: lane: each stream once; one begins for every 8 of the {} buffers that are back
            //@ empty: it waits for its turn, at most the turns before its own
            //@ counter: lane_recv_starved
            //@ attack: http-drips-10000
            stream_buffers: 512,
            stream_buffer_bytes: 8 << 10,
            //@ limit: receive ring of datagrams
            //@ section: Lanes
            //@ unit: buffer of 64 KiB
            //@ connection: all lent ones divided by the lane's UDP sockets
            //@ all: lane: {}, three quarters of them lent at most
            //@ empty: the socket's receive pauses and the kernel drops; other sockets have buffers
            //@ counter: lane_recv_paused, lane_recv_copied
            //@ attack: rx-spoofed-flood
            datagram_buffers: 256,
            datagram_buffer_bytes: 65_536 + 512,
            register_buffers: false,
            file_operations: FileOperations::Ring,
            patience: Duration::from_secs(5),
        }
    }
}

/// Opens a ring for the calling thread, and enters the ring once: a filter may allow the one and refuse the
/// other.
pub(super) fn open(options: &RingOptions) -> Result<IoUring, RingError> {
    let opened = IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_submit_all()
        .setup_cqsize(options.entries * 4)
        .build(options.entries)
        .and_then(|ring| ring.submit().map(|_| ring));
    opened.map_err(|error| RingError::Refused { refusal: RingRefusal::diagnose(Path::new("/"), &error) })
}

/// Keeps the kernel's own threads for this ring on `cpus` (anywhere when empty). Cold reads that block run
/// there, and pages lie on the node of the thread that reads them first.
pub(super) fn pin_workers(ring: &IoUring, cpus: &[u32]) {
    let Some(set) = affinity::cpu_set(cpus) else { return };
    // From 6.2 on the kernel narrows it to what the lane itself is pinned to: near enough, they stay on its CPU.
    // Kernels before 5.14 have no such call; their workers stay on the node of the thread that submits.
    let _ = ring.submitter().register_iowq_aff(&set);
}

/// Allows the kernel more threads of its own for this ring than the usual four for each CPU. Threads that
/// wait for a file system which does not answer are kept by it, and work on another finds one all the same.
/// Where none waits there are no more than before.
pub(super) fn allow_workers(ring: &IoUring) {
    // Kernels before 5.15 have no such call.
    let _ = ring.submitter().register_iowq_max_workers(&mut [WORKERS_MAX, 0]);
}

/// Most threads of the kernel for a ring: more than a lane has uploads under way by default (1,024).
const WORKERS_MAX: u32 = 1280;

/// Returns the header of every multishot message receive, with room for the sender's address and control
/// messages.
pub(super) fn message_template() -> libc::msghdr {
    // SAFETY: a msghdr of zeros is a valid one without name, parts and control data.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_namelen = size_of::<libc::sockaddr_in6>() as libc::socklen_t;
    message.msg_controllen = CONTROL_BYTES;
    message
}

/// Returns a completion's result in the form that the system call would have returned.
pub(super) fn result_of(entry: &cqueue::Entry) -> io::Result<u32> {
    u32::try_from(entry.result()).map_err(|_| io::Error::from_raw_os_error(-entry.result()))
}

pub(super) fn listen(addr: SocketAddr, options: &ListenOptions) -> io::Result<OwnedFd> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    if addr.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(options.reuse_port)?;
    crate::socket::options::keep_alive(&socket)?;
    socket.bind(&addr.into())?;
    socket.listen(i32::try_from(options.backlog).unwrap_or(i32::MAX))?;
    Ok(socket.into())
}

pub(super) fn stream_socket(peer: SocketAddr) -> io::Result<OwnedFd> {
    let socket = Socket::new(Domain::for_address(peer), Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
    Ok(socket.into())
}

pub(super) fn set_option(fd: BorrowedFd<'_>, option: SocketOption) -> io::Result<()> {
    let socket = SockRef::from(&fd);
    match option {
        SocketOption::PacingRate(rate) => crate::socket::pacing::set_max_rate(fd, rate),
        SocketOption::Mark(mark) => crate::socket::options::set_mark(fd, mark),
        SocketOption::NoDelay(on) => socket.set_tcp_nodelay(on),
        SocketOption::SendBuffer(bytes) => socket.set_send_buffer_size(bytes),
        SocketOption::UnsentMax(bytes) => crate::socket::options::set_unsent_max(fd, bytes),
        SocketOption::ResetOnClose => socket.set_linger(Some(Duration::ZERO)),
        SocketOption::ReportUnreachable => crate::socket::unreachable::enable(fd),
    }
}

/// Bytes for GRO's segment size and the packet's own address, of either family.
const CONTROL_BYTES: usize = 128;
