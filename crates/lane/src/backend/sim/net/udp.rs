//! Datagrams: batches taken apart as GSO does, joined again at random as GRO does, and lost in every way.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::task::Waker;

use super::link::Fate;
use super::ports::{Protocol, Steered};
use super::receive::LaneNumber;
use super::{DRAIN_TIME, HostId, NetEvent, Network, Socket, SocketId, canceled, datagram_headers};
use crate::backend::sim::engine::Engine;
use crate::backend::sim::ops::OpKey;
use crate::backend::{Datagram, DatagramBatch, UNREACHABLE_MAX, UdpOptions};
use crate::buffer::RecvBuf;
use crate::socket::unreachable::{QUOTED_MAX, Unreachable};

pub(super) struct UdpSocket {
    pub(super) host: HostId,
    pub(super) addr: SocketAddr,
    gro: bool,
    tells_class: bool,
    recv_buffer: usize,
    queue: VecDeque<Received>,
    queued_bytes: usize,
    /// True while the socket refuses sends, until drained.
    full: bool,
    waker: Option<Waker>,
    /// Reports of datagrams that did not arrive, where the owner asked for reports.
    unreachable: Option<VecDeque<Unreachable>>,
    /// ICMP error that has yet to fail a receive.
    error: Option<io::Error>,
    pub(super) waiting: Vec<OpKey>,
}

/// A datagram on the way.
#[derive(Debug)]
pub(in crate::backend::sim) struct Packet {
    from: SocketAddr,
    to: SocketAddr,
    from_host: HostId,
    to_host: HostId,
    dont_fragment: bool,
    class: u8,
    payload: Vec<u8>,
}

/// Report of a datagram that found no socket, on the way to the sender.
#[derive(Debug)]
pub(in crate::backend::sim) struct Unreached {
    from_host: HostId,
    to_host: HostId,
    /// Source address of the datagram, as its sender's side saw it.
    from: SocketAddr,
    report: Unreachable,
}

/// Datagrams that have arrived in the same buffer.
struct Received {
    from: SocketAddr,
    to: SocketAddr,
    class: u8,
    bytes: Vec<u8>,
    segment: usize,
    /// True once a shorter datagram ended the run.
    closed: bool,
}

impl Network {
    pub(in crate::backend::sim) fn udp_bind(
        &mut self,
        host: HostId,
        addr: SocketAddr,
        options: &UdpOptions,
    ) -> io::Result<SocketId> {
        let id = self.new_id();
        let addr = self.ports.bind(host, Protocol::Udp, addr, options.reuse_port, id)?;
        let socket = UdpSocket {
            host,
            addr,
            gro: options.gro,
            tells_class: options.traffic_class,
            recv_buffer: options.recv_buffer,
            queue: VecDeque::new(),
            queued_bytes: 0,
            full: false,
            waker: None,
            unreachable: None,
            error: None,
            waiting: Vec::new(),
        };
        self.sockets.insert(id, Socket::Udp(socket));
        Ok(id)
    }

    /// Sends a batch; returns `None` when the socket takes nothing now.
    pub(in crate::backend::sim) fn send_datagrams(
        &mut self,
        socket: SocketId,
        batch: &DatagramBatch<'_>,
        engine: &mut Engine,
    ) -> io::Result<Option<usize>> {
        let segment = check_segment(batch)?;
        let Some(host) = self.takes_datagrams(socket, engine)? else { return Ok(None) };
        let bytes = concat(batch.parts);
        let datagrams = bytes.len().div_ceil(segment).clamp(1, SEGMENTS_MAX);
        let datagrams = engine.cut_short(datagrams, self.config.udp.partial_send);
        self.put_out(socket, host, batch, &bytes, datagrams, engine).map(Some)
    }

