//! A file open for writing.

use std::rc::Rc;
use std::sync::Arc;

use lane::fs::SyncOf;

use super::here::Unmade;
use super::settle::Settling;
use super::way::to_the_end;
use crate::caller::Caller;
use crate::error::Error;
use crate::file::OpenFile;
use crate::object::Object;
use crate::promise::What;
use crate::volume::Volume;

/// A file open for reading and writing, by somebody who had the right to when he opened it. Each change of it is under the
/// file's permit.
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

    /// Makes what was written safe: with [`SyncOf::Data`] its content and what reading it back needs.
    ///
    /// # Errors
    /// What was written since the last success may be lost then.
    pub async fn sync(&self, what: SyncOf) -> Result<(), Error> {
        self.volume.counted(self.file.lane_file().sync(what).await.map_err(Error::of_write))
    }

    pub(super) fn volume(&self) -> &Volume {
        &self.volume
    }

    /// Has `work` change the file under its permit, and under that of a file it reads, everybody having been told; to its end.
    pub(super) async fn change<T: 'static>(
        &self,
        caller: &Caller,
        what: What,
        reads: Option<&Arc<Object>>,
        work: impl AsyncFnOnce(Rc<OpenFile>) -> Result<T, Error> + 'static,
    ) -> Result<T, Error> {
        let changed = async {
            let object = self.file.object().ok_or(Error::ReadOnly)?;
            let concerned: Vec<_> = std::iter::once(object).chain(reads).collect();
            let mut settling = Settling::default();
            let way = loop {
                let (permits, ()) = self.volume.permits(&concerned, async || Ok(((), Vec::new()))).await?;
                let unread = reads.map_or(Ok(()), |read| self.volume.ask_holders_to_read(caller, read));
                let told = match unread {
                    Ok(()) => self.volume.tell(caller, permits, vec![(object, what.clone())]).await,
                    Err(unmade) => {
                        drop(permits);
                        Err(unmade)
                    }
                };
                match told {
                    Ok(way) => break way,
                    Err(Unmade::Refused(error)) => return Err(error),
                    Err(Unmade::Held(asking)) => settling.wait(&self.volume, asking).await?,
                    Err(Unmade::Again(_)) => {}
                }
            };
            let (file, volume) = (Rc::clone(&self.file), self.volume.clone());
            to_the_end(way.held(), async move {
                way.rise();
                let done = work(file).await?;
                way.end(&volume);
                Ok(done)
            })
            .await
        };
        let changed = changed.await;
        self.volume.all_told_above(self.file.object()).await;
        self.volume.counted(changed)
    }
}
