//! Message for sendmsg(2), as the kernel reads it: its parts, control messages and destination.

use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::ptr;
use std::task::Poll;
use std::time::Duration;

use socket2::SockAddr;

use super::vectors::{Vectors, rest_of};
#[cfg(feature = "sim")]
use crate::backend::sim::Step;
use crate::backend::{DatagramBatch, Fd};
use crate::buffer::Buf;
use crate::socket::control::ControlMessages;
use crate::socket::{gso, pktinfo, traffic_class};

/// Message for sendmsg(2), without its bytes. In a box: the header points into it.
pub(super) struct Message {
    header: libc::msghdr,
    parts: Vectors,
    control: Vec<u8>,
    to: Option<SocketAddr>,
    address: Option<SockAddr>,
}

impl Message {
    /// Makes a message of the bytes of `bufs` but the first `skip`, with `control` as
    /// [`crate::socket::control`] writes it. On a connected socket `to` is `None`.
    pub(super) fn new(bufs: &[Buf], skip: usize, control: Vec<u8>, to: Option<SocketAddr>) -> Box<Self> {
        // SAFETY: a msghdr of zeros is a valid one without name, parts and control data.
        let header = unsafe { std::mem::zeroed() };
        let (parts, address) = (Vectors::of_bytes(bufs, skip), to.map(SockAddr::from));
        let mut message = Box::new(Self { header, parts, control, to, address });
        message.header.msg_iov = message.parts.as_ptr().cast_mut();
        message.header.msg_iovlen = message.parts.len() as _;
        if let Some(address) = &message.address {
            message.header.msg_name = address.as_ptr().cast_mut().cast();
            message.header.msg_namelen = address.len();
        }
        if !message.control.is_empty() {
            message.header.msg_control = message.control.as_mut_ptr().cast();
            message.header.msg_controllen = message.control.len() as _;
        }
        message
    }

    /// Returns the header, valid for as long as the message and its buffers live.
    pub(super) fn as_ptr(&self) -> *const libc::msghdr {
        ptr::from_ref(&self.header)
    }

    /// Returns whether the message is a datagram, or several.
    pub(super) fn is_datagram(&self) -> bool {
        self.to.is_some()
    }

    /// Sends the message in a simulated world, as a datagram where it has an address. Waits until the socket
    /// takes some bytes.
    #[cfg(feature = "sim")]
    pub(super) fn simulate(
        &self,
        bufs: &[Buf],
        skip: usize,
        more: bool,
        step: &mut Step<'_>,
    ) -> Poll<io::Result<usize>> {
        let parts: Vec<_> = rest_of(bufs, skip).map(IoSlice::new).collect();
        let at = step.socket()?;
        let sent = match self.to {
            Some(to) => at.net.send_message(at.socket, &self.batch(to, &parts), at.engine)?,
            None if self.control.is_empty() => at.net.send(at.socket, &parts, more, at.engine)?,
            None => {
                let bytes = parts.iter().flat_map(|part| part.iter().copied()).collect::<Vec<u8>>();
                at.net.send_control(at.socket, &bytes, &self.control, at.engine)?
            }
        };
        match sent {
            Some(n) => Poll::Ready(Ok(n)),
            None => {
                if at.net.is_writable(at.socket, at.key)? {
                    at.engine.look_again(at.key, Duration::ZERO);
                }
                Poll::Pending
            }
        }
    }

    /// Converts the message to a batch of datagrams, with the segments and the source of its control
    /// messages.
    fn batch<'a>(&self, to: SocketAddr, parts: &'a [IoSlice<'a>]) -> DatagramBatch<'a> {
        let control = ControlMessages::new(&self.control);
        let total: usize = parts.iter().map(|part| part.len()).sum();
        let whole = u16::try_from(total.max(1)).unwrap_or(u16::MAX);
        let segment = gso::find(control.clone()).unwrap_or(whole);
        let from = pktinfo::find(control.clone()).map(|info| info.local);
        let class = traffic_class::find(control).unwrap_or(0);
        DatagramBatch { from, class, ..DatagramBatch::new(to, segment, parts) }
    }
}

/// Makes the control messages of a datagram: its source, and where the kernel cuts it into segments.
pub(crate) fn datagram_control(source: Option<IpAddr>, segment: Option<u16>) -> io::Result<Vec<u8>> {
    use crate::socket::control::{CONTROL_BYTES, ControlWriter};
    let mut bytes = [0; CONTROL_BYTES];
    let mut control = ControlWriter::new(&mut bytes);
    if let Some(source) = source {
        pktinfo::push_source(&mut control, source).map_err(io::Error::other)?;
    }
    if let Some(segment) = segment {
        gso::push(&mut control, segment).map_err(io::Error::other)?;
    }
    let len = control.len();
    Ok(bytes[..len].to_vec())
}

/// Returns the flags of a stream's send on the ring: whether it waits until all is sent, and whether more
/// comes.
pub(super) fn stream_flags(ring: &crate::backend::uring::Uring, socket: Fd, more: bool) -> libc::c_int {
    libc::MSG_NOSIGNAL | ring.wait_all(socket) | if more { libc::MSG_MORE } else { 0 }
}
