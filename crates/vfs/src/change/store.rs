//! Several steps that are one change of a file's content: a client's store of many packets.

use std::cell::Cell;
use std::rc::Rc;

use futures_util::future::LocalBoxFuture;
use index::Version;
use lane::buffer::Buf;
use lane::fs::Allocate;

use super::Writer;
use super::writer::{Raises, Step};
use crate::caller::Caller;
use crate::error::Error;
use crate::file::OpenFile;
use crate::object::Object;
use crate::promise::What;
use crate::usage::Reach;

/// A change of a file's content in several steps, which raise the version by one together, unless somebody looked at the file in
/// between: then what he saw had a version of its own. Between two steps nobody waits for who makes them. Clones are handles to the same.
#[derive(Clone)]
pub struct Store {
    writer: Writer,
    caller: Caller,
    raised: Rc<Raised>,
}

/// The version that a change of several steps has come to.
#[derive(Default)]
pub(super) struct Raised(Cell<Option<Version>>);

impl Raised {
    /// Raises an object's version for a step; `goes_on`: nobody could look since the last one that raised it.
    pub(super) fn raise(&self, object: &Object, goes_on: bool) {
        if !goes_on || self.0.get() != Some(object.version()) {
            self.0.set(Some(object.rise()));
        } else {
            object.rise_on();
        }
    }

    /// An object's version was raised for a step by itself.
    pub(super) fn note(&self, object: &Object) {
        self.0.set(Some(object.version()));
    }
}

impl Writer {
    /// Begins a change in several steps. Nothing happens before the first of them.
    pub fn store(&self, caller: &Caller) -> Store {
        Store { writer: self.clone(), caller: caller.clone(), raised: Rc::default() }
    }
}

impl Store {
    /// Takes room for `len` bytes from `offset` on, so that writing them does not fail for lack of it. Content, size and version stay as
    /// they are, and the file has another change time: it is under the permit, which the steps after it share. Where the file system
    /// cannot, nothing happens.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::Quota`], [`Error::FileTooLarge`]; [`Error::Busy`].
    pub async fn reserve(&self, offset: u64, len: u64) -> Result<(), Error> {
        let volume = self.writer.volume();
        volume.counted(volume.writable())?;
        volume.counted(volume.has_room(self.writer.file(), offset.saturating_add(len)))?;
        // A client that writes a file over again has the room for it: to go through that anew costs as much as a tenth of writing it.
        if self.has_reserved(offset, len) {
            return Ok(());
        }
        let take = async move |file: Rc<OpenFile>, ()| {
            let taken = file.lane_file().allocate(Allocate::KeepSize, offset, len).await;
            match taken {
                Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOSYS)) => {
                    Ok(false)
                }
                taken => taken.map(|()| true).map_err(Error::of_write),
            }
        };
        let step = Step { raises: Raises::Nothing, ..Step::default() };
        if self.writer.change_by(&self.caller, What::Content, step, |_, _| Ok(()), take).await? {
            self.note_reserved(offset, len);
        }
        Ok(())
    }

    /// Whether a range has its room by an earlier [`reserve`](Self::reserve). Not where the file has been cut since; who has made holes in
    /// it, beside this writer, has its next writes fail for lack of room as any write does.
    fn has_reserved(&self, offset: u64, len: u64) -> bool {
        let ((from, to), end) = (self.writer.reserved.get(), offset.saturating_add(len));
        from <= offset
            && end <= to
            && self.writer.file().attributes().is_ok_and(|attributes| end <= attributes.size)
    }

    /// What follows what is known, or overlaps it, is known with it.
    fn note_reserved(&self, offset: u64, len: u64) {
        let ((from, to), end) = (self.writer.reserved.get(), offset.saturating_add(len));
        let joins = offset <= to && from <= end;
        self.writer.reserved.set(if joins { (from.min(offset), to.max(end)) } else { (offset, end) });
    }

    /// Writes the bytes of several buffers one after another at `offset`. They come back unless this is dropped before; the write ends
    /// all the same.
    ///
    /// # Errors
    /// As [`Writer::write_at`].
    pub async fn write_vectored_at(
        &self,
        offset: u64,
        bufs: Vec<Buf>,
    ) -> (Result<(), Error>, Option<Vec<Buf>>) {
        self.writer.write_parts(&self.caller, self.of_this(), offset, bufs).await
    }

    /// Cuts the file to `len` bytes, or lengthens it with zeros.
    ///
    /// # Errors
    /// As [`Writer::write_at`].
    pub fn truncate<'a>(&'a self, len: u64) -> LocalBoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let (from, to) = self.writer.reserved.get();
            self.writer.reserved.set((from.min(len), to.min(len)));
            let cut = async move |file: Rc<OpenFile>, _| {
                file.lane_file().truncate(len).await.map_err(Error::of_write)
            };
            self.writer.change_content(&self.caller, self.of_this(), Reach::Exactly(len), cut).await
        })
    }

    /// The version that the last step has brought; `None` before the first.
    pub fn version(&self) -> Option<Version> {
        self.raised.0.get()
    }

    /// A step that raises the version only if none before it has.
    fn of_this(&self) -> Step<'static> {
        Step { raises: Raises::With(Rc::clone(&self.raised)), ..Step::default() }
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("writer", &self.writer).field("version", &self.version()).finish()
    }
}
