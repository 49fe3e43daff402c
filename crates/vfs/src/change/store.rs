//! Several steps that are one change of a file's content: a client's store of many packets.

use std::cell::Cell;
use std::rc::Rc;

use futures_util::future::LocalBoxFuture;
use index::Version;
use lane::buffer::Buf;

use super::Writer;
use super::preallocation::Preallocation;
use super::writer::{VersionBump, WriteStep};
use crate::caller::Caller;
use crate::error::Error;
use crate::file::OpenFile;
use crate::object::Object;
use crate::usage::Reach;

/// A change of a file's content in several steps, which raise the version by one together. If there was a look at the
/// file in between, what that saw has a version of its own. Between two steps no other change waits for the store.
/// Clones are handles to the same store.
#[derive(Clone)]
pub struct Store {
    writer: Writer,
    caller: Caller,
    raised: Rc<Raised>,
    ahead: Rc<Preallocation>,
}

/// The version that a change of several steps has come to.
#[derive(Default)]
pub(super) struct Raised(Cell<Option<Version>>);

impl Raised {
    /// Raises an object's version for a step; `goes_on`: no look was possible since the last one that raised
    /// it.
    pub(super) fn raise(&self, object: &Object, goes_on: bool) {
        if !goes_on || self.0.get() != Some(object.version()) {
            self.0.set(Some(object.bump_version()));
        } else {
            object.continue_version();
        }
    }

    /// Notes that an object's version was raised for a step by itself.
    pub(super) fn note(&self, object: &Object) {
        self.0.set(Some(object.version()));
    }
}

impl Writer {
    /// Begins a change in several steps. Nothing happens before the first of them.
    pub fn store(&self, caller: &Caller) -> Store {
        let ahead = Rc::new(Preallocation::new(self, caller));
        Store { writer: self.clone(), caller: caller.clone(), raised: Rc::default(), ahead }
    }
}

impl Store {
    /// Looks whether there is room for `len` bytes from `offset` on, which are to come. Nothing is taken yet, whatever
    /// a client announces: that is as they come, a bounded part ahead, and what is left of it is given back when the
    /// store ends.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::Quota`]; [`Error::ReadOnly`]; those of looking at the file.
    pub async fn reserve(&self, offset: u64, len: u64) -> Result<(), Error> {
        let (volume, end) = (self.writer.volume(), offset.saturating_add(len));
        volume.counted(volume.writable())?;
        volume.counted(volume.has_room(self.writer.file(), end))?;
        volume.counted(self.ahead.fits_the_disk(end).await)?;
        self.ahead.announce(end);
        Ok(())
    }

    /// Writes the bytes of several buffers one after another at `offset`. They come back unless this is dropped
    /// before; the write ends all the same.
    ///
    /// # Errors
    /// As [`Writer::write_at`].
    pub async fn write_vectored_at(
        &self,
        offset: u64,
        bufs: Vec<Buf>,
    ) -> (Result<(), Error>, Option<Vec<Buf>>) {
        let len: u64 = bufs.iter().map(|buf| buf.len() as u64).sum();
        self.ahead.reaches(offset.saturating_add(len));
        let ahead = Some(Rc::clone(&self.ahead));
        let written = self.writer.write_parts(&self.caller, self.of_this(), offset, bufs, ahead).await;
        if written.0.is_ok() {
            self.ahead.received(len);
        }
        written
    }

    /// Cuts the file to `len` bytes, or lengthens it with zeros.
    ///
    /// # Errors
    /// As [`Writer::write_at`].
    pub fn truncate<'a>(&'a self, len: u64) -> LocalBoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let cut = async move |file: Rc<OpenFile>, _| {
                file.lane_file().truncate(len).await.map_err(Error::of_write)
            };
            self.writer.change_content(&self.caller, self.of_this(), Reach::Exactly(len), cut).await
        })
    }

    /// Returns the version that the last step has brought; `None` before the first.
    pub fn version(&self) -> Option<Version> {
        self.raised.0.get()
    }

    /// Makes a step that raises the version only if none before it has.
    fn of_this(&self) -> WriteStep<'static> {
        WriteStep {
            raises: VersionBump::With(Rc::clone(&self.raised)),
            archives: true,
            ..WriteStep::default()
        }
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("writer", &self.writer).field("version", &self.version()).finish()
    }
}
