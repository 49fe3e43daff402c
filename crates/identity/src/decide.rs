//! Decision on a user's rights: the one function for every protocol.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::acl::{Acl, AclFull, Nearest, Side};
use crate::name::{BadName, Id, Who};
use crate::principal::Principal;
use crate::rights::Rights;

/// Returns the rights of `who` over `object`, for which the list `nearest` counts, in `volume`.
///
/// Of a directory the rights are over what is in it; of a file or symbolic link, over itself. They come about so:
///
/// | the nearest list | server | rights |
/// |---|---|---|
/// | there is one | any | what its entries give without what they deny; for a file masked by the owner's mode bits (below) |
/// | it cannot be read | any | none |
/// | none | unprivileged | `rl`: what the server's own user may read; and what [`Writable`] gives, masked as above |
/// | none | privileged | what mode bits give (below), and where those let every user read, what [`Writable`] gives |
///
/// An entry counts for its user, and for the members of its group. One whose name the accounts do not know
/// gives no user anything, and denies every user.
///
/// *The owner's bits.* Of a file, `r` needs 0500 and `w` 0200, one bit of it at least, as in OpenAFS, for any
/// user; its owner always may read.
///
/// *Mode bits.* As in POSIX the class of the owner, of the group or of the others counts. `anonymous` and
/// users without a uid are others, save of what is recorded as made by them. What anonymous made has every
/// user for its owner here, as every user may be anonymous; the implied rights of an owner below no user has
/// on it.
///
/// | object | bits | rights |
/// |---|---|---|
/// | directory | `r` and `x` | `rl` |
/// | | `x` alone | to pass through ([`Rights::TRAVERSE`]) |
/// | | `w` and `x` | `idwk` |
/// | file | `r`; `w` | `rk`; `wk`; and `l` in any case |
/// | symbolic link | | `rl` |
///
/// Then, as viced has it:
///
/// | who | of what | rights |
/// |---|---|---|
/// | any user | a file or link | never `a`, but for the next |
/// | its owner | a file or link | also `a` |
/// | its owner | a file, if it has `i` | also `rw`, whatever the file's bits: what it dropped it may finish |
/// | the volume's owner | a directory | also `la`: it can mend the list |
/// | `system:administrators` | everything | also `la`, and no file's bits mask their `r` and `w` |
/// | the operator of this machine | everything | all |
///
/// *Sticky directories.* As in POSIX, where the server is privileged: of `d`, wherever that comes from, a sticky directory leaves to others
/// than its owner and administrators [`Rights::DELETE_OWN`].
///
/// A volume that is not writable leaves of all this what changes nothing.
pub fn decide(who: &Principal, object: &Object, nearest: &Nearest, volume: &VolumePolicy) -> Rights {
    if who.is_local_administrator() {
        return volume.left_of(Rights::LISTED | Rights::TRAVERSE);
    }
    let is_owner = object.owner.is(who, volume.privileged);
    let is_admin = who.is_administrator();
    let masked = |listed: Rights| {
        let bits = if is_admin { 0o700 } else { object.mode };
        object.masked(listed, bits, is_owner)
    };
    let mut rights = match nearest {
        Nearest::List(acl) => masked(listed(acl, who)),
        Nearest::Unreadable => Rights::NONE,
        Nearest::None if volume.privileged => {
            let by_mode = by_mode(who, object, object.owner.is_by_mode(who));
            if object.everybody_reads() { by_mode | masked(volume.given(who)) } else { by_mode }
        }
        Nearest::None => Rights::READER | masked(volume.given(who)),
    };
    if object.kind == Kind::Directory {
        if volume.owner.is(who, volume.privileged) {
            rights |= Rights::LOOKUP | Rights::ADMINISTER;
        }
    } else {
        rights = rights.without(Rights::ADMINISTER);
        if is_owner {
            rights |= Rights::ADMINISTER;
            if object.kind == Kind::File && rights.contains(Rights::INSERT) {
                rights |= Rights::READ | Rights::WRITE;
            }
        }
    }
    if is_admin {
        rights |= Rights::LOOKUP | Rights::ADMINISTER;
    }
    if rights.contains(Rights::LOOKUP) {
        rights |= Rights::TRAVERSE;
    }
    volume.left_of(object.left_when_sticky(rights, who, volume))
}

