//! Storage of a volume's access lists and security descriptors: in attributes that take a privilege, or in
//! those that the file's owner may write. The volume's mark says which. What lies in the other kind counts as
//! a list, or descriptor, that grants no rights to any user: it was made for rights to be kept, and the users
//! that it meant are not to be guessed.

use std::ffi::{CStr, CString};
use std::io;
use std::sync::Arc;

use identity::{ATTRIBUTE_PRIVILEGED, ATTRIBUTE_UNPRIVILEGED, ATTRIBUTE_WITNESS, Acl, BadAcl};
use index::RightsIn;
use lane::fs::{File, XattrHow};
use smb_sid::ntacl;
use smb_wire::dos;

use crate::descriptor::Own;
use crate::maker::{self, Maker};
use crate::posix_acl::{self, AclMask};
use crate::usage::bytes_of;

/// Storage of a volume's access lists and descriptors, and whether this process can read them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RightsStorage {
    /// The kind that the volume's mark names. Without a mark either kind counts.
    kind: Option<RightsIn>,
    /// The process may read and write `trusted.` attributes.
    sees_trusted: bool,
    /// Set if nothing of it can be relied on: everything is denied but to administrators.
    is_sealed: bool,
}

/// Access list or descriptor of one file or directory alone.
#[derive(Default)]
pub(crate) struct OwnRights {
    /// The descriptor that it has of its own.
    pub(crate) own: Option<Own>,
    /// The file's maker.
    pub(crate) maker: Option<Maker>,
    /// Mask that its POSIX list leaves of its mode, if it has one, or one for what is made in it.
    pub(crate) left: Option<AclMask>,
    /// Set if SMB clients keep DOS attributes with it.
    pub(crate) has_dos: bool,
}

impl RightsStorage {
    pub(crate) fn new(kind: Option<RightsIn>, sees_trusted: bool) -> Self {
        Self { kind, sees_trusted, is_sealed: false }
    }

    /// Returns the rights storage with nothing to be relied on.
    pub(crate) fn sealed(self) -> Self {
        Self { is_sealed: true, ..self }
    }

    /// Returns whether the process may read and write `trusted.` attributes.
    pub(crate) fn sees_trusted(self) -> bool {
        self.sees_trusted
    }

    /// Returns whether nothing of it can be relied on.
    pub(crate) fn is_sealed(self) -> bool {
        self.is_sealed
    }

    /// Returns where what is set is kept.
    pub(crate) fn written(self) -> RightsIn {
        match self.kind {
            Some(kind) => kind,
            None if self.sees_trusted => RightsIn::Trusted,
            None => RightsIn::User,
        }
    }

    /// Reads a directory's own access list as it is stored, if it has one; an empty one where it grants nothing to any
    /// user.
    ///
    /// # Errors
    /// Those of the file system: there may be one.
    pub(crate) async fn list_of(self, dir: &File) -> io::Result<Option<Vec<u8>>> {
        if self.is_sealed {
            return Ok(Some(Vec::new()));
        }
        let names = names_of(dir).await?;
        let has = |name: &CStr| names.iter().any(|has| **has == *name);
        let of = async |name: &CStr| match has(name) {
            true => value_of(dir, name, Acl::BYTES_MAX).await,
            false => Ok(None),
        };
        let is_told = has(ATTRIBUTE_WITNESS);
        let trusted = if self.sees_trusted { of(ATTRIBUTE_PRIVILEGED).await? } else { None };
        let user = of(ATTRIBUTE_UNPRIVILEGED).await?;
        Ok(match (self.kind, trusted, user) {
            (_, None, None) if !is_told => None,
            (Some(RightsIn::Trusted) | None, Some(list), None) => Some(list),
            (None, Some(one), Some(other)) if one == other => Some(one),
            (Some(RightsIn::User) | None, None, Some(list)) if !is_told => Some(list),
            _ => Some(Vec::new()),
        })
    }

