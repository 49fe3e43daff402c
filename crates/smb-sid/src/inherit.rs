//! Inheritance of security descriptors (MS-DTYP 2.5.3.4).

use smb_wire::create::access::expand_generic;
use smb_wire::create::access::rights::FILE_ALL;
use smb_wire::info::security::{Ace, Descriptor, Sid, ace_flags, ace_type, control};

/// Most entries of a descriptor that is kept: what is inherited of them fits a list, of which each may become two.
pub const ENTRIES_MAX: usize = 400;

/// Returns the descriptor of what is made in a directory that has `above`. Where nothing is inherited it
/// grants the owner alone, and the system: a directory that is closed to others is not meant to have open
/// files in it. `None` where there are more entries than a list holds, which only a descriptor written
/// elsewhere can have.
pub fn inherited(above: &Descriptor, is_directory: bool, owner: Sid, group: Sid) -> Option<Descriptor> {
    //= MS-DTYP 2.5.3.4.1
    //# Entries are marked as inherited where the list above them is one that hands down.
    let marks = above.control & control::DACL_AUTO_INHERITED;
    let mark = if marks == 0 { 0 } else { ace_flags::INHERITED };
    let of = |ace: &Ace| handed_down(ace, is_directory, owner, group, mark);
    let mut aces: Vec<_> = above.dacl.iter().flatten().flat_map(of).collect();
    if aces.is_empty() {
        let allow = |sid| Ace { kind: ace_type::ACCESS_ALLOWED, flags: 0, mask: FILE_ALL, sid };
        aces = vec![allow(owner), allow(Sid::LOCAL_SYSTEM)];
        return Some(Descriptor { control: 0, owner: Some(owner), group: Some(group), dacl: Some(aces) });
    }
    let fits = aces.len() <= 2 * ENTRIES_MAX;
    fits.then_some(Descriptor { control: marks, owner: Some(owner), group: Some(group), dacl: Some(aces) })
}

/// Returns what becomes of one entry: nothing, an entry that counts, one that only waits for what is further
/// below, or both.
fn handed_down(ace: &Ace, is_directory: bool, owner: Sid, group: Sid, mark: u8) -> Vec<Ace> {
    let has = |flag: u8| ace.flags & flag != 0;
    let below = ace.flags & (ace_flags::OBJECT_INHERIT | ace_flags::CONTAINER_INHERIT);
    let goes_on = is_directory && !has(ace_flags::NO_PROPAGATE_INHERIT);
    let waiting = Ace { flags: below | ace_flags::INHERIT_ONLY | mark, ..*ace };
    let counts = has(if is_directory { ace_flags::CONTAINER_INHERIT } else { ace_flags::OBJECT_INHERIT });
    if !counts {
        //= MS-DTYP 2.5.3.4.1
        //# What files alone inherit a directory hands on, and keeps out of itself.
        return if goes_on && below != 0 { vec![waiting] } else { Vec::new() };
    }
    let sid = match ace.sid {
        Sid::CREATOR_OWNER => owner,
        Sid::CREATOR_GROUP => group,
        sid => sid,
    };
    let here = Ace { flags: mark, mask: expand_generic(ace.mask), sid, ..*ace };
    match (goes_on, (here.mask, here.sid) == (ace.mask, ace.sid)) {
        (false, _) => vec![here],
        (true, true) => vec![Ace { flags: below | mark, ..here }],
        //= MS-DTYP 2.5.3.4.1
        //# What means another user, or another kind of file, further below is handed on as it is.
        (true, false) => vec![here, waiting],
    }
}

#[cfg(test)]
mod tests {
    use ace_flags::OBJECT_INHERIT as OI;
    use ace_flags::{
        CONTAINER_INHERIT as CI, INHERIT_ONLY as IO, INHERITED as ID, NO_PROPAGATE_INHERIT as NP,
    };
    use smb_wire::create::access::rights::{FILE_READ, GENERIC_READ, READ_DATA};

    use super::*;

