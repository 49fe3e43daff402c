//! A new version of a directory without a change of its names, for a client that is about to build another image of
//! them than the one served with the version before.

use std::sync::Arc;

use coherence::ChangeKind;

use super::lease_breaks::LeaseBreakWait;
use super::located_directory::Interrupted;
use crate::caller::Caller;
use crate::directory::Directory;
use crate::error::Error;
use crate::names::{History, Names};
use futures_util::future::LocalBoxFuture;

impl Directory {
    /// Reads the names of the directory ([`Directory::names`]), and gives it its next version, which no client has
    /// yet.
    ///
    /// # Errors
    /// As there.
    pub fn reread_names<'a>(
        &'a self,
        caller: &'a Caller,
        max: usize,
    ) -> LocalBoxFuture<'a, Result<Names, Error>> {
        Box::pin(async move {
            let names = self.reread(caller, max).await;
            self.volume().report_listing_failure(self.path(), names)
        })
    }

    async fn reread(&self, caller: &Caller, max: usize) -> Result<Names, Error> {
        let (volume, object) = (self.volume(), self.changed()?);
        let log = object.keep_log();
        let mut lease_wait = LeaseBreakWait::default();
        for _ in 0..ATTEMPTS_MAX {
            let locks = volume.lock_for_external(object).await?;
            let before = self.attributes()?;
            let entries = self.names_now(max).await?;
            let transaction = match volume
                .prepare_change(caller, locks, vec![(object, ChangeKind::Names(Arc::from([])))])
                .await
            {
                Ok(transaction) => transaction,
                Err(Interrupted::Refused(error)) => return Err(error),
                Err(Interrupted::AwaitLease(pending)) => {
                    lease_wait.wait(volume, pending).await?;
                    continue;
                }
                Err(Interrupted::Retry(_)) => continue,
            };
            // Another program has changed the directory meanwhile.
            if self.attributes()?.is_changed_since(&before) {
                continue;
            }
            let transaction = transaction.bump_version_on_reread().committed();
            let history = History::new(object, log);
            transaction.note_found_attributes(object, before);
            transaction.end(volume);
            return Ok(Names { entries, history });
        }
        Err(volume.unsettled(self.path(), "reading a directory anew"))
    }
}

/// Largest number of readings of a directory that other programs change meanwhile.
const ATTEMPTS_MAX: u32 = 16;
