//! Access lists of directories, as AFS has them.

mod bytes;

use std::ffi::CStr;
use std::fmt;
use std::sync::Arc;

pub use self::bytes::BadAcl;
use crate::name::Who;
use crate::rights::Rights;

/// Extended attribute of a directory's list where the server may write `trusted.*` (CAP_SYS_ADMIN).
pub const ATTRIBUTE_PRIVILEGED: &CStr = c"trusted.linerate.acl";
/// Extended attribute of a directory's list where the server may not use `trusted.*`. The directory's owner
/// can write it on the server's machine, as it can change mode bits.
pub const ATTRIBUTE_UNPRIVILEGED: &CStr = c"user.linerate.acl";
/// Extended attribute that marks a directory with a list in [`ATTRIBUTE_PRIVILEGED`], which many programs and
/// copies leave out: a lost list is noticed.
pub const ATTRIBUTE_WITNESS: &CStr = c"user.linerate.acl-is-trusted";
/// Prefixes of the server's own extended attributes: no protocol shows them, or lets a client write them.
pub const ATTRIBUTE_PREFIXES: [&str; 2] = ["trusted.linerate.", "user.linerate."];

/// Access list of a directory: the rights that users and groups are given, and those that they are denied
/// whatever else gives them.
///
/// Users, groups and realms are kept as text, so that a list travels with the tree and means no other user
/// where its names are not known.
///
/// AFS's limits hold for every list here, so that each can be shown to AFS clients: at most [`ENTRIES_MAX`](Self::ENTRIES_MAX)
/// entries of both kinds together (OpenAFS `ACL_MAXENTRIES`), and at most [`TEXT_MAX`](Self::TEXT_MAX) bytes in the form of
/// AFS's wire (`AFSOPAQUEMAX`, whose 1,024 count the terminating zero), realms written out. Encoded, a list has at most
/// [`BYTES_MAX`](Self::BYTES_MAX) bytes: a quarter of what ext4 has for all attributes of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acl {
    // Both ordered by user or group; no rights are ever empty.
    given: Vec<Entry>,
    denied: Vec<Entry>,
}

/// Entry of an access list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// User or group that the entry is for.
    pub who: Who,
    /// Rights that are given or denied; never empty in a list.
    pub rights: Rights,
}

/// Side of an access list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Positive entries, which give rights.
    Given,
    /// Negative entries, which deny rights.
    Denied,
}

impl Acl {
    //@ limit: an access list
    //@ section: Users and access lists
    //@ unit: entry
    //@ all: process: {} of a list, {TEXT_MAX} bytes as AFS shows it
    //@ empty: refused: put users into a group
    //@ counter: none
    //@ attack: none, those who may administer a directory write it, and it is one attribute
    //@ reach: server
    /// Most entries of both sides together.
    pub const ENTRIES_MAX: usize = 20;
    /// Most bytes of AFS's text form.
    pub const TEXT_MAX: usize = 1023;
    /// Most bytes of the encoded form.
    pub const BYTES_MAX: usize = bytes::HEADER + Self::ENTRIES_MAX * bytes::ENTRY_FIXED + Self::TEXT_MAX;

    /// Makes a list without entries, which gives no rights but the implied ones
    /// ([`decide`](crate::decide())).
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the entries of one side, ordered by name.
    pub fn entries(&self, side: Side) -> &[Entry] {
        match side {
            Side::Given => &self.given,
            Side::Denied => &self.denied,
        }
    }

    /// Replaces the rights that `who` is given or denied; empty rights remove the entry.
    ///
    /// # Errors
    /// [`AclFull`]; the list is as it was.
    ///
    /// # Panics
    /// If `rights` has some that no list can hold (outside [`Rights::LISTED`]).
    pub fn set(&mut self, side: Side, who: Who, rights: Rights) -> Result<(), AclFull> {
        assert!(Rights::LISTED.contains(rights), "{rights:?} cannot be listed");
        let mut entries = self.entries(side).to_vec();
        match entries.binary_search_by(|entry| entry.who.cmp(&who)) {
            Ok(at) if rights.is_empty() => drop(entries.remove(at)),
            Ok(at) => entries[at].rights = rights,
            Err(_) if rights.is_empty() => {}
            Err(at) => entries.insert(at, Entry { who, rights }),
        }
        let changed = match side {
            Side::Given => Self { given: entries, denied: self.denied.clone() },
            Side::Denied => Self { given: self.given.clone(), denied: entries },
        };
        changed.check_size()?;
        *self = changed;
        Ok(())
    }

    /// Returns whether the list has no entry.
    pub fn is_empty(&self) -> bool {
        self.given.is_empty() && self.denied.is_empty()
    }

    fn check_size(&self) -> Result<(), AclFull> {
        let entries = self.given.len() + self.denied.len();
        if entries > Self::ENTRIES_MAX || self.text_length() > Self::TEXT_MAX { Err(AclFull) } else { Ok(()) }
    }

    /// Returns the length of AFS's text form: the counts of both sides, a line each, then for each entry a
    /// line of name, tab and decimal rights.
    fn text_length(&self) -> usize {
        let line = |entry: &Entry| {
            let at = usize::from(!entry.who.realm().is_empty());
            entry.who.name().len() + at + entry.who.realm().len() + decimal(entry.rights.bits()) + 2
        };
        let all = self.given.iter().chain(&self.denied);
        let counts = [&self.given, &self.denied].map(|entries| decimal(entries.len() as u32) + 1);
        counts.iter().sum::<usize>() + all.map(line).sum::<usize>()
    }
}

