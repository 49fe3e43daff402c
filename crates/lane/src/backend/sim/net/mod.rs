//! The simulated network: hosts with addresses, ports and sockets, and the links that connect them.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::task::Waker;
use std::time::Duration;

use super::config::NetConfig;
use super::engine::{Engine, Event};
use super::ops::OpKey;
use crate::backend::SocketOption;

use self::link::Links;
use self::nat::Nats;
use self::ports::Ports;
use self::receive::{LaneNumber, LaneReceives, StreamReceive};
use self::stream::{Around, Conn, Side};
use self::udp::{Packet, UdpSocket, Unreached};

mod byte_queue;
mod connect;
mod control;
mod ktls;
mod link;
mod nat;
mod ports;
mod receive;
mod release;
mod stats;
mod stream;
mod udp;

pub use self::control::Net;
pub use self::ktls::{KernelTls, RecordLayer};
pub use self::ports::Steered;
pub(crate) use self::release::Unreleased;
pub use self::stats::NetStats;

/// Number of a host of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct HostId(pub(in crate::backend::sim) usize);

pub(in crate::backend::sim) type ConnId = u64;
pub(crate) type SocketId = u64;

/// State of the network of all hosts.
pub(crate) struct Network {
    pub(in crate::backend::sim) config: NetConfig,
    pub(in crate::backend::sim) stats: NetStats,
    links: Links,
    ports: Ports,
    nats: Nats,
    sockets: BTreeMap<SocketId, Socket>,
    conns: BTreeMap<ConnId, Conn>,
    lanes: BTreeMap<LaneNumber, LaneReceives>,
    next_id: u64,
}

/// Kind and state of a socket.
enum Socket {
    Stream(StreamSocket),
    Listener(Listener),
    Udp(UdpSocket),
}

/// A TCP socket's hold on its connection.
struct StreamSocket {
    host: HostId,
    /// Connection and side; `None` before a connect begins.
    conn: Option<(ConnId, Side)>,
    send_buffer: Option<usize>,
    unsent_max: Option<usize>,
    pacing: Option<u64>,
    reset_on_close: bool,
    receive: StreamReceive,
}

struct Listener {
    host: HostId,
    addr: SocketAddr,
    backlog: usize,
    queue: std::collections::VecDeque<ConnId>,
    waker: Option<Waker>,
}

/// Something that reaches a host, or that a host's own timers bring about.
#[derive(Debug)]
pub(super) enum NetEvent {
    /// A client's wish to connect, with `attempt` counted from 0.
    Syn { conn: ConnId, attempt: u32 },
    /// The consent of a server to a connection reaches the client.
    SynAck { conn: ConnId, attempt: u32 },
    /// The end of a connection, or of an attempt, as `side` learns of the end.
    Reset { conn: ConnId, side: Side, errno: i32 },
    /// The server's host asks whether the client's is there, after `unanswered` questions without an answer.
    KeepAlive { conn: ConnId, unanswered: u32 },
    /// The first segment that `side` sent has arrived.
    Deliver { conn: ConnId, side: Side },
    /// Bytes of `side` are acknowledged up to `upto`, and `side` may send up to `limit`.
    Ack { conn: ConnId, side: Side, upto: u64, limit: u64 },
    /// A lane looks at what the kernel has filled.
    Reap(LaneNumber),
    /// A receive that was to pause has paused.
    Paused(SocketId),
    /// Bytes held back for more to come have waited long enough.
    Uncork { conn: ConnId, side: Side },
    /// A datagram reaches a host.
    Datagram(Box<Packet>),
    /// The report of a datagram that found no socket at its port.
    Unreachable(Box<Unreached>),
    /// A socket that refused a send takes datagrams again.
    Drained(SocketId),
}

impl Network {
    pub(super) fn new(config: NetConfig) -> Self {
        Self {
            links: Links::new(config.link.clone()),
            ports: Ports::default(),
            nats: Nats::default(),
            sockets: BTreeMap::new(),
            conns: BTreeMap::new(),
            lanes: BTreeMap::new(),
            next_id: 0,
            stats: NetStats::default(),
            config,
        }
    }

    /// Gives `host` one more address.
    pub(super) fn add_address(&mut self, host: HostId, ip: IpAddr) {
        self.ports.add_address(host, ip);
    }

