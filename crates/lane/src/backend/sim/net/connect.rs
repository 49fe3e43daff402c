//! Opening of connections: listeners, the three-way handshake, refusals, and accept queues that are full.

use std::io;
use std::net::SocketAddr;
use std::task::Waker;
use std::time::Duration;

use rand::Rng;

use super::ports::{Protocol, Steered};
use super::stream::{Conn, End, Phase, Side};
use super::{ConnId, HostId, Listener, NetEvent, Network, Socket, SocketId, StreamSocket, canceled};
use crate::backend::ListenOptions;
use crate::backend::sim::engine::Engine;
use crate::backend::sim::ops::OpKey;
use crate::socket::options::KEEP_ALIVE_IDLE;

impl Network {
    pub(in crate::backend::sim) fn listen(
        &mut self,
        host: HostId,
        addr: SocketAddr,
        options: &ListenOptions,
    ) -> io::Result<SocketId> {
        let id = self.new_id();
        let addr = self.ports.bind(host, Protocol::Tcp, addr, options.reuse_port, id)?;
        let listener = Listener {
            host,
            addr,
            backlog: options.backlog as usize,
            queue: Default::default(),
            waker: None,
        };
        self.sockets.insert(id, Socket::Listener(listener));
        Ok(id)
    }

    /// Makes a socket yet to be connected.
    pub(in crate::backend::sim) fn stream_socket(&mut self, host: HostId) -> SocketId {
        let id = self.new_id();
        self.sockets.insert(id, Socket::Stream(StreamSocket::new(host, None)));
        id
    }

    /// Returns whether a connection waits to be accepted; notes `waker` where none does.
    pub(in crate::backend::sim) fn has_connection(
        &mut self,
        listener: SocketId,
        waker: &Waker,
    ) -> io::Result<bool> {
        let Some(Socket::Listener(listener)) = self.sockets.get_mut(&listener) else {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        };
        if listener.queue.is_empty() {
            listener.waker = Some(waker.clone());
        }
        Ok(!listener.queue.is_empty())
    }

    /// Checks whether an accept fails now though a connection waits, as the world is short of something.
    pub(in crate::backend::sim) fn accept_fails(&self, engine: &mut Engine) -> io::Result<()> {
        if !engine.chance(self.config.tcp.accept_error) {
            return Ok(());
        }
        let errors = [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM, libc::ECONNABORTED];
        Err(io::Error::from_raw_os_error(errors[engine.rng.random_range(0..errors.len())]))
    }

    /// Takes the connection that has waited longest, with the peer's address.
    pub(in crate::backend::sim) fn accept(&mut self, listener: SocketId) -> Option<(SocketId, SocketAddr)> {
        let Some(Socket::Listener(listener)) = self.sockets.get_mut(&listener) else { return None };
        let (host, conn) = (listener.host, listener.queue.pop_front()?);
        let id = self.new_id();
        self.sockets.insert(id, Socket::Stream(StreamSocket::new(host, Some((conn, Side::Server)))));
        self.stats.connections += 1;
        let conn = self.conns.get(&conn).expect("a connection lives as long as an end is held");
        Some((id, conn.ends[Side::Client as usize].addr))
    }

    /// Starts to connect, or looks how far an attempt has come: `Ok(false)` is "not yet", and `op` is woken later.
    pub(crate) fn connect(
        &mut self,
        socket: SocketId,
        to: SocketAddr,
        op: OpKey,
        engine: &mut Engine,
    ) -> io::Result<bool> {
        let Some(Socket::Stream(stream)) = self.sockets.get(&socket) else { return Err(canceled()) };
        let conn = match stream.conn {
            Some((conn, _)) => conn,
            None => self.begin(socket, stream.host, to, engine)?,
        };
        let c = self.conns.get_mut(&conn).ok_or_else(canceled)?;
        match c.phase {
            Phase::Open => Ok(true),
            Phase::Failed(errno) => Err(io::Error::from_raw_os_error(errno)),
            Phase::Connecting => {
                c.ends[Side::Client as usize].waiting.push(op);
                Ok(false)
            }
        }
    }