/// Returns the rights over an object whose own security descriptor gives `given` ([`decide`]): lists and mode
/// bits do not count. The implied rights of administrators and of the volume's owner stay, and a volume that
/// is not writable leaves what changes nothing.
pub fn decide_described(who: &Principal, object: &Object, given: Rights, volume: &VolumePolicy) -> Rights {
    if who.is_local_administrator() {
        return volume.left_of(Rights::LISTED | Rights::TRAVERSE);
    }
    let mends =
        who.is_administrator() || (object.kind == Kind::Directory && volume.owner.is(who, volume.privileged));
    let implied = Rights::LOOKUP | Rights::ADMINISTER | Rights::TRAVERSE;
    let rights = if mends { given | implied } else { given };
    volume.left_of(object.left_when_sticky(rights, who, volume))
}

/// Object that rights are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object {
    /// Kind of the object.
    pub kind: Kind,
    /// Mode bits of the object; only the last 12 count.
    pub mode: u32,
    /// POSIX group of the object.
    pub gid: u32,
    /// Owner of the object.
    pub owner: Owner,
}

/// Kind of an object, as far as rights depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Directory, whose rights are over its content.
    Directory,
    /// Regular file.
    File,
    /// Symbolic link itself.
    Symlink,
}

/// Owner of an object, by POSIX user and by recorded number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// POSIX user of the object; `None` when not read. Counts where the server is privileged and nothing is
    /// recorded.
    pub uid: Option<u32>,
    /// AFS number recorded with the object, whose maker has no POSIX user that it could be given to.
    pub recorded: Option<Id>,
}

impl Owner {
    /// Returns whether a user is the owner as mode bits count, on privileged servers. Objects made by
    /// anonymous belong to every user there, as nothing tells anonymous from others.
    pub fn is_by_mode(self, who: &Principal) -> bool {
        self.recorded == Some(Id::ANONYMOUS) || self.is(who, true)
    }

    /// Returns whether a user is the owner. Objects made by anonymous have no owner.
    pub fn is(self, who: &Principal, privileged: bool) -> bool {
        who.is_user()
            && match self.recorded {
                Some(id) => who.id() == id,
                None => privileged && self.uid.is_some() && self.uid == who.uid(),
            }
    }
}

/// Policy of the server and the volume, beside lists and mode bits.
#[derive(Clone, Debug)]
pub struct VolumePolicy {
    /// True when the server may read, change and give away every file: mode bits then limit clients.
    pub privileged: bool,
    /// Users that may change the volume.
    pub writable: Writable,
    /// Owner of the volume's root.
    pub owner: Owner,
}

impl VolumePolicy {
    fn left_of(&self, rights: Rights) -> Rights {
        match self.writable {
            Writable::Nobody => {
                let parts = Rights::APPEND | Rights::INSERT_FILE | Rights::INSERT_DIRECTORY;
                rights.without(Rights::CHANGES | Rights::ADMINISTER | Rights::DELETE_OWN | parts)
            }
            Writable::AsListed | Writable::Given(_) => rights,
        }
    }

    fn given(&self, who: &Principal) -> Rights {
        match &self.writable {
            Writable::Given(acl) => listed(acl, who),
            Writable::Nobody | Writable::AsListed => Rights::NONE,
        }
    }
}

/// Users that may change a volume (`serve --writable`, `volume.writable`). Text is `nobody`, `listed`,
/// `anyone`, or users and groups with commas between.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Writable {
    /// No user may change anything: the tree is read-only.
    #[default]
    Nobody,
    /// Users that an access list allows to, or mode bits where the server is privileged.
    AsListed,
    /// Users that an access list or mode bits allow to; where no list exists, those of this one.
    Given(Arc<Acl>),
}

impl Writable {
    /// Makes a setting for every user, `anonymous` included.
    pub fn anyone() -> Self {
        Self::to([ANYONE.parse().expect("it is a name")]).expect("one entry is not too many")
    }

    /// Makes a setting that gives the users and groups of `names` the rights `rlidwk`.
    ///
    /// # Errors
    /// [`AclFull`]: more than an access list can hold.
    pub fn to(names: impl IntoIterator<Item = Who>) -> Result<Self, AclFull> {
        let mut acl = Acl::new();
        names.into_iter().try_for_each(|who| acl.set(Side::Given, who, Rights::WRITER))?;
        Ok(Self::Given(Arc::new(acl)))
    }