    /// Gives a directory this list, or with `None` none; what lies elsewhere goes.
    ///
    /// Whenever the process ends, the directory has the list from before or this one: the witness comes after the list
    /// that it is one of, and goes before it.
    ///
    /// # Errors
    /// Those of the file system: the list may be the one from before.
    pub(crate) async fn set_list(self, dir: &File, list: Option<Vec<u8>>) -> io::Result<()> {
        let names = names_of(dir).await?;
        let kept = match (&list, self.written()) {
            (None, _) => &[][..],
            (Some(_), RightsIn::Trusted) => &[ATTRIBUTE_PRIVILEGED, ATTRIBUTE_WITNESS],
            (Some(_), RightsIn::User) => &[ATTRIBUTE_UNPRIVILEGED],
        };
        if let Some(list) = list {
            self.give_list(dir, list).await?;
        }
        for name in [ATTRIBUTE_WITNESS, ATTRIBUTE_UNPRIVILEGED, ATTRIBUTE_PRIVILEGED] {
            if !kept.contains(&name) && names.iter().any(|has| **has == *name) {
                remove(dir, name).await?;
            }
        }
        Ok(())
    }

    /// Bytes that a list takes, as a volume's usage counts them.
    pub(crate) fn bytes_of_list(self, list: Option<&[u8]>) -> u64 {
        let name = match self.written() {
            RightsIn::Trusted => ATTRIBUTE_PRIVILEGED,
            RightsIn::User => ATTRIBUTE_UNPRIVILEGED,
        };
        list.map_or(0, |list| bytes_of(name, list.len()))
    }

    /// Gives a list to a directory that has none.
    ///
    /// # Errors
    /// As [`RightsStorage::set_list`].
    pub(crate) async fn give_list(self, dir: &File, list: Vec<u8>) -> io::Result<()> {
        match self.written() {
            RightsIn::User => dir.set_xattr(&ATTRIBUTE_UNPRIVILEGED.into(), list, XattrHow::Any).await,
            RightsIn::Trusted => {
                dir.set_xattr(&ATTRIBUTE_PRIVILEGED.into(), list, XattrHow::Any).await?;
                // Not every file system has room for it.
                let _ = dir.set_xattr(&ATTRIBUTE_WITNESS.into(), b"1".to_vec(), XattrHow::Any).await;
                Ok(())
            }
        }
    }

    /// Returns whether the maker of something is recorded: only where no user of the machine can write such a
    /// record.
    pub(crate) fn keeps_makers(self) -> bool {
        self.sees_trusted && self.written() == RightsIn::Trusted && !self.is_sealed
    }

    /// Returns what counts for something alone.
    ///
    /// # Errors
    /// Those of the file system: there may be some.
    pub(crate) async fn own_of(self, file: &File) -> io::Result<OwnRights> {
        if self.is_sealed {
            return Ok(OwnRights::default());
        }
        let names = names_of(file).await?;
        let has = |name: &CStr| names.iter().any(|has| **has == *name);
        let maker = match self.keeps_makers() && has(maker::ATTRIBUTE) {
            true => value_of(file, maker::ATTRIBUTE, Maker::BYTES).await?,
            false => None,
        };
        let list = match has(posix_acl::ATTRIBUTE) {
            true => value_of(file, posix_acl::ATTRIBUTE, posix_acl::BYTES_MAX).await?,
            false => None,
        };
        let handed_down = has(posix_acl::HANDED_DOWN).then_some(AclMask::ALL);
        Ok(OwnRights {
            own: self.descriptor_among(&names, file).await?,
            maker: maker.and_then(|record| Maker::parse(&record)),
            left: list.map(|list| AclMask::of(&list)).or(handed_down),
            has_dos: names.iter().any(|has| has.as_bytes().strip_prefix(b"user.") == Some(dos::NAME)),
        })
    }

    async fn descriptor_among(self, names: &[CString], file: &File) -> io::Result<Option<Own>> {
        let has = |name: &CStr| names.iter().any(|has| **has == *name);
        let (in_security, in_user) = (has(DESCRIPTOR_TRUSTED), has(DESCRIPTOR_USER));
        let found = match (self.kind, in_security, in_user) {
            (_, false, false) => return Ok(None),
            (Some(RightsIn::Trusted) | None, true, false) => {
                read_descriptor(file, DESCRIPTOR_TRUSTED).await?
            }
            (Some(RightsIn::User) | None, false, true) => read_descriptor(file, DESCRIPTOR_USER).await?,
            (None, true, true) => {
                let one = read_descriptor(file, DESCRIPTOR_TRUSTED).await?;
                let other = read_descriptor(file, DESCRIPTOR_USER).await?;
                if one == other { one } else { Some(Own::Unreadable) }
            }
            _ => Some(Own::Unreadable),
        };
        Ok(found)
    }

