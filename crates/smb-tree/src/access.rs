//! Rights of the tree as SMB's access masks, and the other way round.

use identity::{Principal, Rights};
use smb_wire::create::access::rights::{
    APPEND_DATA, DELETE, DELETE_CHILD, EXECUTE, READ_ATTRIBUTES, READ_CONTROL, READ_DATA, READ_EA,
    SYNCHRONIZE, WRITE_ATTRIBUTES, WRITE_DAC, WRITE_DATA, WRITE_EA, WRITE_OWNER,
};
use smb_wire::create::access::share;
use vfs::{FoundWithRights, Ownership};

/// Rights of a caller over a file, as SMB sees them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowed {
    /// Rights over the file, or in the directory.
    pub(crate) own: Rights,
    /// Rights in the directory above, by which it may be deleted or renamed; `None` for a share's root.
    pub(crate) above: Option<Rights>,
    pub(crate) is_directory: bool,
    pub(crate) is_administrator: bool,
    /// The caller is authenticated; an anonymous caller owns nothing.
    pub(crate) is_user: bool,
    /// Owner of the file.
    pub(crate) ownership: Ownership,
    /// Access mask that its own security descriptor grants, if it has one.
    pub(crate) granted: Option<u32>,
}

impl Allowed {
    pub(crate) fn new(who: &Principal, own: Rights, above: Option<Rights>, is_directory: bool) -> Self {
        let (is_administrator, is_user) = (who.is_administrator(), who.is_user());
        let ownership = Ownership::Others;
        Self { own, above, is_directory, is_administrator, is_user, ownership, granted: None }
    }

    /// Makes the rights over what was found, with its ownership and what a security descriptor of its own
    /// grants.
    pub(crate) fn of(
        who: &Principal,
        found: &FoundWithRights,
        above: Option<Rights>,
        is_directory: bool,
    ) -> Self {
        let ownership = found.ownership(who);
        let above = deletes(above, || found.is_own(who));
        Self { ownership, ..Self::new(who, found.rights(who), above, is_directory) }
            .granted(found.granted(who))
    }

    /// Adds what a security descriptor of the file's own grants.
    pub(crate) fn granted(self, granted: Option<u32>) -> Self {
        Self { granted, ..self }
    }

    /// Returns whether its ranges may be locked, and share modes may keep others out: `k` or `w` of a list,
    /// as with AFS. A caller that may read by a security descriptor may lock, as with Windows, whose
    /// descriptors have no bit for it.
    pub(crate) fn locks(&self) -> bool {
        match self.granted {
            Some(granted) => granted & (READ_DATA | EXECUTE | WRITE_DATA | APPEND_DATA) != 0,
            None => {
                self.is_administrator || self.own.contains(Rights::LOCK) || self.own.contains(Rights::WRITE)
            }
        }
    }

    /// Returns the share mode of an open that asks for `wanted`. Without the right to lock it denies nothing, and the
    /// open succeeds all the same: most programs that read deny writing by default.
    pub(crate) fn shared(&self, wanted: u32) -> u32 {
        if self.locks() { wanted } else { wanted | share::READ | share::WRITE | share::DELETE }
    }

    /// Returns what it can be granted beside, if it is asked for by name.
    pub(crate) fn beside(&self, who: &Principal) -> u32 {
        if self.granted.is_some() { smb_sid::mends(who, self.is_directory) } else { 0 }
    }

