//! Named extended attributes: those that clients keep with a file. On the disk they are `user.` attributes; the server's own
//! are among none of them.

use std::ffi::CString;

use coherence::ChangeKind;
use futures_util::future::LocalBoxFuture;
use identity::Rights;
use lane::fs::{AttributeChange, File, NameStat, SetTime, StatxExtra, XattrHow};
use smb_wire::dos;

use super::Writer;
use crate::attributes::Attributes;
use crate::caller::Caller;
use crate::descriptor::is_kept_in;
use crate::directory::Directory;
use crate::error::Error;
use crate::file::OpenFile;
use crate::listing::Entry;
use crate::name::NameError;
use crate::usage::AttributeEdit;

/// Attributes of a directory's entry beside those of a listing.
#[derive(Clone, Debug)]
pub struct EntryExtended {
    /// Attributes, of a symbolic link its own.
    pub attributes: Attributes,
    /// Time of creation, and whether the file system compresses the file.
    pub statx_extra: StatxExtra,
    /// The value of the extended attribute; `None` if there is none.
    pub value: Option<Vec<u8>>,
}

impl OpenFile {
    /// Reads the attribute `name`, of at most `max` bytes; `None` if there is none.
    ///
    /// # Errors
    /// [`Error::Reserved`], [`Error::Name`]; [`Error::TooLarge`] for a longer value; those of the file system.
    pub fn extended<'a>(
        &'a self,
        name: &'a [u8],
        max: usize,
    ) -> LocalBoxFuture<'a, Result<Option<Vec<u8>>, Error>> {
        Box::pin(async move { value_of(self.lane_file(), &stored(name)?, max).await })
    }

    /// Lists the names of its attributes.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn extended_names<'a>(&'a self) -> LocalBoxFuture<'a, Result<Vec<Vec<u8>>, Error>> {
        Box::pin(async move { names_of(self.lane_file()).await })
    }
}

impl Directory {
    /// Reads an extended attribute of the directory ([`OpenFile::extended`]).
    ///
    /// # Errors
    /// As there.
    pub fn extended<'a>(
        &'a self,
        name: &'a [u8],
        max: usize,
    ) -> LocalBoxFuture<'a, Result<Option<Vec<u8>>, Error>> {
        Box::pin(async move { value_of(self.dir().as_file(), &stored(name)?, max).await })
    }

    /// Returns the attributes of names in the directory, of links themselves, with the attribute `name` of
    /// each, of at most `max` bytes: many by one look. `None` where one has gone, or something of it cannot
    /// be read. The caller has listed the directory.
    ///
    /// # Errors
    /// [`Error::Reserved`], [`Error::Name`]; [`Error::Overloaded`].
    pub fn entries_extended<'a>(
        &'a self,
        entries: &'a [&'a Entry],
        name: &'a [u8],
        max: usize,
    ) -> LocalBoxFuture<'a, Result<Vec<Option<EntryExtended>>, Error>> {
        Box::pin(async move {
            let c_name =
                |entry: &&Entry| CString::new(&entry.name[..]).map_err(|_| Error::Name(NameError::Nul));
            let names = entries.iter().map(c_name).collect::<Result<_, _>>()?;
            let found = self.dir().stat_names(names, &stored(name)?, max).await?;
            let each = found.into_iter().map(|found| {
                let NameStat { stat, statx_extra, xattr } = found?;
                Some(EntryExtended { attributes: stat.into(), statx_extra, value: xattr })
            });
            Ok(each.collect())
        })
    }

    /// Lists the extended attributes of the directory ([`OpenFile::extended_names`]).
    ///
    /// # Errors
    /// As there.
    pub fn extended_names<'a>(&'a self) -> LocalBoxFuture<'a, Result<Vec<Vec<u8>>, Error>> {
        Box::pin(async move { names_of(self.dir().as_file()).await })
    }

    /// Changes an extended attribute of the directory ([`Writer::edit_extended`]). Takes [`Rights::WRITE`] in
    /// it.
    ///
    /// # Errors
    /// [`Error::Denied`], [`Error::Stale`]; as there.
    pub async fn edit_extended(
        &self,
        caller: &Caller,
        name: &[u8],
        max: usize,
        edit: &dyn Fn(Option<Vec<u8>>) -> Option<Vec<u8>>,
    ) -> Result<(), Error> {
        let name = self.volume().counted(stored(name))?;
        self.attempts(async || {
            let parent = self.locate().await?;
            parent.require(caller, Rights::WRITE)?;
            let locks = parent.lock_directory().await?;
            parent.ensure_current()?;
            let before = value_of(self.dir().as_file(), &name, max).await?;
            let after = edit(before.clone());
            if before == after {
                return Ok(());
            }
            if before.is_none() {
                require_place(self.dir().as_file(), &name).await?;
            }
            let name = name.clone();
            parent
                .change_directory(caller, locks, ChangeKind::Attributes, async move |directory| {
                    let (volume, file) = (directory.volume(), directory.dir().as_file());
                    let edit = AttributeEdit::One(&name, after.as_ref().map(Vec::len));
                    let object = directory.changed()?;
                    volume.spare_room(file, after.as_ref().map_or(0, |value| value.len() as u64)).await?;
                    volume.change_attributes(file, Some(object), edit, put(file, &name, after)).await
                })
                .await
        })
        .await
    }

    /// Sets the directory's times. Takes [`Rights::WRITE`] in it: rights stay as they are, which
    /// [`Directory::set_attributes`] changes too.
    ///
    /// # Errors
    /// As [`Directory::create`].
    pub fn set_times<'a>(
        &'a self,
        caller: &'a Caller,
        atime: SetTime,
        mtime: SetTime,
    ) -> LocalBoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            self.attempts(async || {
                let parent = self.locate().await?;
                parent.require(caller, Rights::WRITE)?;
                let locks = parent.lock_directory().await?;
                parent.ensure_current()?;
                parent
                    .change_directory(caller, locks, ChangeKind::Attributes, async move |directory| {
                        let change = AttributeChange { atime, mtime, ..AttributeChange::NONE };
                        directory.dir().as_file().set_attributes(change).await.map_err(Error::of_write)
                    })
                    .await
            })
            .await
        })
    }
}

