//! Extended attributes in what a volume holds: names and values of those that clients keep with a file or directory, its list and its
//! descriptor count as its bytes do. Attributes of the server's own (DOS attributes, makers, marks) do not: they are small, and a file
//! has one of each kind.
//!
//! A change is counted by looking before and after, under the permit of the file or directory. Those of a directory count with what lies in
//! it. A count of the tree opens each file to look, where files may have any ([`Volume::may_have_attributes`]).

use std::ffi::{CStr, CString};
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use identity::{ATTRIBUTE_PREFIXES, ATTRIBUTE_PRIVILEGED, ATTRIBUTE_UNPRIVILEGED};
use lane::fs::File;
use smb_wire::dos;
use smb_wire::info::security::Descriptor;

use super::LaneAccount;
use super::attribute_size::bytes_of;
use crate::error::Error;
use crate::object::Object;
use crate::rights_storage::{DESCRIPTOR_TRUSTED, DESCRIPTOR_USER};
use crate::volume::Volume;

/// Change of extended attributes that is about to be made.
#[derive(Clone, Copy)]
pub(crate) enum AttributeEdit<'e> {
    /// The attribute of this name gets a value of so many bytes, or goes.
    One(&'e CStr, Option<usize>),
    /// Several, which take so many bytes more at most.
    Several(u64),
}

/// Change of attributes under way.
struct AttributeChange {
    of: Rc<LaneAccount>,
    /// The directory that has them; else they are a file's.
    directory: Option<Arc<Object>>,
    inode: u64,
    links: u32,
    /// Bytes before, of what changes.
    before: u64,
    /// Bytes of all the file's before, while the volume is being counted.
    total: Option<u64>,
    taken: u64,
}

impl Volume {
    /// Has `work` change attributes of `file`, under its permit, with room taken for what that adds. `directory` is its object where it is
    /// a directory.
    ///
    /// # Errors
    /// [`Error::Quota`], and nothing is changed; [`Error::Busy`] where the index cannot be told of the first; those of `work`.
    pub(crate) async fn change_attributes<T>(
        &self,
        file: &File,
        directory: Option<&Arc<Object>>,
        edit: AttributeEdit<'_>,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        if matches!(edit, AttributeEdit::One(name, _) if !is_counted(name)) {
            return work.await;
        }
        let adds = !matches!(edit, AttributeEdit::One(_, None));
        if let Some(shared) = self.shared().filter(|_| adds && directory.is_none()) {
            shared.note_attributes().await?;
        }
        let Some(of) = self.account() else { return work.await };
        let change = AttributeChange::begin(of, file, directory, edit).await?;
        let done = work.await;
        change.end(edit.bytes(file).await);
        done
    }

    /// Takes room for the attributes that something just made in `directory`, which is under its permit, was given.
    ///
    /// # Errors
    /// [`Error::Quota`]: it is not to stay.
    pub(crate) async fn charge_given(&self, directory: &Arc<Object>, made: &File) -> Result<(), Error> {
        let Some(of) = self.account() else { return Ok(()) };
        let bytes = attribute_bytes(made).await?;
        if !of.take(0, bytes) {
            return Err(Error::Quota);
        }
        if !of.account.unless_counted(true, |count| count.is_counted(directory)) {
            of.give_back(0, bytes);
        }
        Ok(())
    }

    /// Bytes of attributes of an open file or directory that goes, or that a count has come to; what cannot be read leaves the
    /// account in doubt.
    pub(crate) async fn bytes_of_attributes(&self, file: &File, is_directory: bool) -> u64 {
        match attribute_bytes(file).await {
            Ok(bytes) => {
                if let Some(shared) = self.shared().filter(|_| bytes > 0 && !is_directory) {
                    shared.found_attributes();
                }
                bytes
            }
            Err(_) => {
                self.account().iter().for_each(|of| of.account.mark_uncertain());
                0
            }
        }
    }

    /// Returns whether files may have attributes that count.
    pub(crate) fn may_have_attributes(&self) -> bool {
        self.shared().is_some_and(|shared| shared.may_have_attributes())
    }
}