    /// Returns the rights as an access mask: most that an open can be granted.
    pub(crate) fn mask(&self) -> u32 {
        //= MS-FSA 2.1.5.1.2.1
        //# Beside what the descriptor grants, a user that may list the directory sees the attributes, and one that may delete in it may delete.
        if let Some(granted) = self.granted {
            let above = self.above.unwrap_or(self.own);
            let seen = if above.contains(Rights::LOOKUP) { READ_ATTRIBUTES } else { 0 };
            // Names belong to the directory: a caller that may delete none there may not delete this one.
            let goes = if above.contains(Rights::DELETE) { DELETE } else { 0 };
            return (granted & !DELETE) | seen | goes;
        }
        let table = if self.is_directory { DIRECTORY } else { FILE };
        let own = table.iter().filter(|(right, _)| self.own.contains(*right));
        let mut mask = own.fold(0, |mask, (_, bits)| mask | bits);
        // A root cannot go, whatever is asked for; a user that may take away what is in it is not refused for
        // asking.
        if self.above.unwrap_or(self.own).contains(Rights::DELETE) {
            mask |= DELETE;
        }
        if self.says_who_may() {
            mask |= READ_CONTROL | WRITE_DAC;
        }
        //= MS-FSA 2.1.5.1.2.1
        //# The right to write the owner: given with the right to write the list, as the owner is one of its rights. A user names itself, or a group of
        //# its own, and administrators any user.
        if mask & WRITE_DAC != 0 && (self.is_user || self.is_administrator) {
            mask |= WRITE_OWNER;
        }
        mask
    }

    /// Returns whether the caller reads and writes the access list, beside what letters give over it.
    fn says_who_may(&self) -> bool {
        let above = self.above.unwrap_or(Rights::NONE);
        match self.ownership {
            //= MS-DTYP 2.5.3.2
            //# The owner may read and write the list.
            Ownership::Own => true,
            // The list of the directory is that of its files.
            _ if !self.is_directory && self.is_user && above.contains(Rights::ADMINISTER) => true,
            // Where files have no separate owners, a caller that may put another file in its place: it could
            // choose the list so too.
            Ownership::Servers => {
                !self.is_directory && self.own.contains(REWRITES) && above.contains(REPLACES)
            }
            Ownership::Others => false,
        }
    }
}

/// Returns the rights in the directory above, where a sticky one leaves the caller the deletion of its own
/// files.
pub(crate) fn deletes(above: Option<Rights>, is_own: impl FnOnce() -> bool) -> Option<Rights> {
    let own = |above: &Rights| above.contains(Rights::DELETE_OWN) && is_own();
    if above.as_ref().is_some_and(own) { above.map(|above| above | Rights::DELETE) } else { above }
}

/// Returns the rights over a file that it takes to use an open with this mask, which the open was found to be allowed.
pub(crate) fn needed(mask: u32, is_directory: bool) -> Rights {
    if is_directory {
        // Each change in it is looked at by itself.
        return if mask & READ_DATA == 0 { Rights::NONE } else { Rights::LOOKUP };
    }
    // A descriptor of the file's own may grant to execute or to append alone; a list has no letters for that.
    let read = if mask & READ_DATA == 0 { Rights::NONE } else { Rights::READ };
    let write = if mask & WRITE_DATA == 0 { Rights::NONE } else { Rights::WRITE };
    read | write
}

/// Returns what others have to bear of an open with this mask (MS-FSA 2.1.5.1.2.2): attributes are nothing to
/// them.
pub(crate) fn borne(mask: u32) -> grants::Access {
    let bit = |bits: u32, access: grants::Access| {
        if mask & bits == 0 { grants::Access::NONE } else { access }
    };
    bit(READ_DATA | EXECUTE, grants::Access::READ)
        | bit(WRITE_DATA | APPEND_DATA, grants::Access::WRITE)
        | bit(DELETE, grants::Access::DELETE)
}

/// Returns whether an open with these rights is to see or set attributes alone, or to read the access list:
/// it breaks nothing, or no lease.
pub(crate) fn looks(mask: u32) -> grants::StatOpen {
    match mask & !(READ_ATTRIBUTES | WRITE_ATTRIBUTES | SYNCHRONIZE) {
        0 => grants::StatOpen::Attributes,
        READ_CONTROL => grants::StatOpen::ReadControl,
        _ => grants::StatOpen::No,
    }
}

