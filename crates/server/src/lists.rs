//! Checks of access lists' places, and of lists that a server ignores: for starts, checks and the commands
//! that change lists.

use std::ffi::CStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use identity::{ATTRIBUTE_PRIVILEGED, ATTRIBUTE_UNPRIVILEGED, Accounts, Acl, Side};
pub use index::RightsIn;
use index::{MARK_LEN, Mark};
use rustix::io::Errno;
use service::volumes::VolumeSection;
use vfs::{ACCEPTED_TRUSTED, ACCEPTED_USER, Accepted};
pub use vfs::{DESCRIPTOR_TRUSTED, DESCRIPTOR_USER};

pub use crate::objects::writes_trusted_attributes;

/// Directory with a volume's mark, and the place of its lists and descriptors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marked {
    /// Path of the directory.
    pub root: PathBuf,
    /// Storage of lists and descriptors by the mark.
    pub rights: RightsIn,
    /// Set if the mark is only in the unprivileged attribute, though it need not be: the other is lost, or
    /// cannot be seen.
    pub is_half: bool,
}

/// Returns the volume of a directory: the nearest marked one at it or above it on its file system.
///
/// # Errors
/// The system's.
pub fn marked_above(dir: &Path) -> io::Result<Option<Marked>> {
    let device = fs::metadata(dir)?.dev();
    for root in dir.ancestors().filter(|path| !path.as_os_str().is_empty()) {
        if fs::metadata(root)?.dev() != device {
            break;
        }
        // What may not be looked into says nothing.
        let Ok(open) = File::open(root) else { break };
        let [user, trusted] = marks(&open)?;
        if let Some(rights) = Mark::rights_of(trusted.as_deref(), user.as_deref()) {
            let is_half = rights == RightsIn::Trusted && trusted.is_none();
            return Ok(Some(Marked { root: root.to_owned(), rights, is_half }));
        }
    }
    Ok(None)
}

/// Returns whether a directory exists without a mark, and no administrator has accepted the loss of its
/// lists.
pub(crate) fn are_lost(root: &Path) -> bool {
    let Ok(root) = File::open(root) else { return false };
    let has = |name: &CStr| rustix::fs::fgetxattr(&root, name, &mut [0; Accepted::BYTES_MAX]).is_ok();
    let accepted = if writes_trusted_attributes() { ACCEPTED_TRUSTED } else { ACCEPTED_USER };
    matches!(rights_at(&root), Ok(None)) && !has(accepted)
}

/// Returns the storage of rights by the mark of a volume's directory, if marked.
pub(crate) fn rights_at(root: &File) -> io::Result<Option<RightsIn>> {
    let [user, trusted] = marks(root)?;
    Ok(Mark::rights_of(trusted.as_deref(), user.as_deref()))
}

