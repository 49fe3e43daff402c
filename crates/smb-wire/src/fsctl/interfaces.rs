//! FSCTL_QUERY_NETWORK_INTERFACE_INFO (MS-SMB2 2.2.32.5): where else the server can be reached.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32, U64};

use crate::chain::{Entries, EntryWriter};
use crate::fixed::{prefix, wire};
use crate::malformed::Malformed;

/// `Capability`: several receive queues, so that several connections are worth it.
pub const RSS_CAPABLE: u32 = 1;

const INTER_NETWORK: u16 = 0x0002;
const INTER_NETWORK_V6: u16 = 0x0017;

wire! {
    /// One address.
    pub struct InterfaceHead {
        next: U32,
        if_index: U32,
        capability: U32,
        reserved: U32,
        link_speed: U64,
        family: U16,
        /// Port and address; behind the port stands an IPv4 address at once, an IPv6 address four bytes on.
        socket_address: [u8; 126],
    }
}

/// One address of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Index of the interface, the same for all its addresses; never 0.
    pub index: u32,
    /// Bits such as [`RSS_CAPABLE`].
    pub capability: u32,
    /// Bits per second.
    pub link_speed: u64,
    /// The address.
    pub address: IpAddr,
}

/// Appends an address; `false` if it does not fit.
pub fn write(list: &mut EntryWriter<'_>, interface: &Interface) -> bool {
    let mut socket_address = [0; 126];
    let family = match interface.address {
        IpAddr::V4(address) => {
            socket_address[2..6].copy_from_slice(&address.octets());
            INTER_NETWORK
        }
        IpAddr::V6(address) => {
            socket_address[6..22].copy_from_slice(&address.octets());
            INTER_NETWORK_V6
        }
    };
    let head = InterfaceHead {
        next: U32::ZERO,
        if_index: interface.index.into(),
        capability: interface.capability.into(),
        reserved: U32::ZERO,
        link_speed: interface.link_speed.into(),
        family: family.into(),
        socket_address,
    };
    list.push(|out| out.extend(head.as_bytes()))
}

/// Reads the addresses; those of unknown families are left out.
pub fn parse(output: &[u8]) -> impl Iterator<Item = Result<Interface, Malformed>> {
    let entries = Entries::new(output, 8, size_of::<InterfaceHead>());
    entries.filter_map(|entry| entry.and_then(take).transpose())
}

fn take(entry: &[u8]) -> Result<Option<Interface>, Malformed> {
    let (head, _) = prefix::<InterfaceHead>(entry)?;
    let address = &head.socket_address;
    let address: IpAddr = match head.family.get() {
        INTER_NETWORK => Ipv4Addr::from(*address[2..].first_chunk::<4>().expect("126 bytes")).into(),
        INTER_NETWORK_V6 => Ipv6Addr::from(*address[6..].first_chunk::<16>().expect("126 bytes")).into(),
        _ => return Ok(None),
    };
    Ok(Some(Interface {
        index: head.if_index.get(),
        capability: head.capability.get(),
        link_speed: head.link_speed.get(),
        address,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_back_and_stand_152_bytes_apart() {
        let all = ["192.0.2.1", "2001:db8::1"].map(|address| Interface {
            index: 2,
            capability: RSS_CAPABLE,
            link_speed: 25_000_000_000,
            address: address.parse().unwrap(),
        });
        let mut out = Vec::new();
        let mut list = EntryWriter::new(&mut out, 8, 304);
        assert!(all.iter().all(|interface| write(&mut list, interface)));
        assert!(!write(&mut list, &all[0]));
        assert_eq!((out.len(), out[0]), (304, 152));
        assert_eq!(parse(&out).map(Result::unwrap).collect::<Vec<_>>(), all);
        out[24] = 9;
        assert_eq!(parse(&out).count(), 1);
        assert_eq!(parse(&out[..303]).last(), Some(Err(Malformed::Short)));
    }
}
