//! Mode, times and owner.

use std::io;
use std::sync::Arc;

use coherence::ChangeKind;
use futures_util::future::LocalBoxFuture;
use identity::{Nearest, Rights};
use index::Number;
use lane::fs::{AttributeChange, File, FileKind, OpenHow, OpenKind};

use super::Writer;
use super::located_directory::Interrupted;
use super::name_target::c_name;
use super::transaction::run_to_completion;
use crate::attributes::Attributes;
use crate::caller::Caller;
use crate::descriptor::Own;
use crate::directory::Directory;
use crate::error::Error;
use crate::name::Name;
use crate::object::Object;
use crate::object_attributes::attributes_of;
use crate::volume::Volume;

impl Writer {
    /// Sets mode and times, and for administrators owner and group. No caller may set set-user-id and
    /// set-group-id bits.
    ///
    /// # Errors
    /// [`Error::Denied`]; [`Error::Busy`]; those of the file system.
    pub fn set_attributes<'a>(
        &'a self,
        caller: &'a Caller,
        change: AttributeChange,
    ) -> LocalBoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let change = self.volume().counted(permitted(caller, change))?;
            if change.mode.is_some() {
                self.volume().counted(self.require_to_set_mode(caller))?;
            }
            let set = self.change(caller, ChangeKind::Attributes, None, async move |file| {
                set(file.lane_file(), file.object(), change).await.map_err(Error::of_write)
            });
            set.await?;
            if makes_executable(change)
                && let Some(path) = self.file().object().and_then(|object| self.volume().path_of(object))
            {
                self.volume().cache().forget(self.volume().key(path.as_path()));
            }
            Ok(())
        })
    }

    /// Checks that the caller may set modes in the file's directory ([`require_to_set_mode`]). Of one whose
    /// directory this lane does not know mode bits may count.
    fn require_to_set_mode(&self, caller: &Caller) -> Result<(), Error> {
        let (volume, file) = (self.volume(), self.file());
        let path = file.object().and_then(|object| volume.path_of(object));
        let above = path.as_ref().and_then(|path| path.as_path().parent());
        let directory = above.and_then(|above| volume.cache().known(volume.key(above)));
        let nearest = directory.map_or(Nearest::None, |directory| directory.nearest());
        require_to_set_mode(volume, caller, &file.attributes()?, file.own().as_ref(), &nearest)
    }
}

impl Directory {
    /// Sets attributes of the directory ([`Writer::set_attributes`]): with its mode rights change. Takes
    /// [`Rights::ADMINISTER`], or where mode bits give the rights to own it, as in POSIX.
    ///
    /// # Errors
    /// As [`Directory::create`].
    pub fn set_attributes<'a>(
        &'a self,
        caller: &'a Caller,
        change: AttributeChange,
    ) -> LocalBoxFuture<'a, Result<(), Error>> {
        Box::pin(async move { self.attempts(async || self.try_set_attributes(caller, change).await).await })
    }

    /// Sets attributes ([`Writer::set_attributes`]) of the file or symbolic link `name`, which need not be
    /// open to write. Takes [`Rights::WRITE`], from which the owner's bits keep no caller here: they may be
    /// what is to be changed. Where mode bits give the rights a mode is its owner's to set. A link has no
    /// mode.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::IsADirectory`]; else as [`Directory::create`].
    pub fn set_attributes_of<'a>(
        &'a self,
        caller: &'a Caller,
        name: Name<'a>,
        change: AttributeChange,
    ) -> LocalBoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            self.attempts(async || self.try_set_attributes_of(caller, name, None, change).await).await
        })
    }

    /// Sets attributes of what has this number ([`Directory::set_attributes_of`]), if `name` still leads to
    /// it.
    ///
    /// # Errors
    /// [`Error::Unexpected`] where it does not; as [`Directory::set_attributes_of`].
    pub fn set_attributes_if<'a>(
        &'a self,
        caller: &'a Caller,
        which: Number,
        name: Name<'a>,
        change: AttributeChange,
    ) -> LocalBoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            self.attempts(async || self.try_set_attributes_of(caller, name, Some(which), change).await).await
        })
    }

    async fn try_set_attributes_of(
        &self,
        caller: &Caller,
        name: Name<'_>,
        which: Option<Number>,
        change: AttributeChange,
    ) -> Result<(), Interrupted> {
        let change = permitted(caller, change)?;
        let parent = self.locate_for(caller, name, Rights::NONE).await?;
        let (locks, found) = parent.lock_with_name(name).await?;
        let found = found.ok_or(Error::NotFound)?;
        parent.confirm(name, &found, which).await?;
        if found.kind == FileKind::Directory {
            return Err(Error::IsADirectory.into());
        }
        let (plain, name) = (name, c_name(name));
        let stat = parent.directory().dir().stat_at(&name).await.map_err(Error::of_change)?;
        let own = match found.kind {
            FileKind::File => parent.own_of(plain, &found.object).await?,
            _ => None,
        };
        let of = attributes_of(&stat, Some(&found.object));
        let unmasked = Attributes { bits: of.bits | OWNER_ALL, ..of };
        parent.require_of(caller, &unmasked, own.as_ref(), Rights::WRITE)?;
        if change.mode.is_some() && found.kind == FileKind::File {
            require_to_set_mode(self.volume(), caller, &of, own.as_ref(), &parent.nearest())?;
        }
        let file = match (found.kind, &found.open) {
            (FileKind::File, None) => {
                let how = OpenHow { kind: OpenKind::Any, symlinks: false, write: false };
                Some(parent.directory().dir().open(&name, how).await.map_err(Error::of_change)?)
            }
            _ => None,
        };
        let transaction = self
            .volume()
            .prepare_change(caller, locks, vec![(&found.object, ChangeKind::Attributes)])
            .await?;
        run_to_completion(transaction.keep_alive(), async move {
            parent.ensure_current()?;
            let open = found.open.as_ref().map(|open| open.lane_file()).or(file.as_ref());
            let before = open.map_or(Ok(stat), lane::fs::File::stat);
            before.iter().for_each(|before| found.object.note_metadata_change(before));
            let transaction = transaction.keep_versions();
            let set = match open {
                Some(file) => set(file, Some(&found.object), change).await,
                None => {
                    let change = AttributeChange { mode: None, ..change };
                    parent.directory().dir().set_attributes_at(&name, change).await
                }
            };
            set.map_err(Error::of_write)?;
            if let (FileKind::File, Some(file)) = (found.kind, open) {
                found.object.turn_archive_on(file).await;
            }
            let left = match open {
                Some(file) => file.stat(),
                None => parent.directory().dir().stat_at(&name).await,
            };
            let transaction = transaction.committed();
            transaction.note_attributes_after(&found.object, left);
            if makes_executable(change) {
                parent.close_cached(&name);
            }
            transaction.end(parent.volume());
            Ok(())
        })
        .await
    }

    async fn try_set_attributes(&self, caller: &Caller, change: AttributeChange) -> Result<(), Interrupted> {
        let change = permitted(caller, change)?;
        let parent = self.locate().await?;
        let own = self.object().and_then(|object| object.own());
        let is_owners = do_bits_count(self.volume(), own.as_ref(), &parent.nearest())
            && self.attributes()?.owner().is_by_mode(&caller.principal);
        parent.require(caller, if is_owners { Rights::NONE } else { Rights::ADMINISTER })?;
        let locks = parent.lock_directory().await?;
        parent.ensure_current()?;
        parent
            .change_directory(caller, locks, ChangeKind::Rights, async move |directory| {
                set(directory.dir().as_file(), directory.object(), change).await.map_err(Error::of_write)
            })
            .await
    }
}

