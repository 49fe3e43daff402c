//! Kernel TLS, transmit side: after the handshake the kernel makes the records, so that files leave by
//! sendfile.

use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsFd;

use socket2::{Domain, Socket, Type};

use super::control::{ControlFull, ControlWriter};
use super::set_option_bytes;

/// Reason why the kernel did not take a key. The socket is as it was: what is written to it goes out as
/// before.
#[derive(Debug, thiserror::Error)]
pub enum KtlsRefusal {
    /// The kernel has no TLS module: TCP_ULP `tls` answered ENOENT.
    #[error("the kernel has no TLS (CONFIG_TLS); where it is a module, `modprobe tls` loads it")]
    NoModule,
    /// The peer has ended the connection, or half of it: the kernel takes only an established one.
    #[error("kernel TLS needs an established connection")]
    NotConnected,
    /// The kernel has TLS, but not this version and cipher.
    #[error("the kernel's TLS lacks this cipher or version")]
    NoCipher,
    /// The socket has a key, and this kernel does not change keys (Linux before 6.14).
    #[error("this kernel cannot change the key of a TLS socket; Linux 6.14 can")]
    KeyFixed,
    /// Memory ran out, or a sandbox forbids the call.
    #[error("kernel TLS was refused: {0}")]
    Other(#[source] io::Error),
}

/// Fails once the peer has reset the connection, of which a send under kernel TLS may not tell. It takes the
/// error off the socket, counts a record that went nowhere as sent, and would do so to the end of a file
/// (seen on Linux 6.1 and 6.12). A closed TCP socket has no peer.
pub(crate) fn check_connected(socket: impl AsFd) -> io::Result<()> {
    match rustix::net::getpeername(socket) {
        Err(rustix::io::Errno::NOTCONN) => Err(io::ErrorKind::ConnectionReset.into()),
        Err(error) => Err(error.into()),
        Ok(_) => Ok(()),
    }
}

/// Gives the sending of TLS records on a connected TCP socket to the kernel, or gives the kernel the next
/// key.
///
/// `crypto_info` is one of the `tls12_crypto_info_*` structures of `linux/tls.h`: version, cipher, then IV, key,
/// salt and record sequence of the next record. The kernel copies it; the caller clears its own copy. Everything
/// under an older key, the KeyUpdate record included, must have been written before.
pub fn set_transmit_key(socket: impl AsFd, crypto_info: &[u8]) -> Result<(), KtlsRefusal> {
    let socket = socket.as_fd();
    match set_option_bytes(socket, libc::IPPROTO_TCP, libc::TCP_ULP, b"tls") {
        // EEXIST: enabled before.
        Err(error) if error.raw_os_error() != Some(libc::EEXIST) => return Err(explain_protocol(error)),
        _ => {}
    }
    set_option_bytes(socket, libc::SOL_TLS, libc::TLS_TX, crypto_info).map_err(explain_cipher)
}

/// Gives the next record a type other than application data: 21 for an alert, 22 for a handshake message
/// (RFC 8446 5.1). Goes with a sendmsg of the message's bytes.
pub fn push_record_type(control: &mut ControlWriter<'_>, record_type: u8) -> Result<(), ControlFull> {
    control.push(libc::SOL_TLS, libc::TLS_SET_RECORD_TYPE, &[record_type])
}

/// Returns whether this kernel has TLS at all; loads the module if allowed. Needs no network: a socket that
/// is not connected is refused with ENOENT where the module is absent, and with ENOTCONN where it is there.
pub fn is_available() -> io::Result<bool> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    match set_option_bytes(&socket, libc::IPPROTO_TCP, libc::TCP_ULP, b"tls") {
        Ok(()) => Ok(true),
        Err(error) => match error.raw_os_error() {
            Some(libc::ENOTCONN) => Ok(true),
            // ENOPROTOOPT: older than TCP_ULP itself (4.13).
            Some(libc::ENOENT | libc::ENOPROTOOPT) => Ok(false),
            _ => Err(error),
        },
    }
}

