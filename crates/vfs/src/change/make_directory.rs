//! Makes a directory.

use std::rc::Rc;

use lane::fs::{OpenHow, OpenKind};

use super::Caller;
use super::find::c_name;
use super::way::to_the_end;
use crate::cache::Node;
use crate::directory::Directory;
use crate::error::Error;
use crate::name::Name;
use crate::promise::What;

impl Directory {
    /// Makes the directory `name`. The process's umask takes some of the permission bits `mode`.
    ///
    /// # Errors
    /// [`Error::Exists`]; else as [`Directory::create`].
    pub async fn make_directory(&self, caller: &Caller, name: Name<'_>, mode: u32) -> Result<Self, Error> {
        let made = self.make_directory_uncounted(caller, name, mode).await;
        self.volume().counted(made)
    }

    async fn make_directory_uncounted(
        &self,
        caller: &Caller,
        name: Name<'_>,
        mode: u32,
    ) -> Result<Self, Error> {
        let object = self.settle(name).await?;
        let (permits, ()) = self.volume().permits(&[object], async || Ok(((), Vec::new()))).await?;
        let way = self.volume().tell(caller, permits, vec![(object, What::name(name.as_bytes()))]).await;
        let (directory, name) = (self.clone(), c_name(name));
        to_the_end(async move {
            way.rise();
            directory.dir().mkdir(&name, mode).await.map_err(Error::of_change)?;
            let how = OpenHow { kind: OpenKind::Directory, symlinks: false, write: false };
            let made = directory.dir().open(&name, how).await?;
            let name = Name::parse(name.as_bytes())?;
            let made = Rc::new(directory.made_directory(name, made.into_dir()?)?);
            way.end(directory.volume());
            directory.keep(name, Node::Directory(Rc::clone(&made)));
            Ok(Self::new(directory.volume().clone(), made))
        })
        .await
    }
}
