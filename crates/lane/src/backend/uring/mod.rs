//! Lanes on the kernel: one io_uring per lane with SINGLE_ISSUER and DEFER_TASKRUN, multishot accept and
//! receive into provided buffers, page-cache hits and socket sends tried inline.

use std::cell::{Cell, RefCell};
use std::ffi::CString;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant, SystemTime};

use crossbeam_queue::SegQueue;
use io_uring::types::{CancelBuilder, Fd as RingFd};
use io_uring::{IoUring, opcode};

use self::closing::Closing;
use self::key::Key;
use self::mounts::Mounts;
use self::opcodes::Opcodes;
use self::open_files::OpenFiles;
use self::ops::Ops;
use self::park::Parker;
use self::sockets::{Arrived, Receive, Sockets};
use self::starved::Starved;
use self::tree_lock::TreeLock;
use self::watch::Watcher;
use super::operation::{Answer, Op, Opened, Outcome};
use super::pipe::{self, Pipe, Pipes};
use super::receive::ReceiveShares;
use super::released::{Released, ReleasedKind};
use super::{
    Backend, Datagram, DatagramBatch, Descriptor, Fd, Incoming, KeepAlive, ListenOptions, OpId, Park,
    RecvPaused, SocketKind, SocketOption, UdpOptions, Unpark, Watch,
};
use crate::backend::file::{OpenHow, Stat, WatchEvent};
use crate::buffer::{BufRing, RecvBuf};
use crate::counters::LaneCounters;
use crate::helper::queue::Client;
use crate::helper::{HelperPool, Job};
use crate::memory::LaneMemory;
use crate::socket;
use crate::socket::control::send_with_control;
use crate::socket::ktls::{self, KtlsRefusal};
use crate::socket::unreachable::Unreachable;

mod closing;
mod complete;
mod enter;
pub(crate) mod files;
mod key;
mod mounts;
mod opcodes;
mod open_files;
mod ops;
mod park;
mod recv_paused;
mod residency;
mod setup;
mod sockets;
mod starved;
mod submit;
#[cfg(test)]
mod tests;
pub(crate) mod tree_lock;
mod udp;
mod watch;

pub use self::setup::{FileOperations, RingError, RingOptions};

/// A lane's ring and all that lives there, made on the lane's own thread.
pub(crate) struct Uring {
    /// Ring of the kernel, dropped first: after that the kernel holds none of the memory below.
    ring: RefCell<IoUring>,
    sockets: RefCell<Sockets>,
    ops: RefCell<Ops>,
    /// Operations of the running kernel's ring.
    opcodes: Opcodes,
    /// Rest of the work that the lane may do itself in this turn, without a disk to wait for, in pages
    /// touched.
    left_in_turn: Cell<usize>,
    files: RefCell<OpenFiles>,
    closing: RefCell<Closing>,
    streams: Rc<BufRing>,
    datagrams: RefCell<Option<Rc<BufRing>>>,
    options: RingOptions,
    /// Accepts and receives that the kernel has not ended, and which may write into the rings of buffers.
    multishots: Cell<usize>,
    shares: ReceiveShares,
    /// Sockets with a receive stopped for want of a provided buffer, each once, in the order of their turns.
    starved: RefCell<Starved>,
    parker: Arc<Parker>,
    helpers: HelperPool,
    helped: Arc<SegQueue<(Key, Answer)>>,
    pipes: Rc<Pipes>,
    /// True where the kernel tells whether a zero-copy send copied.
    reports_copies: Cell<bool>,
    watcher: RefCell<Option<Watching>>,
    message_template: Box<libc::msghdr>,
    unsegmented: RefCell<udp::Unsegmented>,
    counters: Arc<LaneCounters>,
    memory: Arc<LaneMemory>,
    now: Cell<Instant>,
    /// Time that the next park gathers for; zero for no gathering.
    gather: Cell<Duration>,
    woken: RefCell<Vec<Waker>>,
}

struct Watching {
    watcher: Watcher,
    readable: bool,
    /// Mounts beneath watched directories; `None` without `/proc`.
    mounts: Option<Mounts>,
    mounts_moved: bool,
    waker: Option<Waker>,
}

