//! Files that come into being whole: written aside, then given their name in one step.

use std::ffi::CString;
use std::rc::Rc;

use lane::buffer::Buf;
use lane::fs::{CreateHow, RenameHow, SyncOf};

use super::Caller;
use super::find::c_name;
use super::way::to_the_end;
use crate::attributes::Attributes;
use crate::cache::Node;
use crate::directory::Directory;
use crate::error::Error;
use crate::file::OpenFile;
use crate::name::Name;
use crate::promise::What;

/// A file that has no name yet that a client could see. Dropped, it is gone.
pub struct Staged {
    file: Rc<OpenFile>,
    aside: Aside,
}

/// What a name must lead to for a staged file to take it. Judged when nobody else can change it any more.
#[derive(Clone, Copy)]
pub enum Expect<'a> {
    /// Whatever it is.
    Anything,
    /// Nothing.
    Absent,
    /// What this says yes to; `None` stands for nothing.
    Like(&'a dyn Fn(Option<&Attributes>) -> bool),
}

/// A file that was given its name.
#[derive(Debug)]
pub struct Published {
    /// The file.
    pub file: Rc<OpenFile>,
    /// As it is now.
    pub attributes: Attributes,
    /// Nothing had the name before.
    pub is_new: bool,
}

/// The name that a staged file has meanwhile. Dropped, it is taken away.
struct Aside {
    directory: Directory,
    /// `None` once it is another's.
    name: Option<CString>,
}

impl Directory {
    /// Begins a file that [`Staged::publish`] gives its name in this directory. The process's umask takes some of the
    /// permission bits `mode`.
    ///
    /// # Errors
    /// [`Error::ReadOnly`]; those of the file system.
    pub async fn stage(&self, mode: u32) -> Result<Staged, Error> {
        let staged = self.stage_uncounted(mode).await;
        self.volume().counted(staged)
    }

    async fn stage_uncounted(&self, mode: u32) -> Result<Staged, Error> {
        self.changed()?;
        for _ in 0..ASIDE_TRIES_MAX {
            let name = self.volume().cache().name_aside();
            // Made to its end: nobody else would know that it is there.
            let (directory, how) = (self.clone(), CreateHow { mode, exclusive: true });
            let made = to_the_end(async move {
                let file = directory.dir().create(&name, how).await?;
                Ok::<_, std::io::Error>((file, Aside { directory, name: Some(name) }))
            });
            let (file, aside) = match made.await {
                Ok(made) => made,
                // Left by an earlier life of this server.
                Err(error) if error.raw_os_error() == Some(libc::EEXIST) => continue,
                Err(error) => return Err(Error::of_change(error)),
            };
            let stat = file.stat()?;
            let file = Rc::new(self.made_file(aside.name(), file, &stat)?);
            return Ok(Staged { file, aside });
        }
        Err(Error::Busy)
    }
}

impl Staged {
    /// Writes all of `buf` at `offset`. The buffer comes back in every case.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::Quota`], [`Error::FileTooLarge`]; those of the file system.
    pub async fn write_at(&self, offset: u64, buf: Buf) -> (Result<(), Error>, Buf) {
        let (written, buf) = self.file.lane_file().write_at(offset, buf).await;
        (self.counted(written.map_err(Error::of_write)), buf)
    }

    /// As [`Staged::write_at`], the bytes of several buffers one after another.
    pub async fn write_vectored_at(&self, offset: u64, bufs: Vec<Buf>) -> (Result<(), Error>, Vec<Buf>) {
        let (written, bufs) = self.file.lane_file().write_vectored_at(offset, bufs).await;
        (self.counted(written.map_err(Error::of_write)), bufs)
    }

    /// Makes what was written safe: before [`Staged::publish`], so that a name never leads to half a file.
    ///
    /// # Errors
    /// What was written may be lost then.
    pub async fn sync(&self) -> Result<(), Error> {
        self.counted(self.file.lane_file().sync(SyncOf::Data).await.map_err(Error::of_write))
    }

    /// As it is now.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn attributes(&self) -> Result<Attributes, Error> {
        self.file.attributes()
    }

    /// Gives it the name `name` in one step, in place of the file that has it.
    ///
    /// # Errors
    /// [`Error::Unexpected`] where the name does not lead to what is expected; [`Error::IsADirectory`]; else as
    /// [`Directory::create`]. The file is gone then.
    pub async fn publish(
        self,
        caller: &Caller,
        name: Name<'_>,
        expect: Expect<'_>,
    ) -> Result<Published, Error> {
        let volume = self.aside.directory.volume().clone();
        volume.counted(self.publish_uncounted(caller, name, expect).await)
    }

    async fn publish_uncounted(
        self,
        caller: &Caller,
        name: Name<'_>,
        expect: Expect<'_>,
    ) -> Result<Published, Error> {
        let directory = self.aside.directory.clone();
        let object = directory.settle(name).await?;
        let (permits, found) = directory.permits_of(name).await?;
        if !expect.allows(&directory, name, found.is_some()).await? {
            return Err(Error::Unexpected);
        }
        let mut what = vec![(object, What::name(name.as_bytes()))];
        what.extend(found.iter().map(|found| (&found.object, What::Place)));
        let way = directory.volume().tell(caller, permits, what).await;
        let (name, is_new) = (c_name(name), found.is_none());
        let Self { file, mut aside } = self;
        to_the_end(async move {
            let directory = aside.directory.clone();
            way.rise();
            // Only what makes files behind the server's back can have come in between.
            let how = if is_new { RenameHow::NoReplace } else { RenameHow::Replace };
            let from = aside.name.as_ref().expect("it has its name until it is published");
            directory.dir().rename(from, directory.dir(), &name, how).await.map_err(Error::of_change)?;
            aside.is_given();
            let attributes = file.attributes()?;
            let name = Name::parse(name.as_bytes())?;
            directory.note_place(file.object(), name);
            way.end(directory.volume());
            directory.keep(name, Node::File(Rc::clone(&file)));
            Ok(Published { file, attributes, is_new })
        })
        .await
    }

    fn counted<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        self.aside.directory.volume().counted(result)
    }
}

impl Expect<'_> {
    async fn allows(self, directory: &Directory, name: Name<'_>, is_there: bool) -> Result<bool, Error> {
        match self {
            Self::Anything => Ok(true),
            Self::Absent => Ok(!is_there),
            Self::Like(_) if is_there => {
                let stat = directory.dir().stat_at(&c_name(name)).await.map_err(Error::of_change)?;
                Ok(self.likes(Some(&stat.into())))
            }
            Self::Like(_) => Ok(self.likes(None)),
        }
    }

    fn likes(self, attributes: Option<&Attributes>) -> bool {
        matches!(self, Self::Like(likes) if likes(attributes))
    }
}

impl Aside {
    /// The file has another name now.
    fn is_given(&mut self) {
        self.name = None;
    }

    fn name(&self) -> Name<'_> {
        let name = self.name.as_ref().expect("it has its name until it is published");
        Name::parse(name.as_bytes()).expect("names aside are names")
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        let Some(name) = self.name.take() else { return };
        let directory = self.directory.clone();
        lane::spawn(async move {
            if let Err(error) = directory.dir().unlink(&name).await {
                let path = name.to_string_lossy();
                tracing::error!(%path, %error, "a file that was not published cannot be removed");
            }
        })
        .detach();
    }
}

impl std::fmt::Debug for Staged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Staged").field("file", &self.file).finish_non_exhaustive()
    }
}

const ASIDE_TRIES_MAX: u32 = 64;
