//! Moves names, within a directory and across.

use std::sync::Arc;

use lane::fs::{FileKind, RenameHow};

use super::Caller;
use super::find::{Found, c_name};
use super::way::to_the_end;
use crate::directory::Directory;
use crate::error::Error;
use crate::name::Name;
use crate::object::{Object, Permits};
use crate::promise::What;

/// What a rename may put an end to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// Nothing: [`Error::Exists`] where something has the new name.
    Nothing,
    /// What has the new name: a file by a file, an empty directory by a directory.
    Anything,
}

/// What a rename concerns.
struct Concerned {
    moved: Found,
    replaced: Option<Found>,
}

impl Directory {
    /// Gives what is `from` here the name `to` in `to_directory`, in one step. Two names of one file stay as they are.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Exists`] with [`Over::Nothing`]; [`Error::NotEmpty`], [`Error::IsADirectory`],
    /// [`Error::NotADirectory`] by what has the new name; [`Error::IntoItself`], [`Error::CrossDevice`]; else as
    /// [`Directory::create`].
    pub async fn rename(
        &self,
        caller: &Caller,
        from: Name<'_>,
        to_directory: &Self,
        to: Name<'_>,
        over: Over,
    ) -> Result<(), Error> {
        let renamed = self.rename_uncounted(caller, from, to_directory, to, over).await;
        self.volume().counted(renamed)
    }

    async fn rename_uncounted(
        &self,
        caller: &Caller,
        from: Name<'_>,
        to_directory: &Self,
        to: Name<'_>,
        over: Over,
    ) -> Result<(), Error> {
        if !self.volume().is_same(to_directory.volume()) {
            return Err(Error::CrossDevice);
        }
        let (here, there) = (self.settle(from).await?, to_directory.settle(to).await?);
        let (permits, concerned) = self.permits_to_rename(from, to_directory, to).await?;
        let Concerned { moved, replaced } = concerned;
        if let Some(replaced) = &replaced {
            if over == Over::Nothing {
                return Err(Error::Exists);
            }
            if Arc::ptr_eq(&moved.object, &replaced.object) {
                return Ok(());
            }
        }
        let what = told(here, from, there, to, &moved, replaced.as_ref());
        let way = self.volume().tell(caller, permits, what).await;
        let (here, there) = (self.clone(), to_directory.clone());
        let (from, to) = (c_name(from), c_name(to));
        to_the_end(async move {
            way.rise();
            if moved.kind == FileKind::Directory {
                moved.object.rise();
            }
            let how = match over {
                Over::Nothing => RenameHow::NoReplace,
                Over::Anything => RenameHow::Replace,
            };
            here.dir().rename(&from, there.dir(), &to, how).await.map_err(Error::of_change)?;
            there.note_place(Some(&moved.object), Name::parse(to.as_bytes())?);
            way.end(here.volume());
            Ok(())
        })
        .await
    }

    async fn permits_to_rename(
        &self,
        from: Name<'_>,
        to_directory: &Self,
        to: Name<'_>,
    ) -> Result<(Permits, Concerned), Error> {
        let names = async || {
            let moved = self.find(from).await?.ok_or(Error::NotFound)?;
            let replaced = to_directory.find(to).await?;
            let concerned = std::iter::once(&moved).chain(&replaced);
            let objects = concerned.map(|found| Arc::clone(&found.object)).collect();
            Ok((Concerned { moved, replaced }, objects))
        };
        self.volume().permits(&[self.changed()?, to_directory.changed()?], names).await
    }
}

/// Who has to know: the directories' names, what moves, what goes.
fn told<'a>(
    here: &'a Arc<Object>,
    from: Name<'_>,
    there: &'a Arc<Object>,
    to: Name<'_>,
    moved: &'a Found,
    replaced: Option<&'a Found>,
) -> Vec<(&'a Arc<Object>, What)> {
    let names =
        |names: &[Name<'_>]| What::Names(names.iter().map(|name| Box::from(name.as_bytes())).collect());
    let mut what = match Arc::ptr_eq(here, there) {
        true => vec![(here, names(&[from, to]))],
        false => vec![(here, names(&[from])), (there, names(&[to]))],
    };
    what.push((&moved.object, What::Place));
    what.extend(replaced.map(|replaced| (&replaced.object, What::Place)));
    what
}