    pub(super) fn host_with(&self, ip: IpAddr) -> Option<HostId> {
        self.ports.host_with(ip)
    }

    /// Acts on an event that is due.
    pub(super) fn handle(&mut self, event: NetEvent, engine: &mut Engine) {
        match event {
            NetEvent::Syn { conn, attempt } => self.syn(conn, attempt, engine),
            NetEvent::SynAck { conn, attempt } => self.syn_ack(conn, attempt, engine),
            NetEvent::Reset { conn, side, errno } => self.reset(conn, side, errno, engine),
            NetEvent::KeepAlive { conn, unanswered } => self.with_conn(conn, engine, |c, around| {
                c.keep_alive(unanswered, around);
            }),
            NetEvent::Deliver { conn, side } => {
                self.with_conn(conn, engine, |c, around| c.deliver(side, around));
                self.fill(conn, side.other(), engine);
            }
            NetEvent::Reap(lane) => self.reap(lane, engine),
            NetEvent::Paused(socket) => self.paused(socket, engine),
            NetEvent::Ack { conn, side, upto, limit } => self.with_conn(conn, engine, |c, around| {
                c.acknowledged(side, upto, limit, around);
            }),
            NetEvent::Uncork { conn, side } => self.with_conn(conn, engine, |c, around| {
                c.uncork(side, around);
            }),
            NetEvent::Datagram(packet) => self.datagram_arrives(*packet, engine),
            NetEvent::Unreachable(unreached) => self.unreachable_arrives(*unreached, engine),
            NetEvent::Drained(socket) => self.drained(socket, engine),
        }
    }

