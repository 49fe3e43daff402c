//! A file open for writing.

use std::rc::Rc;

use crate::file::OpenFile;
use crate::volume::Volume;

/// A file open for reading and writing. Each change of it is under the file's permit.
#[derive(Clone, Debug)]
pub struct Writer {
    volume: Volume,
    file: Rc<OpenFile>,
}

impl Writer {
    pub(super) fn new(volume: Volume, file: Rc<OpenFile>) -> Self {
        Self { volume, file }
    }

    /// The file, to read.
    pub fn file(&self) -> &Rc<OpenFile> {
        &self.file
    }

    pub(super) fn volume(&self) -> &Volume {
        &self.volume
    }
}
