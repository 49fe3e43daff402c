//! Judges access to what has a security descriptor of its own: the access check of MS-DTYP 2.5.3.2, and what
//! comes of it in the letters of access lists. Pure: requests of every protocol are judged here.

use identity::{Principal, Rights};
use smb_wire::create::access::expand_generic;
use smb_wire::create::access::rights::{
    APPEND_DATA, DELETE_CHILD, EXECUTE, FILE_ALL, READ_ATTRIBUTES, READ_CONTROL, READ_DATA, SYNCHRONIZE,
    WRITE_ATTRIBUTES, WRITE_DAC, WRITE_DATA, WRITE_EA, WRITE_OWNER,
};
use smb_wire::info::security::{Ace, Descriptor, Sid, ace_flags, ace_type};

use crate::Sids;

impl Sids {
    /// Returns whether a SID names the principal: by its number, by that of a group of its, or as its POSIX
    /// user or group.
    pub fn is_called(&self, who: &Principal, sid: &Sid) -> bool {
        match self.id_of(sid) {
            Some(id) => who.is_member(id),
            None => {
                Self::uid_of(sid).is_some_and(|uid| who.uid() == Some(uid))
                    || Self::gid_of(sid).is_some_and(|gid| who.gids().contains(&gid))
            }
        }
    }

    /// Returns everything that a principal is granted, as an access mask of files: what MAXIMUM_ALLOWED comes
    /// to.
    ///
    /// | who | is granted |
    /// |---|---|
    /// | the operator of this machine | everything |
    /// | any user, where there is no list | everything |
    /// | any user | each right by the first entry that is meant for it and has it: given if that allows, else not |
    /// | the owner | also READ_CONTROL and WRITE_DAC, before all entries; not where one is for OWNER RIGHTS, which then says |
    ///
    /// What administrators may besides, if they ask for it: [`mends`].
    pub fn granted(&self, who: &Principal, descriptor: &Descriptor) -> u32 {
        if who.is_local_administrator() {
            return FILE_ALL;
        }
        let Some(aces) = &descriptor.dacl else { return FILE_ALL };
        // Anonymous owns nothing.
        let is_owner = who.is_user() && descriptor.owner.is_some_and(|owner| self.is_called(who, &owner));
        let counting = || aces.iter().filter(|ace| ace.flags & ace_flags::INHERIT_ONLY == 0);
        //= MS-DTYP 2.5.3.2
        //# The owner may read and write the list, unless an entry for OWNER RIGHTS says what it may.
        let is_said = counting().any(|ace| ace.sid == Sid::OWNER_RIGHTS);
        let mut granted = if is_owner && !is_said { READ_CONTROL | WRITE_DAC } else { 0 };
        let mut denied = 0;
        for ace in counting().filter(|ace| self.is_meant(who, is_owner, ace)) {
            //= MS-DTYP 2.5.3.2
            //# Entries count in their order: what one has granted a later one does not deny, and the other way round.
            let mask = expand_generic(ace.mask) & FILE_ALL;
            match ace.kind {
                ace_type::ACCESS_ALLOWED => granted |= mask & !denied,
                _ => denied |= mask & !granted,
            }
        }
        granted
    }

    fn is_meant(&self, who: &Principal, is_owner: bool, ace: &Ace) -> bool {
        if ace.sid == Sid::OWNER_RIGHTS { is_owner } else { self.is_called(who, &ace.sid) }
    }
}

/// Returns rights that a principal may have if it asks for them by name, whatever a descriptor says: members
/// of `system:administrators` see what has one, and change owner and list, so that it can always be mended.
/// It is no part of the most that they are granted.
pub fn mends(who: &Principal, is_directory: bool) -> u32 {
    match (who.is_administrator(), is_directory) {
        (true, true) => MENDING | READ_DATA | EXECUTE,
        (true, false) => MENDING,
        (false, _) => 0,
    }
}

/// Returns what a mask comes to in the letters of access lists, for protocols that know no more; of a
/// directory over what is in it.
pub fn rights_of(mask: u32, is_directory: bool) -> Rights {
    let table = if is_directory { DIRECTORY } else { FILE };
    let given = table.iter().filter(|(bits, _)| mask & bits == *bits);
    let rights = given.fold(Rights::NONE, |rights, (_, right)| rights | *right);
    if rights.intersects(Rights::READ | Rights::WRITE) { rights | Rights::LOCK } else { rights }
}

