//! Tests of every cell of the tables.

use crate::conflict::{
    BreakAction, FileOperation, RangeUse, break_action, needs, overlaps_well, shares, spares,
};
use crate::{Access, Caching, HeldCaching, Kind, Share};

const ASKS: [FileOperation; 14] = [
    FileOperation::Look,
    FileOperation::LookAtRights,
    FileOperation::Open,
    FileOperation::Overwrite,
    FileOperation::Share,
    FileOperation::Read,
    FileOperation::Write,
    FileOperation::Behind,
    FileOperation::Lock,
    FileOperation::Rename,
    FileOperation::Delete,
    FileOperation::Remove,
    FileOperation::Security,
    FileOperation::Names,
];

/// Rule of a table's row, in words.
struct Rule {
    takes: Caching,
    /// Caching that the operation waits for.
    awaits: Caching,
    /// Caching that is left of a batch oplock, which cannot keep opens without writing.
    of_batch: Option<Caching>,
}

fn rule(operation: FileOperation) -> Rule {
    let rule = |takes, awaits, of_batch| Rule { takes, awaits, of_batch };
    match operation {
        FileOperation::Look => rule(Caching::NONE, Caching::NONE, None),
        FileOperation::Open | FileOperation::Read | FileOperation::LookAtRights => {
            rule(Caching::W, Caching::W, Some(Caching::R))
        }
        FileOperation::Overwrite | FileOperation::Write | FileOperation::Behind | FileOperation::Lock => {
            rule(Caching::RWH, Caching::W, None)
        }
        FileOperation::Share | FileOperation::Delete | FileOperation::Security => {
            rule(Caching::H, Caching::H, Some(Caching::R))
        }
        FileOperation::Rename => rule(Caching::H, Caching::H, Some(Caching::NONE)),
        FileOperation::Remove => rule(Caching::RWH, Caching::from_bits(7).without(Caching::R), None),
        FileOperation::Names => rule(Caching::RWH, Caching::NONE, None),
    }
}

fn caching(held: HeldCaching) -> (bool, Caching) {
    match held {
        HeldCaching::Level2 => (true, Caching::R),
        HeldCaching::Exclusive => (true, Caching::RW),
        HeldCaching::Batch => (true, Caching::RWH),
        HeldCaching::R => (false, Caching::R),
        HeldCaching::RH => (false, Caching::RH),
        HeldCaching::RW => (false, Caching::RW),
        HeldCaching::RWH => (false, Caching::RWH),
    }
}

#[test]
fn every_cell_of_the_table_is_what_its_row_and_column_mean() {
    let mut cells = 0;
    for operation in ASKS {
        for held in HeldCaching::ALL {
            let (is_oplock, has) = caching(held);
            let Rule { takes, awaits, of_batch } = rule(operation);
            // Directories have no oplocks.
            let is_meant = match operation {
                FileOperation::Names => !is_oplock,
                // A reader of rights opens the file beside an oplock, and looks beside a lease.
                FileOperation::LookAtRights => is_oplock,
                _ => true,
            };
            let is_touched = has.bits() & takes.bits() != 0 && is_meant;
            let left = match (held, of_batch) {
                (HeldCaching::Batch, Some(left)) => left,
                _ => has.without(takes),
            };
            let is_awaited = match operation {
                FileOperation::Remove => has != Caching::R,
                _ => has.bits() & awaits.bits() != 0,
            };
            let expected = match (is_touched, is_awaited) {
                (false, _) => BreakAction::Keep,
                (true, false) => BreakAction::Notify(left),
                (true, true) => BreakAction::AwaitAck(left),
            };
            assert_eq!(break_action(operation, held), expected, "{operation:?} beside {held:?}");
            cells += 1;
        }
    }
    assert_eq!(cells, 98);
}