impl Uring {
    /// Opens the ring and registers its buffers; the calling thread becomes the lane's.
    pub(crate) fn new(
        options: RingOptions,
        helpers: HelperPool,
        counters: Arc<LaneCounters>,
        memory: Arc<LaneMemory>,
    ) -> Result<Self, RingError> {
        let ring = setup::open(&options)?;
        setup::pin_workers(&ring, helpers.cpus());
        setup::allow_workers(&ring);
        let opcodes = Opcodes::of(&ring.submitter(), options.file_operations);
        let streams =
            BufRing::register(&ring.submitter(), 0, options.stream_buffers, options.stream_buffer_bytes)
                .map_err(RingError::Buffers)?;
        memory.add_pool(streams.addresses());
        let shares = ReceiveShares::new(streams.count(), options.stream_buffer_bytes);
        let parker = Parker::new().map_err(RingError::Park)?;
        let uring = Self {
            ring: RefCell::new(ring),
            sockets: RefCell::default(),
            ops: RefCell::default(),
            opcodes,
            left_in_turn: Cell::new(submit::PAGES_A_TURN),
            files: RefCell::default(),
            closing: RefCell::default(),
            streams: Rc::new(streams),
            datagrams: RefCell::default(),
            options,
            multishots: Cell::default(),
            shares,
            starved: RefCell::default(),
            parker,
            helpers,
            helped: Arc::default(),
            pipes: Pipes::new(Arc::clone(&counters)),
            reports_copies: Cell::new(true),
            watcher: RefCell::default(),
            message_template: Box::new(setup::message_template()),
            unsegmented: RefCell::default(),
            counters,
            memory,
            now: Cell::new(Instant::now()),
            gather: Cell::default(),
            woken: RefCell::default(),
        };
        uring.arm_unpark();
        Ok(uring)
    }

    pub(crate) fn count_syscall(&self) {
        self.counters.syscalls.increment();
    }

    pub(crate) fn borrow_fd(&self, fd: Fd) -> BorrowedFd<'_> {
        // SAFETY: an `Fd` given out by this backend is open until `close`, which its owner calls last.
        unsafe { BorrowedFd::borrow_raw(fd.0) }
    }

    fn register_socket(&self, fd: OwnedFd, arrived: Arrived) -> Descriptor {
        let raw = fd.into_raw_fd();
        let mut sockets = self.sockets.borrow_mut();
        sockets.insert(raw, arrived);
        self.counters.sockets.set(sockets.len() as u64);
        Descriptor::new(Fd(raw))
    }
}

impl Backend for Uring {
    fn now(&self) -> Instant {
        self.now.get()
    }

    fn clock(&self) -> Instant {
        Instant::now()
    }

