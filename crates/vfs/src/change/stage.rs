//! Files that come into being whole: written aside, then given their name in one step.

use std::rc::Rc;

use coherence::ChangeKind;
use futures_util::future::LocalBoxFuture;
use identity::Rights;
use lane::buffer::Buf;
use lane::fs::{AttributeChange, FileKind, SetTime, SyncOf, Timestamp};

use super::carried_attributes::CarriedAttributes;
use super::descriptor::give;
use super::located_directory::{Interrupted, LocatedDirectory};
use super::name_target::{NameTarget, c_name};
use super::owner::note_maker;
use super::staged_name::StagedName;
use super::transaction::run_to_completion;
use crate::attributes::Attributes;
use crate::cache::Node;
use crate::caller::Caller;
use crate::directory::Directory;
use crate::error::Error;
use crate::file::OpenFile;
use crate::name::Name;
use crate::usage::StagedSize;

/// A file that has no name yet that a client could see. Dropped, it is gone.
pub struct Staged {
    directory: Directory,
    file: Rc<OpenFile>,
    staged_name: Rc<StagedName>,
    /// Room of the volume that it takes until it has a name.
    growing: Rc<StagedSize>,
}

/// Condition on a name's target for a staged file to take the name. Judged when no other change can come any
/// more.
#[derive(Clone, Copy)]
pub enum Expect<'a> {
    /// Anything, or nothing.
    Anything,
    /// Nothing.
    Absent,
    /// A target that the predicate accepts; `None` stands for nothing.
    Like(&'a dyn Fn(Option<&Attributes>) -> bool),
}

/// A file that was given its name.
#[derive(Debug)]
pub struct Published {
    /// The file.
    pub file: Rc<OpenFile>,
    /// The file's attributes as they are now.
    pub attributes: Attributes,
    /// Set if nothing had the name before.
    pub is_new: bool,
}

impl Directory {
    /// Begins a file that [`Staged::publish`] gives its name in this directory. The process's umask takes some of the
    /// permission bits `mode`. Takes [`Rights::INSERT`].
    ///
    /// # Errors
    /// As [`Directory::create`].
    pub fn stage<'a>(&'a self, caller: &'a Caller, mode: u32) -> LocalBoxFuture<'a, Result<Staged, Error>> {
        Box::pin(async move {
            self.attempts(async || {
                let parent = self.locate().await?;
                parent.require_to_make(caller, false)?;
                Ok(self.try_stage(mode).await?)
            })
            .await
        })
    }

    async fn try_stage(&self, mode: u32) -> Result<Staged, Error> {
        self.volume().changeable().await?;
        let growing = Rc::new(StagedSize::begin(self.volume())?);
        let (file, staged_name) = StagedName::make(self, mode).await?;
        let stat = file.stat()?;
        // As long as it is not published it is called so in messages.
        let name = self.volume().cache().new_staged_name();
        let file = Rc::new(self.made_file(Name::parse(name.as_bytes())?, file, &stat).await?);
        let staged_name = staged_name.of(file.object());
        Ok(Staged { directory: self.clone(), file, staged_name: Rc::new(staged_name), growing })
    }
}

impl Staged {
    /// Writes all of `buf` at `offset`. The buffer comes back in every case.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::Quota`], [`Error::FileTooLarge`]; those of the file system.
    pub async fn write_at(&self, offset: u64, buf: Buf) -> (Result<(), Error>, Buf) {
        if let Err(error) = self.make_room(offset, buf.len()).await {
            return (self.counted(Err(error)), buf);
        }
        let (written, buf) = self.file.lane_file().write_at(offset, buf).await;
        (self.counted(written.map_err(Error::of_write)), buf)
    }

    /// Writes the bytes of several buffers one after another ([`Staged::write_at`]).
    pub async fn write_vectored_at(&self, offset: u64, bufs: Vec<Buf>) -> (Result<(), Error>, Vec<Buf>) {
        if let Err(error) = self.make_room(offset, bufs.iter().map(|buf| buf.len()).sum()).await {
            return (self.counted(Err(error)), bufs);
        }
        let (written, bufs) = self.file.lane_file().write_vectored_at(offset, bufs).await;
        (self.counted(written.map_err(Error::of_write)), bufs)
    }

    async fn make_room(&self, offset: u64, len: usize) -> Result<(), Error> {
        self.growing.reach(offset, len)?;
        self.directory.volume().spare(self.file.lane_file(), offset, len as u64).await
    }

    /// Makes what was written safe: before [`Staged::publish`], so that a name never leads to half a file.
    ///
    /// # Errors
    /// What was written may be lost then.
    pub async fn sync(&self) -> Result<(), Error> {
        self.counted(self.file.lane_file().sync(SyncOf::Data).await.map_err(Error::of_write))
    }