impl AttributeChange {
    async fn begin(
        of: Rc<LaneAccount>,
        file: &File,
        directory: Option<&Arc<Object>>,
        edit: AttributeEdit<'_>,
    ) -> Result<Self, Error> {
        let before = edit.bytes(file).await?;
        let (inode, links) = file.stat().map(|stat| (stat.ino, stat.nlink))?;
        let total = match directory.is_none() && of.account.is_counting() {
            true => Some(attribute_bytes(file).await?),
            false => None,
        };
        let taken = match edit {
            AttributeEdit::One(name, len) => len.map_or(0, |len| bytes_of(name, len)).saturating_sub(before),
            AttributeEdit::Several(more) => more,
        };
        if !of.take(0, taken) {
            return Err(Error::Quota);
        }
        if let Some(total) = total {
            of.account.unless_counted((), |count| count.begin_attributes(inode, total));
        }
        Ok(Self { of, directory: directory.cloned(), inode, links, before, total, taken })
    }

    /// Ends the change: what changed has so many bytes now.
    fn end(self, now: io::Result<u64>) {
        let Self { of, directory, inode, links, before, total, taken } = self;
        let account = &of.account;
        let now = now.unwrap_or_else(|_| {
            account.mark_uncertain();
            before
        });
        let is_counted = match &directory {
            Some(directory) => account.unless_counted(true, |count| count.is_counted(directory)),
            None => account.unless_counted(links > 0, |count| {
                if let Some(total) = total {
                    count.end_attributes((inode, links), total, (total + now).saturating_sub(before));
                }
                false
            }),
        };
        if !is_counted {
            return of.give_back(0, taken);
        }
        let grown = now.saturating_sub(before);
        of.give_back(0, taken.saturating_sub(grown) + before.saturating_sub(now));
        account.add(0, grown.saturating_sub(taken));
    }
}

impl AttributeEdit<'_> {
    /// Bytes that what it changes has now.
    async fn bytes(self, file: &File) -> io::Result<u64> {
        match self {
            Self::One(name, _) => Ok(value_len(file, name).await?.map_or(0, |len| bytes_of(name, len))),
            Self::Several(_) => attribute_bytes(file).await,
        }
    }
}

/// Bytes of all attributes of a file or directory that count.
pub(crate) async fn attribute_bytes(file: &File) -> io::Result<u64> {
    let names = match file.xattrs().await {
        Err(error) if is_without(&error) => return Ok(0),
        names => names?,
    };
    let mut bytes = 0;
    for name in names.iter().filter(|name| is_counted(name)) {
        bytes += value_len(file, name).await?.map_or(0, |len| bytes_of(name, len));
    }
    Ok(bytes)
}

/// Returns the bytes that a security descriptor takes at most.
pub(crate) fn bytes_of_descriptor(descriptor: &Descriptor) -> u64 {
    let value = smb_sid::ntacl::encode(descriptor).map_or(0, |value| value.len());
    bytes_of(DESCRIPTOR_TRUSTED, value)
}

/// Returns whether an attribute of this name counts.
pub(crate) fn is_counted(name: &CStr) -> bool {
    if [ATTRIBUTE_PRIVILEGED, ATTRIBUTE_UNPRIVILEGED, DESCRIPTOR_TRUSTED, DESCRIPTOR_USER].contains(&name) {
        return true;
    }
    let bytes = name.to_bytes();
    let is_own = ATTRIBUTE_PREFIXES.iter().any(|prefix| bytes.starts_with(prefix.as_bytes()));
    bytes.strip_prefix(b"user.").is_some_and(|name| !is_own && name != dos::NAME)
}

async fn value_len(file: &File, name: &CStr) -> io::Result<Option<usize>> {
    let name = CString::from(name);
    let value = match file.xattr(&name, BYTES_USUAL).await {
        Err(error) if error.raw_os_error() == Some(libc::ERANGE) => file.xattr(&name, BYTES_MAX).await,
        value => value,
    };
    match value {
        Ok(value) => Ok(Some(value.len())),
        Err(error) if is_without(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns whether there is no such attribute, or there can be none.
fn is_without(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENODATA | libc::EOPNOTSUPP))
}

/// Most values are shorter.
const BYTES_USUAL: usize = 1024;
/// XATTR_SIZE_MAX of Linux.
const BYTES_MAX: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_clients_set_counts_and_what_is_the_servers_does_not() {
        for counted in [
            c"user.colour",
            c"user.DosStream.Zone.Identifier:$DATA",
            c"user.NTACL",
            c"security.NTACL",
            c"trusted.linerate.acl",
            c"user.linerate.acl",
        ] {
            assert!(is_counted(counted), "{counted:?}");
        }
        for own in [
            c"user.DOSATTRIB",
            c"user.linerate.volume",
            c"user.linerate.acl-is-trusted",
            c"trusted.linerate.maker",
            c"security.selinux",
            c"system.posix_acl_access",
        ] {
            assert!(!is_counted(own), "{own:?}");
        }
    }
}
