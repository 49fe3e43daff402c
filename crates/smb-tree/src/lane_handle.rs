//! The file, directory or link of an open as one lane has it: descriptors belong to a lane, opens to none.

use std::cell::RefCell;
use std::rc::Rc;

use identity::Rights;
use lane::fs::XattrHow;
use smb_wire::Status;
use vfs::{Attributes, Caller, Directory, Error, OpenFile, Resolved, SymbolicLink, Volume, Writer};

use crate::cached_names::CachedNames;
use crate::status;

/// One lane's descriptors of an open: its file, directory or symbolic link.
pub(crate) struct LaneHandle {
    pub(crate) what: HandleKind,
    writer: RefCell<Option<Writer>>,
    /// Names of a directory, while they are listed reply after reply.
    names: RefCell<Option<CachedNames>>,
}

pub(crate) enum HandleKind {
    File(Rc<OpenFile>),
    Directory(Directory),
    /// A symbolic link itself: it has no data, no streams and no attributes of its own to set.
    Link(SymbolicLink),
}

/// Makes a new value of an extended attribute of the old one; `None` is no attribute.
pub(crate) type Edit = Rc<dyn Fn(Option<Vec<u8>>) -> Option<Vec<u8>>>;

impl LaneHandle {
    pub(crate) fn new(resolved: Resolved, writer: Option<Writer>) -> Self {
        let what = match resolved {
            Resolved::File(file, _) => HandleKind::File(file),
            Resolved::Directory(directory, _) => HandleKind::Directory(directory),
        };
        Self { what, writer: RefCell::new(writer), names: RefCell::default() }
    }

    pub(crate) fn of_link(link: SymbolicLink) -> Self {
        Self { what: HandleKind::Link(link), writer: RefCell::default(), names: RefCell::default() }
    }

    pub(crate) fn attributes(&self) -> Result<Attributes, Status> {
        let attributes = match &self.what {
            HandleKind::File(file) => file.attributes(),
            HandleKind::Directory(directory) => directory.attributes(),
            HandleKind::Link(link) => return Ok(link.attributes),
        };
        attributes.map_err(status::of)
    }

    pub(crate) fn file(&self) -> Result<&Rc<OpenFile>, Status> {
        match &self.what {
            HandleKind::File(file) => Ok(file),
            //= MS-SMB2 3.3.5.12
            //# What is done to a file's data fails with STATUS_INVALID_DEVICE_REQUEST for a directory.
            HandleKind::Directory(_) | HandleKind::Link(_) => Err(Status::INVALID_DEVICE_REQUEST),
        }
    }

    /// Returns the open file or directory, of which the file system tells.
    pub(crate) fn lane_file(&self) -> Option<&lane::fs::File> {
        match &self.what {
            HandleKind::File(file) => Some(file.lane_file()),
            HandleKind::Directory(directory) => Some(directory.lane_file()),
            HandleKind::Link(_) => None,
        }
    }

    pub(crate) fn link(&self) -> Option<&SymbolicLink> {
        match &self.what {
            HandleKind::Link(link) => Some(link),
            HandleKind::File(_) | HandleKind::Directory(_) => None,
        }
    }

    pub(crate) fn directory(&self) -> Option<&Directory> {
        match &self.what {
            HandleKind::Directory(directory) => Some(directory),
            HandleKind::File(_) | HandleKind::Link(_) => None,
        }
    }

    /// Returns the file to write. Takes [`Rights::WRITE`] the first time.
    pub(crate) async fn writer(
        &self,
        volume: &Volume,
        caller: &Caller,
        object: &vfs::Object,
    ) -> Result<Writer, Error> {
        match self.what {
            HandleKind::File(_) => {}
            HandleKind::Directory(_) => return Err(Error::IsADirectory),
            HandleKind::Link(_) => return Err(Error::NotServable),
        }
        if let Some(writer) = self.writer.borrow().as_ref() {
            return Ok(writer.clone());
        }
        let writer = volume.reopen_writer(caller, object.identity()).await?;
        Ok(self.writer.borrow_mut().get_or_insert(writer).clone())
    }

