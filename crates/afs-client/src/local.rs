//! Local files as ends of transfers: packets are written as they lie, and filled by vectored reads.

use std::ffi::CString;
use std::sync::Arc;

use lane::buffer::Buf;
use lane::fs::File;
use rx_lane::{Held, PacketBuffers};
use transfer::Progress;

use crate::error::Error;
use crate::fetch::Sink;
use crate::store::Source;

/// Fails once the word to stop was given.
pub(crate) fn go_on(progress: &Progress) -> Result<(), Error> {
    if progress.is_stopped() { Err(Error::Interrupted) } else { Ok(()) }
}

/// An open local file.
#[derive(Debug)]
pub(crate) struct LocalFile {
    file: File,
    name: String,
    progress: Arc<Progress>,
}

impl LocalFile {
    pub(crate) fn new(file: File, name: &CString, progress: &Arc<Progress>) -> Self {
        Self { file, name: shown(name), progress: Arc::clone(progress) }
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }
}

impl Sink for LocalFile {
    async fn take(&self, offset: u64, held: Held) -> Result<(), Error> {
        go_on(&self.progress)?;
        let (written, _packets) = self.file.write_vectored_at(offset, held.into_bufs()).await;
        written.map_err(|error| Error::Local(self.name.clone(), error))
    }

    async fn take_bytes(&self, offset: u64, bytes: Buf) -> Result<(), Error> {
        go_on(&self.progress)?;
        let (written, _bytes) = self.file.write_at(offset, bytes).await;
        written.map_err(|error| Error::Local(self.name.clone(), error))
    }
}

impl Source for LocalFile {
    async fn fill(&self, offset: u64, packet_buffers: &mut PacketBuffers) -> Result<usize, Error> {
        go_on(&self.progress)?;
        let (read, bufs) =
            self.file.read_vectored_at(offset, packet_buffers.len(), packet_buffers.bufs()).await;
        drop(bufs);
        read.map_err(|error| Error::Local(self.name.clone(), error))
    }

    fn file(&self) -> Result<Option<&File>, Error> {
        go_on(&self.progress)?;
        Ok(Some(&self.file))
    }
}

/// Returns a name as people read it.
pub(crate) fn shown(name: &CString) -> String {
    String::from_utf8_lossy(name.as_bytes()).into_owned()
}

/// Adds its name to the error of a local file.
pub(crate) fn of<T>(name: &CString, result: std::io::Result<T>) -> Result<T, Error> {
    result.map_err(|error| Error::Local(shown(name), error))
}

/// Converts a name of a local directory.
pub(crate) fn name_of(bytes: &[u8]) -> Result<CString, Error> {
    CString::new(bytes).map_err(|_| Error::Name(String::from_utf8_lossy(bytes).into_owned()))
}