    /// Sends on a stream; returns `None` when the stream's buffer is full.
    pub(crate) fn send(
        &mut self,
        socket: SocketId,
        parts: &[io::IoSlice<'_>],
        more: bool,
        engine: &mut Engine,
    ) -> io::Result<Option<usize>> {
        let (conn, side) = self.stream_of(socket)?;
        self.try_with_conn(conn, engine, |c, around| c.send(side, parts, more, around))?
    }

    /// Returns whether the socket takes bytes, or would return an error. If not, `op` is woken then.
    pub(crate) fn is_writable(&mut self, socket: SocketId, op: OpKey) -> io::Result<bool> {
        let (ready, waiting) = match self.sockets.get_mut(&socket).ok_or_else(canceled)? {
            Socket::Stream(stream) => {
                let (id, side) = stream.conn.ok_or_else(not_connected)?;
                let conn = self.conns.get_mut(&id).ok_or_else(not_connected)?;
                (conn.is_writable(side), &mut conn.ends[side as usize].waiting)
            }
            Socket::Listener(_) => return Err(io::Error::from_raw_os_error(libc::EINVAL)),
            Socket::Udp(udp) => (udp.is_writable(), &mut udp.waiting),
        };
        if !ready {
            waiting.push(op);
        }
        Ok(ready)
    }

    pub(super) fn unacknowledged(&mut self, socket: SocketId) -> io::Result<u64> {
        let (conn, side) = self.stream_of(socket)?;
        self.conns.get(&conn).map(|conn| conn.unacknowledged(side)).ok_or_else(not_connected)
    }

    /// Computes the retransmission timeout as Linux does: the round trip, and four times its variation, or
    /// 200 ms.
    pub(super) fn retransmission_timeout(&mut self, socket: SocketId) -> io::Result<Duration> {
        let (conn, side) = self.stream_of(socket)?;
        let ends = &self.conns.get(&conn).ok_or_else(not_connected)?.ends;
        let (here, there) = (ends[side as usize].host, ends[side.other() as usize].host);
        let ways = [self.links.config(here, there), self.links.config(there, here)];
        let round_trip: Duration = ways.iter().map(|way| way.latency + way.jitter / 2).sum();
        let varies: Duration = ways.iter().map(|way| way.jitter / 2).sum();
        Ok(round_trip + (4 * varies).max(RTO_MIN))
    }

    pub(super) fn shutdown(
        &mut self,
        socket: SocketId,
        how: std::net::Shutdown,
        engine: &mut Engine,
    ) -> io::Result<()> {
        use std::net::Shutdown;
        let (conn, side) = self.stream_of(socket)?;
        self.try_with_conn(conn, engine, |c, around| {
            if c.ends[side as usize].broken {
                return Err(not_connected());
            }
            if matches!(how, Shutdown::Read | Shutdown::Both) {
                let end = &mut c.ends[side as usize];
                end.read_shut = true;
                around.engine.wake(end.reader.take());
                around.engine.wake_ops(&mut end.waiting);
            }
            if matches!(how, Shutdown::Write | Shutdown::Both) {
                c.finish_sending(side, around);
            }
            Ok(())
        })?
    }

    pub(super) fn set_option(&mut self, socket: SocketId, option: SocketOption) -> io::Result<()> {
        let stream = match (self.sockets.get_mut(&socket), option) {
            (Some(Socket::Stream(stream)), _) => stream,
            (Some(Socket::Udp(udp)), SocketOption::ReportUnreachable) => {
                udp.report_unreachable();
                return Ok(());
            }
            _ => return Err(io::Error::from_raw_os_error(libc::ENOPROTOOPT)),
        };
        match option {
            SocketOption::ReportUnreachable => return Err(io::Error::from_raw_os_error(libc::ENOPROTOOPT)),
            // No link of the simulated network looks at marks.
            SocketOption::NoDelay(_) | SocketOption::Mark(_) => {}
            SocketOption::PacingRate(rate) => stream.pacing = Some(rate),
            SocketOption::SendBuffer(bytes) => stream.send_buffer = Some(bytes.max(SEND_BUFFER_MIN)),
            SocketOption::UnsentMax(bytes) => stream.unsent_max = Some(bytes as usize),
            SocketOption::ResetOnClose => stream.reset_on_close = true,
        }
        self.apply_options(socket);
        Ok(())
    }

    pub(super) fn local_addr(&self, socket: SocketId) -> io::Result<SocketAddr> {
        match self.sockets.get(&socket).ok_or_else(canceled)? {
            Socket::Listener(listener) => Ok(listener.addr),
            Socket::Udp(udp) => Ok(udp.addr),
            Socket::Stream(StreamSocket { conn: Some((id, side)), .. }) => {
                Ok(self.conns.get(id).ok_or_else(not_connected)?.ends[*side as usize].addr)
            }
            Socket::Stream(_) => Ok(SocketAddr::from(([0, 0, 0, 0], 0))),
        }
    }

    /// Returns the index of the interface with a stream's own address: 1 for loopback, then one for each
    /// address of the host.
    pub(super) fn interface_of(&self, socket: SocketId) -> Option<u32> {
        let Some(Socket::Stream(StreamSocket { host, conn: Some((conn, side)), .. })) =
            self.sockets.get(&socket)
        else {
            return None;
        };
        self.ports.interface_of(*host, self.conns.get(conn)?.ends[*side as usize].addr.ip())
    }

    /// Closes a socket of any kind.
    pub(super) fn close(&mut self, id: SocketId, engine: &mut Engine) {
        match self.sockets.remove(&id) {
            Some(Socket::Stream(StreamSocket {
                conn: Some((conn, side)),
                reset_on_close,
                mut receive,
                ..
            })) => {
                self.drop_untaken(&mut receive);
                self.with_conn(conn, engine, |c, around| c.detach(side, reset_on_close, around));
            }
            Some(Socket::Listener(listener)) => {
                self.ports.unbind(listener.host, ports::Protocol::Tcp, listener.addr, id);
                for conn in listener.queue {
                    self.with_conn(conn, engine, |c, around| c.detach(Side::Server, true, around));
                }
            }
            Some(Socket::Udp(mut udp)) => {
                self.ports.unbind(udp.host, ports::Protocol::Udp, udp.addr, id);
                engine.wake_ops(&mut udp.waiting);
            }
            Some(Socket::Stream(_)) | None => {}
        }
    }

    /// Takes the power from a host with all its sockets; no packet tells their peers.
    pub(super) fn lose_power(&mut self, host: HostId) {
        for conn in self.conns.values_mut() {
            for side in [Side::Client, Side::Server] {
                if conn.ends[side as usize].host == host {
                    conn.vanish(side);
                }
            }
        }
        let lost: Vec<SocketId> =
            self.sockets.iter().filter(|(_, socket)| socket.host() == host).map(|(&id, _)| id).collect();
        for id in lost {
            match self.sockets.remove(&id) {
                Some(Socket::Stream(mut stream)) => self.drop_untaken(&mut stream.receive),
                Some(Socket::Listener(l)) => self.ports.unbind(host, ports::Protocol::Tcp, l.addr, id),
                Some(Socket::Udp(udp)) => self.ports.unbind(host, ports::Protocol::Udp, udp.addr, id),
                None => {}
            }
        }
        self.links.set_down(host, true);
    }

    pub(super) fn regain_power(&mut self, host: HostId) {
        self.links.set_down(host, false);
    }

    /// Returns the number of connections that still hold state, for reports.
    pub(super) fn connections(&self) -> usize {
        self.conns.len()
    }

    fn reset(&mut self, conn: ConnId, side: Side, errno: i32, engine: &mut Engine) {
        let Some(c) = self.conns.get(&conn) else { return };
        let (from, to) = (c.ends[side.other() as usize].host, c.ends[side as usize].host);
        // No end sends a reset twice. The end that waits for it learns of the loss when it next sends.
        if self.links.is_cut(from, to) {
            return;
        }
        self.stats.resets += 1;
        self.with_conn(conn, engine, |c, around| c.break_end(side, errno, around));
    }

    fn stream_of(&self, socket: SocketId) -> io::Result<(ConnId, Side)> {
        match self.sockets.get(&socket) {
            Some(Socket::Stream(stream)) => stream.conn.ok_or_else(not_connected),
            Some(_) => Err(io::Error::from_raw_os_error(libc::EINVAL)),
            None => Err(canceled()),
        }
    }

    fn apply_options(&mut self, socket: SocketId) {
        let Some(Socket::Stream(stream)) = self.sockets.get(&socket) else { return };
        let Some((id, side)) = stream.conn else { return };
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let flow = &mut conn.flows[side as usize];
        flow.pacing = stream.pacing.or(flow.pacing);
        flow.send_buffer = stream.send_buffer.unwrap_or(flow.send_buffer);
        flow.unsent_max = stream.unsent_max.or(flow.unsent_max);
    }

    /// Runs `act` on a connection if it still exists, and forgets a connection that is over.
    fn with_conn(&mut self, id: ConnId, engine: &mut Engine, act: impl FnOnce(&mut Conn, &mut Around<'_>)) {
        // A connection that is gone has nothing left to tell.
        let _ = self.try_with_conn(id, engine, act);
    }

    fn try_with_conn<R>(
        &mut self,
        id: ConnId,
        engine: &mut Engine,
        act: impl FnOnce(&mut Conn, &mut Around<'_>) -> R,
    ) -> io::Result<R> {
        let conn = self.conns.get_mut(&id).ok_or_else(not_connected)?;
        let mut around = Around { id, links: &mut self.links, tcp: &self.config.tcp, engine };
        let result = act(conn, &mut around);
        if conn.is_over() {
            let client = &conn.ends[Side::Client as usize];
            self.ports.free_ephemeral(client.host, ports::Protocol::Tcp, client.addr.port());
            conn.ends.iter_mut().for_each(|end| around.engine.wake_ops(&mut end.unreleased));
            self.conns.remove(&id);
        }
        Ok(result)
    }

    fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }
}

impl Socket {
    fn host(&self) -> HostId {
        match self {
            Self::Stream(stream) => stream.host,
            Self::Listener(listener) => listener.host,
            Self::Udp(udp) => udp.host,
        }
    }
}

/// Returns the size of the IP and UDP headers of a datagram, in bytes.
fn datagram_headers(to: SocketAddr) -> usize {
    if to.is_ipv6() { 48 } else { 28 }
}

fn canceled() -> io::Error {
    io::Error::from_raw_os_error(libc::ECANCELED)
}

fn not_connected() -> io::Error {
    io::Error::from_raw_os_error(libc::ENOTCONN)
}

/// Smallest size of a send buffer in bytes, which Linux makes of any smaller wish.
const SEND_BUFFER_MIN: usize = 4608;

/// Least time that a stream waits for an acknowledgment beyond the round trip.
const RTO_MIN: Duration = Duration::from_millis(200);
/// Pause after which a refused socket takes datagrams again.
const DRAIN_TIME: Duration = Duration::from_micros(50);

impl From<NetEvent> for Event {
    fn from(event: NetEvent) -> Self {
        Self::Net(event)
    }
}
