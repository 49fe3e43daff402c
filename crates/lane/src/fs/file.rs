//! Open files, with bytes and attributes.

use std::io::{self, IoSliceMut};

use super::Dir;
use crate::backend::operation as op;
use crate::backend::{Descriptor, Fd, FileKind, OpFuture, Stat, Watch};
use crate::buffer::Buf;
use crate::context;
use crate::executor::yield_if_due;

/// An open file of the current lane.
#[derive(Debug)]
pub struct File {
    pub(super) fd: Descriptor,
}

/// Part of a file that is to be made safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncOf {
    /// The content, and the attributes that reading the content back needs (fdatasync(2)).
    Data,
    /// The content and all attributes (fsync(2)).
    All,
}

impl File {
    /// Returns the attributes as the kernel has them now.
    pub fn stat(&self) -> io::Result<Stat> {
        context::with(|lane| lane.backend().stat(self.fd()))
    }

    /// Returns the absolute path of the name by which it was opened, wherever that has been moved to since. Of a name
    /// that was removed it is one that leads nowhere, or to something else.
    ///
    /// # Errors
    /// `ENOENT` where the process has no `/proc`.
    pub async fn path(&self) -> io::Result<Vec<u8>> {
        OpFuture::submit(op::PathOf { file: self.fd() }).await
    }

    /// Begins to watch this file, whatever name a change uses; events come from
    /// [`watch_events`](super::watch_events) without a name.
    ///
    /// # Errors
    /// `ENOSPC` where the user has no watch left, `ENOSYS` and others where the kernel has none (inotify_add_watch(2)).
    pub fn watch(&self) -> io::Result<Watch> {
        context::with(|lane| lane.backend().watch(self.fd()))
    }

    /// Reads at `offset` if the page cache has all the bytes; returns `None` when the call would wait.
    pub fn try_read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<Option<usize>> {
        self.try_read_vectored_at(offset, &mut [IoSliceMut::new(into)])
    }

