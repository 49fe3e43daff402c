//! Makes a file, or opens one for writing.

use std::rc::Rc;
use std::sync::Arc;

use futures_util::future::LocalBoxFuture;
use identity::Rights;
use lane::fs::{CreateHow, FileKind, OpenHow, OpenKind};
use smb_wire::info::security::Descriptor;

use super::Writer;
use super::attributes::EXECUTABLE;
use super::descriptor::give;
use super::located_directory::{Interrupted, LocatedDirectory};
use super::name_target::c_name;
use super::owner::note_maker;
use super::transaction::run_to_completion;
use crate::attributes::Attributes;
use crate::cache::Node;
use crate::caller::Caller;
use crate::directory::Directory;
use crate::error::Error;
use crate::name::Name;
use crate::object_attributes::attributes_of;
use crate::usage::CountedFile;

/// Options of creating a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreateOptions {
    /// A new file or none.
    pub exclusive: bool,
    /// Permission bits of a new file, of which the process's umask takes some.
    pub mode: u32,
}

/// A file that was made, or was there.
#[derive(Debug)]
pub struct Created {
    /// The file, open for writing.
    pub writer: Writer,
    /// The file's attributes as they are now.
    pub attributes: Attributes,
    /// The file did not exist before.
    pub is_new: bool,
}

impl Directory {
    /// Makes the file `name` and opens it for writing; without `exclusive` also one that is there. Takes
    /// [`Rights::INSERT`], or for a file that is there [`Rights::WRITE`].
    ///
    /// # Errors
    /// [`Error::Exists`] with `exclusive`; [`Error::IsADirectory`], [`Error::SymlinkRefused`]; [`Error::Reserved`],
    /// [`Error::ReadOnly`], [`Error::Denied`], [`Error::Busy`], [`Error::Stale`]; those of the file system.
    pub async fn create(
        &self,
        caller: &Caller,
        name: Name<'_>,
        how: CreateOptions,
    ) -> Result<Created, Error> {
        self.create_described(caller, name, how, None).await
    }

    /// Creates a file with a descriptor ([`Directory::create`]); what is made has this security descriptor
    /// from the start, in place of one that it would inherit.
    ///
    /// # Errors
    /// As there, and as [`Directory::set_descriptor`]: nothing is made then.
    pub fn create_described<'a>(
        &'a self,
        caller: &'a Caller,
        name: Name<'a>,
        how: CreateOptions,
        descriptor: Option<&'a Arc<Descriptor>>,
    ) -> LocalBoxFuture<'a, Result<Created, Error>> {
        Box::pin(async move {
            let created = self.attempts(async || self.try_create(caller, name, how, descriptor).await).await;
            if created.as_ref().is_ok_and(|created| created.is_new) {
                self.volume().note_unfinished(self.path(), name);
            }
            created
        })
    }

    /// Opens the file `name` for writing. Takes [`Rights::WRITE`].
    ///
    /// # Errors
    /// [`Error::NotFound`]; else as [`Directory::create`].
    pub fn open_writer<'a>(
        &'a self,
        caller: &'a Caller,
        name: Name<'a>,
    ) -> LocalBoxFuture<'a, Result<Writer, Error>> {
        Box::pin(async move {
            self.attempts(async || {
                let parent = self.locate_for(caller, name, Rights::NONE).await?;
                Ok(parent.open_to_write(caller, name).await?.writer)
            })
            .await
        })
    }

    async fn try_create(
        &self,
        caller: &Caller,
        name: Name<'_>,
        how: CreateOptions,
        descriptor: Option<&Arc<Descriptor>>,
    ) -> Result<Created, Interrupted> {
        let parent = self.locate_for(caller, name, Rights::NONE).await?;
        if how.exclusive {
            parent.require_to_make(caller, false)?;
        }
        let locks = parent.lock_directory().await?;
        if !how.exclusive && parent.find(name).await?.is_some() {
            drop(locks);
            return Ok(parent.open_to_write(caller, name).await?);
        }
        parent.require_to_make(caller, false)?;
        let gift = parent.gift(caller, false, descriptor)?;
        let transaction = parent.prepare_name_change(caller, locks, name).await?;
        let (name, owner) = (c_name(name), parent.owner_of_new(caller)?);
        run_to_completion(transaction.keep_alive(), async move {
            parent.volume().spare_name(parent.directory().dir()).await?;
            parent.ensure_current()?;
            let charge = parent.volume().charge(1, 0)?;
            let transaction = transaction.bump_version();
            let (directory, how) = (parent.directory(), CreateHow { mode: how.mode, exclusive: true });
            let (transaction, file) = transaction.done(directory.dir().create(&name, how).await)?;
            charge.made_in(parent.volume(), parent.object()?);
            let made = async {
                let maker = owner.give(parent.volume(), &file).await?;
                let stat = file.stat()?;
                let name = Name::parse(name.as_bytes())?;
                let made = directory.made_file(name, file, &stat).await?;
                note_maker(made.object(), maker);
                give(&gift, made.object(), made.lane_file()).await?;
                if gift.is_some() {
                    parent.volume().charge_given(parent.object()?, made.lane_file()).await?;
                }
                Ok::<_, Error>((name, stat, made))
            };
            let (name, stat, file) = match made.await {
                Ok((name, stat, file)) => (name, stat, Rc::new(file)),
                Err(error) => {
                    // A client that is told of a failure finds nothing.
                    if directory.dir().unlink(&name).await.is_ok() {
                        parent.volume().note_removed(parent.object()?, Some(CountedFile::EMPTY));
                    }
                    return Err(error.into());
                }
            };
            parent.note_added(&transaction, name, file.object());
            let mark = parent.count_in(name);
            transaction.end(parent.volume());
            // A file that is open for writing cannot be executed.
            if stat.mode & EXECUTABLE == 0 {
                parent.keep(name, Node::File(Rc::clone(&file)), mark);
            }
            let writer = Writer::new(parent.volume().clone(), file);
            let attributes = attributes_of(&stat, writer.file().object());
            Ok(Created { writer, attributes, is_new: true })
        })
        .await
    }
}

impl LocatedDirectory {
    async fn open_to_write(&self, caller: &Caller, name: Name<'_>) -> Result<Created, Error> {
        let look = self.look_at(name);
        let how = OpenHow { kind: OpenKind::Any, symlinks: false, write: true };
        let file = self.directory().dir().open(&c_name(name), how).await?;
        let stat = file.stat()?;
        if stat.kind != FileKind::File {
            return Err(Error::NotServable);
        }
        if self.volume().withholds(Attributes::from(stat).id) {
            return Err(Error::Hidden);
        }
        let file = Rc::new(self.directory().opened_file(name, file, &stat).await?);
        let attributes = attributes_of(&stat, file.object());
        self.require_to_write(caller, &attributes, file.own().as_ref())?;
        self.note_seen(name, file.object(), look.as_ref());
        let writer = Writer::new(self.volume().clone(), file);
        Ok(Created { writer, attributes, is_new: false })
    }
}
