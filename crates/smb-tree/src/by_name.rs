//! What is done to the name of an open, or in the directory that has it. Another program may have moved the file, or a directory above: what
//! is done goes to the open's own object all the same.

use identity::Rights;
use lane::fs::File;
use smb_wire::Status;
use vfs::{Directory, Error, Name, RelPathBuf};

use crate::lane_handle::LaneHandle;
use crate::open::Open;
use crate::share::Share;
use crate::status;

/// Reason why something could not be done to a name.
pub(crate) enum NameRefusal {
    /// The tree refuses, also where the name leads elsewhere.
    Tree(Error),
    Refused(Status),
}

impl From<Error> for NameRefusal {
    fn from(error: Error) -> Self {
        Self::Tree(error)
    }
}

impl From<Status> for NameRefusal {
    fn from(status: Status) -> Self {
        Self::Refused(status)
    }
}

/// An open with a name, and the file, where the lane has that open: it tells where the name is.
#[derive(Clone, Copy)]
pub(crate) struct NamedOpen<'a> {
    pub(crate) open: &'a vfs::Open,
    file: Option<&'a File>,
}

impl<'a> NamedOpen<'a> {
    /// Returns the name that an open deletes and renames: that of the symbolic link it was opened by, where it may do
    /// that.
    pub(crate) fn of_name(open: &'a Open, handle: &'a LaneHandle) -> Self {
        // Of a symbolic link nothing is open that would tell.
        let file = if open.by_link.is_some() { None } else { handle.lane_file() };
        Self { open: open.named(), file }
    }

    /// Returns the name of the file that an open reads and writes.
    pub(crate) fn of_file(open: &'a Open, handle: &'a LaneHandle) -> Self {
        Self { open: open.grants(), file: handle.lane_file() }
    }
}

impl Share {
    /// Has `act` done in the directory that has the name of an open, with that name. Where `act` finds that the name does not lead to the
    /// open's object any more it is done once more, by the name that another program has given to that. So `act` confirms the object under
    /// the change lock.
    ///
    /// # Errors
    /// `STATUS_OBJECT_NAME_NOT_FOUND` where the object has no name in the volume any more, or none that can be known; those of `act`.
    pub(crate) async fn by_name<T>(
        &self,
        caller: &vfs::Caller,
        named: NamedOpen<'_>,
        act: impl AsyncFn(&Directory, Name<'_>) -> Result<T, NameRefusal>,
    ) -> Result<T, Status> {
        for is_followed in [false, true] {
            let acted = async {
                let (here, name) = named.open.directory_and_name(self.volume(), caller).await?;
                self.holds_directory(&here)?;
                act(&here, Name::parse(&name).map_err(Error::from)?).await
            };
            match acted.await {
                Ok(done) => return Ok(done),
                Err(NameRefusal::Refused(status)) => return Err(status),
                Err(NameRefusal::Tree(Error::NotFound | Error::Unexpected | Error::Stale)) => {}
                Err(NameRefusal::Tree(error)) => return Err(status::of(error)),
            }
            if !is_followed {
                self.follow(named).await?;
            }
        }
        Err(Status::OBJECT_NAME_NOT_FOUND)
    }

    /// Finds the name that another program has given to what an open is of, and goes on by that.
    ///
    /// # Errors
    /// `STATUS_OBJECT_NAME_NOT_FOUND` where it has none in the volume any more, or none that can be known.
    pub(crate) async fn follow(&self, named: NamedOpen<'_>) -> Result<(), Status> {
        match named.open.follow(self.volume(), named.file).await {
            Ok(()) => Ok(()),
            Err(error @ (Error::Overloaded | Error::TooManyOpen | Error::Unsettled)) => {
                Err(status::of(error))
            }
            Err(_) => Err(Status::OBJECT_NAME_NOT_FOUND),
        }
    }

    /// Confirms that the name of an open leads to its object, and goes on by the name that another program has given to that where it does
    /// not.
    ///
    /// # Errors
    /// As [`Share::by_name`].
    pub(crate) async fn confirm_name(
        &self,
        caller: &vfs::Caller,
        named: NamedOpen<'_>,
    ) -> Result<(), Status> {
        // As it is open its inode number is no other's.
        let Some(stat) = named.file.and_then(|file| file.stat().ok()) else { return Ok(()) };
        let confirmed = self.by_name(caller, named, async |here, name| {
            let found = here.id_of_name(name).await?;
            let is_it = found.is_some_and(|found| (found.dev, found.ino) == (stat.dev, stat.ino));
            if is_it { Ok(()) } else { Err(Error::Unexpected.into()) }
        });
        confirmed.await
    }

    /// Returns the path of an open as the lane knows it, or where another program has moved what it is of.
    pub(crate) async fn present_path(&self, open: &Open, handle: &LaneHandle) -> Option<RelPathBuf> {
        let path = open.grants().path(self.volume())?;
        let operator = vfs::Caller::operator();
        let found = match handle.link() {
            Some(_) => return Some(path),
            None => self.volume().lookup_as(&operator, path.as_path(), Rights::NONE).await,
        };
        let is_it = |found: &vfs::Object| std::ptr::eq(found, &**open.grants().object());
        if !found.is_ok_and(|found| found.object().is_some_and(|found| is_it(found))) {
            // What has left the volume is called as it was.
            let _ = self.follow(NamedOpen::of_file(open, handle)).await;
        }
        open.grants().path(self.volume())
    }
}
