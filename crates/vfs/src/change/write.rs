//! Writes, appends and truncates.

use std::cell::RefCell;
use std::rc::Rc;

use futures_util::future::LocalBoxFuture;
use lane::buffer::Buf;

use super::Writer;
use super::preallocation::Preallocation;
use super::writer::WriteStep;
use crate::caller::Caller;
use crate::error::Error;
use crate::usage::Reach;

impl Writer {
    /// Writes all of `buf` at `offset`, beyond the end too: what lies between is zeros. The buffer comes back unless
    /// this is dropped before; the write ends all the same.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::Quota`], [`Error::FileTooLarge`], [`Error::Busy`]; those of the file system. Some
    /// of it may be written then.
    pub async fn write_at(&self, caller: &Caller, offset: u64, buf: Buf) -> (Result<(), Error>, Option<Buf>) {
        self.write(caller, WriteAt::Offset(offset), buf).await
    }

    /// Writes the bytes of several buffers one after another ([`Writer::write_at`]).
    ///
    /// # Errors
    /// As there.
    pub async fn write_vectored_at(
        &self,
        caller: &Caller,
        offset: u64,
        bufs: Vec<Buf>,
    ) -> (Result<(), Error>, Option<Vec<Buf>>) {
        self.write_parts(caller, WriteStep::default(), offset, bufs, None).await
    }

    /// Writes the bytes of several buffers as a step of a change. It takes further room ahead where the store
    /// [preallocates](Preallocation).
    pub(super) async fn write_parts(
        &self,
        caller: &Caller,
        step: WriteStep<'_>,
        offset: u64,
        bufs: Vec<Buf>,
        ahead: Option<Rc<Preallocation>>,
    ) -> (Result<(), Error>, Option<Vec<Buf>>) {
        let len: usize = bufs.iter().map(|buf| buf.len()).sum();
        let reach = Reach::To(if len == 0 { 0 } else { offset.saturating_add(len as u64) });
        let slot = Rc::new(RefCell::new(Some(bufs)));
        let lent = Rc::clone(&slot);
        let volume = self.volume().clone();
        let written = self.change_content(caller, step, reach, async move |file, _| {
            volume.spare(file.lane_file(), offset, len as u64).await?;
            if let Some(ahead) = ahead {
                ahead.make_room(&file, offset.saturating_add(len as u64)).await?;
            }
            let bufs = lent.take().expect("they are taken once");
            let (written, bufs) = file.lane_file().write_vectored_at(offset, bufs).await;
            lent.replace(Some(bufs));
            written.map_err(Error::of_write)
        });
        let written = written.await;
        (written, slot.take())
    }

    /// Writes at the end of the file ([`Writer::write_at`]), wherever that is when its turn comes.
    pub async fn append(&self, caller: &Caller, buf: Buf) -> (Result<(), Error>, Option<Buf>) {
        self.write(caller, WriteAt::End, buf).await
    }

    /// Cuts the file to `len` bytes, or lengthens it with zeros.
    ///
    /// # Errors
    /// As [`Writer::write_at`].
    pub fn truncate<'a>(&'a self, caller: &'a Caller, len: u64) -> LocalBoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            self.change_content(caller, WriteStep::default(), Reach::Exactly(len), async move |file, _| {
                file.lane_file().truncate(len).await.map_err(Error::of_write)
            })
            .await
        })
    }

    async fn write(&self, caller: &Caller, at: WriteAt, buf: Buf) -> (Result<(), Error>, Option<Buf>) {
        let len = buf.len();
        let reach = match at {
            WriteAt::Offset(offset) => {
                Reach::To(if len == 0 { 0 } else { offset.saturating_add(len as u64) })
            }
            WriteAt::End => Reach::Beyond(len as u64),
        };
        let slot = Rc::new(RefCell::new(Some(buf)));
        let lent = Rc::clone(&slot);
        let volume = self.volume().clone();
        let written = self.change_content(caller, WriteStep::default(), reach, async move |file, size| {
            let offset = match at {
                WriteAt::Offset(offset) => offset,
                WriteAt::End => size,
            };
            volume.spare(file.lane_file(), offset, len as u64).await?;
            let buf = lent.take().expect("it is taken once");
            let (written, buf) = file.lane_file().write_at(offset, buf).await;
            lent.replace(Some(buf));
            written.map_err(Error::of_write)
        });
        let written = written.await;
        (written, slot.take())
    }
}

/// Place where bytes are written.
#[derive(Clone, Copy)]
enum WriteAt {
    Offset(u64),
    End,
}
