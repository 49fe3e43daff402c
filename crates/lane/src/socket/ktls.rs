//! Kernel TLS for transmit: TCP_ULP "tls", then the keys by SOL_TLS/TLS_TX (linux/tls.h).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Hands transmit encryption of an established stream to the kernel. `crypto_info` is the cipher's
/// `tls12_crypto_info_*` structure.
///
/// # Errors
/// `ENOENT` when the kernel has no TLS; `EINVAL` for a cipher it does not know. The socket is unchanged then
/// as far as bytes on the wire go, and user-space records go on.
pub fn enable_transmit(socket: BorrowedFd<'_>, crypto_info: &[u8]) -> io::Result<()> {
    let fd = socket.as_raw_fd();
    super::options::set_bytes(fd, libc::SOL_TCP, libc::TCP_ULP, b"tls")?;
    super::options::set_bytes(fd, libc::SOL_TLS, libc::TLS_TX, crypto_info)
}
