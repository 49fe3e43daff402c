//! Writes, appends and truncates.

use std::rc::Rc;
use std::sync::Arc;

use lane::buffer::Buf;

use super::Writer;
use super::way::{Way, to_the_end};
use crate::caller::Caller;
use crate::error::Error;
use crate::file::OpenFile;
use crate::object::Object;
use crate::promise::What;

impl Writer {
    /// Writes all of `buf` at `offset`, beyond the end too: what lies between is zeros. The buffer comes back unless this is
    /// dropped before; the write ends all the same.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::Quota`], [`Error::FileTooLarge`], [`Error::Busy`]; those of the file system. Some of it
    /// may be written then.
    pub async fn write_at(&self, caller: &Caller, offset: u64, buf: Buf) -> (Result<(), Error>, Option<Buf>) {
        self.write(caller, At::Offset(offset), buf).await
    }

    /// As [`Writer::write_at`], at the end of the file, wherever that is when its turn comes.
    pub async fn append(&self, caller: &Caller, buf: Buf) -> (Result<(), Error>, Option<Buf>) {
        self.write(caller, At::End, buf).await
    }

    /// Cuts the file to `len` bytes, or lengthens it with zeros.
    ///
    /// # Errors
    /// As [`Writer::write_at`].
    pub async fn truncate(&self, caller: &Caller, len: u64) -> Result<(), Error> {
        let truncated = async {
            let way = self.way(caller).await?;
            let file = Rc::clone(self.file());
            let volume = self.volume().clone();
            to_the_end(async move {
                way.rise();
                file.lane_file().truncate(len).await.map_err(Error::of_write)?;
                way.end(&volume);
                Ok(())
            })
            .await
        };
        self.volume().counted(truncated.await)
    }

    async fn write(&self, caller: &Caller, at: At, buf: Buf) -> (Result<(), Error>, Option<Buf>) {
        let way = match self.way(caller).await {
            Ok(way) => way,
            Err(error) => return (self.volume().counted(Err(error)), Some(buf)),
        };
        let (file, volume) = (Rc::clone(self.file()), self.volume().clone());
        let (written, buf) = to_the_end(async move {
            way.rise();
            let (written, buf) = write(&file, at, buf).await;
            way.end(&volume);
            (written, buf)
        })
        .await;
        (self.volume().counted(written), Some(buf))
    }

    /// The permit of the file, with everybody told that its content changes.
    async fn way(&self, caller: &Caller) -> Result<Way, Error> {
        let object = self.object()?;
        let (permits, ()) = self.volume().permits(&[object], async || Ok(((), Vec::new()))).await?;
        Ok(self.volume().tell(caller, permits, vec![(object, What::Content)]).await)
    }

    fn object(&self) -> Result<&Arc<Object>, Error> {
        self.file().object().ok_or(Error::ReadOnly)
    }
}

/// Where bytes go.
#[derive(Clone, Copy)]
enum At {
    Offset(u64),
    End,
}

async fn write(file: &OpenFile, at: At, buf: Buf) -> (Result<(), Error>, Buf) {
    let offset = match at {
        At::Offset(offset) => offset,
        At::End => match file.attributes() {
            Ok(attributes) => attributes.size,
            Err(error) => return (Err(error), buf),
        },
    };
    let (written, buf) = file.lane_file().write_at(offset, buf).await;
    (written.map_err(Error::of_write), buf)
}