    /// Returns whether every user, `anonymous` included, gets all that any user gets.
    pub fn is_anyones(&self) -> bool {
        self.named().any(|who| who.name() == ANYONE)
    }

    /// Returns the users and groups of the setting, so that a start can report unknown names.
    pub fn named(&self) -> impl Iterator<Item = &Who> {
        let acl = if let Self::Given(acl) = self { acl.entries(Side::Given) } else { &[] };
        acl.iter().map(|entry| &entry.who)
    }
}

impl FromStr for Writable {
    type Err = BadWritable;

    fn from_str(text: &str) -> Result<Self, BadWritable> {
        match text {
            "nobody" => Ok(Self::Nobody),
            "listed" => Ok(Self::AsListed),
            "anyone" => Ok(Self::anyone()),
            names => {
                let names =
                    names.split(',').map(|name| name.trim().parse()).collect::<Result<Vec<Who>, _>>()?;
                Ok(Self::to(names)?)
            }
        }
    }
}

impl fmt::Display for Writable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nobody => f.write_str("nobody"),
            Self::AsListed => f.write_str("listed"),
            Self::Given(_) if *self == Self::anyone() => f.write_str("anyone"),
            Self::Given(_) => {
                f.write_str(&self.named().map(ToString::to_string).collect::<Vec<_>>().join(","))
            }
        }
    }
}

/// Error of a text for [`Writable`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadWritable {
    /// A part of the text is not a valid name.
    #[error("{0}; give nobody, listed, anyone, or users and groups with commas between")]
    Name(#[from] BadName),
    /// The text has more names than an access list can hold.
    #[error("{0}")]
    Full(#[from] AclFull),
}

impl Object {
    /// Returns the listed rights that remain after the owner's bits among `bits` mask them.
    fn masked(&self, listed: Rights, bits: u32, is_owner: bool) -> Rights {
        if self.kind != Kind::File {
            return listed;
        }
        let unreadable = if bits & 0o500 == 0 && !is_owner { Rights::READ } else { Rights::NONE };
        let unwritable = if bits & 0o200 == 0 { Rights::WRITE } else { Rights::NONE };
        listed.without(unreadable | unwritable)
    }

    /// Returns the rights that remain in a sticky directory.
    fn left_when_sticky(&self, rights: Rights, who: &Principal, volume: &VolumePolicy) -> Rights {
        let is_sticky = self.kind == Kind::Directory && volume.privileged && self.mode & 0o1000 != 0;
        let deletes_all = who.is_administrator() || self.owner.is_by_mode(who);
        if is_sticky && rights.contains(Rights::DELETE) && !deletes_all {
            rights.without(Rights::DELETE) | Rights::DELETE_OWN
        } else {
            rights
        }
    }

    /// Returns whether the mode bits let others read the object.
    fn everybody_reads(&self) -> bool {
        match self.kind {
            Kind::Directory => self.mode & 0o005 == 0o005,
            Kind::File => self.mode & 0o004 != 0,
            Kind::Symlink => true,
        }
    }
}

fn listed(acl: &Acl, who: &Principal) -> Rights {
    let sum = |side, of_unknown: bool| {
        let counts = |entry: &Who| who.meant(entry).map_or(of_unknown, |id| who.is_member(id));
        let entries = acl.entries(side).iter().filter(|entry| counts(&entry.who));
        entries.fold(Rights::NONE, |rights, entry| rights | entry.rights)
    };
    sum(Side::Given, false).without(sum(Side::Denied, true))
}

fn by_mode(who: &Principal, object: &Object, is_owner: bool) -> Rights {
    let class = if is_owner {
        6
    } else if who.gids().contains(&object.gid) {
        3
    } else {
        0
    };
    let has = |bits: u32| (object.mode >> class) & bits == bits;
    let give = |granted: bool, rights: Rights| if granted { rights } else { Rights::NONE };
    match object.kind {
        Kind::Directory => {
            give(has(5), Rights::READER) | give(has(1), Rights::TRAVERSE) | give(has(3), Rights::CHANGES)
        }
        Kind::File => {
            Rights::LOOKUP
                | give(has(4), Rights::READ | Rights::LOCK)
                | give(has(2), Rights::WRITE | Rights::LOCK)
        }
        Kind::Symlink => Rights::READER,
    }
}

/// Name of the group of all users, anonymous ones too.
const ANYONE: &str = "system:anyuser";

#[cfg(test)]
mod tests;