#[test]
fn what_is_left_is_always_something_that_can_be_held() {
    for operation in ASKS {
        for held in HeldCaching::ALL {
            let (is_oplock, has) = caching(held);
            let (BreakAction::Notify(to) | BreakAction::AwaitAck(to)) = break_action(operation, held) else {
                continue;
            };
            assert!(has.contains(to) && to != has, "{operation:?} takes something from {held:?}");
            assert!(to.is_none() || to.contains(Caching::R));
            let kind = if is_oplock { Kind::Oplock } else { Kind::Lease { epoch: None } };
            let column = HeldCaching::of(kind, to);
            assert!(
                !is_oplock || matches!(column, None | Some(HeldCaching::Level2)),
                "{operation:?} beside {held:?}"
            );
            // A holder that is asked the same again has nothing left to give back.
            let again = column.map(|left| break_action(operation, left));
            assert!(matches!(again, None | Some(BreakAction::Keep)), "{operation:?} beside {held:?}");
        }
    }
}

#[test]
fn a_holder_is_spared_what_he_asks_himself_but_for_level_two() {
    for operation in ASKS {
        for held in HeldCaching::ALL {
            let takes_his_own = held == HeldCaching::Level2
                && matches!(operation, FileOperation::Write | FileOperation::Lock);
            assert_eq!(spares(operation, held), !takes_his_own);
        }
    }
}

#[test]
fn opens_stand_beside_each_other_when_each_allows_what_the_other_does() {
    let each = || (0..8).flat_map(|access| (0..8).map(move |share| (access, share)));
    let open = |(access, share)| (Access::from_bits(access), Share::from_bits(share));
    for a in each() {
        for b in each() {
            let bears = |holder: (u8, u8), other: (u8, u8)| {
                (0..3).all(|bit| other.0 >> bit & 1 == 0 || holder.1 >> bit & 1 == 1)
            };
            let expected = a.0 == 0 || b.0 == 0 || (bears(a, b) && bears(b, a));
            assert_eq!(shares(open(a), open(b)), expected, "{a:?} {b:?}");
            assert_eq!(shares(open(a), open(b)), shares(open(b), open(a)));
        }
    }
}

#[test]
fn who_has_no_open_needs_what_an_open_for_it_would() {
    for operation in ASKS {
        let expected = match operation {
            FileOperation::Read => Access::READ,
            FileOperation::Write => Access::WRITE,
            FileOperation::Rename | FileOperation::Remove => Access::DELETE,
            _ => Access::NONE,
        };
        assert_eq!(needs(operation), expected);
    }
}

#[test]
fn every_cell_of_ranges() {
    use RangeUse::{Exclusive, Reading, Shared, Writing};
    let allowed = |exclusive, own| {
        [Shared, Exclusive, Reading, Writing].map(|wants| overlaps_well(exclusive, own, wants))
    };
    // A shared lock keeps even its own open from writing.
    assert_eq!(allowed(false, true), [true, false, true, false]);
    assert_eq!(allowed(false, false), [true, false, true, false]);
    assert_eq!(allowed(true, true), [true, false, true, true]);
    assert_eq!(allowed(true, false), [false; 4]);
}

#[test]
fn the_table_in_the_docs_is_the_one_that_decides() {
    let docs =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/design/vfs.md")).unwrap();
    for operation in ASKS {
        let cell = |held| match break_action(operation, held) {
            BreakAction::Keep => "-".to_owned(),
            BreakAction::Notify(left) => format!("{left:?}"),
            BreakAction::AwaitAck(left) => format!("**{left:?}**"),
        };
        let cells = HeldCaching::ALL.map(cell).join(" | ");
        let row = docs.lines().find(|line| line.starts_with(&format!("| `{operation:?}`:")));
        let row = row.unwrap_or_else(|| panic!("docs/design/vfs.md has no row for {operation:?}"));
        assert!(row.ends_with(&format!(" | {cells} |")), "{operation:?} is {cells}, and not {row}");
    }
}
