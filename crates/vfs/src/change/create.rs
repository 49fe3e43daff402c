//! Makes a file.

use std::rc::Rc;

use lane::fs::{CreateHow, FileKind, OpenHow, OpenKind};

use super::find::c_name;
use super::way::to_the_end;
use super::{Caller, Writer};
use crate::attributes::Attributes;
use crate::cache::Node;
use crate::directory::Directory;
use crate::error::Error;
use crate::name::Name;
use crate::promise::What;

/// How a file is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct How {
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
    /// As it is now.
    pub attributes: Attributes,
    /// It was not there before.
    pub is_new: bool,
}

impl Directory {
    /// Makes the file `name` and opens it for writing; without `exclusive` also one that is there.
    ///
    /// # Errors
    /// [`Error::Exists`] with `exclusive`; [`Error::IsADirectory`], [`Error::SymlinkRefused`]; [`Error::Reserved`],
    /// [`Error::ReadOnly`], [`Error::Busy`]; those of the file system.
    pub async fn create(&self, caller: &Caller, name: Name<'_>, how: How) -> Result<Created, Error> {
        let created = self.create_uncounted(caller, name, how).await;
        self.volume().counted(created)
    }

    async fn create_uncounted(&self, caller: &Caller, name: Name<'_>, how: How) -> Result<Created, Error> {
        let object = self.settle(name).await?;
        let names = async || {
            let is_there = !how.exclusive && self.find(name).await?.is_some();
            Ok((is_there, Vec::new()))
        };
        let (permits, is_there) = self.volume().permits(&[object], names).await?;
        if is_there {
            drop(permits);
            return self.open_for_writing(name).await;
        }
        let way = self.volume().tell(caller, permits, vec![(object, What::name(name.as_bytes()))]).await;
        let (directory, name) = (self.clone(), c_name(name));
        to_the_end(async move {
            way.rise();
            let how = CreateHow { mode: how.mode, exclusive: true };
            let file = directory.dir().create(&name, how).await.map_err(Error::of_change)?;
            let stat = file.stat()?;
            let name = Name::parse(name.as_bytes())?;
            let file = Rc::new(directory.made_file(name, file, &stat)?);
            way.end(directory.volume());
            directory.keep(name, Node::File(Rc::clone(&file)));
            let writer = Writer::new(directory.volume().clone(), file);
            Ok(Created { writer, attributes: stat.into(), is_new: true })
        })
        .await
    }

    async fn open_for_writing(&self, name: Name<'_>) -> Result<Created, Error> {
        let how = OpenHow { kind: OpenKind::Any, symlinks: false, write: true };
        let file = self.dir().open(&c_name(name), how).await?;
        let stat = file.stat()?;
        if stat.kind != FileKind::File {
            return Err(Error::NotServable);
        }
        let file = Rc::new(self.made_file(name, file, &stat)?);
        let writer = Writer::new(self.volume().clone(), file);
        Ok(Created { writer, attributes: stat.into(), is_new: false })
    }
}
