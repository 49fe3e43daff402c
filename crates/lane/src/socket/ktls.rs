//! Kernel TLS, transmit side: after the handshake the kernel makes the records, so files go out by sendfile.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use super::control::{ControlFull, ControlWriter};
use super::set_option_bytes;

/// Hands the sending of TLS records on a connected TCP socket to the kernel.
///
/// `crypto_info` is one of the `tls12_crypto_info_*` structures of `linux/tls.h`: version, cipher, then IV, key,
/// salt and record sequence of the next record. The kernel copies it; the caller clears its own copy.
///
/// # Errors
/// `Unsupported` when the kernel has no TLS or not this cipher: send through user space instead. `NotConnected`
/// before the connection is established. Anything else is a mistake in `crypto_info`.
pub fn enable_transmit(socket: impl AsFd, crypto_info: &[u8]) -> io::Result<()> {
    let socket = socket.as_fd();
    match set_option_bytes(socket, libc::IPPROTO_TCP, libc::TCP_ULP, b"tls") {
        // EEXIST: enabled before.
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(libc::EEXIST) => {}
        Err(error) => return Err(explain_protocol(error)),
    }
    set_option_bytes(socket, libc::SOL_TLS, libc::TLS_TX, crypto_info).map_err(explain_cipher)
}

/// Gives the next record a type other than application data: 21 for an alert, 22 for a handshake message
/// (RFC 8446 5.1). Goes with a sendmsg of the message's bytes.
pub fn push_record_type(control: &mut ControlWriter<'_>, record_type: u8) -> Result<(), ControlFull> {
    control.push(libc::SOL_TLS, libc::TLS_SET_RECORD_TYPE, &[record_type])
}

/// Whether this kernel has TLS at all; loads its module when it may. Asks a connection of its own on loopback.
pub fn is_available() -> io::Result<bool> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let client = std::net::TcpStream::connect(listener.local_addr()?)?;
    match set_option_bytes(client.as_fd(), libc::IPPROTO_TCP, libc::TCP_ULP, b"tls") {
        Ok(()) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Which protocol layer the socket has, `tls` once enabled.
pub fn upper_protocol(socket: impl AsFd) -> io::Result<Option<String>> {
    let mut name = [0u8; 16];
    let mut length = name.len() as libc::socklen_t;
    // SAFETY: `name` has `length` writable bytes, and the kernel writes at most that many.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_ULP,
            name.as_mut_ptr().cast(),
            &mut length,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    let name = name[..length as usize].split(|&byte| byte == 0).next().unwrap_or_default();
    Ok((!name.is_empty()).then(|| String::from_utf8_lossy(name).into_owned()))
}

fn explain_protocol(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(libc::ENOENT) => io::Error::new(
            io::ErrorKind::Unsupported,
            "the kernel has no TLS (CONFIG_TLS); where it is a module, `modprobe tls` loads it",
        ),
        Some(libc::ENOTCONN) => {
            io::Error::new(io::ErrorKind::NotConnected, "kernel TLS needs an established connection")
        }
        _ => error,
    }
}

fn explain_cipher(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENOPROTOOPT) => {
            io::Error::new(io::ErrorKind::Unsupported, "the kernel's TLS lacks this cipher or version")
        }
        // Keys were set before, and this kernel does not change them (before 6.14).
        Some(libc::EBUSY) => io::Error::new(io::ErrorKind::Unsupported, "this kernel cannot change TLS keys"),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// AES-128-GCM for TLS 1.3: version, cipher 51, IV 8, key 16, salt 4, sequence 8.
    fn aes_128_gcm() -> Vec<u8> {
        let mut info = [0x0304u16.to_ne_bytes(), 51u16.to_ne_bytes()].concat();
        info.resize(40, 7);
        info
    }

    #[test]
    fn transmit_is_enabled_or_refused_as_unsupported() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let enabled = enable_transmit(&client, &aes_128_gcm());
        if is_available().unwrap() {
            enabled.unwrap();
            assert_eq!(upper_protocol(&client).unwrap().as_deref(), Some("tls"));
        } else {
            let error = enabled.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::Unsupported);
            assert!(error.to_string().contains("modprobe tls"), "{error}");
            assert_eq!(upper_protocol(&client).unwrap(), None);
        }
    }
}
