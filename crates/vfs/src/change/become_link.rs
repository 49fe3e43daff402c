//! Files that become symbolic links: what clients make of a file that they have just made, as they have no
//! request for links.

use std::ffi::CString;
use std::sync::Arc;

use coherence::ChangeKind;
use futures_util::future::LocalBoxFuture;
use identity::Rights;
use lane::fs::{FileKind, RenameHow};

use super::located_directory::Interrupted;
use super::name_target::c_name;
use super::transaction::run_to_completion;
use crate::caller::Caller;
use crate::directory::Directory;
use crate::error::Error;
use crate::name::{Name, NameError};
use crate::object::Object;

impl Directory {
    /// Puts a symbolic link that says `target`, whatever that is, in the place of `which`: an empty file of the one
    /// name `name`, which never leads nowhere to any client. An open file stays, without a name. Takes
    /// [`Rights::INSERT`], and [`Rights::DELETE`] where `is_new` does not say that the caller has just made the file.
    ///
    /// # Errors
    /// [`Error::Unexpected`] for what is another file by now, is not empty or has other names; as
    /// [`Directory::symlink`].
    pub fn become_link<'a>(
        &'a self,
        caller: &'a Caller,
        name: Name<'a>,
        which: &'a Arc<Object>,
        is_new: bool,
        target: &'a [u8],
    ) -> LocalBoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            self.attempts(async || self.try_become_link(caller, name, (which, is_new), target).await).await
        })
    }

    async fn try_become_link(
        &self,
        caller: &Caller,
        name: Name<'_>,
        (which, is_new): (&Arc<Object>, bool),
        target: &[u8],
    ) -> Result<(), Interrupted> {
        if target.is_empty() {
            return Err(Error::Name(NameError::Empty).into());
        }
        let target = CString::new(target).map_err(|_| Error::Name(NameError::Nul))?;
        let parent = self.locate_for(caller, name, Rights::INSERT).await?;
        let (locks, found) = parent.lock_with_name(name).await?;
        let mut found = found.ok_or(Error::Unexpected)?;
        parent.confirm(name, &found, Some(which.number())).await?;
        let stat = parent.directory().dir().stat_at(&c_name(name)).await.map_err(Error::of_change)?;
        let is_plain = stat.kind == FileKind::File && stat.size == 0 && stat.nlink == 1;
        if !is_plain || !Arc::ptr_eq(&found.object, which) {
            return Err(Error::Unexpected.into());
        }
        if !is_new {
            parent.require_to_unlink(caller, name, &found).await?;
        }
        let known = parent.known(name, &found).await?;
        let what =
            vec![(parent.object()?, ChangeKind::name(name.as_bytes())), (&found.object, ChangeKind::Gone)];
        let transaction = parent.volume().prepare_change(caller, locks, what).await?;
        let (name, staged_name) = (c_name(name), parent.volume().cache().new_staged_name());
        let owner = parent.owner_of_new(caller)?;
        run_to_completion(transaction.keep_alive(), async move {
            found.count_names(&parent, &name).await?;
            parent.ensure_current()?;
            let charge = parent.volume().charge(1, 0)?;
            let dir = parent.directory().dir();
            dir.symlink(&staged_name, &target).await.map_err(Error::of_change)?;
            owner.give_at(parent.volume(), dir, &staged_name).await?;
            let transaction = transaction.bump_version();
            let renamed = dir.rename(&staged_name, dir, &name, RenameHow::Replace).await;
            if renamed.is_err() {
                // What stays all the same is swept like files aside.
                let _ = dir.unlink(&staged_name).await;
            }
            let (transaction, ()) = transaction.done(renamed)?;
            charge.made_in(parent.volume(), parent.object()?);
            found.lost(parent.object()?, name.as_bytes());
            parent.volume().note_removed(parent.object()?, known);
            transaction.removed(parent.object()?, name.as_bytes());
            if transaction.is_kept(parent.object()?)
                && let Ok(Some(link)) = parent.find_new(&name).await
            {
                transaction.added(parent.object()?, name.as_bytes(), link.object.number());
            }
            transaction.end(parent.volume());
            Ok(())
        })
        .await
    }
}