    /// Sends a message whole, or not at all.
    pub(crate) fn send_message(
        &mut self,
        socket: SocketId,
        batch: &DatagramBatch<'_>,
        engine: &mut Engine,
    ) -> io::Result<Option<usize>> {
        let segment = check_segment(batch)?;
        let bytes = concat(batch.parts);
        let datagrams = bytes.len().div_ceil(segment).max(1);
        if bytes.len() > PAYLOAD_MAX {
            return Err(io::Error::from_raw_os_error(libc::EMSGSIZE));
        }
        if datagrams > SEGMENTS_MAX {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let Some(host) = self.takes_datagrams(socket, engine)? else { return Ok(None) };
        self.put_out(socket, host, batch, &bytes, datagrams, engine).map(Some)
    }

    /// Returns the host of a socket that takes datagrams; `None` where the socket is full, or becomes full.
    fn takes_datagrams(&mut self, socket: SocketId, engine: &mut Engine) -> io::Result<Option<HostId>> {
        let Some(Socket::Udp(udp)) = self.sockets.get_mut(&socket) else { return Err(canceled()) };
        if !udp.full && engine.chance(self.config.udp.would_block) {
            udp.full = true;
            engine.after(DRAIN_TIME, NetEvent::Drained(socket).into());
        }
        Ok((!udp.full).then_some(udp.host))
    }

    /// Puts `datagrams` datagrams on the way; returns how many bytes that is.
    fn put_out(
        &mut self,
        socket: SocketId,
        host: HostId,
        batch: &DatagramBatch<'_>,
        bytes: &[u8],
        datagrams: usize,
        engine: &mut Engine,
    ) -> io::Result<usize> {
        let segment = check_segment(batch)?;
        let sent = bytes.len().min(datagrams * segment);
        let mut from = self.source_of(socket, batch)?;
        let Some(to_host) = self.ports.route(host, batch.to.ip()) else {
            self.stats.datagrams_sent += datagrams as u64;
            self.stats.unroutable += datagrams as u64;
            return Ok(sent);
        };
        if to_host != host {
            from = self.nats.outward(host, from);
        }
        // What leaves in one call travels together.
        let jitter = self.links.config(host, to_host).jitter;
        let jitter = engine.up_to(jitter);
        for n in 0..datagrams {
            let payload = bytes[n * segment..sent.min((n + 1) * segment)].to_vec();
            let DatagramBatch { to, dont_fragment, class, .. } = *batch;
            let packet = Packet { from, to, from_host: host, to_host, dont_fragment, class, payload };
            self.send_packet(packet, jitter, engine);
        }
        Ok(sent)
    }

    /// Appends at most `max` buffers to `out`; returns whether there were any. If not, `waker` will be woken.
    pub(in crate::backend::sim) fn receive_datagrams(
        &mut self,
        socket: SocketId,
        lane: LaneNumber,
        out: &mut Vec<Datagram>,
        max: usize,
        waker: &Waker,
    ) -> io::Result<bool> {
        let Some(Socket::Udp(udp)) = self.sockets.get_mut(&socket) else { return Err(canceled()) };
        if udp.queue.is_empty() {
            if let Some(error) = udp.error.take() {
                return Err(error);
            }
            udp.waker = Some(waker.clone());
            return Ok(false);
        }
        let tells_class = udp.tells_class;
        let n = udp.queue.len().min(max);
        let taken: Vec<_> = udp.queue.drain(..n).collect();
        udp.queued_bytes -= taken.iter().map(|received| received.bytes.len()).sum::<usize>();
        for received in taken {
            let class = if tells_class { received.class } else { 0 };
            let datagram = received.into_datagram(|bytes| self.datagram_memory(lane, bytes));
            out.push(Datagram { class, ..datagram });
        }
        Ok(true)
    }

    pub(super) fn drained(&mut self, socket: SocketId, engine: &mut Engine) {
        if let Some(Socket::Udp(udp)) = self.sockets.get_mut(&socket) {
            udp.full = false;
            engine.wake_ops(&mut udp.waiting);
        }
    }

    pub(super) fn datagram_arrives(&mut self, mut packet: Packet, engine: &mut Engine) {
        if self.links.is_cut(packet.from_host, packet.to_host) {
            self.stats.cut += 1;
            return;
        }
        let Some(to) = self.nats.inward(packet.to_host, packet.to) else {
            self.stats.unroutable += 1;
            return;
        };
        let seen_at = std::mem::replace(&mut packet.to, to);
        let steered = Steered { from: packet.from, to: packet.to, payload: &packet.payload };
        let receiver = self.ports.receiver(packet.to_host, Protocol::Udp, steered);
        let Some(Socket::Udp(udp)) = receiver.and_then(|id| self.sockets.get_mut(&id)) else {
            self.stats.unroutable += 1;
            self.send_unreachable(&packet, seen_at, engine);
            return;
        };
        if udp.queued_bytes + packet.payload.len() > udp.recv_buffer {
            self.stats.receive_overflows += 1;
            return;
        }
        engine.note("datagram", &[receiver.unwrap_or(0), packet.payload.len() as u64]);
        self.stats.datagrams_delivered += 1;
        udp.queued_bytes += packet.payload.len();
        let joins = udp.gro && udp.queue.back().is_some_and(|last| last.can_join(&packet));
        if joins && engine.chance(self.config.udp.coalesce) {
            udp.queue.back_mut().expect("looked at above").join(&packet.payload);
        } else {
            udp.queue.push_back(Received::from(packet));
        }
        engine.wake(udp.waker.take());
        engine.wake_ops(&mut udp.waiting);
    }

    /// Reports to the sender of `packet`, known as `to`, that no socket has the packet's port.
    fn send_unreachable(&mut self, packet: &Packet, to: SocketAddr, engine: &mut Engine) {
        let quoted = packet.payload[..packet.payload.len().min(QUOTED_MAX)].to_vec();
        let unreached = Unreached {
            from_host: packet.to_host,
            to_host: packet.from_host,
            from: packet.from,
            report: Unreachable { peer: to, quoted, port_closed: true },
        };
        let latency = self.links.config(packet.to_host, packet.from_host).latency;
        engine.after(latency, NetEvent::Unreachable(Box::new(unreached)).into());
    }

    pub(super) fn unreachable_arrives(&mut self, unreached: Unreached, engine: &mut Engine) {
        let Unreached { from_host, to_host, from, report } = unreached;
        if self.links.is_cut(from_host, to_host) {
            return;
        }
        let Some(sender) = self.nats.inward(to_host, from) else { return };
        // Which socket of a group it was is not known: no program looks at what is quoted.
        let steered = Steered { from: report.peer, to: sender, payload: &[] };
        let receiver = self.ports.receiver(to_host, Protocol::Udp, steered);
        let Some(Socket::Udp(udp)) = receiver.and_then(|id| self.sockets.get_mut(&id)) else { return };
        let Some(kept) = udp.unreachable.as_mut().filter(|kept| kept.len() < UNREACHABLE_MAX) else { return };
        engine.note("unreachable", &[receiver.unwrap_or(0)]);
        kept.push_back(report);
        udp.error = Some(io::Error::from_raw_os_error(libc::ECONNREFUSED));
        engine.wake(udp.waker.take());
        engine.wake_ops(&mut udp.waiting);
    }

    pub(in crate::backend::sim) fn take_unreachable(&mut self, socket: SocketId) -> Option<Unreachable> {
        match self.sockets.get_mut(&socket)? {
            Socket::Udp(udp) => udp.unreachable.as_mut()?.pop_front(),
            _ => None,
        }
    }

    fn send_packet(&mut self, packet: Packet, jitter: std::time::Duration, engine: &mut Engine) {
        self.stats.datagrams_sent += 1;
        let headers = datagram_headers(packet.to);
        let (from, to) = (packet.from_host, packet.to_host);
        let fragments = self.links.fragments(from, to, packet.payload.len(), headers);
        if packet.dont_fragment && fragments > 1 {
            self.stats.too_big += 1;
            return;
        }
        self.stats.fragmented += u64::from(fragments > 1);
        let size = packet.payload.len() + headers * fragments;
        match self.links.send_datagram(from, to, size, fragments, jitter, engine) {
            Fate::Arrives(at) => engine.at(at, NetEvent::Datagram(Box::new(packet)).into()),
            Fate::Overtaken(at) => {
                self.stats.reordered += 1;
                engine.at(at, NetEvent::Datagram(Box::new(packet)).into());
            }
            Fate::ArrivesTwice(first, second) => {
                self.stats.duplicated += 1;
                engine.at(first, NetEvent::Datagram(Box::new(packet.clone())).into());
                engine.at(second, NetEvent::Datagram(Box::new(packet)).into());
            }
            Fate::Lost => self.stats.lost += 1,
            Fate::Cut => self.stats.cut += 1,
            Fate::QueueFull => self.stats.queue_overflows += 1,
        }
    }

    fn source_of(&self, socket: SocketId, batch: &DatagramBatch<'_>) -> io::Result<SocketAddr> {
        let Some(Socket::Udp(udp)) = self.sockets.get(&socket) else { return Err(canceled()) };
        let ip = match batch.from {
            Some(ip) if self.ports.owns(udp.host, ip) => ip,
            Some(_) => return Err(io::Error::from_raw_os_error(libc::EINVAL)),
            None if !udp.addr.ip().is_unspecified() => udp.addr.ip(),
            None => self
                .ports
                .source(udp.host, batch.to.ip())
                .ok_or_else(|| io::Error::from_raw_os_error(libc::ENETUNREACH))?,
        };
        Ok(SocketAddr::new(ip, udp.addr.port()))
    }
}

impl UdpSocket {
    pub(super) fn report_unreachable(&mut self) {
        self.unreachable.get_or_insert_default();
    }

