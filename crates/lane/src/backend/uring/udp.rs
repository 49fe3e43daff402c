//! Datagrams: coalesced receives taken apart, bursts sent as one.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::rc::Rc;

use io_uring::cqueue;
use io_uring::types::RecvMsgOut;
use socket2::{Domain, Protocol, Socket, Type};

use super::Uring;
use crate::backend::{Datagram, DatagramBatch, Fd, UdpOptions};
use crate::buffer::RecvBuf;
use crate::socket::control::ControlMessages;
use crate::socket::udp::{self, Burst, SendError};
use crate::socket::{fragment, gro, options, pktinfo};

pub(super) fn bind(addr: SocketAddr, wanted: &UdpOptions) -> io::Result<OwnedFd> {
    let socket = Socket::new(Domain::for_address(addr), Type::DGRAM.nonblocking(), Some(Protocol::UDP))?;
    if addr.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_port(wanted.reuse_port)?;
    options::set_receive_buffer(&socket, wanted.recv_buffer)?;
    options::set_send_buffer(&socket, wanted.send_buffer)?;
    pktinfo::enable(&socket)?;
    fragment::allow(&socket)?;
    if wanted.gro {
        gro::enable(&socket)?;
    }
    socket.bind(&addr.into())?;
    Ok(socket.into())
}

/// Destinations whose route cannot segment, with the smallest segments it refused: a route without checksum
/// offload refuses all, one with a small MTU those above it. Forgotten all at once when there are too many: each
/// costs one failed call to learn again.
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
        let fd = self.borrow_fd(socket);
        if !batch.dont_fragment {
            return self.send_batch(fd, batch);
        }
        // The option is the socket's, not the message's; probes are rare.
        fragment::forbid(fd)?;
        let sent = self.send_batch(fd, batch);
        fragment::allow(fd)?;
        (0..4).for_each(|_| self.count_syscall());
        sent
    }

    fn send_batch(&self, fd: BorrowedFd<'_>, batch: &DatagramBatch<'_>) -> io::Result<Option<usize>> {
        let burst = Burst {
            destination: batch.to,
            source: batch.from,
            segment_bytes: batch.segment,
            parts: batch.parts,
        };
        let total: usize = batch.parts.iter().map(|part| part.len()).sum();
        if !self.unsegmented.borrow().contains(batch.to.ip(), batch.segment) {
            match udp::send_segments(fd, &burst) {
                Ok(sent) => return Ok(Some(self.count_datagrams(sent, batch.segment))),
                Err(SendError::WouldBlock) => return Ok(None),
                Err(SendError::NotSegmented(error)) => {
                    let smallest = if error.raw_os_error() == Some(libc::EIO) { 0 } else { batch.segment };
                    self.unsegmented.borrow_mut().insert(batch.to.ip(), smallest);
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

    /// Takes a filled buffer apart; `None` for one that the kernel had to cut, which is dropped and counted.
    pub(super) fn parse_datagram(&self, entry: &cqueue::Entry, n: u32) -> Option<Datagram> {
        let id = cqueue::buffer_select(entry.flags())?;
        let ring = Rc::clone(self.datagrams.borrow().as_ref()?);
        ring.note_lent();
        let mut buf = RecvBuf::provided(ring, id, 0, n as usize);
        let parsed = parse(&buf, &self.message_template);
        let Some((payload, from, info, stride)) = parsed else {
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
            segment,
        })
    }

    fn count_datagrams(&self, sent: usize, segment: u16) -> usize {
        self.counters.bytes_out.add(sent as u64);
        self.counters.datagrams_out.add(sent.div_ceil(usize::from(segment.max(1))) as u64);
        sent
    }
}

type Parsed = (std::ops::Range<usize>, SocketAddr, Option<pktinfo::PacketInfo>, Option<u16>);

fn parse(bytes: &[u8], template: &libc::msghdr) -> Option<Parsed> {
    let message = RecvMsgOut::parse(bytes, template).ok()?;
    if message.is_payload_truncated() || message.is_name_data_truncated() {
        return None;
    }
    let payload = message.payload_data();
    // The payload is the end of the buffer.
    let start = bytes.len() - payload.len();
    let from = socket_address(message.name_data())?;
    let control = message.control_data();
    let info = pktinfo::find(ControlMessages::new(control));
    let stride = gro::stride(ControlMessages::new(control));
    Some((start..bytes.len(), from, info, stride))
}

/// A sockaddr_in or sockaddr_in6 from the bytes the kernel wrote.
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
