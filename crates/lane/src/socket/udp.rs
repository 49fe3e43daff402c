//! Bursts of equal datagrams: by one sendmsg that the kernel cuts apart, or by one sendmmsg where it cannot.

use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};

use socket2::SockAddr;

use super::control::{CONTROL_BYTES, ControlMessages, ControlWriter};
use super::pktinfo::{self, PacketInfo};
use super::{gro, gso, message, traffic_class};

/// Datagrams for one destination. The parts, one after another, are cut every `segment_bytes`; the last
/// datagram may be shorter. A part may hold several datagrams, and a datagram several parts.
#[derive(Clone, Copy, Debug)]
pub struct Burst<'a> {
    /// Address of the receiver.
    pub destination: SocketAddr,
    /// Address of this machine to send from; `None` leaves the choice to routing.
    pub source: Option<IpAddr>,
    /// Traffic class of the burst's packets; 0 leaves the choice to the socket.
    pub class: u8,
    /// Bytes of each datagram but the last.
    pub segment_bytes: u16,
    /// Payload of the burst, in parts.
    pub parts: &'a [IoSlice<'a>],
}

/// Reason why a burst was not sent, not even a part. Nothing of it was.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The socket takes nothing at present.
    #[error("the socket's buffer is full")]
    WouldBlock,
    /// The route cannot cut datagrams apart: a NIC without checksum offload (EIO), or segments above its MTU
    /// (EINVAL, EMSGSIZE since Linux 6.13). Send this burst by [`send_many`], and later ones to this
    /// destination too.
    #[error("datagrams cannot be segmented on this route: {0}")]
    NotSegmented(io::Error),
    /// The burst has more datagrams, bytes or parts than one call takes; see [`gso::segments_per_call`].
    #[error("{datagrams} datagrams of {segment_bytes} bytes, or their parts, are more than one call takes")]
    TooLarge {
        /// Datagrams in the burst.
        datagrams: usize,
        /// Bytes of each datagram in the burst.
        segment_bytes: u16,
    },
    /// The kernel gave another error, often about an earlier datagram (ICMP).
    #[error(transparent)]
    Os(io::Error),
}

/// Result of a receive: one datagram, or several joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Bytes of payload in the buffer.
    pub length: usize,
    /// Address of the sender.
    pub from: SocketAddr,
    /// Bytes of each datagram but the last when several were joined.
    pub stride: Option<u16>,
    /// Interface and address by which the datagrams came in, when asked for by [`pktinfo::enable`].
    pub info: Option<PacketInfo>,
    /// Traffic class of the datagrams, when asked for by [`traffic_class::report`].
    pub class: Option<u8>,
    /// True if the buffer was too small and the rest of the payload is lost.
    pub truncated: bool,
}

/// Sends a burst whole or not at all, by one sendmsg with UDP_SEGMENT; returns the bytes sent.
pub fn send_segments(socket: BorrowedFd<'_>, burst: &Burst<'_>) -> Result<usize, SendError> {
    let datagrams = burst.datagrams()?;
    if datagrams > gso::segments_per_call(usize::from(burst.segment_bytes)) {
        return Err(SendError::TooLarge { datagrams, segment_bytes: burst.segment_bytes });
    }
    let mut control_bytes = [0; CONTROL_BYTES];
    let mut control = ControlWriter::new(&mut control_bytes);
    burst.push_way(&mut control)?;
    if datagrams > 1 {
        gso::push(&mut control, burst.segment_bytes).map_err(io::Error::other).map_err(SendError::Os)?;
    }
    let control_length = control.len();
    let destination = SockAddr::from(burst.destination);
    let message = message_to(&destination, &mut control_bytes[..control_length], burst.parts);
    // SAFETY: every pointer in `message` is to memory borrowed for longer than the call, which only reads it.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &message, SEND_FLAGS) };
    usize::try_from(sent).map_err(|_| send_error(io::Error::last_os_error(), datagrams > 1))
}

