//! An open regular file: exact attributes, reads, and the descriptor for zero-copy sends.

use std::cell::Cell;
use std::io;
use std::sync::Arc;

use lane::backend::Watch;
use lane::buffer::Buf;
use lane::fs::File;

use crate::attributes::{Attributes, ChangeToken, FileId};
use crate::counters::VfsCounters;
use crate::descriptor::Own;
use crate::error::Error;
use crate::io_faults::FaultPlace;
use crate::object::Object;
use crate::object_attributes::attributes_of;

/// An open file, shared by all its readers on the lane. It has no position. A rename over its name leaves it
/// and its content as they are; a write or truncation in place shows at once.
#[derive(Debug)]
pub struct OpenFile {
    file: File,
    id: FileId,
    place: FaultPlace,
    object: Option<Arc<Object>>,
    counters: Arc<VfsCounters>,
}

impl OpenFile {
    pub(crate) fn new(
        file: File,
        id: FileId,
        place: FaultPlace,
        object: Option<Arc<Object>>,
        counters: Arc<VfsCounters>,
    ) -> Self {
        Self { file, id, place, object, counters }
    }

    /// Returns what lanes share of it; `None` on a volume without objects.
    pub fn object(&self) -> Option<&Arc<Object>> {
        self.object.as_ref()
    }

    /// Returns the file's own security descriptor.
    pub(crate) fn own(&self) -> Option<Own> {
        self.object.as_ref()?.own()
    }

    /// Returns which file it is.
    pub fn id(&self) -> FileId {
        self.id
    }

    /// Attributes as they are now: one system call.
    pub fn attributes(&self) -> Result<Attributes, Error> {
        Ok(attributes_of(&self.file.stat()?, self.object()))
    }

    /// Reads at `offset` if the page cache has it all; `None` when it would wait for the disk. Zero bytes
    /// are the end of the file.
    pub fn try_read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<Option<usize>> {
        self.file.try_read_at(offset, into).inspect_err(|error| self.note_failure(offset, error))
    }

    /// Appends up to `len` bytes at `offset` to `buf` and says how many: fewer only at the end of the file
    /// or of the buffer's room. The buffer comes back in every case.
    pub async fn read_at(&self, offset: u64, len: usize, buf: Buf) -> (io::Result<usize>, Buf) {
        let (read, buf) = self.file.read_at(offset, len, buf).await;
        (read.inspect_err(|error| self.note_failure(offset, error)), buf)
    }

    /// Watches the open file, whichever name it is changed by.
    pub(crate) fn watch(&self) -> io::Result<Watch> {
        self.file.watch()
    }

    pub(crate) fn place(&self) -> &FaultPlace {
        &self.place
    }

    /// Counts and logs that the disk did not give these bytes, for a caller that takes them past this type
    /// ([`OpenFile::lane_file`]).
    pub fn note_failure(&self, offset: u64, error: &io::Error) {
        self.counters.read_errors.increment();
        //@ cause: The disk, or the server that the file system is on, did not give the bytes of a file.
        //@ remedy: Look at the kernel's log and at the disk. If the file is damaged, restore it from a backup.
        tracing::error!(
            path = %self.place,
            "file {}: it cannot be read at byte {offset}: {error}; the client's transfer ends early; look at the disk [file-unreadable]",
            self.place
        );
    }

    /// Says whether the content is still the one that had the token `before`. Ask after the last byte was read or
    /// handed to the kernel and before the client learns that it has all.
    ///
    /// # Errors
    /// [`Error::Changed`] if it was written or truncated meanwhile: end the transfer so that the client notices, the
    /// bytes sent are of no single version.
    pub fn check_unchanged(&self, before: &ChangeToken) -> Result<(), Error> {
        if self.attributes()?.change_token() == *before {
            return Ok(());
        }
        self.counters.changed_while_read.increment();
        Err(Error::Changed)
    }

    /// Says whether the bytes that the version with the token `before` had are still there: it is that version, or was
    /// appended to. `is_grown` says so and keeps it, so that each transfer counts once.
    ///
    /// A longer file is taken for one that was appended to: the server cannot see whether its earlier bytes
    /// were written anew as well. A program that writes a file anew in place truncates it first, or keeps its
    /// length, which are both seen by a look at the right time: look often.
    ///
    /// # Errors
    /// [`Error::Changed`] as [`OpenFile::check_unchanged`], for a file that is no longer than it was.
    pub fn check_same_version(&self, before: &ChangeToken, is_grown: &Cell<bool>) -> Result<(), Error> {
        let now = self.attributes()?.change_token();
        if now == *before {
            return Ok(());
        }
        if now.size > before.size {
            if !is_grown.replace(true) {
                self.counters.grown_while_read.increment();
            }
            return Ok(());
        }
        self.counters.changed_while_read.increment();
        Err(Error::Changed)
    }

    /// Returns the lane's file, for sends that copy nothing.
    pub fn lane_file(&self) -> &File {
        &self.file
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        if let Some(object) = &self.object {
            object.note_closing(|| self.file.stat());
        }
    }
}
