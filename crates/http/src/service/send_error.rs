//! Causes that part of a file was not sent: sendfile has one error for two ends.

use std::io;

use lane::buffer::BufClass;
use vfs::OpenFile;

use super::abort::Abort;

/// An end of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TransferEnd {
    Socket,
    File,
    /// Either: file systems with a network behind them fail as sockets do.
    Unclear,
}

/// Returns what a failed send of the bytes at `offset` ends the connection for. Where the error could be of
/// either end, the first byte that was not sent is read once more: a file that fails fails there.
pub(super) async fn cause(file: &OpenFile, offset: u64, error: io::Error) -> Abort {
    match end_of(&error) {
        TransferEnd::Socket => Abort::Io(error),
        TransferEnd::File => {
            file.note_failure(offset, &error);
            Abort::Disk(error)
        }
        TransferEnd::Unclear => {
            // Without a buffer no request waits for one to learn more.
            let Some(buf) = lane::current().buffers().try_get(BufClass::Small) else {
                return Abort::Io(error);
            };
            match file.read_at(offset, 1, buf).await {
                (Err(error), _) => Abort::Disk(error),
                (Ok(_), _) => Abort::Io(error),
            }
        }
    }
}

fn end_of(error: &io::Error) -> TransferEnd {
    match error.raw_os_error() {
        Some(libc::ECONNRESET | libc::ECONNABORTED | libc::EPIPE | libc::ENOTCONN | libc::ESHUTDOWN) => {
            TransferEnd::Socket
        }
        // A block that cannot be read; a stale handle; damage that the file system has found (EUCLEAN, EBADMSG);
        // a device or server that is gone.
        Some(
            libc::EIO
            | libc::ESTALE
            | libc::ENODATA
            | libc::EUCLEAN
            | libc::EBADMSG
            | libc::EREMOTEIO
            | libc::ENXIO
            | libc::ENODEV
            | libc::ENOMEDIUM,
        ) => TransferEnd::File,
        _ => TransferEnd::Unclear,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_blamed_on_the_end_that_can_have_them() {
        let of = |errno| end_of(&io::Error::from_raw_os_error(errno));
        for errno in [libc::EIO, libc::ESTALE, libc::ENODATA, libc::EUCLEAN, libc::ENODEV] {
            assert_eq!(of(errno), TransferEnd::File, "{errno}");
        }
        for errno in [libc::ECONNRESET, libc::EPIPE, libc::ENOTCONN] {
            assert_eq!(of(errno), TransferEnd::Socket, "{errno}");
        }
        for errno in [libc::ETIMEDOUT, libc::EHOSTUNREACH, libc::ENETDOWN, libc::ENOMEM] {
            assert_eq!(of(errno), TransferEnd::Unclear, "{errno}");
        }
        assert_eq!(end_of(&io::ErrorKind::UnexpectedEof.into()), TransferEnd::Unclear);
    }
}
