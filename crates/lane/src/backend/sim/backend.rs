//! Backend of a simulated lane: every call acts on the world the lane lives in.

use std::ffi::{CString, OsString};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant, SystemTime};

use rand::RngCore;

use super::core::{Access, Closed, Core, SimState, wall_clock};
use super::engine::{Bell, Event};
use super::net::{HostId, KernelTls, SocketId};
use crate::backend::file::{OpenHow, Stat, WatchEvent};
use crate::backend::operation::{Op, Opened, Outcome};
use crate::backend::pipe::{self, Pipe, Pipes};
use crate::backend::released::{Numbered, Released, ReleasedKind};
use crate::backend::uring::tree_lock::TreeLock;
use crate::backend::{
    Backend, Datagram, DatagramBatch, DelayedDoorbells, Descriptor, Fd, Incoming, KeepAlive, ListenOptions,
    OpId, Park, RecvPaused, SocketKind, SocketOption, StreamToken, UdpOptions, Unpark, Watch, XattrHow,
};
use crate::buffer::RecvBuf;
use crate::counters::LaneCounters;
use crate::helper::Job;
use crate::helper::queue::Client;
use crate::socket::ktls::KtlsRefusal;
use crate::socket::unreachable::Unreachable;

/// Backend of one lane of one host.
pub(super) struct SimBackend {
    core: Rc<Core>,
    host: HostId,
    /// Number of the lane, unlike any other of the world, and of the host before it lost power.
    lane: usize,
    counters: Arc<LaneCounters>,
    pipes: Rc<Pipes>,
}

impl SimBackend {
    pub(super) fn new(core: Rc<Core>, host: HostId, lane: usize, counters: Arc<LaneCounters>) -> Self {
        core.with_net(|net| net.add_lane(lane, Arc::clone(&counters)));
        let pipes = Pipes::new(Arc::clone(&counters));
        Self { core, host, lane, counters, pipes }
    }

    fn with<R>(&self, act: impl FnOnce(&mut SimState) -> R) -> R {
        self.core.with(act)
    }

    fn with_socket<R>(
        &self,
        fd: Fd,
        act: impl FnOnce(&mut SimState, SocketId) -> io::Result<R>,
    ) -> io::Result<R> {
        self.with(|state| {
            let socket = state.socket(self.host, fd)?;
            act(state, socket)
        })
    }

    /// Names and counts a new socket.
    fn open_socket(
        &self,
        make: impl FnOnce(&mut SimState) -> io::Result<SocketId>,
    ) -> io::Result<Descriptor> {
        let fd = self.with(|state| {
            let socket = make(state)?;
            state.name_socket(self.host, socket)
        })?;
        self.counters.sockets.add(1);
        Ok(Descriptor::new(fd))
    }

    fn count_sent(&self, sent: io::Result<Option<usize>>) -> io::Result<Option<usize>> {
        if let Ok(Some(n)) = sent {
            self.counters.bytes_out.add(n as u64);
        }
        sent
    }
}

impl Backend for SimBackend {
    fn now(&self) -> Instant {
        self.core.instant()
    }

    fn clock(&self) -> Instant {
        self.core.instant()
    }

    fn wall_clock(&self) -> SystemTime {
        wall_clock(self.with(|state| state.engine.now()))
    }

    fn random(&self, bytes: &mut [u8]) -> io::Result<()> {
        self.with(|state| state.engine.secrets.fill_bytes(bytes));
        Ok(())
    }

