//! Fields of packed records: what lanes write into batches and the log's thread takes out again.

use std::net::{IpAddr, Ipv6Addr};

/// At most `max` bytes of a text.
pub fn cut(text: &[u8], max: usize) -> &[u8] {
    &text[..text.len().min(max)]
}

/// Appends an address: 16 bytes.
pub fn put_address(address: IpAddr, batch: &mut Vec<u8>) {
    let address = match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    };
    batch.extend_from_slice(&address.octets());
}

/// Takes an address off the front of a batch; `None` at its end.
pub fn take_address(batch: &mut &[u8]) -> Option<IpAddr> {
    Some(IpAddr::V6(Ipv6Addr::from(take::<16>(batch)?)).to_canonical())
}

/// Takes so many bytes off the front of a batch; `None` at its end.
pub fn take<const N: usize>(batch: &mut &[u8]) -> Option<[u8; N]> {
    let (head, rest) = batch.split_first_chunk::<N>()?;
    *batch = rest;
    Some(*head)
}
