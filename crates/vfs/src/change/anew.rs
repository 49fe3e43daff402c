//! A directory's next version though no name in it has changed: for who makes another image of the names than the one which clients may have
//! been told with the version before.

use std::sync::Arc;

use super::here::Unmade;
use super::settle::Settling;
use crate::callback::ChangeKind;
use crate::caller::Caller;
use crate::directory::Directory;
use crate::error::Error;
use crate::names::{History, Names};
use futures_util::future::LocalBoxFuture;

impl Directory {
    /// As [`Directory::names`], and the directory gets its next version by it, which nobody was told yet. Who was promised the directory is
    /// told, but for the caller's own client. While it lasts nobody changes a name, so however busy the directory is, this comes to an end.
    ///
    /// # Errors
    /// As there.
    pub fn names_anew<'a>(
        &'a self,
        caller: &'a Caller,
        max: usize,
    ) -> LocalBoxFuture<'a, Result<Names, Error>> {
        Box::pin(async move {
            let names = self.read_anew(caller, max).await;
            self.volume().told_of_listing(self.path(), names)
        })
    }

    async fn read_anew(&self, caller: &Caller, max: usize) -> Result<Names, Error> {
        let (volume, object) = (self.volume(), self.changed()?);
        let log = object.keep_log();
        let mut settling = Settling::default();
        for _ in 0..ATTEMPTS_MAX {
            let permits = volume.permits_behind(object).await?;
            let before = self.attributes()?;
            let entries = self.names_now(max).await?;
            let way =
                match volume.tell(caller, permits, vec![(object, ChangeKind::Names(Arc::from([])))]).await {
                    Ok(way) => way,
                    Err(Unmade::Refused(error)) => return Err(error),
                    Err(Unmade::Held(asking)) => {
                        settling.wait(volume, asking).await?;
                        continue;
                    }
                    Err(Unmade::Again(_)) => continue,
                };
            // Somebody else was there meanwhile, behind the server's back.
            if self.attributes()?.is_changed_since(&before) {
                continue;
            }
            way.rise_by_reading();
            let history = History::new(object, log);
            way.leaves_as_found(object, before);
            way.end(volume);
            return Ok(Names { entries, history });
        }
        Err(Error::Busy)
    }
}

/// Readings of a directory that somebody else changes meanwhile.
const ATTEMPTS_MAX: u32 = 16;