    /// Returns why a descriptor grants nothing.
    pub(crate) async fn why_unreadable(self, file: &File) -> String {
        match value_of(file, self.descriptors(), ntacl::BYTES_MAX).await {
            Ok(Some(value)) => match ntacl::parse(&value) {
                Err(why) => why.to_string(),
                Ok(_) => format!("another one lies in {}", shown(self.other_descriptors())),
            },
            Ok(None) => other_kind(self.other_descriptors(), self.descriptors()),
            Err(error) => error.to_string(),
        }
    }

    /// Returns why a directory's list grants nothing that is none.
    pub(crate) async fn why_list(self, dir: &File) -> String {
        let (kept, other) = match self.written() {
            RightsIn::Trusted => (ATTRIBUTE_PRIVILEGED, ATTRIBUTE_UNPRIVILEGED),
            RightsIn::User => (ATTRIBUTE_UNPRIVILEGED, ATTRIBUTE_PRIVILEGED),
        };
        let has = async |name| value_of(dir, name, Acl::BYTES_MAX).await.is_ok_and(|value| value.is_some());
        if has(other).await {
            other_kind(other, kept)
        } else if has(ATTRIBUTE_WITNESS).await && !has(ATTRIBUTE_PRIVILEGED).await {
            "it lies in trusted.linerate.acl, which takes CAP_SYS_ADMIN to read, or was lost by a copy"
                .to_owned()
        } else {
            BadAcl::Damaged.to_string()
        }
    }

    /// Returns the attribute that holds descriptors that clients have set.
    pub(crate) fn descriptors(self) -> &'static CStr {
        match self.written() {
            RightsIn::Trusted => DESCRIPTOR_TRUSTED,
            RightsIn::User => DESCRIPTOR_USER,
        }
    }

    /// Returns the attribute in which none should lie.
    pub(crate) fn other_descriptors(self) -> &'static CStr {
        match self.written() {
            RightsIn::Trusted => DESCRIPTOR_USER,
            RightsIn::User => DESCRIPTOR_TRUSTED,
        }
    }
}

fn other_kind(lies: &CStr, kept: &CStr) -> String {
    format!(
        "it lies in {}, and the volume keeps such in {}: `linerate acl convert DIR` moves it",
        shown(lies),
        shown(kept)
    )
}

fn shown(name: &CStr) -> &str {
    name.to_str().expect("it is written here")
}

/// Lists the extended attributes of a file; none where its file system has none.
async fn names_of(file: &File) -> io::Result<Vec<CString>> {
    match file.xattrs().await {
        Err(error) if is_without(&error) => Ok(Vec::new()),
        names => names,
    }
}

/// Reads an attribute; one that is longer than `max` is taken for damaged.
async fn value_of(file: &File, name: &CStr, max: usize) -> io::Result<Option<Vec<u8>>> {
    match file.xattr(&CString::from(name), max).await {
        Ok(value) => Ok(Some(value)),
        Err(error) if is_without(&error) => Ok(None),
        Err(error) if error.raw_os_error() == Some(libc::ERANGE) => Ok(Some(Vec::new())),
        Err(error) => Err(error),
    }
}

async fn read_descriptor(file: &File, name: &CStr) -> io::Result<Option<Own>> {
    let value = match file.xattr(&CString::from(name), BYTES_USUAL).await {
        Err(error) if error.raw_os_error() == Some(libc::ERANGE) => {
            value_of(file, name, ntacl::BYTES_MAX).await?
        }
        Err(error) if is_without(&error) => None,
        value => Some(value?),
    };
    let own = |value: Vec<u8>| {
        ntacl::parse(&value).map_or(Own::Unreadable, |descriptor| Own::Known(Arc::new(descriptor)))
    };
    Ok(value.map(own))
}

pub(crate) async fn remove(file: &File, name: &CStr) -> io::Result<()> {
    match file.remove_xattr(&CString::from(name)).await {
        Err(error) if is_without(&error) => Ok(()),
        removed => removed,
    }
}

/// Returns whether there is no such attribute, or there can be none.
fn is_without(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENODATA | libc::EOPNOTSUPP))
}

/// Attribute of descriptors as Samba keeps them, which takes CAP_SYS_ADMIN to write.
pub const DESCRIPTOR_TRUSTED: &CStr = c"security.NTACL";
/// Attribute of a descriptor, for a server without the privilege.
pub const DESCRIPTOR_USER: &CStr = c"user.NTACL";
/// Most descriptors are shorter.
const BYTES_USUAL: usize = 1024;
