//! Directories read part by part, for those that are too large to be held or sorted.

use futures_util::future::LocalBoxFuture;
use lane::fs::Dir;

use crate::caller::Caller;
use crate::directory::Directory;
use crate::error::Error;
use crate::guarded::LinkBudget;
use crate::listing::Entry;

/// A directory that is read part by part, in the order of its file system. It holds a descriptor and a position, no
/// names.
#[derive(Debug)]
pub struct DirectoryParts {
    directory: Directory,
    dir: Dir,
    caller: Caller,
    position: u64,
    /// Rest of the budget of looks through links.
    link_budget: usize,
}

impl Directory {
    /// Begins to read the directory part by part, at `position`: 0 for its start, or [`DirectoryParts::position`].
    ///
    /// # Errors
    /// As [`Directory::entries_as`], but a large directory is none.
    pub fn parts_as<'a>(
        &'a self,
        caller: &'a Caller,
        position: u64,
    ) -> LocalBoxFuture<'a, Result<DirectoryParts, Error>> {
        Box::pin(async move {
            self.may_list(caller).await?;
            self.volume().counters().listings.increment();
            let opened = self.opened_to_list().await;
            let dir = self.volume().counted(opened)?;
            Ok(DirectoryParts {
                directory: self.clone(),
                dir,
                caller: caller.clone(),
                position,
                link_budget: LinkBudget::new().left(),
            })
        })
    }
}

impl DirectoryParts {
    /// Returns the served entries of the next part, sorted by the bytes of their names; `None` at the end. There may
    /// be none in a part. `bytes` bounds the part: 24 and the length of the name for each name of the directory.
    ///
    /// Of names that come or go while the directory is read some show; any other shows once.
    ///
    /// # Errors
    /// As [`Directory::entries_as`], also when the caller has lost its right meanwhile. A position that the file
    /// system does not know is [`Error::NotFound`].
    pub fn next(&mut self, bytes: usize) -> LocalBoxFuture<'_, Result<Option<Box<[Entry]>>, Error>> {
        Box::pin(async move {
            self.directory.may_list(&self.caller).await?;
            let volume = self.directory.volume();
            let read = self.dir.entries_part(self.position, bytes).await.map_err(|error| {
                match error.raw_os_error() {
                    Some(libc::EINVAL) => Error::NotFound,
                    _ => error.into(),
                }
            });
            let part = volume.report_listing_failure(self.directory.path(), read)?;
            let Some(next) = part.next else { return Ok(None) };
            self.position = next;
            let budget = LinkBudget::with(self.link_budget);
            let (entries, _) = self.directory.served(part.entries, &budget).await;
            self.link_budget = budget.left();
            Ok(Some(entries))
        })
    }

    /// Returns the position of the next part: the file system's own number, for the same directory.
    pub fn position(&self) -> u64 {
        self.position
    }
}
