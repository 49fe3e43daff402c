//! Fields of packed records, which lanes write into batches and the log's thread takes out again.

use std::net::{IpAddr, Ipv6Addr};

/// Returns at most `max` bytes of a text.
pub fn cut(text: &[u8], max: usize) -> &[u8] {
    &text[..text.len().min(max)]
}

/// Appends an address, 16 bytes.
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

/// Appends at most `max` (and 65,535) bytes of a text, behind their number.
pub fn put_text(text: &[u8], max: usize, batch: &mut Vec<u8>) {
    let text = cut(text, max.min(u16::MAX.into()));
    batch.extend_from_slice(&(text.len() as u16).to_le_bytes());
    batch.extend_from_slice(text);
}

/// Takes a text off the front of a batch; `None` at its end.
pub fn take_text<'a>(batch: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = u16::from_le_bytes(take(batch)?);
    let (text, rest) = batch.split_at_checked(length.into())?;
    *batch = rest;
    Some(text)
}

/// Takes `N` bytes off the front of a batch; `None` at its end.
pub fn take<const N: usize>(batch: &mut &[u8]) -> Option<[u8; N]> {
    let (head, rest) = batch.split_first_chunk::<N>()?;
    *batch = rest;
    Some(*head)
}
