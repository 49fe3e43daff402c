//! Socket option SO_MAX_PACING_RATE: the kernel spaces a connection's packets so that the rate is not
//! exceeded.
//!
//! The `fq` queueing discipline paces where it is installed; TCP paces by its own timer elsewhere (socket(7)).

use std::io;
use std::os::fd::AsFd;

use super::set_option;

/// Limits the socket's sending to `bytes_per_second`; `u64::MAX` takes the limit away.
pub fn set_max_rate(socket: impl AsFd, bytes_per_second: u64) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &bytes_per_second)
}

#[cfg(test)]
mod tests {
    use socket2::{Domain, Socket, Type};

    use super::*;
    use crate::socket::get_option;

    #[test]
    fn rate_above_32_bits_is_kept() {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let max_rate = || -> u64 { get_option(&socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE).unwrap() };
        assert_eq!(max_rate(), u64::MAX);
        set_max_rate(&socket, 12_500_000_000).unwrap();
        assert_eq!(max_rate(), 12_500_000_000);
    }
}