    /// Gives its content a time of change that no other file of this process was given by this, and returns it. So
    /// size and time alone name this version from the start. The file system may round it.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn stamp<'a>(&'a self) -> LocalBoxFuture<'a, Result<Timestamp, Error>> {
        Box::pin(async move {
            let peer = self.directory.volume().cache().peer().ok_or(Error::ReadOnly)?;
            let at = peer.objects.next_stamp(lane::time::wall_clock());
            let change = AttributeChange { mtime: SetTime::At(at), ..AttributeChange::NONE };
            self.counted(self.file.lane_file().set_attributes(change).await.map_err(Error::of_write))?;
            Ok(at)
        })
    }

    /// Returns the file's attributes as they are now.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn attributes(&self) -> Result<Attributes, Error> {
        self.file.attributes()
    }

    /// Gives it the name `name` in one step, in place of the file that has it. Takes [`Rights::INSERT`], and
    /// [`Rights::DELETE`] where something is replaced.
    ///
    /// # Errors
    /// [`Error::Unexpected`] where the name does not lead to what is expected; [`Error::IsADirectory`]; else as
    /// [`Directory::create`]. The file is gone then.
    pub fn publish<'a>(
        self,
        caller: &'a Caller,
        name: Name<'a>,
        expect: Expect<'a>,
    ) -> LocalBoxFuture<'a, Result<Published, Error>> {
        Box::pin(async move {
            let directory = &self.directory;
            directory.attempts(async || self.try_publish(caller, name, expect).await).await
        })
    }

    async fn try_publish(
        &self,
        caller: &Caller,
        name: Name<'_>,
        expect: Expect<'_>,
    ) -> Result<Published, Interrupted> {
        let parent = self.directory.locate_for(caller, name, Rights::NONE).await?;
        parent.require_to_make(caller, false)?;
        let (locks, mut found) = parent.lock_with_name(name).await?;
        if let Some(found) = &found {
            parent.require_to_unlink(caller, name, found).await?;
        }
        if found.as_ref().is_some_and(NameTarget::is_directory) {
            return Err(Error::IsADirectory.into());
        }
        if !expect.allows(&parent, name, found.is_some()).await? {
            return Err(Error::Unexpected.into());
        }
        // A file that is replaced is written to: a user that may not write to it may not replace it so, and
        // what it has of its own stays.
        let replaced = match &found {
            Some(found) if found.kind == FileKind::File => parent.own_of(name, &found.object).await?,
            _ => None,
        };
        let gift = match replaced {
            Some(own) => {
                let of = self.file.attributes()?;
                parent.require_of(caller, &of, Some(&own), Rights::WRITE)?;
                own.kept()
            }
            None => parent.gift(caller, false, None)?,
        };
        let carried_attributes = match &found {
            Some(found) if found.kind == FileKind::File => parent.carried_attributes(name).await,
            _ => CarriedAttributes::nothing(),
        };
        let known = match &found {
            Some(found) => parent.known(name, found).await?,
            None => None,
        };
        let mut what = vec![(parent.object()?, ChangeKind::name(name.as_bytes()))];
        what.extend(found.iter().map(|found| (&found.object, ChangeKind::Gone)));
        let transaction = parent.volume().prepare_change(caller, locks, what).await?;
        let (name, is_new) = (c_name(name), found.is_none());
        let owner = parent.owner_of_new(caller)?;
        let (file, staged_name, growing) =
            (Rc::clone(&self.file), Rc::clone(&self.staged_name), Rc::clone(&self.growing));
        run_to_completion(transaction.keep_alive(), async move {
            if let Some(replaced) = &mut found {
                replaced.count_names(&parent, &name).await?;
            }
            parent.ensure_current()?;
            // Before it has a name that leads to it.
            note_maker(file.object(), owner.give(parent.volume(), file.lane_file()).await?);
            if carried_attributes.bytes() > 0
                && let Some(shared) = parent.volume().shared()
            {
                shared.note_attributes().await?;
            }
            let is_given = gift.is_some() || carried_attributes.bytes() > 0;
            give(&gift, file.object(), file.lane_file()).await?;
            carried_attributes.give(file.lane_file()).await;
            if is_given {
                growing.reach_attributes(file.lane_file()).await?;
            }
            let transaction = transaction.bump_version();
            found.iter().for_each(NameTarget::prepare_unlink);
            // Only what makes files behind the server's back can have come in between.
            let given = staged_name.give(file.lane_file(), parent.directory().dir(), &name, is_new).await;
            let (transaction, ()) = transaction.done(given)?;
            if let Some(replaced) = &found {
                parent.has_lost(&name, replaced).await?;
            }
            let attributes = file.attributes();
            parent.volume().note_removed(parent.object()?, known);
            growing.made_in(
                parent.volume(),
                parent.object()?,
                attributes.as_ref().ok().map(|attributes| attributes.size),
            );
            let attributes = attributes?;
            let name = Name::parse(name.as_bytes()).map_err(Error::from)?;
            if !is_new && let Ok(directory) = parent.object() {
                transaction.removed(directory, name.as_bytes());
            }
            parent.note_added(&transaction, name, file.object());
            parent.directory().note_place(file.object(), name);
            if let Some(object) = file.object() {
                object.note_published();
            }
            // What is replaced once is again, as likely as not by another lane, which would have to ask this one.
            let kept = match is_new || !parent.is_shared() {
                true => parent.directory().opened_again(name, &file).await,
                false => None,
            };
            let mark = kept.as_ref().and_then(|_| parent.count_in(name));
            transaction.end(parent.volume());
            if let Some(kept) = kept {
                parent.keep(name, Node::File(kept), mark);
            }
            Ok(Published { file, attributes, is_new })
        })
        .await
    }

    fn counted<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        self.directory.volume().counted(result)
    }
}

impl Expect<'_> {
    pub(super) async fn allows(
        self,
        parent: &LocatedDirectory,
        name: Name<'_>,
        is_there: bool,
    ) -> Result<bool, Error> {
        match self {
            Self::Anything => Ok(true),
            Self::Absent => Ok(!is_there),
            Self::Like(_) if is_there => {
                let stat = parent.directory().dir().stat_at(&c_name(name)).await.map_err(Error::of_change)?;
                Ok(self.likes(Some(&stat.into())))
            }
            Self::Like(_) => Ok(self.likes(None)),
        }
    }

    fn likes(self, attributes: Option<&Attributes>) -> bool {
        matches!(self, Self::Like(likes) if likes(attributes))
    }
}

impl std::fmt::Debug for Staged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Staged").field("file", &self.file).finish_non_exhaustive()
    }
}
