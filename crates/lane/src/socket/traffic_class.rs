//! Socket options IP_TOS and IPV6_TCLASS, of one message. They set the octet of the IP header that tells
//! routers and queues how to treat a packet (RFC 2474: six bits of code point, two of ECN; ip(7), ipv6(7)).
//!
//! Over IPv4 the kernel takes the packet's priority (SO_PRIORITY, the bands of `pfifo_fast` and `prio`) from it too. Over
//! IPv6 it does not; there a filter on the octet does (tc-flower(8)).

use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;

use socket2::{Domain, SockRef};

use super::control::{ControlFull, ControlMessages, ControlWriter};
use super::set_option;

/// Appends the control message that sends a message's packets to `destination` with this octet.
pub fn push(control: &mut ControlWriter<'_>, destination: IpAddr, class: u8) -> Result<(), ControlFull> {
    let value = i32::from(class).to_ne_bytes();
    match destination {
        IpAddr::V4(_) => control.push(libc::IPPROTO_IP, libc::IP_TOS, &value),
        IpAddr::V6(_) => control.push(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, &value),
    }
}

/// Makes each datagram received tell its octet.
pub fn report(socket: impl AsFd) -> io::Result<()> {
    let socket = socket.as_fd();
    if SockRef::from(&socket).domain()? == Domain::IPV6 {
        set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, &1i32)
    } else {
        set_option(socket, libc::IPPROTO_IP, libc::IP_RECVTOS, &1i32)
    }
}

/// Returns the octet among a message's control messages.
pub fn find(mut control: ControlMessages<'_>) -> Option<u8> {
    control.find_map(|message| match ((message.level, message.kind), message.data) {
        // Received ones have a byte, those to be sent an int.
        ((libc::IPPROTO_IP, libc::IP_TOS), &[class]) => Some(class),
        ((libc::IPPROTO_IP, libc::IP_TOS) | (libc::IPPROTO_IPV6, libc::IPV6_TCLASS), &[a, b, c, d]) => {
            u8::try_from(i32::from_ne_bytes([a, b, c, d])).ok()
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;
    use std::net::UdpSocket;

    use super::*;
    use crate::socket::udp::{self, Burst};

    #[test]
    fn octet_that_is_written_is_found() {
        for destination in ["192.0.2.1", "2001:db8::1"] {
            let mut buffer = [0; 64];
            let mut control = ControlWriter::new(&mut buffer);
            push(&mut control, destination.parse().unwrap(), 46 << 2).unwrap();
            let length = control.len();
            assert_eq!(find(ControlMessages::new(&buffer[..length])), Some(184));
        }
        assert_eq!(find(ControlMessages::new(&[])), None);
    }

    #[test]
    fn burst_arrives_with_its_octet_however_it_is_sent() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(receiver) = UdpSocket::bind(address) else { continue };
            let sender = UdpSocket::bind(address).unwrap();
            report(&receiver).unwrap();
            receiver.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
            let (destination, bytes) = (receiver.local_addr().unwrap(), [7; 300]);
            let parts = [IoSlice::new(&bytes)];
            for class in [0, 46 << 2, 8 << 2] {
                let burst = Burst { destination, source: None, class, segment_bytes: 100, parts: &parts };
                udp::send_segments(sender.as_fd(), &burst).unwrap();
                assert_eq!(udp::send_many(sender.as_fd(), &burst).unwrap(), 3);
                for at in 0..6 {
                    receiver.peek(&mut [0; 200]).expect("it is on its way");
                    let received = udp::receive(receiver.as_fd(), &mut [0; 200]).unwrap();
                    assert_eq!(received.class, Some(class), "{address}, datagram {at}");
                }
            }
        }
    }
}