/// Sets attributes. A file with a new owner no longer belongs to its maker.
async fn set(file: &File, object: Option<&Arc<Object>>, change: AttributeChange) -> io::Result<()> {
    if let (Some(object), Some(_)) = (object, change.uid) {
        object.forget_maker(file).await?;
    }
    file.set_attributes(change).await
}

fn permitted(caller: &Caller, change: AttributeChange) -> Result<AttributeChange, Error> {
    if (change.uid.is_some() || change.gid.is_some()) && !caller.principal.is_administrator() {
        return Err(Error::Denied(Rights::ADMINISTER));
    }
    Ok(AttributeChange { mode: change.mode.map(|mode| mode & MODE_SETTABLE), ..change })
}

/// Returns whether mode bits give the rights over something.
fn do_bits_count(volume: &Volume, own: Option<&Own>, nearest: &Nearest) -> bool {
    volume.root().policy().is_some_and(|policy| policy.privileged)
        && *nearest == Nearest::None
        && own.is_none()
}

/// Checks whether the caller may set a mode. Where mode bits give the rights over a file, only its owner and
/// administrators set them, as in POSIX. A user that may write to it may not let others do so. The owner of a file
/// that is no POSIX user is the one in its record. Where the server gives no files away, all may set them that may
/// write.
fn require_to_set_mode(
    volume: &Volume,
    caller: &Caller,
    of: &Attributes,
    own: Option<&Own>,
    nearest: &Nearest,
) -> Result<(), Error> {
    let (root, principal) = (volume.root(), &caller.principal);
    if !do_bits_count(volume, own, nearest)
        || principal.is_administrator()
        || principal.is_local_administrator()
    {
        return Ok(());
    }
    let shared = root.shared().ok_or(Error::ReadOnly)?;
    let options = shared.objects().options();
    let is_all_servers = of.maker.is_none() && of.uid == options.user && !options.gives_files;
    if of.owner().is_by_mode(principal) || is_all_servers {
        Ok(())
    } else {
        Err(Error::Denied(Rights::ADMINISTER))
    }
}

/// Returns whether a file is to be executed, which cannot be done while it is open for writing: not by this
/// lane, which goes on when it is found anew.
fn makes_executable(change: AttributeChange) -> bool {
    change.mode.is_some_and(|mode| mode & EXECUTABLE != 0)
}

/// Mode bits that let a user execute a file.
pub(super) const EXECUTABLE: u32 = 0o111;
const OWNER_ALL: u32 = 0o700;
/// Permissions and the sticky bit.
const MODE_SETTABLE: u32 = 0o1777;