    /// Reads into one slice after another without waiting ([`File::try_read_at`]). Fewer bytes than there is
    /// room for: the file ends there, or the page cache lacks what follows.
    pub fn try_read_vectored_at(
        &self,
        offset: u64,
        into: &mut [IoSliceMut<'_>],
    ) -> io::Result<Option<usize>> {
        context::with(|lane| {
            let read = lane.backend().try_read_at(self.fd(), offset, into)?;
            lane.note_served(self.fd(), offset, read.unwrap_or(0));
            Ok(read)
        })
    }

    /// Appends up to `len` bytes at `offset` to `buf`, and returns how many: fewer only at the end of the
    /// file or of the buffer's room. The buffer comes back in every case.
    pub async fn read_at(&self, offset: u64, len: usize, mut buf: Buf) -> (io::Result<usize>, Buf) {
        let len = len.min(buf.spare());
        let mut done = 0;
        while done < len {
            let at = offset + done as u64;
            let tried = self.try_read_at(at, &mut buf.spare_mut()[..len - done]);
            let read = match tried {
                Ok(Some(n)) => {
                    buf.grow(n);
                    Ok(n)
                }
                Ok(None) => {
                    let read = op::Read { file: self.fd(), offset: at, len: len - done, buf };
                    let result;
                    (result, buf) = OpFuture::submit(read).await;
                    if let Ok(n) = result {
                        context::with(|lane| lane.note_served(self.fd(), at, n));
                    }
                    result
                }
                Err(error) => Err(error),
            };
            match read {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(error) => return (Err(error), buf),
            }
        }
        (Ok(done), buf)
    }

    /// Reads into several buffers one after another; the buffers come back in every case.
    pub async fn read_vectored_at(
        &self,
        offset: u64,
        len: usize,
        mut bufs: Vec<Buf>,
    ) -> (io::Result<usize>, Vec<Buf>) {
        let len = bufs.iter().map(Buf::spare).sum::<usize>().min(len);
        let mut done = 0;
        while done < len {
            let at = offset + done as u64;
            let read = op::ReadVectored::new(self.fd(), at, len - done, bufs);
            let result;
            (result, bufs) = OpFuture::submit(read).await;
            match result {
                Ok(0) => break,
                Ok(n) => {
                    context::with(|lane| lane.note_served(self.fd(), at, n));
                    done += n;
                }
                Err(error) => return (Err(error), bufs),
            }
        }
        (Ok(done), bufs)
    }

    /// Writes all of `buf` at `offset`. It shows at once, and is safe after [`File::sync`]. Of what is longer than one write takes,
    /// others of the lane get their turn between the writes. The buffer comes back in every case; after an error, and where the future was dropped early, an unknown part was written.
    ///
    /// # Errors
    /// `EBADF` where the file was not opened with [`OpenHow::write`](super::OpenHow::write); `ENOSPC`, `EFBIG`, `EIO` and others as the kernel says.
    pub async fn write_at(&self, offset: u64, mut buf: Buf) -> (io::Result<()>, Buf) {
        let mut done = 0;
        while done < buf.len() {
            let write = op::Write { file: self.fd(), offset: offset + done as u64, from: done, buf };
            let result;
            (result, buf) = OpFuture::submit(write).await;
            match taken(result) {
                Ok(n) => done += n,
                Err(error) => return (Err(error), buf),
            }
            if done < buf.len() {
                yield_if_due().await;
            }
        }
        (Ok(()), buf)
    }

    /// Writes the bytes of several buffers one after another.
    pub async fn write_vectored_at(&self, offset: u64, mut bufs: Vec<Buf>) -> (io::Result<()>, Vec<Buf>) {
        let len: usize = bufs.iter().map(|buf| buf.len()).sum();
        let mut done = 0;
        while done < len {
            let write = op::WriteVectored::new(self.fd(), offset + done as u64, done, bufs);
            let result;
            (result, bufs) = OpFuture::submit(write).await;
            match taken(result) {
                Ok(n) => done += n,
                Err(error) => return (Err(error), bufs),
            }
            if done < len {
                yield_if_due().await;
            }
        }
        (Ok(()), bufs)
    }

    /// Sets the length: bytes behind are lost, and a file that is made longer gets a hole, which reads as
    /// zeros.
    ///
    /// # Errors
    /// `EINVAL` where the file was not opened for writing, or `len` is 2^63 or more; `EFBIG`, `EIO`, `EDQUOT` as the
    /// kernel says (ftruncate(2)).
    pub async fn truncate(&self, len: u64) -> io::Result<()> {
        OpFuture::submit(op::Truncate { file: self.fd(), len }).await
    }

    /// Makes the bytes written safe: with [`SyncOf::Data`] the content and what reading that back needs.
    ///
    /// # Errors
    /// What was written since the last success may be lost then, whatever a later call says: it is to be written again.
    pub async fn sync(&self, what: SyncOf) -> io::Result<()> {
        OpFuture::submit(op::Sync { file: self.fd(), data_only: what == SyncOf::Data }).await
    }

    /// Brings a range into the page cache without holding up the lane.
    pub async fn warm(&self, offset: u64, len: usize) -> io::Result<()> {
        OpFuture::submit(op::Warm { file: self.fd(), offset, len }).await
    }

    /// Makes a directory of the file: `ENOTDIR` if the file is none.
    pub fn into_dir(self) -> io::Result<Dir> {
        match self.stat()?.kind {
            FileKind::Directory => Ok(Dir::of(self)),
            _ => Err(io::Error::from_raw_os_error(libc::ENOTDIR)),
        }
    }

    pub(crate) fn fd(&self) -> Fd {
        self.fd.fd()
    }
}

/// Turns a write that takes nothing into an error, as another try would take nothing too.
fn taken(written: io::Result<usize>) -> io::Result<usize> {
    written.and_then(|n| if n == 0 { Err(io::ErrorKind::WriteZero.into()) } else { Ok(n) })
}