/// Writes the list as `linerate acl set` takes it: `alice=rlidwk staff=rl -mallory=w`.
impl fmt::Display for Acl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let given = self.given.iter().map(|entry| ("", entry));
        for (at, (sign, entry)) in given.chain(self.denied.iter().map(|entry| ("-", entry))).enumerate() {
            let space = if at == 0 { "" } else { " " };
            write!(f, "{space}{sign}{}={}", entry.who, entry.rights)?;
        }
        Ok(())
    }
}

/// Error of a list that exceeds what AFS can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "an access list has at most {} entries, and {} bytes of text: put users into a group",
    Acl::ENTRIES_MAX,
    Acl::TEXT_MAX
)]
pub struct AclFull;

/// List that counts for a directory and its content: its own, or the nearest one above, up to the volume's
/// root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Nearest {
    /// No list exists on the path.
    #[default]
    None,
    /// The nearest list is this one.
    List(Arc<Acl>),
    /// The nearest list cannot be read: damaged, or of a later version. Only administrators get rights, to
    /// repair it.
    Unreadable,
}

impl Nearest {
    /// Returns the nearest list of a directory with the attribute `own`, below a directory with the nearest
    /// list `above`.
    pub fn of(own: Option<&[u8]>, above: &Self) -> Self {
        match own.map(Acl::decode) {
            None => above.clone(),
            Some(Ok(acl)) => Self::List(Arc::new(acl)),
            Some(Err(_)) => Self::Unreadable,
        }
    }

    /// Returns the attribute that a new directory in this one begins with: a copy, as in AFS, so that later
    /// changes above do not reach it. `None` for one that goes on inheriting.
    pub fn for_new_directory(&self) -> Option<Vec<u8>> {
        match self {
            Self::List(acl) => Some(acl.encode()),
            Self::None | Self::Unreadable => None,
        }
    }
}

fn decimal(number: u32) -> usize {
    number.checked_ilog10().map_or(1, |log| log as usize + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(text: &str) -> Who {
        text.parse().unwrap()
    }

    #[test]
    fn an_entry_without_rights_goes() {
        let mut acl = Acl::new();
        acl.set(Side::Given, who("staff"), Rights::READER).unwrap();
        acl.set(Side::Given, who("alice"), Rights::WRITER).unwrap();
        acl.set(Side::Denied, who("mallory"), Rights::WRITE).unwrap();
        assert_eq!(acl.to_string(), "alice=rlidwk staff=rl -mallory=w");
        acl.set(Side::Given, who("alice"), Rights::ALL).unwrap();
        acl.set(Side::Given, who("staff"), Rights::NONE).unwrap();
        acl.set(Side::Given, who("nobody"), Rights::NONE).unwrap();
        assert_eq!(acl.to_string(), "alice=rlidwka -mallory=w");
        acl.set(Side::Denied, who("mallory"), Rights::NONE).unwrap();
        acl.set(Side::Given, who("alice"), Rights::NONE).unwrap();
        assert!(acl.is_empty());
    }

    #[test]
    fn the_twenty_first_entry_and_the_1024th_byte_are_refused() {
        let mut acl = Acl::new();
        for n in 0..20 {
            let side = if n % 2 == 0 { Side::Given } else { Side::Denied };
            acl.set(side, who(&format!("u{n}")), Rights::ALL).unwrap();
        }
        let full = acl.clone();
        assert_eq!(acl.set(Side::Given, who("u20"), Rights::ALL), Err(AclFull));
        assert_eq!(acl, full);
        acl.set(Side::Given, who("u0"), Rights::READER).unwrap();

        let mut acl = Acl::new();
        // A line: 63 + 3 + tab and newline; the two counts take 5 bytes: 15 lines are 1,025.
        for n in 0..14 {
            acl.set(Side::Given, who(&format!("{n:063}")), Rights::ALL).unwrap();
        }
        assert_eq!(acl.text_length(), 5 + 14 * 68);
        assert_eq!(acl.set(Side::Given, who(&"x".repeat(62)), Rights::ALL), Err(AclFull));
        acl.set(Side::Given, who(&"x".repeat(61)), Rights::ALL).unwrap();
        assert_eq!(acl.text_length(), Acl::TEXT_MAX);
        assert!(acl.encode().len() <= Acl::BYTES_MAX);
    }

    #[test]
    fn a_directory_without_a_list_has_that_above_and_a_new_one_has_a_copy() {
        let mut acl = Acl::new();
        acl.set(Side::Given, who("alice"), Rights::ALL).unwrap();
        let top = Nearest::of(Some(&acl.encode()), &Nearest::None);
        assert_eq!(top, Nearest::List(Arc::new(acl.clone())));
        let below = Nearest::of(None, &top);
        assert_eq!(below, top);
        assert_eq!(below.for_new_directory(), Some(acl.encode()));
        assert_eq!(Nearest::of(None, &Nearest::None), Nearest::None);
        assert_eq!(Nearest::None.for_new_directory(), None);
    }

    #[test]
    fn a_list_that_nobody_can_read_is_not_passed_over() {
        let mut acl = Acl::new();
        acl.set(Side::Given, who("alice"), Rights::ALL).unwrap();
        let top = Nearest::List(Arc::new(acl));
        let damaged = Nearest::of(Some(b"?"), &top);
        assert_eq!(damaged, Nearest::Unreadable);
        assert_eq!(Nearest::of(None, &damaged), Nearest::Unreadable);
        assert_eq!(Nearest::of(Some(b""), &top), Nearest::Unreadable);
    }
}
