//! Socket option UDP_SEGMENT: one call sends up to 64 equal datagrams, which the NIC or the kernel cuts apart
//! (udp(7)).

use std::io;

use socket2::{Domain, Socket, Type};

use super::control::{ControlFull, ControlMessages, ControlWriter};
use super::get_option;

/// Most datagrams in one call (`UDP_MAX_SEGMENTS`; newer kernels take 128).
pub const SEGMENTS_MAX: usize = 64;

/// Most payload bytes in one call: those that fit one IPv4 packet, headers off.
pub const BYTES_MAX: usize = 65_507;

/// Returns the number of datagrams of `segment_bytes` that one call can send; 0 for a size of 0 or above
/// [`BYTES_MAX`].
pub const fn segments_per_call(segment_bytes: usize) -> usize {
    if segment_bytes == 0 {
        return 0;
    }
    let fitting = BYTES_MAX / segment_bytes;
    if fitting < SEGMENTS_MAX { fitting } else { SEGMENTS_MAX }
}

/// Asks the kernel to cut the payload every `segment_bytes`; the last datagram may be shorter.
pub fn push(control: &mut ControlWriter<'_>, segment_bytes: u16) -> Result<(), ControlFull> {
    control.push(libc::SOL_UDP, libc::UDP_SEGMENT, &segment_bytes.to_ne_bytes())
}

/// Returns the segment size that control messages ask for.
pub(crate) fn find(control: ControlMessages<'_>) -> Option<u16> {
    let data = control.find_data(libc::SOL_UDP, libc::UDP_SEGMENT)?;
    data.try_into().ok().map(u16::from_ne_bytes)
}

/// Returns whether the kernel knows UDP_SEGMENT (4.18). A route may still refuse it at the first send
/// ([`super::udp::SendError::NotSegmented`]).
pub fn is_available() -> io::Result<bool> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
    match get_option::<i32>(&socket, libc::SOL_UDP, libc::UDP_SEGMENT) {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::control::ControlMessages;

    #[test]
    fn both_limits_bound_a_call() {
        assert_eq!(segments_per_call(1), 64);
        assert_eq!(segments_per_call(1023), 64);
        assert_eq!(segments_per_call(1024), 63);
        assert_eq!(segments_per_call(1444), 45);
        assert_eq!(segments_per_call(65_507), 1);
        assert_eq!(segments_per_call(65_508), 0);
        assert_eq!(segments_per_call(0), 0);
    }

    #[test]
    fn segment_size_is_a_16_bit_message_of_the_udp_level() {
        let mut buffer = [0; 24];
        let mut control = ControlWriter::new(&mut buffer);
        push(&mut control, 1444).unwrap();
        let data = ControlMessages::new(&buffer).find_data(17, 103);
        assert_eq!(data, Some(&1444u16.to_ne_bytes()[..]));
    }
}