    fn busy(&self) -> Option<Duration> {
        self.count_syscall();
        let mut ran = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: it writes one timespec, which is ours.
        let told = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut ran) } == 0;
        let (seconds, nanos) = (u64::try_from(ran.tv_sec).ok()?, u32::try_from(ran.tv_nsec).ok()?);
        told.then(|| Duration::new(seconds, nanos))
    }

    fn wall_clock(&self) -> SystemTime {
        SystemTime::now()
    }

    fn random(&self, bytes: &mut [u8]) -> io::Result<()> {
        super::kernel_random(bytes)
    }

    fn try_read_at(&self, file: Fd, offset: u64, into: &mut [IoSliceMut<'_>]) -> io::Result<Option<usize>> {
        self.try_read(file, offset, into)
    }

    fn resident(&self, file: Fd, offset: u64, len: usize) -> io::Result<usize> {
        self.resident_from(file, offset, len)
    }

    fn try_open_at(&self, dir: Fd, path: &CString, how: OpenHow) -> io::Result<Option<Descriptor>> {
        self.count_syscall();
        Ok(files::try_open(self.borrow_fd(dir), path, how)?.map(|fd| self.register_file(fd)))
    }

    fn stat(&self, file: Fd) -> io::Result<Stat> {
        self.count_syscall();
        files::stat(self.borrow_fd(file))
    }

    fn lend_file(&self, file: Fd) -> io::Result<OwnedFd> {
        self.lend(file)
    }

    fn open_root(&self, path: &Path) -> io::Result<Descriptor> {
        Ok(self.register_file(files::open_root(path)?))
    }

    fn xattr_at_start(&self, file: Fd, name: &CString, max: usize) -> io::Result<Vec<u8>> {
        files::xattr(self.borrow_fd(file), name, max)
    }

    fn set_xattr_at_start(&self, file: Fd, name: &CString, value: &[u8]) -> io::Result<()> {
        files::set_xattr_synced(self.borrow_fd(file), name, value)
    }

    fn lock_at_start(&self, dir: Fd) -> io::Result<Option<TreeLock>> {
        tree_lock::lock_tree(self.borrow_fd(dir))
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        path.canonicalize()
    }

    fn try_send(&self, socket: Fd, parts: &[IoSlice<'_>], more: bool) -> io::Result<Option<usize>> {
        use rustix::net::{SendAncillaryBuffer, SendFlags, send, sendmsg};
        self.sockets.borrow_mut().check_alive(socket.0)?;
        self.count_syscall();
        let mut flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        flags.set(SendFlags::MORE, more);
        let fd = self.borrow_fd(socket);
        let sent = match parts {
            [one] => send(fd, one, flags),
            many => sendmsg(fd, many, &mut SendAncillaryBuffer::default(), flags),
        };
        self.counted_send(sent)
    }

    fn unacknowledged(&self, stream: Fd) -> io::Result<u64> {
        self.count_syscall();
        socket::options::unacknowledged(self.borrow_fd(stream))
    }

    fn retransmission_timeout(&self, stream: Fd) -> io::Result<Duration> {
        self.count_syscall();
        socket::options::retransmission_timeout(self.borrow_fd(stream))
    }

    fn try_send_file(&self, socket: Fd, file: Fd, offset: u64, len: usize) -> io::Result<Option<usize>> {
        self.sockets.borrow_mut().check_alive(socket.0)?;
        self.count_syscall();
        let mut offset = offset;
        let sent = rustix::fs::sendfile(self.borrow_fd(socket), self.borrow_fd(file), Some(&mut offset), len);
        let sent = self.counted_send(sent)?;
        if sent.is_some() && self.sockets.borrow_mut().has_kernel_tls(socket.0) {
            self.count_syscall();
            ktls::check_connected(self.borrow_fd(socket))?;
        }
        Ok(sent)
    }

    fn try_send_datagrams(&self, socket: Fd, batch: &DatagramBatch<'_>) -> io::Result<Option<usize>> {
        self.count_syscall();
        self.send_datagrams(socket, batch)
    }

    fn tcp_listen(&self, addr: SocketAddr, options: &ListenOptions) -> io::Result<Descriptor> {
        let socket = setup::listen(addr, options)?;
        Ok(self.register_socket(socket, Arrived::from(SocketKind::Listener)))
    }

    fn adopt(&self, socket: OwnedFd, kind: SocketKind) -> io::Result<Descriptor> {
        Ok(self.register_socket(socket, Arrived::from(kind)))
    }

    fn adopt_stream(&self, stream: Released) -> io::Result<Descriptor> {
        match stream.0 {
            ReleasedKind::Kernel(socket) => self.adopt(socket, SocketKind::Stream),
            ReleasedKind::Simulated(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn release(&self, stream: Fd) -> io::Result<Released> {
        let mut sockets = self.sockets.borrow_mut();
        if !sockets.is_untouched(stream.0) {
            return Err(io::Error::from_raw_os_error(libc::EBUSY));
        }
        sockets.remove(stream.0);
        self.counters.sockets.set(sockets.len() as u64);
        // SAFETY: it left the table that alone owned it, and no operation of the ring names it.
        let stream = unsafe { OwnedFd::from_raw_fd(stream.0) };
        Ok(Released::from(stream))
    }

    fn release_file(&self, file: Fd) -> io::Result<Released> {
        Ok(Released(ReleasedKind::Kernel(self.let_go_of_file(file)?)))
    }

    fn incoming(&self, stream: Fd, peer: SocketAddr, what: Incoming) -> Option<u32> {
        self.count_syscall();
        let stream = self.borrow_fd(stream);
        match what {
            Incoming::Interface => socket::incoming::interface(stream, peer),
            Incoming::NapiId => socket::options::incoming_napi_id(stream).ok()?,
            Incoming::Cpu => socket::options::incoming_cpu(stream).ok()?,
        }
    }

    fn udp_bind(&self, addr: SocketAddr, options: &UdpOptions) -> io::Result<Descriptor> {
        let socket = udp::bind(addr, options)?;
        Ok(self.register_socket(socket, Arrived::from(SocketKind::Udp)))
    }

    fn tcp_socket(&self, peer: SocketAddr) -> io::Result<Descriptor> {
        let socket = setup::stream_socket(peer)?;
        Ok(self.register_socket(socket, Arrived::from(SocketKind::Stream)))
    }

    fn local_addr(&self, socket: Fd) -> io::Result<SocketAddr> {
        let addr = socket2::SockRef::from(&self.borrow_fd(socket)).local_addr()?;
        addr.as_socket().ok_or_else(|| io::Error::other("not an IP socket"))
    }

    fn set_option(&self, socket: Fd, option: SocketOption) -> io::Result<()> {
        self.count_syscall();
        setup::set_option(self.borrow_fd(socket), option)?;
        if matches!(option, SocketOption::ReportUnreachable)
            && let Some(socket) = self.sockets.borrow_mut().get_mut(socket.0)
        {
            socket.unreachable.get_or_insert_default();
        }
        Ok(())
    }

    fn set_ktls_key(&self, stream: Fd, crypto_info: &[u8]) -> Result<(), KtlsRefusal> {
        self.count_syscall();
        ktls::set_transmit_key(self.borrow_fd(stream), crypto_info)?;
        if let Some(socket) = self.sockets.borrow_mut().get_mut(stream.0) {
            socket.kernel_tls = true;
        }
        Ok(())
    }

    fn can_change_ktls_key(&self) -> bool {
        static ANSWER: OnceLock<bool> = OnceLock::new();
        *ANSWER.get_or_init(|| ktls::can_change_key().unwrap_or(false))
    }

    fn try_send_control(&self, stream: Fd, bytes: &[u8], control: &[u8]) -> io::Result<Option<usize>> {
        self.sockets.borrow_mut().check_alive(stream.0)?;
        self.count_syscall();
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        match send_with_control(self.borrow_fd(stream), bytes, control, flags) {
            Ok(n) => {
                self.counters.bytes_out.add(n as u64);
                Ok(Some(n))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn shutdown(&self, socket: Fd, how: Shutdown) -> io::Result<()> {
        socket2::SockRef::from(&self.borrow_fd(socket)).shutdown(how)
    }

    fn close(&self, fd: Fd) {
        let mut removed = self.sockets.borrow_mut().remove(fd.0);
        match &mut removed {
            Some(socket) => {
                self.counters.sockets.set(self.sockets.borrow().len() as u64);
                if socket.receive != Receive::Off {
                    let builder = opcode::AsyncCancel2::new(CancelBuilder::fd(RingFd(fd.0)).all());
                    self.push(&builder.build(), Key::IGNORED);
                }
                if let Arrived::Bytes(untaken) = &mut socket.arrived {
                    self.shares.drop_all(untaken);
                }
            }
            None => return self.close_file(fd),
        }
        self.push_close(fd);
    }

    fn poll_accept(&self, listener: Fd, cx: &mut Context<'_>) -> Poll<io::Result<(Descriptor, SocketAddr)>> {
        let mut sockets = self.sockets.borrow_mut();
        let socket = sockets.get_mut(listener.0).expect("the listener is open");
        let Arrived::Connections(queue) = &mut socket.arrived else {
            return Poll::Ready(Err(io::Error::from_raw_os_error(libc::EINVAL)));
        };
        let Some(accepted) = queue.pop_front() else {
            if let Some(error) = socket.error.take() {
                self.counters.accept_errors.increment();
                return Poll::Ready(Err(error));
            }
            self.wait_for_arrival(listener.0, socket, cx);
            return Poll::Pending;
        };
        drop(sockets);
        self.count_syscall();
        let peer = socket2::SockRef::from(&accepted).peer_addr()?;
        let peer = peer.as_socket().ok_or_else(|| io::Error::other("not an IP socket"))?;
        Poll::Ready(Ok((self.register_socket(accepted, Arrived::from(SocketKind::Stream)), peer)))
    }

    fn poll_recv(&self, fd: Fd, cx: &mut Context<'_>) -> Poll<io::Result<RecvBuf>> {
        let mut sockets = self.sockets.borrow_mut();
        let socket = sockets.get_mut(fd.0).expect("the stream is open");
        if let Some(arrived) = self.take_arrived(socket) {
            return Poll::Ready(arrived);
        }
        if socket.receive == Receive::Ended {
            return Poll::Ready(Ok(RecvBuf::empty()));
        }
        self.wait_for_arrival(fd.0, socket, cx);
        Poll::Pending
    }

    fn poll_quiet(&self, stream: Fd, cx: &mut Context<'_>) -> Poll<io::Result<RecvPaused>> {
        self.quieten(stream, cx)
    }

    fn put_back(&self, stream: Fd, bytes: RecvBuf) {
        self.give_back(self.stream_name(stream), bytes);
    }

    fn poll_recv_datagrams(
        &self,
        fd: Fd,
        cx: &mut Context<'_>,
        out: &mut Vec<Datagram>,
        max: usize,
    ) -> Poll<io::Result<()>> {
        let mut sockets = self.sockets.borrow_mut();
        let socket = sockets.get_mut(fd.0).expect("the socket is open");
        let Arrived::Datagrams(queue) = &mut socket.arrived else {
            return Poll::Ready(Err(io::Error::from_raw_os_error(libc::EINVAL)));
        };
        if !queue.is_empty() {
            let n = queue.len().min(max);
            out.extend(queue.drain(..n));
            return Poll::Ready(Ok(()));
        }
        if let Some(error) = socket.error.take() {
            drop(sockets);
            self.read_reports(fd);
            return Poll::Ready(Err(error));
        }
        self.wait_for_arrival(fd.0, socket, cx);
        Poll::Pending
    }

    fn try_take_unreachable(&self, socket: Fd) -> Option<Unreachable> {
        self.sockets.borrow_mut().get_mut(socket.0)?.unreachable.as_mut()?.pop_front()
    }

    fn submit(&self, op: Op) -> OpId {
        self.start(op)
    }

    fn poll_op(&self, id: OpId, cx: &mut Context<'_>) -> Poll<Outcome> {
        self.ops.borrow_mut().poll(id, cx)
    }

    fn forget(&self, id: OpId, held: Option<KeepAlive>) {
        let forgotten = self.ops.borrow_mut().forget(id, held);
        match forgotten {
            // Does nothing to operations on helper threads; those end by themselves.
            Err(key) => self.push(&opcode::AsyncCancel::new(key.pack()).build(), Key::IGNORED),
            Ok(outcome) => outcome.into_iter().for_each(|outcome| outcome.abandon(&mut &*self)),
        }
    }

    fn pipe(&self) -> io::Result<Option<Pipe>> {
        (0..2).for_each(|_| self.count_syscall());
        self.pipes.take(pipe::of_the_kernel)
    }

    fn own(&self, opened: Opened, made_in: Option<Fd>) -> Descriptor {
        match opened {
            Opened::Kernel(fd) => match made_in {
                Some(dir) => self.register_made(fd, dir),
                None => self.register_file(fd),
            },
            Opened::Simulated(_) => unreachable!("no simulated operation runs on a ring"),
        }
    }

    fn watch(&self, fd: Fd) -> io::Result<Watch> {
        if self.watcher.borrow().is_none() {
            let watcher = Watcher::new()?;
            let mounts = Mounts::new().ok();
            let watching = Watching { watcher, readable: false, mounts, mounts_moved: false, waker: None };
            *self.watcher.borrow_mut() = Some(watching);
            self.arm_watch();
            self.arm_mounts();
        }
        let (mut watcher, fd) = (self.watcher.borrow_mut(), self.borrow_fd(fd));
        let watching = watcher.as_mut().expect("made above");
        let watch = watching.watcher.add(fd)?;
        if let Some(mounts) = &mut watching.mounts {
            mounts.note(fd);
        }
        Ok(watch)
    }

    fn unwatch(&self, watch: Watch) {
        if let Some(watching) = &*self.watcher.borrow() {
            watching.watcher.remove(watch);
        }
    }

    fn poll_watch_events(&self, cx: &mut Context<'_>) -> Poll<io::Result<Vec<WatchEvent>>> {
        let mut watcher = self.watcher.borrow_mut();
        let Some(watching) = &mut *watcher else { return Poll::Pending };
        let mut events = Vec::new();
        if std::mem::take(&mut watching.readable) {
            events = watching.watcher.read()?;
        }
        if std::mem::take(&mut watching.mounts_moved)
            && watching.mounts.as_mut().is_some_and(Mounts::have_changed)
        {
            events.push(WatchEvent::Mounts);
        }
        if !events.is_empty() {
            return Poll::Ready(Ok(events));
        }
        watching.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    fn turn(&self, park: Park) -> io::Result<()> {
        self.counters.turns.increment();
        self.left_in_turn.set(submit::PAGES_A_TURN);
        let entered = match park {
            Park::Until(deadline) if self.parker.prepare() => {
                let entered = self.enter_and_wait(deadline);
                self.parker.done();
                entered
            }
            Park::Until(_) | Park::No => self.enter(),
        };
        self.now.set(Instant::now());
        entered?;
        self.reap();
        Ok(())
    }

    fn gather(&self, wait: Duration) {
        self.gather.set(wait);
    }

    fn unparker(&self) -> Arc<dyn Unpark> {
        Arc::clone(&self.parker) as Arc<dyn Unpark>
    }

    fn offload(&self, client: Option<Client>, job: Job) -> Result<(), Job> {
        self.helpers.submit(client, job)
    }

    fn counters(&self) -> &LaneCounters {
        &self.counters
    }
}

impl Uring {
    fn counted_send(&self, sent: rustix::io::Result<usize>) -> io::Result<Option<usize>> {
        match sent {
            Ok(n) => {
                self.counters.bytes_out.add(n as u64);
                Ok(Some(n))
            }
            Err(rustix::io::Errno::AGAIN) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}