impl Writer {
    /// Gives the file the attribute `name`.
    ///
    /// # Errors
    /// [`Error::Reserved`], [`Error::Name`]; [`Error::Exists`] and [`Error::NotFound`] as `how` says;
    /// [`Error::NoSpace`], [`Error::Quota`]; those of the file system.
    pub fn set_extended<'a>(
        &'a self,
        caller: &'a Caller,
        name: &'a [u8],
        value: Vec<u8>,
        how: XattrHow,
    ) -> LocalBoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let name = self.volume().counted(stored(name))?;
            let volume = self.volume().clone();
            self.change(caller, ChangeKind::Attributes, None, async move |file| {
                volume.spare_room(file.lane_file(), value.len() as u64).await?;
                if how != XattrHow::Replace {
                    require_place(file.lane_file(), &name).await?;
                }
                let edit = AttributeEdit::One(&name, Some(value.len()));
                let set = async { file.lane_file().set_xattr(&name, value, how).await.map_err(of_extended) };
                volume.change_attributes(file.lane_file(), None, edit, set).await
            })
            .await
        })
    }

    /// Gives the attribute `name`, of at most `max` bytes, the value that `edit` makes of the one it has, in one step:
    /// `None` is no attribute, before and after.
    ///
    /// # Errors
    /// As [`Writer::set_extended`] and [`OpenFile::extended`].
    pub async fn edit_extended<T: 'static>(
        &self,
        caller: &Caller,
        name: &[u8],
        max: usize,
        edit: impl FnOnce(Option<Vec<u8>>) -> (Option<Vec<u8>>, T) + 'static,
    ) -> Result<T, Error> {
        let name = self.volume().counted(stored(name))?;
        let volume = self.volume().clone();
        self.change(caller, ChangeKind::Attributes, None, async move |file| {
            let before = value_of(file.lane_file(), &name, max).await?;
            let (after, came) = edit(before.clone());
            if before != after {
                if before.is_none() {
                    require_place(file.lane_file(), &name).await?;
                }
                volume
                    .spare_room(file.lane_file(), after.as_ref().map_or(0, |value| value.len() as u64))
                    .await?;
                let edit = AttributeEdit::One(&name, after.as_ref().map(Vec::len));
                let put = put(file.lane_file(), &name, after);
                volume.change_attributes(file.lane_file(), None, edit, put).await?;
            }
            Ok(came)
        })
        .await
    }

    /// Takes the attribute `name` from the file.
    ///
    /// # Errors
    /// [`Error::NotFound`]; else as [`Writer::set_extended`].
    pub fn remove_extended<'a>(
        &'a self,
        caller: &'a Caller,
        name: &'a [u8],
    ) -> LocalBoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let name = self.volume().counted(stored(name))?;
            let volume = self.volume().clone();
            self.change(caller, ChangeKind::Attributes, None, async move |file| {
                let remove = async { file.lane_file().remove_xattr(&name).await.map_err(of_extended) };
                let edit = AttributeEdit::One(&name, None);
                volume.change_attributes(file.lane_file(), None, edit, remove).await
            })
            .await
        })
    }
}

