//! Takes names away.

use coherence::ChangeKind;
use futures_util::future::LocalBoxFuture;
use identity::Rights;
use index::Number;
use lane::fs::FileKind;

use super::located_directory::Interrupted;
use super::name_target::c_name;
use super::stage::Expect;
use super::transaction::run_to_completion;
use crate::caller::Caller;
use crate::directory::Directory;
use crate::error::Error;
use crate::name::Name;

impl Directory {
    /// Takes the name of a file or link away. An open file stays usable; other names of it stay. Takes
    /// [`Rights::DELETE`].
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::IsADirectory`]; else as [`Directory::create`].
    pub async fn remove(&self, caller: &Caller, name: Name<'_>) -> Result<(), Error> {
        self.remove_if(caller, name, Expect::Anything).await
    }

    /// Removes the name of what is expected there ([`Directory::remove`]).
    ///
    /// # Errors
    /// [`Error::Unexpected`] where it is something else; as [`Directory::remove`].
    pub fn remove_if<'a>(
        &'a self,
        caller: &'a Caller,
        name: Name<'a>,
        expect: Expect<'a>,
    ) -> LocalBoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            self.attempts(async || self.try_remove(caller, (None, name), false, expect).await).await
        })
    }

    /// Removes the name of what has this number ([`Directory::remove`], or [`Directory::remove_directory`]
    /// where it `is_directory`), if the name still leads to it.
    ///
    /// # Errors
    /// [`Error::Unexpected`] where it does not; as there.
    pub fn remove_which<'a>(
        &'a self,
        caller: &'a Caller,
        which: Number,
        name: Name<'a>,
        is_directory: bool,
    ) -> LocalBoxFuture<'a, Result<(), Error>> {
        self.remove_which_if(caller, which, name, is_directory, Expect::Anything)
    }

    /// Removes the name of what has this number ([`Directory::remove_which`]), if it is what is expected.
    ///
    /// # Errors
    /// [`Error::Unexpected`] where the name leads to something else, or it is not; as there.
    pub fn remove_which_if<'a>(
        &'a self,
        caller: &'a Caller,
        which: Number,
        name: Name<'a>,
        is_directory: bool,
        expect: Expect<'a>,
    ) -> LocalBoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let which = (Some(which), name);
            self.attempts(async || self.try_remove(caller, which, is_directory, expect).await).await
        })
    }

    /// Takes the name of an empty directory away. Takes [`Rights::DELETE`].
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::NotADirectory`], [`Error::NotEmpty`]; else as [`Directory::create`].
    pub fn remove_directory<'a>(
        &'a self,
        caller: &'a Caller,
        name: Name<'a>,
    ) -> LocalBoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            self.attempts(async || self.try_remove(caller, (None, name), true, Expect::Anything).await).await
        })
    }

    async fn try_remove(
        &self,
        caller: &Caller,
        (which, name): (Option<Number>, Name<'_>),
        is_directory: bool,
        expect: Expect<'_>,
    ) -> Result<(), Interrupted> {
        let parent = self.locate_to_unlink(caller, name, Rights::NONE).await?;
        let (locks, found) = parent.lock_with_name(name).await?;
        let mut found = found.ok_or(Error::NotFound)?;
        parent.confirm(name, &found, which).await?;
        parent.require_to_unlink(caller, name, &found).await?;
        match (found.kind, is_directory) {
            (FileKind::Directory, false) => return Err(Error::IsADirectory.into()),
            (FileKind::Directory, true) | (_, false) => {}
            (_, true) => return Err(Error::NotADirectory.into()),
        }
        if !expect.allows(&parent, name, true).await? {
            return Err(Error::Unexpected.into());
        }
        let known = parent.known(name, &found).await?;
        let what =
            vec![(parent.object()?, ChangeKind::name(name.as_bytes())), (&found.object, ChangeKind::Gone)];
        let transaction = self.volume().prepare_change(caller, locks, what).await?;
        let name = c_name(name);
        run_to_completion(transaction.keep_alive(), async move {
            found.count_names(&parent, &name).await?;
            parent.ensure_current()?;
            let transaction = transaction.bump_version();
            found.prepare_unlink();
            let dir = parent.directory().dir();
            let removed = match (is_directory, &found.open) {
                (true, _) => dir.rmdir(&name).await,
                (false, Some(file)) => dir.unlink_open(&name, file.lane_file()).await,
                (false, None) => dir.unlink(&name).await,
            };
            let (transaction, ()) = transaction.done(removed)?;
            parent.has_lost(&name, &found).await?;
            match is_directory {
                true => {
                    parent.volume().note_removed_directory(parent.object()?, &found.object, known);
                    parent.forget_list(&name);
                }
                false => parent.volume().note_removed(parent.object()?, known),
            }
            transaction.removed(parent.object()?, name.as_bytes());
            transaction.end(parent.volume());
            Ok(())
        })
        .await
    }
}
