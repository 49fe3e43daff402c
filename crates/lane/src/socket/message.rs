//! Receiving of a message with the sender's address and control messages (recvmsg(2)).

use std::io::{self, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd};

use socket2::SockAddr;

/// Data of a received message, beside the bytes.
pub(super) struct Received<'a> {
    /// Bytes of the message in the buffer.
    pub(super) length: usize,
    /// Address of the sender.
    pub(super) from: SockAddr,
    /// Bytes of the control messages received.
    pub(super) control: &'a [u8],
    /// Flags of the message, such as MSG_TRUNC.
    pub(super) flags: libc::c_int,
}

/// Receives without waiting, with the flags of recvmsg(2) besides.
pub(super) fn receive<'a>(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
    control: &'a mut [u8],
    flags: libc::c_int,
) -> io::Result<Received<'a>> {
    let mut part = IoSliceMut::new(buffer);
    // SAFETY: a msghdr of zeros is a valid one without name, parts and control data.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = (&raw mut part).cast(); // IoSliceMut has the layout of iovec.
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = control.len() as _;
    // SAFETY: the closure gives the kernel an address buffer of the size it is given; `message` points to it, to
    // `buffer` and to `control`, all writable and outliving the call. On success the address is initialised.
    let (length, from) = unsafe {
        SockAddr::try_init(|address, length| {
            message.msg_name = address.cast();
            message.msg_namelen = *length;
            let received = libc::recvmsg(socket.as_raw_fd(), &mut message, flags | libc::MSG_DONTWAIT);
            *length = message.msg_namelen;
            usize::try_from(received).map_err(|_| io::Error::last_os_error())
        })?
    };
    let told = (message.msg_controllen as usize).min(control.len());
    Ok(Received { length, from, control: &control[..told], flags: message.msg_flags })
}