/// Rights that it takes to put another file in the place of one, with its content: of the file, and of the
/// directory.
const REWRITES: Rights = Rights::READ.or(Rights::WRITE);
const REPLACES: Rights = Rights::INSERT.or(Rights::DELETE);

const SEEN: u32 = READ_ATTRIBUTES | READ_EA | READ_CONTROL | SYNCHRONIZE;

const FILE: &[(Rights, u32)] = &[
    (Rights::LOOKUP, SEEN),
    (Rights::READ, READ_DATA | EXECUTE | READ_EA | READ_ATTRIBUTES | SYNCHRONIZE),
    // A file has no children: the bit means nothing, and a request for all rights over a file has it too.
    (Rights::WRITE, WRITE_DATA | APPEND_DATA | WRITE_EA | WRITE_ATTRIBUTES | DELETE_CHILD | SYNCHRONIZE),
    (Rights::ADMINISTER, WRITE_DAC | WRITE_ATTRIBUTES | SEEN),
];

const DIRECTORY: &[(Rights, u32)] = &[
    (Rights::TRAVERSE, EXECUTE | READ_ATTRIBUTES | SYNCHRONIZE),
    (Rights::LOOKUP, READ_DATA | EXECUTE | SEEN),
    (Rights::INSERT, WRITE_DATA | APPEND_DATA),
    (Rights::WRITE, WRITE_EA | WRITE_ATTRIBUTES),
    (Rights::DELETE, DELETE_CHILD),
    (Rights::ADMINISTER, WRITE_DAC),
];

#[cfg(test)]
mod tests {
    use identity::Accounts;
    use smb_wire::create::access::rights::{FILE_ALL, FILE_READ};

    use super::*;

    fn mask(own: &str, above: &str, is_directory: bool) -> u32 {
        let own: Rights = own.parse().unwrap();
        let own = if own.contains(Rights::LOOKUP) { own | Rights::TRAVERSE } else { own };
        let who = Accounts::none().anonymous();
        Allowed::new(&who, own, Some(above.parse().unwrap()), is_directory).mask()
    }

    #[test]
    fn rights_of_lists_are_masks_of_smb() {
        assert_eq!(mask("rl", "rl", false), FILE_READ | EXECUTE);
        assert_eq!(mask("l", "l", false), SEEN);
        let writer = FILE_ALL & !(WRITE_DAC | WRITE_OWNER);
        assert_eq!(mask("rlidwk", "rlidwk", false), writer);
        assert_eq!(mask("rlwk", "rlwk", false), writer & !DELETE, "the directory says who deletes");
        assert_eq!(mask("rlidwk", "rlidwk", true), FILE_ALL & !(WRITE_DAC | WRITE_OWNER));
        assert_eq!(mask("rla", "rl", true) & WRITE_DAC, WRITE_DAC);
        assert_eq!(mask("none", "none", false), 0);
        let operator = Accounts::none().local_administrator();
        let all = Allowed::new(&operator, Rights::LISTED | Rights::TRAVERSE, Some(Rights::LISTED), true);
        assert_eq!(all.mask(), FILE_ALL);
    }

    #[test]
    fn locking_takes_the_letter_for_it_or_that_to_write() {
        let who = Accounts::none().anonymous();
        let of = |own: &str| Allowed::new(&who, own.parse().unwrap(), None, false);
        for (own, expected) in [("rl", false), ("lida", false), ("rlk", true), ("rlw", true), ("none", false)]
        {
            assert_eq!(of(own).locks(), expected, "{own}");
        }
        assert!(of("rl").granted(Some(FILE_READ)).locks());
        assert!(!of("rlk").granted(Some(SEEN)).locks());
    }

    #[test]
    fn attributes_are_nothing_that_others_bear() {
        assert!(borne(SEEN | WRITE_ATTRIBUTES | WRITE_DAC | WRITE_EA).is_none());
        assert_eq!(borne(EXECUTE), grants::Access::READ);
        assert_eq!(borne(APPEND_DATA | DELETE), grants::Access::WRITE | grants::Access::DELETE);
    }
}