    /// Returns the names that are at hand.
    pub(crate) fn names(&self) -> Option<CachedNames> {
        self.names.borrow().clone()
    }

    pub(crate) fn keep_names(&self, kept: CachedNames) {
        let before = self.names.replace(Some(kept));
        drop(before);
    }

    pub(crate) fn forget_names(&self) {
        let forgotten = self.names.take();
        drop(forgotten);
    }

    /// Returns the number of bytes of the page of names that is at hand.
    pub(crate) fn page_bytes(&self) -> usize {
        self.names.borrow().as_ref().map_or(0, |kept| kept.names.page_bytes())
    }

    /// Reads the value of an extended attribute, at most `max` bytes.
    pub(crate) async fn extended(&self, name: &[u8], max: usize) -> Result<Option<Vec<u8>>, Status> {
        let value = match &self.what {
            HandleKind::File(file) => file.extended(name, max).await,
            HandleKind::Directory(directory) => directory.extended(name, max).await,
            HandleKind::Link(_) => return Ok(None),
        };
        match value {
            Err(error) if is_unsupported(&error) => Ok(None),
            // Another program has put it there: it says nothing here.
            Err(vfs::Error::TooLarge { .. }) => Ok(None),
            value => value.map_err(status::of),
        }
    }

    /// Returns the names of all extended attributes.
    pub(crate) async fn extended_names(&self) -> Result<Vec<Vec<u8>>, Status> {
        let names = match &self.what {
            HandleKind::File(file) => file.extended_names().await,
            HandleKind::Directory(directory) => directory.extended_names().await,
            HandleKind::Link(_) => return Ok(Vec::new()),
        };
        match names {
            Err(error) if is_unsupported(&error) => Ok(Vec::new()),
            names => names.map_err(status::of),
        }
    }

    /// Has `edit` change an extended attribute, in one step.
    pub(crate) async fn edit_extended(
        &self,
        volume: &Volume,
        caller: &Caller,
        object: &vfs::Object,
        name: &[u8],
        max: usize,
        edit: Edit,
    ) -> Result<(), Error> {
        match &self.what {
            HandleKind::Directory(directory) => directory.edit_extended(caller, name, max, &*edit).await,
            HandleKind::File(_) | HandleKind::Link(_) => {
                let writer = self.writer(volume, caller, object).await?;
                writer.edit_extended(caller, name, max, move |before| (edit(before), ())).await
            }
        }
    }

    /// Sets an extended attribute.
    pub(crate) async fn set_extended(
        &self,
        volume: &Volume,
        caller: &Caller,
        object: &vfs::Object,
        name: &[u8],
        value: Vec<u8>,
    ) -> Result<(), Error> {
        match &self.what {
            HandleKind::Directory(_) => {
                let edit: Edit = Rc::new(move |_| Some(value.clone()));
                self.edit_extended(volume, caller, object, name, VALUE_MAX, edit).await
            }
            HandleKind::File(_) | HandleKind::Link(_) => {
                let writer = self.writer(volume, caller, object).await?;
                writer.set_extended(caller, name, value, XattrHow::Any).await
            }
        }
    }
}

/// Returns whether the file system keeps no extended attributes of this kind.
pub(crate) fn is_unsupported(error: &Error) -> bool {
    matches!(error, Error::Io(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP))
}

//@ limit: bytes of a named stream
//@ section: SMB
//@ unit: byte
//@ connection: 65,535; ext4: some 4,000 for all of a file together
//@ empty: STATUS_DISK_FULL; others feel nothing
//@ counter: none
//@ attack: smb-pools
/// Longest extended attribute that is read, one byte more than a named stream may have.
pub(crate) const VALUE_MAX: usize = 65_536;

/// Rights that a lane takes to reopen the file of another lane's open: its rights were looked at then.
pub(crate) const REOPENED: Rights = Rights::NONE;