    fn begin(
        &mut self,
        socket: SocketId,
        host: HostId,
        to: SocketAddr,
        engine: &mut Engine,
    ) -> io::Result<ConnId> {
        let unreachable = || io::Error::from_raw_os_error(libc::ENETUNREACH);
        let ip = self.ports.source(host, to.ip()).ok_or_else(unreachable)?;
        let port = self.ports.draw_ephemeral(host, Protocol::Tcp)?;
        let target = self.ports.route(host, to.ip());
        let mut ends = [End::new(host, SocketAddr::new(ip, port)), End::new(target.unwrap_or(host), to)];
        // Until a listener queues it, nothing holds the server's end.
        ends[Side::Server as usize].detached = true;
        let segments = &self.config.tcp.segments;
        let segment_max = segments[engine.rng.random_range(0..segments.len())];
        let conn = self.new_id();
        self.conns.insert(conn, Conn::new(ends, segment_max, &self.config.tcp));
        let Some(Socket::Stream(stream)) = self.sockets.get_mut(&socket) else { unreachable!("seen above") };
        stream.conn = Some((conn, Side::Client));
        self.apply_options(socket);
        match target {
            Some(target) => {
                let delay = self.links.stream_delay(host, target, engine);
                engine.after(delay, NetEvent::Syn { conn, attempt: 0 }.into());
            }
            None => {
                // No host answers for that address on the local network.
                let failed = NetEvent::Reset { conn, side: Side::Client, errno: libc::EHOSTUNREACH };
                engine.after(NEIGHBOUR_TIMEOUT, failed.into());
            }
        }
        Ok(conn)
    }

    /// Acts on a client's first packet, which reaches the server's host.
    pub(super) fn syn(&mut self, conn: ConnId, attempt: u32, engine: &mut Engine) {
        let Some(c) = self.conns.get(&conn) else { return };
        let [client, server] = &c.ends;
        let (from, to, host, client_host) = (client.addr, server.addr, server.host, client.host);
        if client.broken {
            return;
        }
        if self.links.is_cut(client_host, host) || self.links.loses(client_host, host, engine) {
            self.retry(conn, attempt, engine, |attempt| NetEvent::Syn { conn, attempt });
            return;
        }
        engine.note("syn", &[conn, attempt.into()]);
        let delay = self.links.stream_delay(host, client_host, engine);
        let receiver = self.ports.receiver(host, Protocol::Tcp, Steered { from, to, payload: &[] });
        let Some(Socket::Listener(listener)) = receiver.and_then(|id| self.sockets.get_mut(&id)) else {
            self.stats.refused += 1;
            let refusal = NetEvent::Reset { conn, side: Side::Client, errno: libc::ECONNREFUSED };
            engine.after(delay, refusal.into());
            return;
        };
        if listener.queue.len() > listener.backlog {
            self.stats.accept_overflows += 1;
            self.retry(conn, attempt, engine, |attempt| NetEvent::Syn { conn, attempt });
            return;
        }
        listener.queue.push_back(conn);
        engine.wake(listener.waker.take());
        let c = self.conns.get_mut(&conn).expect("seen above");
        c.ends[Side::Server as usize].detached = false;
        c.consent(engine.now() + delay);
        engine.after(delay, NetEvent::SynAck { conn, attempt: 0 }.into());
        engine.after(KEEP_ALIVE_IDLE, NetEvent::KeepAlive { conn, unanswered: 0 }.into());
    }

    /// Acts on the server's consent, which reaches the client.
    pub(super) fn syn_ack(&mut self, conn: ConnId, attempt: u32, engine: &mut Engine) {
        let Some(c) = self.conns.get_mut(&conn) else { return };
        let (from, to) = (c.ends[Side::Server as usize].host, c.ends[Side::Client as usize].host);
        if self.links.is_cut(from, to) {
            self.retry(conn, attempt, engine, |attempt| NetEvent::SynAck { conn, attempt });
            return;
        }
        if c.phase != Phase::Connecting {
            return;
        }
        c.phase = Phase::Open;
        engine.note("connected", &[conn]);
        engine.wake_ops(&mut c.ends[Side::Client as usize].waiting);
    }

    /// Sends a lost packet of the handshake again after a doubling wait, or gives up.
    fn retry(
        &mut self,
        conn: ConnId,
        attempt: u32,
        engine: &mut Engine,
        again: impl FnOnce(u32) -> NetEvent,
    ) {
        let waited = RETRY_AFTER * ((1 << attempt) - 1);
        if waited >= self.config.tcp.timeout {
            self.with_conn(conn, engine, |c, around| c.break_end(Side::Client, libc::ETIMEDOUT, around));
            return;
        }
        engine.after(RETRY_AFTER * (1 << attempt), again(attempt + 1).into());
    }
}

impl StreamSocket {
    fn new(host: HostId, conn: Option<(ConnId, Side)>) -> Self {
        Self {
            host,
            conn,
            send_buffer: None,
            unsent_max: None,
            pacing: None,
            reset_on_close: false,
            receive: Default::default(),
        }
    }
}

/// First wait of a client after a packet that got no answer.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Time for which a host looks for a neighbour that is not there.
const NEIGHBOUR_TIMEOUT: Duration = Duration::from_secs(3);
