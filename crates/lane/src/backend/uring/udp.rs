//! Datagrams: coalesced receives taken apart, and bursts sent as one.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::task::Waker;

use io_uring::cqueue;
use io_uring::types::RecvMsgOut;
use socket2::{Domain, Protocol, Socket, Type};

use super::Uring;
use crate::backend::{Datagram, DatagramBatch, Fd, UNREACHABLE_MAX, UdpOptions};
use crate::buffer::RecvBuf;
use crate::socket::control::ControlMessages;
use crate::socket::udp::{self, Burst, SendError};
use crate::socket::unreachable::Report;
use crate::socket::{fragment, gro, pktinfo, traffic_class, unreachable};

pub(super) fn bind(addr: SocketAddr, wanted: &UdpOptions) -> io::Result<OwnedFd> {
    let socket = Socket::new(Domain::for_address(addr), Type::DGRAM.nonblocking(), Some(Protocol::UDP))?;
    if addr.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_port(wanted.reuse_port)?;
    wanted.prepare(&socket)?;
    socket.bind(&addr.into())?;
    Ok(socket.into())
}

/// Destinations with routes that cannot segment, with the smallest segments refused. A route without checksum
/// offload refuses all, one with a small MTU those above it. Forgotten all at once when there are too many:
/// each costs one failed call to learn again.
#[derive(Default)]
pub(super) struct Unsegmented {
    destinations: HashMap<IpAddr, u16>,
}

impl Unsegmented {
    fn insert(&mut self, destination: IpAddr, segment: u16) {
        if self.destinations.len() >= UNSEGMENTED_MAX {
            self.destinations.clear();
        }
        let smallest = self.destinations.entry(destination).or_insert(segment);
        *smallest = segment.min(*smallest);
    }

    fn contains(&self, destination: IpAddr, segment: u16) -> bool {
        !self.destinations.is_empty()
            && self.destinations.get(&destination).is_some_and(|&smallest| segment >= smallest)
    }
}

impl Uring {
    pub(super) fn send_datagrams(&self, socket: Fd, batch: &DatagramBatch<'_>) -> io::Result<Option<usize>> {
        if !batch.dont_fragment {
            return self.send_reported(socket, batch);
        }
        let fd = self.borrow_fd(socket);
        // The option is the socket's, not the message's; probes are rare.
        fragment::forbid(fd)?;
        let sent = self.send_reported(socket, batch);
        fragment::allow(fd)?;
        (0..4).for_each(|_| self.count_syscall());
        sent
    }

    /// Sends a batch, again where the failure was the report of an earlier datagram.
    fn send_reported(&self, socket: Fd, batch: &DatagramBatch<'_>) -> io::Result<Option<usize>> {
        let total: usize = batch.parts.iter().map(|part| part.len()).sum();
        let mut tries = 1;
        loop {
            match self.send_batch(socket, batch, total) {
                Ok(sent) => {
                    // One by one, a report of the first may have ended the batch.
                    if sent.is_some_and(|sent| sent < total) && self.read_reports(socket) {
                        self.tell_of_reports(socket);
                    }
                    return Ok(sent);
                }
                Err(error) => {
                    if !self.read_reports(socket) {
                        return Err(error);
                    }
                    self.tell_of_reports(socket);
                    if tries == SEND_TRIES_MAX {
                        return Err(error);
                    }
                    tries += 1;
                    self.count_syscall();
                }
            }
        }
    }

    fn send_batch(&self, socket: Fd, batch: &DatagramBatch<'_>, total: usize) -> io::Result<Option<usize>> {
        let fd = self.borrow_fd(socket);
        let burst = Burst {
            destination: batch.to,
            source: batch.from,
            class: batch.class,
            segment_bytes: batch.segment,
            parts: batch.parts,
        };
        if !self.unsegmented.borrow().contains(batch.to.ip(), batch.segment) {
            match udp::send_segments(fd, &burst) {
                Ok(sent) => return Ok(Some(self.count_datagrams(sent, batch.segment))),
                Err(SendError::WouldBlock) => return Ok(None),
                Err(SendError::NotSegmented(error)) => {
                    let smallest = if error.raw_os_error() == Some(libc::EIO) { 0 } else { batch.segment };
                    self.unsegmented.borrow_mut().insert(batch.to.ip(), smallest);
                    // The refusal may be in the queue of reports too.
                    self.read_reports(socket);
                }
                Err(SendError::TooLarge { .. }) => {}
                Err(SendError::Os(error)) => return Err(error),
            }
            self.count_syscall();
        }
        match udp::send_many(fd, &burst) {
            Ok(datagrams) => {
                let sent = total.min(datagrams * usize::from(batch.segment));
                Ok(Some(self.count_datagrams(sent, batch.segment)))
            }
            Err(SendError::WouldBlock) => Ok(None),
            Err(SendError::NotSegmented(error) | SendError::Os(error)) => Err(error),
            Err(error @ SendError::TooLarge { .. }) => {
                Err(io::Error::new(io::ErrorKind::InvalidInput, error))
            }
        }
    }