/// All of the bits of a row are needed.
const FILE: &[(u32, Rights)] = &[
    (READ_ATTRIBUTES, Rights::LOOKUP),
    (READ_DATA, Rights::READ),
    (WRITE_DATA, Rights::WRITE),
    (APPEND_DATA, Rights::APPEND),
    (WRITE_DAC, Rights::ADMINISTER),
];

const DIRECTORY: &[(u32, Rights)] = &[
    (EXECUTE, Rights::TRAVERSE),
    (READ_DATA, Rights::READER.or(Rights::TRAVERSE)),
    // A list has one letter for files and directories.
    (WRITE_DATA, Rights::INSERT_FILE),
    (APPEND_DATA, Rights::INSERT_DIRECTORY),
    (WRITE_DATA | APPEND_DATA, Rights::INSERT),
    (WRITE_ATTRIBUTES, Rights::WRITE),
    (WRITE_EA, Rights::WRITE),
    (DELETE_CHILD, Rights::DELETE),
    (WRITE_DAC, Rights::ADMINISTER),
];

const MENDING: u32 = READ_CONTROL | WRITE_DAC | WRITE_OWNER | READ_ATTRIBUTES | SYNCHRONIZE;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use identity::{Accounts, Id};
    use proptest::prelude::*;
    use smb_wire::create::access::rights::{DELETE, FILE_READ, FILE_WRITE, GENERIC_ALL, GENERIC_READ};

    use super::*;

    fn accounts() -> Arc<Accounts> {
        let text = "version = 1\n[user.alice]\nid = 1000\nuid = 501\n[user.bob]\nid = 7\n[user.root]\nid = 8\n\
                    [group.staff]\nid = -1000\ngid = 50\nmembers = [\"alice\"]\n\
                    [group.\"system:administrators\"]\nid = -204\nmembers = [\"root\"]\n";
        Accounts::parse(text).unwrap()
    }

    fn ace(kind: u8, flags: u8, mask: u32, sid: Sid) -> Ace {
        Ace { kind, flags, mask, sid }
    }

    fn allow(mask: u32, sid: Sid) -> Ace {
        ace(ace_type::ACCESS_ALLOWED, 0, mask, sid)
    }

    fn deny(mask: u32, sid: Sid) -> Ace {
        ace(ace_type::ACCESS_DENIED, 0, mask, sid)
    }

    fn judged(who: &str, owner: Option<Sid>, aces: &[Ace]) -> u32 {
        let (sids, accounts) = (Sids::new("files"), accounts());
        let who = match who {
            "" => accounts.anonymous(),
            "operator" => accounts.local_administrator(),
            name => accounts.user(name).unwrap(),
        };
        let descriptor = Descriptor { owner, dacl: Some(aces.to_vec()), ..Descriptor::default() };
        sids.granted(&who, &descriptor)
    }

    #[test]
    fn entries_count_in_their_order_for_whom_they_are_meant() {
        let sids = Sids::new("files");
        let (alice, bob, staff) = (sids.of_id(Id(1000)), sids.of_id(Id(7)), sids.of_id(Id(-1000)));
        let (all, owns) = (Sid::EVERYONE, READ_CONTROL | WRITE_DAC);
        let in_vain = ace(ace_type::ACCESS_ALLOWED, ace_flags::INHERIT_ONLY, FILE_ALL, all);
        let aces: [(&str, Option<Sid>, &[Ace], u32); 18] = [
            ("alice", None, &[], 0),
            ("alice", Some(alice), &[], owns),
            ("bob", Some(alice), &[], 0),
            ("alice", None, &[allow(READ_DATA, all)], READ_DATA),
            ("", None, &[allow(READ_DATA, all)], READ_DATA),
            ("", None, &[allow(READ_DATA, Sid::AUTHENTICATED_USERS)], 0),
            ("bob", None, &[allow(READ_DATA, Sid::AUTHENTICATED_USERS)], READ_DATA),
            ("alice", None, &[deny(READ_DATA, staff), allow(FILE_READ, alice)], FILE_READ & !READ_DATA),
            ("alice", None, &[allow(FILE_READ, alice), deny(READ_DATA, staff)], FILE_READ),
            ("bob", None, &[deny(READ_DATA, staff), allow(FILE_READ, bob)], FILE_READ),
            ("alice", None, &[in_vain], 0),
            ("alice", None, &[allow(GENERIC_ALL, Sids::of_uid(501))], FILE_ALL),
            ("alice", None, &[allow(GENERIC_READ, Sids::of_gid(50))], FILE_READ),
            ("bob", None, &[allow(GENERIC_READ, Sids::of_gid(50))], 0),
            // The implied rights come before what is denied, and not where OWNER RIGHTS says what there is.
            ("alice", Some(alice), &[deny(FILE_ALL, all)], owns),
            ("alice", Some(alice), &[allow(READ_DATA, Sid::OWNER_RIGHTS)], READ_DATA),
            ("alice", Some(alice), &[deny(WRITE_DAC, Sid::OWNER_RIGHTS), allow(WRITE_DAC, alice)], 0),
            ("bob", Some(alice), &[allow(READ_DATA, Sid::OWNER_RIGHTS)], 0),
        ];
        for (at, (who, owner, aces, granted)) in aces.into_iter().enumerate() {
            assert_eq!(judged(who, owner, aces), granted, "{at}");
        }
    }

    #[test]
    fn administrators_can_mend_and_the_operator_may_everything() {
        let all = deny(FILE_ALL, Sid::EVERYONE);
        assert_eq!(judged("operator", None, &[all]), FILE_ALL);
        let root = accounts().user("root").unwrap();
        assert_eq!((judged("root", None, &[all]), mends(&root, false)), (0, MENDING));
        assert_eq!(mends(&accounts().user("alice").unwrap(), true), 0);
        assert_eq!(judged("", Some(Sid::ANONYMOUS), &[]), 0, "anonymous owns nothing");
        let open = Descriptor::default();
        assert_eq!(Sids::new("files").granted(&accounts().anonymous(), &open), FILE_ALL);
    }

    #[test]
    fn masks_are_letters_for_those_who_know_no_more() {
        let shown = |mask, is_directory| rights_of(mask, is_directory).to_string();
        assert_eq!(shown(FILE_READ, false), "rlk");
        assert_eq!(shown(FILE_READ | FILE_WRITE, false), "rlwk");
        assert_eq!(shown(FILE_ALL, false), "rlwka");
        assert_eq!(shown(APPEND_DATA | DELETE, false), "none");
        assert_eq!(shown(FILE_ALL, true), "rlidwka");
        assert_eq!(shown(WRITE_DATA, true), "none");
        assert_eq!(rights_of(WRITE_DATA, true), Rights::INSERT_FILE, "files alone may be made");
        assert_eq!(rights_of(EXECUTE, true), Rights::TRAVERSE);
        assert!(rights_of(READ_DATA, true).contains(Rights::TRAVERSE));
    }

    fn any_ace() -> impl Strategy<Value = Ace> {
        let sids = Sids::new("files");
        let whom = prop::sample::select(vec![
            sids.of_id(Id(1000)),
            sids.of_id(Id(7)),
            sids.of_id(Id(-1000)),
            Sid::EVERYONE,
            Sid::OWNER_RIGHTS,
            Sid::LOCAL_SYSTEM,
        ]);
        (0..2u8, prop::sample::select(vec![0, ace_flags::INHERIT_ONLY]), any::<u32>(), whom)
            .prop_map(|(kind, flags, mask, sid)| ace(kind, flags, mask, sid))
    }

    proptest! {
        #[test]
        fn each_right_is_what_the_first_entry_for_it_says(aces in prop::collection::vec(any_ace(), 0..8)) {
            let sids = Sids::new("files");
            let mine = |ace: &Ace| {
                let known = [sids.of_id(Id(1000)), sids.of_id(Id(-1000)), Sid::EVERYONE];
                known.contains(&ace.sid) && ace.flags & ace_flags::INHERIT_ONLY == 0
            };
            let granted = judged("alice", None, &aces);
            for bit in (0..21).map(|bit| 1 << bit).filter(|bit| FILE_ALL & bit != 0) {
                let first = aces.iter().find(|ace| mine(ace) && expand_generic(ace.mask) & bit != 0);
                let is_allowed = first.is_some_and(|ace| ace.kind == ace_type::ACCESS_ALLOWED);
                prop_assert_eq!(granted & bit != 0, is_allowed);
            }
        }

        #[test]
        fn another_denial_gives_nobody_more(aces in prop::collection::vec(any_ace(), 0..8), mask in any::<u32>(), at in 0..9usize) {
            let mut more = aces.clone();
            more.insert(at.min(aces.len()), deny(mask, Sid::EVERYONE));
            for who in ["alice", "bob", ""] {
                prop_assert_eq!(judged(who, None, &more) & !judged(who, None, &aces), 0);
            }
        }
    }
}