    fn made(flags: u8, mask: u32, sid: Sid, is_directory: bool, control: u16) -> Vec<(u8, u32, Sid)> {
        let ace = Ace { kind: ace_type::ACCESS_ALLOWED, flags, mask, sid };
        let above = Descriptor { control, dacl: Some(vec![ace]), ..Descriptor::default() };
        let made = inherited(&above, is_directory, OWNER, GROUP).unwrap();
        assert_eq!((made.owner, made.group), (Some(OWNER), Some(GROUP)));
        made.dacl.unwrap().iter().map(|ace| (ace.flags, ace.mask, ace.sid)).collect()
    }

    const OWNER: Sid = Sid::LOCAL_SYSTEM;
    const GROUP: Sid = Sid::AUTHENTICATED_USERS;
    const ALL: Sid = Sid::EVERYONE;

    #[test]
    fn files_and_directories_get_what_is_meant_for_them() {
        let own = vec![(0, FILE_ALL, OWNER), (0, FILE_ALL, Sid::LOCAL_SYSTEM)];
        for (flags, file, directory) in [
            (0, None, None),
            (NP, None, None),
            (IO, None, None),
            (OI, Some(0), Some(OI | IO)),
            (CI, None, Some(CI)),
            (OI | CI, Some(0), Some(OI | CI)),
            (OI | NP, Some(0), None),
            (CI | NP, None, Some(0)),
            (OI | CI | NP, Some(0), Some(0)),
            (OI | IO, Some(0), Some(OI | IO)),
            (OI | CI | IO, Some(0), Some(OI | CI)),
            (OI | CI | IO | NP | ID, Some(0), Some(0)),
        ] {
            for (is_directory, expected) in [(false, file), (true, directory)] {
                let expected = expected.map_or(own.clone(), |flags| vec![(flags, READ_DATA, ALL)]);
                assert_eq!(
                    made(flags, READ_DATA, ALL, is_directory, 0),
                    expected,
                    "{flags:#x} {is_directory}"
                );
            }
        }
    }

    #[test]
    fn creator_and_generic_rights_become_somebody_and_something_and_are_handed_on_as_they_are() {
        let creator = Sid::CREATOR_OWNER;
        assert_eq!(made(OI | CI, READ_DATA, creator, false, 0), [(0, READ_DATA, OWNER)]);
        assert_eq!(
            made(OI | CI, READ_DATA, creator, true, 0),
            [(0, READ_DATA, OWNER), (OI | CI | IO, READ_DATA, creator)]
        );
        assert_eq!(made(OI | CI | NP, READ_DATA, Sid::CREATOR_GROUP, true, 0), [(0, READ_DATA, GROUP)]);
        assert_eq!(made(CI, GENERIC_READ, ALL, true, 0), [(0, FILE_READ, ALL), (CI | IO, GENERIC_READ, ALL)]);
    }

    #[test]
    fn entries_are_marked_where_the_list_above_hands_down() {
        let marked = made(OI | CI, READ_DATA, ALL, true, control::DACL_AUTO_INHERITED);
        assert_eq!(marked, [(OI | CI | ID, READ_DATA, ALL)]);
        assert_eq!(made(OI | CI | ID, READ_DATA, ALL, false, 0), [(0, READ_DATA, ALL)]);
    }

    #[test]
    fn of_what_is_kept_each_entry_may_become_two_and_still_fits() {
        let sid = Sid::new(5, &[u32::MAX; 15]).unwrap();
        let ace = Ace { kind: 0, flags: OI | CI, mask: GENERIC_READ, sid };
        let above = Descriptor { dacl: Some(vec![ace; ENTRIES_MAX]), ..Descriptor::default() };
        let made = inherited(&above, true, sid, sid).unwrap();
        assert_eq!(made.dacl.as_ref().unwrap().len(), 2 * ENTRIES_MAX);
        assert_eq!(Descriptor::parse(&made.to_bytes()), Ok(made));
        let above = Descriptor { dacl: Some(vec![ace; ENTRIES_MAX + 1]), ..Descriptor::default() };
        assert_eq!(inherited(&above, true, sid, sid), None);
    }
}