/// Sends a burst by one sendmmsg, at most [`gso::SEGMENTS_MAX`] datagrams and 256 parts of it. Returns how
/// many datagrams went; fewer than there are when the socket takes no more.
pub fn send_many(socket: BorrowedFd<'_>, burst: &Burst<'_>) -> Result<usize, SendError> {
    let datagrams = burst.datagrams()?;
    let mut control_bytes = [0; CONTROL_BYTES];
    let mut control = ControlWriter::new(&mut control_bytes);
    burst.push_way(&mut control)?;
    let control_length = control.len();
    let destination = SockAddr::from(burst.destination);

    let mut pieces = [IoSlice::new(&[]); PIECES_MAX];
    let mut ends = [0; gso::SEGMENTS_MAX];
    let count = cut(burst, &mut pieces, &mut ends);
    if count == 0 {
        // The first datagram alone has too many parts.
        return Err(SendError::TooLarge { datagrams, segment_bytes: burst.segment_bytes });
    }
    // SAFETY: an mmsghdr of zeros is a valid message without name, parts and control data.
    let mut messages: [libc::mmsghdr; gso::SEGMENTS_MAX] = unsafe { std::mem::zeroed() };
    let mut start = 0;
    for (slot, &end) in messages.iter_mut().zip(&ends[..count]) {
        slot.msg_hdr = message_to(&destination, &mut control_bytes[..control_length], &pieces[start..end]);
        start = end;
    }
    let fd = socket.as_raw_fd();
    // SAFETY: the first `count` messages point to memory borrowed for longer than the call. It writes only their
    // `msg_len`.
    let sent = unsafe { libc::sendmmsg(fd, messages.as_mut_ptr(), count as u32, SEND_FLAGS) };
    usize::try_from(sent).map_err(|_| send_error(io::Error::last_os_error(), false))
}

/// Receives a datagram, or several joined, without waiting. For tools and tests; lanes receive through their
/// ring.
pub fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Received> {
    let mut control = [0u8; CONTROL_BYTES];
    let received = message::receive(socket, buffer, &mut control, 0)?;
    let told = ControlMessages::new(received.control);
    Ok(Received {
        length: received.length,
        from: received.from.as_socket().ok_or_else(|| io::Error::other("the sender has no IP address"))?,
        stride: gro::stride(told.clone()),
        info: pktinfo::find(told.clone()),
        class: traffic_class::find(told),
        truncated: received.flags & libc::MSG_TRUNC != 0,
    })
}

impl Burst<'_> {
    fn datagrams(&self) -> Result<usize, SendError> {
        let bytes: usize = self.parts.iter().map(|part| part.len()).sum();
        if self.segment_bytes == 0 {
            return Err(SendError::TooLarge { datagrams: bytes, segment_bytes: 0 });
        }
        Ok(bytes.div_ceil(usize::from(self.segment_bytes)).max(1))
    }

    /// Appends control messages with the source address and the traffic class.
    fn push_way(&self, control: &mut ControlWriter<'_>) -> Result<(), SendError> {
        let told = match self.source {
            Some(source) => pktinfo::push_source(control, source),
            None => Ok(()),
        };
        let told = match self.class {
            0 => told,
            class => told.and_then(|()| traffic_class::push(control, self.destination.ip(), class)),
        };
        told.map_err(io::Error::other).map_err(SendError::Os)
    }
}

/// Cuts a burst into pieces that end at datagram borders. Returns how many whole datagrams fit; `ends[n]` is the
/// end of the nth one's pieces.
fn cut<'a>(
    burst: &Burst<'a>,
    pieces: &mut [IoSlice<'a>; PIECES_MAX],
    ends: &mut [usize; gso::SEGMENTS_MAX],
) -> usize {
    let (mut datagrams, mut filled) = (0, 0);
    let mut missing = usize::from(burst.segment_bytes);
    for part in burst.parts {
        let mut rest: &'a [u8] = part;
        while !rest.is_empty() {
            if filled == PIECES_MAX || datagrams == gso::SEGMENTS_MAX {
                return datagrams;
            }
            let (piece, after) = rest.split_at(rest.len().min(missing));
            pieces[filled] = IoSlice::new(piece);
            filled += 1;
            rest = after;
            missing -= piece.len();
            if missing == 0 {
                ends[datagrams] = filled;
                datagrams += 1;
                missing = usize::from(burst.segment_bytes);
            }
        }
    }
    let unfinished = datagrams == 0 || ends[datagrams - 1] < filled;
    if unfinished && datagrams < gso::SEGMENTS_MAX {
        ends[datagrams] = filled;
        datagrams += 1;
    }
    datagrams
}

