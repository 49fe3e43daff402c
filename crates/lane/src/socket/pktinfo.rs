//! Socket options IP_PKTINFO and IPV6_RECVPKTINFO (ip(7), ipv6(7)). They tell which address of this machine a
//! datagram came to, through which NIC, and set the address from which an answer leaves.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;

use socket2::{Domain, SockRef};

use super::control::{ControlFull, ControlMessages, ControlWriter};
use super::set_option;

/// Interface and address by which a datagram came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketInfo {
    /// Address of this machine to which the datagram was sent.
    pub local: IpAddr,
    /// Index of the interface by which the datagram came.
    pub ifindex: u32,
}

/// Asks for the packet information with every datagram.
pub fn enable(socket: impl AsFd) -> io::Result<()> {
    let socket = socket.as_fd();
    if SockRef::from(&socket).domain()? == Domain::IPV6 {
        set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, &1i32)
    } else {
        set_option(socket, libc::IPPROTO_IP, libc::IP_PKTINFO, &1i32)
    }
}

/// Returns the packet information among a datagram's control messages.
pub fn find(mut control: ControlMessages<'_>) -> Option<PacketInfo> {
    control.find_map(|message| match (message.level, message.kind) {
        (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
            // int interface, address to answer from, address in the header.
            let data: &[u8; 12] = message.data.try_into().ok()?;
            let local: [u8; 4] = data[4..8].try_into().ok()?;
            Some(PacketInfo {
                local: Ipv4Addr::from(local).into(),
                ifindex: u32::from_ne_bytes(first_4(data)),
            })
        }
        (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
            // Address in the header, int interface.
            let data: &[u8; 20] = message.data.try_into().ok()?;
            let local: [u8; 16] = data[..16].try_into().ok()?;
            let ifindex = u32::from_ne_bytes(first_4(&data[16..]));
            Some(PacketInfo { local: Ipv6Addr::from(local).into(), ifindex })
        }
        _ => None,
    })
}

/// Makes a datagram leave from `source`; routing chooses the interface.
pub fn push_source(control: &mut ControlWriter<'_>, source: IpAddr) -> Result<(), ControlFull> {
    match source {
        IpAddr::V4(source) => {
            let mut data = [0; 12];
            data[4..8].copy_from_slice(&source.octets());
            control.push(libc::IPPROTO_IP, libc::IP_PKTINFO, &data)
        }
        IpAddr::V6(source) => {
            let mut data = [0; 20];
            data[..16].copy_from_slice(&source.octets());
            control.push(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &data)
        }
    }
}

fn first_4(bytes: &[u8]) -> [u8; 4] {
    [bytes[0], bytes[1], bytes[2], bytes[3]]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut ControlWriter<'_>)) -> Vec<u8> {
        let mut buffer = [0; 64];
        let mut control = ControlWriter::new(&mut buffer);
        write(&mut control);
        let length = control.len();
        buffer[..length].to_vec()
    }

    #[test]
    fn source_is_read_back_as_local_address() {
        for source in ["10.1.2.3", "fd00::7"] {
            let source: IpAddr = source.parse().unwrap();
            let bytes = written(|control| push_source(control, source).unwrap());
            assert_eq!(find(ControlMessages::new(&bytes)), Some(PacketInfo { local: source, ifindex: 0 }));
        }
    }

    #[test]
    fn answer_address_is_taken_not_the_headers_which_may_be_a_broadcast() {
        let mut data = [0; 12];
        data[..4].copy_from_slice(&7u32.to_ne_bytes());
        data[4..8].copy_from_slice(&[10, 0, 0, 1]);
        data[8..].copy_from_slice(&[10, 0, 0, 255]);
        let bytes = written(|control| control.push(libc::IPPROTO_IP, libc::IP_PKTINFO, &data).unwrap());
        let info = find(ControlMessages::new(&bytes)).unwrap();
        assert_eq!((info.local, info.ifindex), (Ipv4Addr::new(10, 0, 0, 1).into(), 7));
    }

    #[test]
    fn message_of_another_size_is_passed_over() {
        let bytes = written(|control| control.push(libc::IPPROTO_IP, libc::IP_PKTINFO, &[1; 11]).unwrap());
        assert_eq!(find(ControlMessages::new(&bytes)), None);
    }
}
