//! Mapping of POSIX users and groups to accounts, the inverse of the accounts file's.

use std::collections::{BTreeMap, HashMap};

use super::format::{GroupTable, UserTable};
use crate::name::Id;

#[derive(Debug, Default)]
pub(super) struct Posix {
    users: HashMap<u32, Id>,
    groups: HashMap<u32, Id>,
}

impl Posix {
    pub(super) fn new(users: &BTreeMap<String, UserTable>, groups: &BTreeMap<String, GroupTable>) -> Self {
        let mut all = Self::default();
        for table in users.values() {
            note(&mut all.users, table.uid, Id(table.id));
        }
        for (name, table) in groups {
            note(&mut all.groups, table.gid, table.id(name));
        }
        all
    }

    pub(super) fn user(&self, uid: u32) -> Option<Id> {
        self.users.get(&uid).copied()
    }

    pub(super) fn group(&self, gid: u32) -> Option<Id> {
        self.groups.get(&gid).copied()
    }
}

/// Maps a POSIX number to an account; of several accounts the one with the number nearest to 0 wins.
fn note(all: &mut HashMap<u32, Id>, posix: Option<u32>, id: Id) {
    let Some(posix) = posix else { return };
    let known = all.entry(posix).or_insert(id);
    if id.0.unsigned_abs() < known.0.unsigned_abs() {
        *known = id;
    }
}