/// Makes the header of a message to send. The result points into the arguments: it must not outlive them, and
/// is only for calls that send.
fn message_to(destination: &SockAddr, control: &mut [u8], parts: &[IoSlice<'_>]) -> libc::msghdr {
    // SAFETY: a msghdr of zeros is a valid one without name, parts and control data.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_name = destination.as_ptr().cast_mut().cast();
    message.msg_namelen = destination.len();
    message.msg_iov = parts.as_ptr().cast_mut().cast(); // IoSlice has the layout of iovec.
    message.msg_iovlen = parts.len() as _;
    if !control.is_empty() {
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = control.len() as _;
    }
    message
}

fn send_error(error: io::Error, segmented: bool) -> SendError {
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::ENOBUFS) => SendError::WouldBlock,
        Some(libc::EIO | libc::EINVAL | libc::EMSGSIZE) if segmented => SendError::NotSegmented(error),
        _ => SendError::Os(error),
    }
}

const SEND_FLAGS: i32 = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
/// Most pieces of a burst: a header and three more parts for each datagram, or in other proportions.
const PIECES_MAX: usize = 4 * gso::SEGMENTS_MAX;

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    use super::*;
    use crate::socket::set_option;

    /// Returns the lengths of the datagrams that parts of these lengths are cut into.
    fn cut_lengths(parts: &[usize], segment_bytes: u16) -> Vec<usize> {
        let bytes = vec![0u8; 70_000];
        let parts: Vec<IoSlice<'_>> = parts.iter().map(|&length| IoSlice::new(&bytes[..length])).collect();
        let destination = ([127, 0, 0, 1], 7).into();
        let burst = Burst { destination, source: None, class: 0, segment_bytes, parts: &parts };
        let mut pieces = [IoSlice::new(&[]); PIECES_MAX];
        let mut ends = [0; gso::SEGMENTS_MAX];
        let count = cut(&burst, &mut pieces, &mut ends);
        let starts = std::iter::once(0).chain(ends);
        let ranges = starts.zip(&ends[..count]);
        ranges.map(|(start, &end)| pieces[start..end].iter().map(|piece| piece.len()).sum()).collect()
    }

    #[test]
    fn parts_and_datagrams_need_not_share_borders() {
        assert_eq!(cut_lengths(&[10], 4), [4, 4, 2]);
        assert_eq!(cut_lengths(&[8], 4), [4, 4]);
        assert_eq!(cut_lengths(&[1, 5, 0, 3], 4), [4, 4, 1]);
        assert_eq!(cut_lengths(&[3], 4), [3]);
        assert_eq!(cut_lengths(&[], 4), [0], "one empty datagram");
    }

    #[test]
    fn burst_above_the_limits_is_cut_at_a_datagram_border() {
        assert_eq!(cut_lengths(&[70_000], 1000), [1000; 64]);
        assert_eq!(cut_lengths(&[1; 600], 10), [10; 25], "256 pieces hold 25 whole datagrams of 10");
    }

    #[test]
    fn route_that_cannot_segment_is_told_apart_and_sendmmsg_serves_it() {
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        // A segmented send leaves checksums to the device, so without checksums it is refused as on a NIC that
        // cannot compute them.
        set_option(&sender, libc::SOL_SOCKET, libc::SO_NO_CHECK, &1i32).unwrap();
        let bytes = [7; 300];
        let parts = [IoSlice::new(&bytes)];
        let destination = receiver.local_addr().unwrap();
        let burst = Burst { destination, source: None, class: 0, segment_bytes: 100, parts: &parts };
        let refused = send_segments(sender.as_fd(), &burst);
        assert!(matches!(refused, Err(SendError::NotSegmented(_))), "{refused:?}");
        assert_eq!(send_many(sender.as_fd(), &burst).unwrap(), 3);
        assert_eq!(receive(receiver.as_fd(), &mut [0; 200]).unwrap().length, 100);
    }
}