/// Reads the attribute that the file system keeps by this name, of at most so many bytes.
pub(super) async fn value_of(file: &File, name: &CString, max: usize) -> Result<Option<Vec<u8>>, Error> {
    match file.xattr(name, max).await {
        Ok(value) => Ok(Some(value)),
        Err(error) => match error.raw_os_error() {
            Some(libc::ENODATA) => Ok(None),
            Some(libc::ERANGE) => Err(Error::TooLarge { max }),
            _ => Err(Error::of_write(error)),
        },
    }
}

/// Lists the names of attributes that clients see, as they call them.
pub(super) async fn names_of(file: &File) -> Result<Vec<Vec<u8>>, Error> {
    let stored = file.xattrs().await.map_err(Error::of_write)?;
    let shown = |name: &CString| {
        let name = name.as_bytes().strip_prefix(NAMESPACE)?;
        (!name.starts_with(OWN) && !is_kept_in(name)).then(|| name.to_vec())
    };
    Ok(stored.iter().filter_map(shown).collect())
}

/// Refuses one attribute more than a file may have. DOS attributes always find a place.
///
/// # Errors
/// [`Error::NoSpace`]; those of the file system.
async fn require_place(file: &File, name: &CString) -> Result<(), Error> {
    let wanted = name.as_bytes().strip_prefix(NAMESPACE).unwrap_or_default();
    if wanted == dos::NAME {
        return Ok(());
    }
    let names = names_of(file).await?;
    let is_full = names.len() >= ATTRIBUTES_MAX && names.iter().all(|there| there != wanted);
    if is_full { Err(Error::NoSpace) } else { Ok(()) }
}

/// Gives the attribute this value, or takes it away.
async fn put(file: &File, name: &CString, value: Option<Vec<u8>>) -> Result<(), Error> {
    let put = match value {
        Some(value) => file.set_xattr(name, value, XattrHow::Any).await,
        None => file.remove_xattr(name).await,
    };
    put.map_err(of_extended)
}

/// Returns the name under which the file system keeps the attribute.
pub(crate) fn stored(name: &[u8]) -> Result<CString, Error> {
    match name {
        [] => return Err(Error::Name(NameError::Empty)),
        _ if name.len() > NAME_BYTES_MAX - NAMESPACE.len() => return Err(Error::NameTooLong),
        _ if name.starts_with(OWN) || is_kept_in(name) => return Err(Error::Reserved),
        _ => {}
    }
    CString::new([NAMESPACE, name].concat()).map_err(|_| Error::Name(NameError::Nul))
}

fn of_extended(error: std::io::Error) -> Error {
    match error.raw_os_error() {
        Some(libc::ENODATA) => Error::NotFound,
        Some(libc::E2BIG) => Error::NoSpace,
        _ => Error::of_write(error),
    }
}

const NAMESPACE: &[u8] = b"user.";
/// Prefix of the server's own names (`identity::ATTRIBUTE_PREFIXES`).
const OWN: &[u8] = b"linerate.";
//@ limit: extended attributes of a file, named streams among them
//@ section: Writable volumes
//@ unit: attribute of 64 KiB at most; names and values count for the volume's quota
//@ connection: {} of each file that it may change
//@ empty: STATUS_DISK_FULL; others feel nothing
//@ counter: vfs_refused{reason="space"}
//@ attack: smb-pools
/// Attributes of one file or directory that clients may make.
const ATTRIBUTES_MAX: usize = 64;
/// XATTR_NAME_MAX of Linux.
const NAME_BYTES_MAX: usize = 255;
