//! Makes a directory.

use std::rc::Rc;
use std::sync::Arc;

use futures_util::future::LocalBoxFuture;
use identity::Rights;
use lane::fs::{OpenHow, OpenKind};
use smb_wire::info::security::Descriptor;

use super::descriptor::give;
use super::located_directory::Interrupted;
use super::name_target::c_name;
use super::owner::note_maker;
use super::transaction::run_to_completion;
use crate::cache::Node;
use crate::caller::Caller;
use crate::directory::Directory;
use crate::error::Error;
use crate::name::Name;
use crate::usage::CountedFile;

impl Directory {
    /// Makes the directory `name`, with a copy of the access list that counts here. The process's umask takes some of
    /// the permission bits `mode`. Takes [`Rights::INSERT`].
    ///
    /// # Errors
    /// [`Error::Exists`]; else as [`Directory::create`].
    pub async fn make_directory(&self, caller: &Caller, name: Name<'_>, mode: u32) -> Result<Self, Error> {
        self.make_directory_described(caller, name, mode, None).await
    }

    /// Makes a directory with a descriptor ([`Directory::make_directory`]); it has this security descriptor
    /// from the start, in place of one that it would inherit.
    ///
    /// # Errors
    /// As there, and as [`Directory::set_descriptor`]: nothing is made then.
    pub fn make_directory_described<'a>(
        &'a self,
        caller: &'a Caller,
        name: Name<'a>,
        mode: u32,
        descriptor: Option<&'a Arc<Descriptor>>,
    ) -> LocalBoxFuture<'a, Result<Self, Error>> {
        Box::pin(async move {
            self.attempts(async || self.try_make_directory(caller, name, mode, descriptor).await).await
        })
    }

    async fn try_make_directory(
        &self,
        caller: &Caller,
        name: Name<'_>,
        mode: u32,
        descriptor: Option<&Arc<Descriptor>>,
    ) -> Result<Self, Interrupted> {
        let parent = self.locate_for(caller, name, Rights::NONE).await?;
        parent.require_to_make(caller, true)?;
        let locks = parent.lock_directory().await?;
        let gift = parent.gift(caller, true, descriptor)?;
        let transaction = parent.prepare_name_change(caller, locks, name).await?;
        let (name, owner) = (c_name(name), parent.owner_of_new(caller)?);
        run_to_completion(transaction.keep_alive(), async move {
            parent.volume().spare_name(parent.directory().dir()).await?;
            if parent.nearest().for_new_directory().is_none() {
                parent.forget_lists(&name).await?;
            }
            parent.ensure_current()?;
            let charge = parent.volume().charge(1, 0)?;
            let transaction = transaction.bump_version();
            let directory = parent.directory();
            let (transaction, ()) = transaction.done(directory.dir().mkdir(&name, mode).await)?;
            charge.made_in(parent.volume(), parent.object()?);
            let how = OpenHow { kind: OpenKind::Directory, symlinks: false, write: false };
            let made = directory.dir().open(&name, how).await.and_then(lane::fs::File::into_dir);
            let made = made.map_err(Error::from)?;
            let given = async {
                let maker = owner.give(parent.volume(), made.as_file()).await?;
                parent.give_list(&made).await.map(|has_list| (maker, has_list))
            };
            let (maker, has_list) = match given.await {
                Ok(given) => given,
                Err(error) => {
                    // Without its list it would let in users that it should not, or none.
                    if directory.dir().rmdir(&name).await.is_ok() {
                        parent.volume().note_removed(parent.object()?, Some(CountedFile::EMPTY));
                    }
                    return Err(error.into());
                }
            };
            let name = Name::parse(name.as_bytes()).map_err(Error::from)?;
            let made = Rc::new(directory.made_directory(name, made).await?);
            let made = Self::new(parent.volume().clone(), made);
            note_maker(made.object(), maker);
            let given = async {
                give(&gift, made.object(), made.dir().as_file()).await?;
                if has_list || gift.is_some() {
                    parent.volume().charge_given(parent.object()?, made.dir().as_file()).await?;
                }
                Ok::<_, Error>(())
            };
            if let Err(error) = given.await {
                if directory.dir().rmdir(&c_name(name)).await.is_ok() {
                    parent.volume().note_removed(parent.object()?, Some(CountedFile::EMPTY));
                }
                return Err(error.into());
            }
            if let Some(object) = made.object() {
                parent.remember_made(name, object, has_list);
            }
            parent.note_added(&transaction, name, made.object());
            let mark = parent.count_in(name);
            transaction.end(parent.volume());
            parent.keep(name, Node::Directory(Rc::clone(made.node())), mark);
            Ok(made)
        })
        .await
    }
}