    /// Makes a receive fail with an error that a send has met in its place.
    fn tell_of_reports(&self, socket: Fd) {
        let mut sockets = self.sockets.borrow_mut();
        let Some(socket) = sockets.get_mut(socket.0) else { return };
        socket.error.get_or_insert_with(|| io::ErrorKind::HostUnreachable.into());
        let waker = socket.tell();
        drop(sockets);
        waker.into_iter().for_each(Waker::wake);
    }

    /// Empties the socket's queue of errors, which takes room in its receive buffer, if reports were asked
    /// for. Returns whether there was one from the network: those fail a send or a receive that has nothing
    /// to do with them.
    pub(super) fn read_reports(&self, socket: Fd) -> bool {
        let mut sockets = self.sockets.borrow_mut();
        let Some(kept) = sockets.get_mut(socket.0).and_then(|socket| socket.unreachable.as_mut()) else {
            return false;
        };
        let mut remote = false;
        // What is left shows as the next call's error.
        for _ in 0..UNREACHABLE_MAX {
            self.count_syscall();
            // An error here is the socket's, and shows again.
            let Ok(Some(report)) = unreachable::next(self.borrow_fd(socket)) else { break };
            remote |= report != Report::Local;
            if let Report::Unreachable(report) = report {
                self.counters.unreachable.increment();
                if kept.len() < UNREACHABLE_MAX {
                    kept.push_back(report);
                } else {
                    self.counters.unreachable_dropped.increment();
                }
            }
        }
        remote
    }

    /// Takes a filled buffer apart; returns `None` for one that the kernel had to cut, which is dropped and
    /// counted.
    pub(super) fn parse_datagram(&self, entry: &cqueue::Entry, n: u32) -> Option<Datagram> {
        let id = cqueue::buffer_select(entry.flags())?;
        let ring = Rc::clone(self.datagrams.borrow().as_ref()?);
        ring.note_lent();
        let mut buf = RecvBuf::provided(ring, id, 0, n as usize);
        let parsed = parse(&buf, &self.message_template);
        let Some(Parsed { payload, from, info, stride, class }) = parsed else {
            self.counters.datagrams_bad.increment();
            return None;
        };
        let (start, len) = (payload.start, payload.len());
        buf.advance(start);
        buf.truncate(len);
        let segment = stride.unwrap_or_else(|| u16::try_from(len).unwrap_or(u16::MAX));
        Some(Datagram {
            buf,
            from,
            local: info.map(|info| info.local),
            ifindex: info.map_or(0, |info| info.ifindex),
            class,
            segment,
        })
    }

    fn count_datagrams(&self, sent: usize, segment: u16) -> usize {
        self.counters.bytes_out.add(sent as u64);
        self.counters.datagrams_out.add(sent.div_ceil(usize::from(segment.max(1))) as u64);
        sent
    }
}

/// Content of a filled buffer.
struct Parsed {
    payload: std::ops::Range<usize>,
    from: SocketAddr,
    info: Option<pktinfo::PacketInfo>,
    stride: Option<u16>,
    class: u8,
}

fn parse(bytes: &[u8], template: &libc::msghdr) -> Option<Parsed> {
    let message = RecvMsgOut::parse(bytes, template).ok()?;
    if message.is_payload_truncated() || message.is_name_data_truncated() {
        return None;
    }
    let payload = message.payload_data();
    // The payload is the end of the buffer.
    let start = bytes.len() - payload.len();
    let from = socket_address(message.name_data())?;
    let control = ControlMessages::new(message.control_data());
    let info = pktinfo::find(control.clone());
    let stride = gro::stride(control.clone());
    let class = traffic_class::find(control).unwrap_or(0);
    Some(Parsed { payload: start..bytes.len(), from, info, stride, class })
}

/// Parses the sockaddr_in or sockaddr_in6 that the kernel wrote.
fn socket_address(name: &[u8]) -> Option<SocketAddr> {
    let family = u16::from_ne_bytes(name.get(..2)?.try_into().ok()?);
    let port = u16::from_be_bytes(name.get(2..4)?.try_into().ok()?);
    match i32::from(family) {
        libc::AF_INET => {
            let ip: [u8; 4] = name.get(4..8)?.try_into().ok()?;
            Some(SocketAddr::new(IpAddr::from(ip), port))
        }
        libc::AF_INET6 => {
            let flow = u32::from_ne_bytes(name.get(4..8)?.try_into().ok()?);
            let ip: [u8; 16] = name.get(8..24)?.try_into().ok()?;
            let scope = u32::from_ne_bytes(name.get(24..28)?.try_into().ok()?);
            Some(SocketAddr::V6(SocketAddrV6::new(Ipv6Addr::from(ip), port, flow, scope)))
        }
        _ => None,
    }
}

const UNSEGMENTED_MAX: usize = 4096;
/// Most tries to send a batch; each of all but the last met reports of earlier datagrams.
const SEND_TRIES_MAX: usize = 4;