/// Returns whether the kernel takes a second key for a TLS 1.3 socket (Linux 6.14). Asks a connection of its
/// own, so the loopback interface must be up.
pub fn can_change_key() -> io::Result<bool> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let client = TcpStream::connect(listener.local_addr()?)?;
    let set = || set_transmit_key(&client, &TRIAL_KEY);
    match set().and_then(|()| set()) {
        Ok(()) => Ok(true),
        Err(KtlsRefusal::Other(error)) => Err(error),
        Err(_) => Ok(false),
    }
}

fn explain_protocol(error: io::Error) -> KtlsRefusal {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENOPROTOOPT) => KtlsRefusal::NoModule,
        Some(libc::ENOTCONN) => KtlsRefusal::NotConnected,
        _ => KtlsRefusal::Other(error),
    }
}

fn explain_cipher(error: io::Error) -> KtlsRefusal {
    match error.raw_os_error() {
        // ENOENT: the kernel's crypto has no such algorithm. EINVAL: TLS does not know the number.
        Some(libc::ENOENT | libc::EINVAL | libc::EOPNOTSUPP | libc::ENOPROTOOPT) => KtlsRefusal::NoCipher,
        Some(libc::EBUSY) => KtlsRefusal::KeyFixed,
        Some(libc::ENOTCONN) => KtlsRefusal::NotConnected,
        _ => KtlsRefusal::Other(error),
    }
}

/// Structure for AES-128-GCM in TLS 1.3 with a key of zeros: version, cipher 51, IV 8, key 16, salt 4,
/// sequence 8.
const TRIAL_KEY: [u8; 40] = {
    let mut info = [0; 40];
    let (version, cipher) = (0x0304_u16.to_ne_bytes(), 51_u16.to_ne_bytes());
    (info[0], info[1], info[2], info[3]) = (version[0], version[1], cipher[0], cipher[1]);
    info
};

#[cfg(test)]
mod tests {
    use super::*;

    fn connection() -> (TcpListener, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (listener, client)
    }

    #[test]
    fn connection_that_was_reset_is_told_from_one_that_is_half_closed() {
        let (listener, client) = connection();
        let (server, _) = listener.accept().unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        check_connected(&server).unwrap();
        socket2::SockRef::from(&client).set_linger(Some(std::time::Duration::ZERO)).unwrap();
        drop(client);
        // Over loopback the reset is there before the close returns.
        let error = check_connected(&server).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    }

    #[test]
    fn key_is_taken_or_the_missing_module_is_named() {
        let (_listener, client) = connection();
        let taken = set_transmit_key(&client, &TRIAL_KEY);
        if is_available().unwrap() {
            taken.unwrap();
        } else {
            let refusal = taken.unwrap_err();
            assert!(matches!(refusal, KtlsRefusal::NoModule), "{refusal}");
            assert!(refusal.to_string().contains("modprobe tls"), "{refusal}");
        }
    }

    #[test]
    fn second_key_is_taken_or_refused_as_fixed() {
        let (_listener, client) = connection();
        if !is_available().unwrap() {
            assert!(!can_change_key().unwrap());
            return;
        }
        set_transmit_key(&client, &TRIAL_KEY).unwrap();
        let second = set_transmit_key(&client, &TRIAL_KEY);
        assert_eq!(second.is_ok(), can_change_key().unwrap());
        assert!(matches!(second, Ok(()) | Err(KtlsRefusal::KeyFixed)));
    }

    #[test]
    fn every_errno_has_its_refusal() {
        let of = io::Error::from_raw_os_error;
        assert!(matches!(explain_protocol(of(libc::ENOENT)), KtlsRefusal::NoModule));
        assert!(matches!(explain_cipher(of(libc::ENOENT)), KtlsRefusal::NoCipher));
        assert!(matches!(explain_cipher(of(libc::EBUSY)), KtlsRefusal::KeyFixed));
        assert!(matches!(explain_protocol(of(libc::ENOTCONN)), KtlsRefusal::NotConnected));
        assert!(matches!(explain_cipher(of(libc::ENOMEM)), KtlsRefusal::Other(_)));
    }
}
