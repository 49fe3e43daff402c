//! Socket option UDP_GRO: the kernel joins datagrams of one sender that arrive together. A control message
//! tells where to cut.

use std::io;
use std::os::fd::AsFd;

use super::control::ControlMessages;
use super::set_option;

/// Most bytes of a joined datagram; receive buffers must be this large, or the rest is lost.
pub const BYTES_MAX: usize = 65_535;

/// Enables joining for a UDP socket (kernel 5.0). From then on each receive may hold several datagrams.
pub fn enable(socket: impl AsFd) -> io::Result<()> {
    set_option(socket, libc::SOL_UDP, libc::UDP_GRO, &1i32)
}

/// Returns the bytes of each joined datagram but the last; `None` when the payload is one datagram.
pub fn stride(control: ControlMessages<'_>) -> Option<u16> {
    let data = control.find_data(libc::SOL_UDP, libc::UDP_GRO)?;
    // The kernel writes an int.
    let stride = i32::from_ne_bytes(data.try_into().ok()?);
    u16::try_from(stride).ok().filter(|&stride| stride > 0)
}

/// Returns the datagrams in a payload, as [`stride`] cuts them. An empty payload is one empty datagram.
pub fn datagrams(payload: &[u8], stride: Option<u16>) -> impl Iterator<Item = &[u8]> {
    let empty = payload.is_empty().then_some(payload);
    let size = stride.map_or(payload.len(), usize::from).max(1);
    empty.into_iter().chain(payload.chunks(size))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::control::ControlWriter;

    fn stride_of(data: &[u8]) -> Option<u16> {
        let mut buffer = [0; 64];
        let mut control = ControlWriter::new(&mut buffer);
        control.push(libc::SOL_UDP, libc::UDP_GRO, data).unwrap();
        let length = control.len();
        stride(ControlMessages::new(&buffer[..length]))
    }

    #[test]
    fn stride_is_an_int_that_fits_a_datagram() {
        assert_eq!(stride_of(&1444i32.to_ne_bytes()), Some(1444));
        assert_eq!(stride_of(&0i32.to_ne_bytes()), None);
        assert_eq!(stride_of(&(-1i32).to_ne_bytes()), None);
        assert_eq!(stride_of(&70_000i32.to_ne_bytes()), None);
        assert_eq!(stride_of(&1444u16.to_ne_bytes()), None);
        assert_eq!(stride(ControlMessages::new(&[])), None);
    }

    #[test]
    fn payload_is_cut_at_the_stride() {
        let payload = [0u8; 10];
        let lengths = |stride| datagrams(&payload, stride).map(<[u8]>::len).collect::<Vec<_>>();
        assert_eq!(lengths(Some(4)), [4, 4, 2]);
        assert_eq!(lengths(Some(5)), [5, 5]);
        assert_eq!(lengths(None), [10]);
        assert_eq!(datagrams(&[], None).count(), 1);
    }
}