    fn try_read_at(&self, file: Fd, offset: u64, into: &mut [IoSliceMut<'_>]) -> io::Result<Option<usize>> {
        let read = self.with(|state| {
            let inode = state.inode(self.host, file)?;
            let (disk, mut done) = (&mut state.disks[self.host.0], 0);
            for part in into {
                match disk.try_read(&inode, offset + done as u64, part, &mut state.engine) {
                    Ok(Some(n)) => {
                        done += n;
                        if n < part.len() {
                            break;
                        }
                    }
                    // What comes before it is there.
                    Ok(None) | Err(_) if done > 0 => break,
                    other => return other,
                }
            }
            Ok(Some(done))
        });
        if let Ok(None) = read {
            self.counters.cold_reads.increment();
        }
        read
    }

    fn resident(&self, file: Fd, offset: u64, len: usize) -> io::Result<usize> {
        self.with(|state| {
            let inode = state.inode(self.host, file)?;
            state.disks[self.host.0].resident(&inode, offset, len, &mut state.engine)
        })
    }

    fn try_open_at(&self, dir: Fd, path: &CString, how: OpenHow) -> io::Result<Option<Descriptor>> {
        let opened = self.with(|state| {
            let dir = state.inode(self.host, dir)?;
            let (disk, engine) = (&state.disks[self.host.0], &mut state.engine);
            match disk.try_open(&dir, path.as_bytes(), how, engine)? {
                Some(inode) => state.hosts[self.host.0].add_file(inode, how.into()).map(Some),
                None => Ok(None),
            }
        })?;
        self.counters.files.add(u64::from(opened.is_some()));
        Ok(opened.map(Descriptor::new))
    }

    fn stat(&self, file: Fd) -> io::Result<Stat> {
        self.with(|state| state.inode(self.host, file).map(|inode| inode.stat()))
    }

    fn lend_file(&self, _: Fd) -> io::Result<OwnedFd> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn open_root(&self, path: &Path) -> io::Result<Descriptor> {
        let fd = self.with(|state| {
            let inode = state.disks[self.host.0].open_root(path.as_os_str().as_bytes())?;
            state.hosts[self.host.0].add_file(inode, Access::Read)
        })?;
        self.counters.files.add(1);
        Ok(Descriptor::new(fd))
    }

    fn xattr_at_start(&self, file: Fd, name: &CString, max: usize) -> io::Result<Vec<u8>> {
        let value = self.with(|state| {
            let inode = state.inode(self.host, file)?;
            state.disks[self.host.0].xattr_get(&inode, name.as_bytes(), &mut state.engine)
        })?;
        if value.len() > max { Err(io::Error::from_raw_os_error(libc::ERANGE)) } else { Ok(value) }
    }

    fn lock_at_start(&self, _: Fd) -> io::Result<Option<TreeLock>> {
        // No two servers are simulated at one tree.
        Ok(None)
    }

    fn set_xattr_at_start(&self, file: Fd, name: &CString, value: &[u8]) -> io::Result<()> {
        self.with(|state| {
            let file = state.open_file(self.host, file)?;
            let (disk, engine) = (&mut state.disks[self.host.0], &mut state.engine);
            disk.xattr_set(&file.inode, name.as_bytes(), value, XattrHow::Any, engine)?;
            disk.sync(&file, false, engine)
        })
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        self.with(|state| state.disks[self.host.0].canonical(path.as_os_str().as_bytes()))
            .map(|bytes| OsString::from_vec(bytes).into())
    }

    fn try_send(&self, socket: Fd, parts: &[IoSlice<'_>], more: bool) -> io::Result<Option<usize>> {
        self.count_sent(
            self.with_socket(socket, |state, socket| state.net.send(socket, parts, more, &mut state.engine)),
        )
    }

    fn try_send_file(&self, socket: Fd, file: Fd, offset: u64, len: usize) -> io::Result<Option<usize>> {
        self.count_sent(self.with_socket(socket, |state, socket| {
            let inode = state.inode(self.host, file)?;
            let (disk, engine) = (&state.disks[self.host.0], &mut state.engine);
            let bytes = disk.read_for_socket(&inode, offset, len.min(PIPE_BYTES), engine)?;
            if bytes.is_empty() {
                return Ok(Some(0));
            }
            state.net.send(socket, &[IoSlice::new(&bytes)], false, engine)
        }))
    }

    fn try_send_datagrams(&self, socket: Fd, batch: &DatagramBatch<'_>) -> io::Result<Option<usize>> {
        let sent = self
            .with_socket(socket, |state, socket| state.net.send_datagrams(socket, batch, &mut state.engine));
        if let Ok(Some(n)) = sent {
            let count = n.div_ceil(usize::from(batch.segment).max(1)).max(1);
            self.counters.datagrams_out.add(count as u64);
        }
        self.count_sent(sent)
    }

    fn tcp_listen(&self, addr: SocketAddr, options: &ListenOptions) -> io::Result<Descriptor> {
        self.open_socket(|state| state.net.listen(self.host, addr, options))
    }

    fn adopt(&self, _socket: OwnedFd, _kind: SocketKind) -> io::Result<Descriptor> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "a simulated lane cannot adopt a real socket"))
    }

    fn adopt_stream(&self, stream: Released) -> io::Result<Descriptor> {
        let ReleasedKind::Simulated(stream) = stream.0 else {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "a simulated lane cannot adopt a real socket",
            ));
        };
        let dropped = self.with(|state| state.hosts[self.host.0].dropped.clone());
        let fd = stream.into_fd(&dropped).ok_or_else(|| io::Error::from_raw_os_error(libc::EBADF))?;
        self.counters.sockets.add(1);
        Ok(Descriptor::new(fd))
    }

    fn release(&self, stream: Fd) -> io::Result<Released> {
        self.with_socket(stream, |state, socket| match state.net.is_untouched(socket) {
            true => Ok(()),
            false => Err(io::Error::from_raw_os_error(libc::EBUSY)),
        })?;
        self.counters.sockets.sub(1);
        let dropped = self.with(|state| state.hosts[self.host.0].dropped.clone());
        Ok(Released(ReleasedKind::Simulated(Numbered::new(stream, &dropped))))
    }

    fn release_file(&self, file: Fd) -> io::Result<Released> {
        self.counters.files.sub(1);
        let dropped = self.with(|state| state.hosts[self.host.0].dropped.clone());
        Ok(Released(ReleasedKind::Simulated(Numbered::new(file, &dropped))))
    }

    fn incoming(&self, stream: Fd, _peer: SocketAddr, what: Incoming) -> Option<u32> {
        let interface = |state: &mut SimState, socket| Ok(state.net.interface_of(socket));
        match what {
            Incoming::Interface => self.with_socket(stream, interface).ok().flatten(),
            Incoming::NapiId | Incoming::Cpu => None,
        }
    }

    fn udp_bind(&self, addr: SocketAddr, options: &UdpOptions) -> io::Result<Descriptor> {
        self.open_socket(|state| state.net.udp_bind(self.host, addr, options))
    }

    fn tcp_socket(&self, _peer: SocketAddr) -> io::Result<Descriptor> {
        self.open_socket(|state| Ok(state.net.stream_socket(self.host)))
    }

    fn local_addr(&self, socket: Fd) -> io::Result<SocketAddr> {
        self.with_socket(socket, |state, socket| state.net.local_addr(socket))
    }

    fn set_option(&self, socket: Fd, option: SocketOption) -> io::Result<()> {
        self.with_socket(socket, |state, socket| state.net.set_option(socket, option))
    }

    fn set_ktls_key(&self, stream: Fd, crypto_info: &[u8]) -> Result<(), KtlsRefusal> {
        let set = self.with_socket(stream, |state, socket| Ok(state.net.set_ktls_key(socket, crypto_info)));
        set.map_err(KtlsRefusal::Other)?
    }

    fn can_change_ktls_key(&self) -> bool {
        self.with(|state| state.net.config.tcp.kernel_tls.as_ref().is_some_and(KernelTls::can_change_key))
    }

    fn try_send_control(&self, stream: Fd, bytes: &[u8], control: &[u8]) -> io::Result<Option<usize>> {
        self.count_sent(self.with_socket(stream, |state, socket| {
            state.net.send_control(socket, bytes, control, &mut state.engine)
        }))
    }

    fn unacknowledged(&self, stream: Fd) -> io::Result<u64> {
        self.with_socket(stream, |state, socket| state.net.unacknowledged(socket))
    }

    fn retransmission_timeout(&self, stream: Fd) -> io::Result<Duration> {
        self.with_socket(stream, |state, socket| state.net.retransmission_timeout(socket))
    }

    fn shutdown(&self, socket: Fd, how: Shutdown) -> io::Result<()> {
        self.with_socket(socket, |state, socket| state.net.shutdown(socket, how, &mut state.engine))
    }

    fn close(&self, fd: Fd) {
        match self.with(|state| state.close(self.host, fd)) {
            Some(Closed::Socket) => self.counters.sockets.sub(1),
            Some(Closed::File) => self.counters.files.sub(1),
            // The host lost power meanwhile and took all its descriptors along.
            None => {}
        }
    }

    fn poll_accept(&self, listener: Fd, cx: &mut Context<'_>) -> Poll<io::Result<(Descriptor, SocketAddr)>> {
        let accepted = self.with_socket(listener, |state, listener| {
            if !state.net.has_connection(listener, cx.waker())? {
                return Ok(None);
            }
            if state.hosts[self.host.0].is_full() {
                return Err(io::Error::from_raw_os_error(libc::EMFILE));
            }
            state.net.accept_fails(&mut state.engine)?;
            let (socket, peer) = state.net.accept(listener).expect("one waits");
            state.name_socket(self.host, socket).map(|fd| Some((fd, peer)))
        });
        match accepted {
            Ok(Some(accepted)) => {
                self.counters.accepted.increment();
                self.counters.sockets.add(1);
                let (fd, peer) = accepted;
                Poll::Ready(Ok((Descriptor::new(fd), peer)))
            }
            Ok(None) => Poll::Pending,
            Err(error) => {
                self.counters.accept_errors.increment();
                Poll::Ready(Err(error))
            }
        }
    }

    fn poll_recv(&self, socket: Fd, cx: &mut Context<'_>) -> Poll<io::Result<RecvBuf>> {
        let received = self.with_socket(socket, |state, socket| {
            state.net.receive(socket, self.lane, cx.waker(), &mut state.engine)
        });
        match received {
            Ok(Some(buf)) => Poll::Ready(Ok(buf)),
            Ok(None) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    fn poll_quiet(&self, stream: Fd, cx: &mut Context<'_>) -> Poll<io::Result<RecvPaused>> {
        let recv_paused = self.with_socket(stream, |state, socket| {
            state.net.quieten(socket, self.lane, cx.waker(), &mut state.engine)
        });
        recv_paused.transpose().map_or(Poll::Pending, Poll::Ready)
    }

    fn put_back(&self, stream: Fd, bytes: RecvBuf) {
        // A stream that is gone has no task to take them.
        let _ = self.with_socket(stream, |state, socket| {
            state.net.put_back(StreamToken(socket), bytes, &mut state.engine);
            Ok(())
        });
    }

    fn poll_recv_datagrams(
        &self,
        socket: Fd,
        cx: &mut Context<'_>,
        out: &mut Vec<Datagram>,
        max: usize,
    ) -> Poll<io::Result<()>> {
        let before = out.len();
        let received = self.with_socket(socket, |state, socket| {
            state.net.receive_datagrams(socket, self.lane, out, max, cx.waker())
        });
        match received {
            Ok(true) => {
                for datagram in &out[before..] {
                    self.counters.bytes_in.add(datagram.buf.len() as u64);
                    self.counters.datagrams_in.add(datagram.segments().count().max(1) as u64);
                }
                Poll::Ready(Ok(()))
            }
            Ok(false) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    fn try_take_unreachable(&self, socket: Fd) -> Option<Unreachable> {
        // A socket that is gone has nothing to report.
        self.with_socket(socket, |state, socket| Ok(state.net.take_unreachable(socket))).ok().flatten()
    }

    fn submit(&self, op: Op) -> OpId {
        self.counters.submissions.increment();
        self.with(|state| state.submit(self.host, op))
    }

    fn poll_op(&self, id: OpId, cx: &mut Context<'_>) -> Poll<Outcome> {
        let polled = self.with(|state| state.ops.poll(id, cx));
        self.counters.completions.add(u64::from(polled.is_ready()));
        polled
    }

    fn forget(&self, id: OpId, held: Option<KeepAlive>) {
        self.with(|state| state.forget(id, held));
    }

    fn pipe(&self) -> io::Result<Option<Pipe>> {
        self.pipes.take(pipe::simulated)
    }

    fn own(&self, opened: Opened, _: Option<Fd>) -> Descriptor {
        let Opened::Simulated(fd) = opened else { unreachable!("no ring's operation runs in a world") };
        self.counters.files.add(1);
        Descriptor::new(fd)
    }

    fn watch(&self, fd: Fd) -> io::Result<Watch> {
        self.with(|state| {
            let inode = state.inode(self.host, fd)?;
            Ok(state.disk(self.host).watches.add(self.lane, &inode))
        })
    }

    fn unwatch(&self, watch: Watch) {
        self.with(|state| {
            state.disks[self.host.0].watches.remove(self.lane, watch, &mut state.engine);
        });
    }

    fn poll_watch_events(&self, cx: &mut Context<'_>) -> Poll<io::Result<Vec<WatchEvent>>> {
        let events = self.with(|state| state.disk(self.host).watches.take(self.lane, cx.waker()));
        if events.is_empty() { Poll::Pending } else { Poll::Ready(Ok(events)) }
    }

    /// Counts the turn and does nothing else, as the world moves the clock and delivers events.
    fn turn(&self, _park: Park) -> io::Result<()> {
        self.counters.turns.increment();
        Ok(())
    }

    fn unparker(&self) -> Arc<dyn Unpark> {
        Arc::new(NeverParked)
    }

    fn offload(&self, client: Option<Client>, job: Job) -> Result<(), Job> {
        let gave_way = self.with(|state| state.offload(self.host, client, job));
        gave_way.map(drop)
    }

    fn counters(&self) -> &LaneCounters {
        &self.counters
    }

    fn slow_bells(&self) -> Option<&dyn DelayedDoorbells> {
        Some(self)
    }
}

/// Unparker of simulated lanes, which do not park: the world looks at each of them before it moves its clock.
struct NeverParked;

impl Unpark for NeverParked {
    fn unpark(&self) -> bool {
        false
    }
}

impl DelayedDoorbells for SimBackend {
    fn later(&self, ring: Box<dyn FnOnce() -> Option<Waker>>) {
        self.with(|state| {
            let delay = state.mesh.delay.clone();
            let delay = state.engine.between(delay);
            state.engine.after(delay, Event::Bell(Bell(ring)));
        });
    }
}

/// Most bytes that sendfile moves before a socket's own limits apply: bounds the copy made here.
const PIPE_BYTES: usize = 256 << 10;
