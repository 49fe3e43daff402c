//! SO_MAX_PACING_RATE: an upper bound on a socket's sending rate, kept by fq or by TCP itself.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Bounds the socket's sending rate to `bytes_per_second`; `u64::MAX` takes the bound off.
pub fn set_max_rate(socket: BorrowedFd<'_>, bytes_per_second: u64) -> io::Result<()> {
    super::options::set(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &bytes_per_second)
}