/// Writes into the volume's mark that rights are stored there, and syncs it; for the privileged attribute in
/// both marks.
///
/// # Errors
/// `NotFound` without a mark; the system's.
pub fn mark_rights(root: &Path, rights: RightsIn) -> io::Result<()> {
    let root = File::open(root)?;
    let [user, trusted] = marks(&root)?;
    let parsed = [user, trusted].into_iter().flatten().filter_map(|mark| Mark::parse(&mark));
    let mark = parsed.max_by_key(|mark| mark.generation).ok_or(io::ErrorKind::NotFound)?;
    let bytes = Mark { rights: Some(rights), ..mark }.encode();
    let [user, trusted] = vfs::MARK_ATTRIBUTES;
    let set = |name: &CStr| rustix::fs::fsetxattr(&root, name, &bytes, rustix::fs::XattrFlags::empty());
    match rights {
        RightsIn::Trusted => {
            set(trusted)?;
            let _ = set(user);
        }
        RightsIn::User => {
            set(user)?;
            // It would count before the other.
            match rustix::fs::fremovexattr(&root, trusted) {
                Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    root.sync_all()
}

/// Returns whether a directory has a list of its own, of either kind.
pub(crate) fn has_one(directory: &Path) -> bool {
    has_any(directory, &LISTS)
}

/// Returns whether a directory has a list or a security descriptor of its own, of either kind.
pub(crate) fn has_rights(directory: &Path) -> bool {
    has_any(directory, &LISTS) || has_any(directory, &DESCRIPTORS)
}

fn has_any(directory: &Path, attributes: &[&CStr]) -> bool {
    let has = |name: &&CStr| {
        matches!(rustix::fs::getxattr(directory, *name, &mut [0; 1]), Ok(_) | Err(Errno::RANGE))
    };
    attributes.iter().any(has)
}

/// Attributes that hold a directory's list.
const LISTS: [&CStr; 2] = [ATTRIBUTE_PRIVILEGED, ATTRIBUTE_UNPRIVILEGED];
/// Attributes that hold a security descriptor.
const DESCRIPTORS: [&CStr; 2] = [DESCRIPTOR_TRUSTED, DESCRIPTOR_USER];

/// Notes on a directory that the loss of its own earlier lists is accepted, and with `is_of_all` that of all
/// directories beneath.
///
/// # Errors
/// The system's.
pub fn accept(dir: &File, is_of_all: bool) -> io::Result<()> {
    let value = Accepted::now(is_of_all).encode();
    for (name, is_possible) in [(ACCEPTED_USER, true), (ACCEPTED_TRUSTED, writes_trusted_attributes())] {
        if is_possible {
            rustix::fs::fsetxattr(dir, name, value.as_bytes(), rustix::fs::XattrFlags::empty())?;
        }
    }
    dir.sync_all()
}

/// Returns warnings about the lists of volumes for an operator, before they are served.
///
/// Reported are lists that the server cannot read, that lie where their volume keeps none, or that name
/// unknown users, on the directory or on the first directories in it.
pub fn warnings(volumes: &[VolumeSection], accounts: &Accounts) -> Vec<String> {
    let sees_trusted = writes_trusted_attributes();
    let of = |volume: &VolumeSection| {
        let troubles = [trouble(&volume.path, sees_trusted), unknown(&volume.path, sees_trusted, accounts)];
        troubles.into_iter().flatten().map(|why| format!("volume {}: {why}", volume.name)).collect::<Vec<_>>()
    };
    volumes.iter().flat_map(of).collect()
}

/// Returns the names in the lists of a volume at `root` that the accounts do not have, as a message.
fn unknown(root: &Path, sees_trusted: bool, accounts: &Accounts) -> Option<String> {
    let open = File::open(root).ok()?;
    let rights = rights_at(&open).ok()?.unwrap_or(match sees_trusted {
        true => RightsIn::Trusted,
        false => RightsIn::User,
    });
    let attribute = if rights == RightsIn::Trusted { ATTRIBUTE_PRIVILEGED } else { ATTRIBUTE_UNPRIVILEGED };
    let unknown_in = |directory: &Path| -> Vec<String> {
        let Some(list) = File::open(directory).ok().and_then(|open| list_at(&open, attribute)) else {
            return Vec::new();
        };
        let entries = [Side::Given, Side::Denied].into_iter().flat_map(|side| list.entries(side));
        let unknown = entries.filter(|entry| accounts.id_of(&entry.who).is_none());
        let mut names: Vec<_> = unknown.map(|entry| entry.who.to_string()).collect();
        names.sort_unstable();
        names.dedup();
        names
    };
    let all = nearest_directories(root).map(|directory| (unknown_in(&directory), directory));
    let mut found = all.filter(|(names, _)| !names.is_empty());
    let (names, directory) = found.next()?;
    let more = match found.count() {
        0 => String::new(),
        1 => " (and one more list)".to_owned(),
        more => format!(" (and {more} more lists)"),
    };
    //@ level: WARN
    //@ subject: volume {name}:
    //@ cause: An access list of the volume names a user or group that the accounts do not have, as one that was deleted or is
    //@ misspelt. Such an entry gives nobody anything. One that denies denies everybody.
    //@ remedy: Add the user or group, or take the name out by `linerate acl set DIR NAME=none`. `linerate acl list DIR` shows all lists.
    Some(format!(
        "the access list of {}{more} names {}, whom no account has: such an entry gives nothing, and one that denies denies everybody; add \
         the user or group, or take the name out by `linerate acl set` [list-names-unknown]",
        directory.display(),
        names.join(", ")
    ))
}

fn list_at(directory: &File, attribute: &CStr) -> Option<Acl> {
    let mut bytes = [0; Acl::BYTES_MAX];
    let length = rustix::fs::fgetxattr(directory, attribute, &mut bytes[..]).ok()?;
    Acl::decode(&bytes[..length]).ok()
}

/// Returns a directory and the first directories in it.
fn nearest_directories(root: &Path) -> impl Iterator<Item = PathBuf> {
    let below = fs::read_dir(root).into_iter().flatten().take(LOOKED_AT_MAX).flatten();
    let below =
        below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path());
    std::iter::once(root.to_owned()).chain(below)
}

/// Returns the problem of the lists of a volume at `root`, for a server that sees `trusted.` attributes or
/// does not.
pub fn trouble(root: &Path, sees_trusted: bool) -> Option<String> {
    let open = File::open(root).ok()?;
    let marks = marks(&open).ok()?;
    let [user, trusted] = marks.each_ref().map(Option::as_deref);
    let rights = Mark::rights_of(trusted, user)?;
    let shown = root.display();
    if rights == RightsIn::Trusted && !sees_trusted {
        //@ level: WARN
        //@ subject: volume {name}:
        //@ cause: The access lists of the volume were written by a server of root, and this one has no CAP_SYS_ADMIN to read them.
        //@ remedy: Run the server with CAP_SYS_ADMIN, or stop it and convert the lists by `linerate acl convert DIR --to user`.
        return Some(format!(
            "it is served to administrators alone: its access lists lie in trusted. attributes, which take CAP_SYS_ADMIN to read; run \
             the server with that, or stop it and move them by `linerate acl convert {shown} --to user` [lists-unseen]"
        ));
    }
    if rights == RightsIn::Trusted && trusted.is_none() {
        //@ level: WARN
        //@ subject: volume {name}:
        //@ cause: The volume had access lists in trusted. attributes, and they are gone, as after a copy by a program that leaves them out.
        //@ remedy: Restore them by `rsync -aX` as root, or look at the lists there are and accept them by `linerate acl accept DIR`.
        return Some(format!(
            "it is served to administrators alone: its access lists lay in trusted. attributes, and these are gone, as after a copy that \
             leaves them out; restore them, or look at what there is by `linerate acl list {shown}` and then say so by `linerate acl \
             accept {shown}` [lists-lost]"
        ));
    }
    let directory = nearest_directories(root).find(|directory| lies_elsewhere(directory, rights))?;
    let other = if rights == RightsIn::Trusted { "user." } else { "trusted." };
    //@ level: WARN
    //@ subject: volume {name}:
    //@ cause: A directory has its access list in an attribute of the other kind than its volume, as after a copy from another volume.
    //@ remedy: Run `linerate acl convert DIR` on the volume's directory.
    Some(format!(
        "the access list of {} is in an attribute of the kind {other}, which the volume does not use: the directory is closed to all but \
         administrators until `linerate acl convert {shown}` has moved it [lists-elsewhere]",
        directory.display()
    ))
}

fn lies_elsewhere(directory: &Path, rights: RightsIn) -> bool {
    let Ok(directory) = File::open(directory) else { return false };
    let other = if rights == RightsIn::Trusted { ATTRIBUTE_UNPRIVILEGED } else { ATTRIBUTE_PRIVILEGED };
    matches!(rustix::fs::fgetxattr(&directory, other, &mut [0; 1]), Ok(_) | Err(Errno::RANGE))
}

/// Returns the marks of a directory: that of the user attribute, and that of the privileged one.
pub(crate) fn marks(root: &File) -> io::Result<[Option<Vec<u8>>; 2]> {
    let at = |name: &CStr| {
        let mut bytes = vec![0; MARK_LEN];
        match rustix::fs::fgetxattr(root, name, &mut bytes[..]) {
            Ok(len) => {
                bytes.truncate(len);
                Ok(Some(bytes))
            }
            Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(None),
            Err(Errno::RANGE) => Ok(Some(Vec::new())),
            Err(error) => Err(io::Error::from(error)),
        }
    };
    let [user, trusted] = vfs::MARK_ATTRIBUTES;
    Ok([at(user)?, at(trusted)?])
}

/// Most entries of a volume's directory that a start looks at, so that it does not take long.
const LOOKED_AT_MAX: usize = 1000;
