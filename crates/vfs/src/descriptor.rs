//! Security descriptors that single files and directories have of their own, kept with them as Samba keeps them. What has one is judged by it,
//! whatever protocol asks; all else by the nearest access list ([`crate::access`]).
//!
//! The lanes share what is known of one in the [`Object`]: it is read when the object is first opened, and where there is none asking for it
//! costs one load.

use std::ffi::CString;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};

use identity::{Principal, Rights};
use index::Kind;
use lane::fs::{File, XattrHow};
use smb_sid::{Sids, inherited, ntacl, rights_of};
use smb_wire::info::security::{Descriptor, Sid};

use crate::error::Error;
use crate::object::{Object, ObjectState};
use crate::posix_acl::AclMask;
use crate::rights_storage::{OwnRights, RightsStorage, remove};

/// The descriptor of something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Own {
    Known(Arc<Descriptor>),
    /// Damaged, of a later version, not yet read: no rights for any user, except to those that may mend it.
    Unreadable,
}

impl Own {
    /// Returns everything that the principal is granted, as an access mask of SMB.
    pub(crate) fn granted(&self, principal: &Principal, sids: &Sids) -> u32 {
        match self {
            Self::Known(descriptor) => sids.granted(principal, descriptor),
            Self::Unreadable => sids.granted(principal, &nothing()),
        }
    }

    /// Returns what the principal is granted as letters of access lists.
    pub(crate) fn rights(&self, principal: &Principal, sids: &Sids, is_directory: bool) -> Rights {
        rights_of(self.granted(principal, sids), is_directory)
    }

    /// Returns what a file that takes the place of the one with it has: what could not be read grants nothing
    /// there either.
    pub(crate) fn kept(self) -> Option<Arc<Descriptor>> {
        match self {
            Self::Known(descriptor) => Some(descriptor),
            Self::Unreadable => Some(Arc::new(nothing())),
        }
    }

    /// Returns the descriptor of what is made in the directory that has this one; `None` where that cannot be
    /// held.
    pub(crate) fn handed_down(&self, is_directory: bool, owner: Sid, group: Sid) -> Option<Descriptor> {
        let above = match self {
            Self::Known(descriptor) => descriptor,
            Self::Unreadable => return None,
        };
        inherited(above, is_directory, owner, group)
    }
}

impl Object {
    /// Returns the object's own descriptor, if it has one.
    pub(crate) fn own(&self) -> Option<Own> {
        match self.described.load(Ordering::Acquire) {
            state if state == NONE || state & STATE == LISTED => None,
            KNOWN => Some(self.lock_state().own.clone().map_or(Own::Unreadable, Own::Known)),
            _ => Some(Own::Unreadable),
        }
    }

    /// Returns whether a look has asked for a descriptor.
    pub(crate) fn is_own_read(&self) -> bool {
        self.described.load(Ordering::Acquire) != UNREAD
    }

    /// Returns what a POSIX list leaves of its mode, if it has one that counts, or one for what is made in
    /// it.
    pub(crate) fn left(&self) -> Option<AclMask> {
        let state = self.described.load(Ordering::Acquire);
        (state & STATE == LISTED).then(|| AclMask::from_bits(state >> 2))
    }

    /// Sets the object's own descriptor.
    pub(crate) fn set_own(&self, own: Option<Own>) {
        let side = self.lock_state();
        self.own_changes.fetch_add(1, Ordering::AcqRel);
        self.put_own(side, own, None);
    }

    fn put_own(&self, mut side: MutexGuard<'_, ObjectState>, own: Option<Own>, left: Option<AclMask>) {
        let (state, kept) = match own {
            None => (left.map_or(NONE, |left| LISTED | left.bits() << 2), None),
            Some(Own::Known(descriptor)) => (KNOWN, Some(descriptor)),
            Some(Own::Unreadable) => (KNOWN, None),
        };
        let before = std::mem::replace(&mut side.own, kept);
        self.described.store(state, Ordering::Release);
        drop(side);
        drop(before);
    }

    /// Reads what it has, its maker, and of a file whether a client of SMB has marked it as backed up.
    ///
    /// # Errors
    /// Those of the file system: it may have one.
    pub(crate) async fn read_own(&self, file: &File) -> Result<(), Error> {
        let before = self.own_changes.load(Ordering::Acquire);
        let OwnRights { own, maker, left, has_dos } = self.volume().rights_storage().own_of(file).await?;
        if has_dos && self.number().kind() == Kind::File {
            self.read_backed_up(file).await;
        }
        if own.is_some() {
            self.volume().note_rights();
        }
        // What was read may be what was there before another one was given meanwhile.
        let side = self.lock_state();
        if self.own_changes.load(Ordering::Acquire) == before {
            self.put_maker(maker);
            self.put_own(side, own, left);
        }
        Ok(())
    }

    /// Keeps a descriptor with it, or none. The caller takes room for it ([`Volume::change_attributes`](crate::Volume)).
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::TooLarge`]; [`Error::Busy`] where the index cannot be written; those of the file system. It has
    /// the one it had then.
    pub(crate) async fn write_own(&self, file: &File, own: Option<&Arc<Descriptor>>) -> Result<(), Error> {
        let keeping = self.volume().rights_storage();
        let name = CString::from(keeping.descriptors());
        match own {
            Some(descriptor) => {
                let value = ntacl::encode(descriptor).ok_or(Error::TooLarge { max: ntacl::BYTES_MAX })?;
                if self.number().kind() == Kind::File {
                    self.volume().note_attributes().await?;
                }
                file.set_xattr(&name, value, XattrHow::Any).await.map_err(of_write)?;
                self.volume().note_rights();
            }
            None => remove(file, &name).await.map_err(of_write)?,
        }
        // One of the other kind would count as one that grants nothing.
        if self.own() == Some(Own::Unreadable) {
            remove(file, keeping.other_descriptors()).await.map_err(of_write)?;
        }
        self.set_own(own.cloned().map(Own::Known));
        // A POSIX list counts again then.
        if own.is_none() { self.read_own(file).await } else { Ok(()) }
    }
}

/// Returns whether a file has a descriptor of its own, and if that is none that counts, why.
pub(crate) async fn look_at(file: &File, keeping: RightsStorage) -> Option<Result<(), String>> {
    match keeping.own_of(file).await.map(|apart| apart.own) {
        Ok(None) => None,
        Ok(Some(Own::Known(_))) => Some(Ok(())),
        Ok(Some(Own::Unreadable)) => Some(Err(keeping.why_unreadable(file).await)),
        Err(error) => Some(Err(error.to_string())),
    }
}

/// Returns whether this is where a server without privileges keeps descriptors, `user.` left out: no
/// attribute of clients.
pub(crate) fn is_kept_in(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"NTACL")
}

fn of_write(error: io::Error) -> Error {
    match error.raw_os_error() {
        Some(libc::E2BIG) => Error::NoSpace,
        _ => Error::of_write(error),
    }
}

/// Makes a list without entries.
fn nothing() -> Descriptor {
    Descriptor { dacl: Some(Vec::new()), ..Descriptor::default() }
}

/// No look has read the descriptor yet.
pub(crate) const UNREAD: u8 = 0;
const NONE: u8 = 1;
const KNOWN: u8 = 2;
/// No descriptor exists, and a POSIX list; what that leaves is in the bits above.
const LISTED: u8 = 3;
const STATE: u8 = 3;