    pub(super) fn is_writable(&self) -> bool {
        !self.full
    }
}

impl Packet {
    fn clone(&self) -> Self {
        Self { payload: self.payload.clone(), ..*self }
    }
}

impl Received {
    /// Returns whether GRO joins the packet to this run: datagrams of one flow and one size, ended by the
    /// first shorter one.
    fn can_join(&self, packet: &Packet) -> bool {
        !self.closed
            && self.from == packet.from
            && self.to == packet.to
            && self.class == packet.class
            && !packet.payload.is_empty()
            && packet.payload.len() <= self.segment
            && self.bytes.len() / self.segment.max(1) < SEGMENTS_MAX
            && self.bytes.len() + packet.payload.len() <= PAYLOAD_MAX
    }

    fn join(&mut self, payload: &[u8]) {
        self.bytes.extend_from_slice(payload);
        self.closed = payload.len() < self.segment;
    }

    fn into_datagram(self, memory: impl FnOnce(Vec<u8>) -> RecvBuf) -> Datagram {
        Datagram {
            segment: u16::try_from(self.segment).expect("no datagram is larger"),
            buf: memory(self.bytes),
            from: self.from,
            local: Some(self.to.ip()),
            ifindex: 1,
            class: self.class,
        }
    }
}

impl From<Packet> for Received {
    fn from(packet: Packet) -> Self {
        let segment = packet.payload.len();
        let Packet { from, to, class, payload: bytes, .. } = packet;
        Self { from, to, class, bytes, segment, closed: false }
    }
}

/// Returns the bytes of each datagram, with the errors of a kernel that refuses them.
fn check_segment(batch: &DatagramBatch<'_>) -> io::Result<usize> {
    let total: usize = batch.parts.iter().map(|part| part.len()).sum();
    let segment = usize::from(batch.segment);
    if segment == 0 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    if total.min(segment) > PAYLOAD_MAX {
        return Err(io::Error::from_raw_os_error(libc::EMSGSIZE));
    }
    Ok(segment)
}

fn concat(parts: &[io::IoSlice<'_>]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(parts.iter().map(|part| part.len()).sum());
    parts.iter().for_each(|part| bytes.extend_from_slice(part));
    bytes
}

/// Most datagrams of a GSO or GRO batch (UDP_MAX_SEGMENTS).
const SEGMENTS_MAX: usize = 64;
/// Largest UDP payload over IPv4, in bytes.
const PAYLOAD_MAX: usize = 65_507;
