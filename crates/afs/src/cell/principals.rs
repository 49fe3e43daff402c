//! Users and groups by number and by name, as the protection server tells of them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use identity::{Accounts, Id, SYSTEM_GROUPS};

/// Users and groups of one snapshot of the accounts, sorted by PTS id. Made once for all lanes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Principals {
    by_id: BTreeMap<i32, PrincipalEntry>,
    by_name: HashMap<Box<str>, i32>,
    last_user: i32,
    last_group: i32,
}

/// A user (a positive number) or a group (a negative one).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PrincipalEntry {
    pub(super) name: Box<str>,
    pub(super) owner: i32,
    /// Direct members of a group, ascending; none of a user.
    pub(super) members: Vec<i32>,
    /// Groups that the principal is in directly, ascending.
    pub(super) groups: Vec<i32>,
}

impl Principals {
    /// Makes the table of these accounts, with the principals that every cell has.
    pub fn of(accounts: &Accounts) -> Self {
        let mut principals = Self::default();
        for (name, id) in SYSTEM_GROUPS.into_iter().chain([(ANONYMOUS, Id::ANONYMOUS)]) {
            principals.insert(id, name);
        }
        let (users, groups) = (accounts.users(), accounts.groups());
        users.iter().for_each(|user| principals.insert(user.id, &user.name));
        groups.iter().for_each(|group| principals.insert(group.id, &group.name));
        for group in &groups {
            let mut members: Vec<i32> = group.members.iter().filter_map(|name| principals.id(name)).collect();
            members.sort_unstable();
            for member in &members {
                principals.person_mut(*member).groups.push(group.id.0);
            }
            principals.person_mut(group.id.0).members = members;
        }
        principals.by_id.values_mut().for_each(|person| person.groups.sort_unstable());
        let [user, group] = accounts.next_ids();
        principals.last_user = user.map_or(i32::MAX, |next| next.0 - 1);
        principals.last_group = group.map_or(i32::MIN, |next| next.0 + 1);
        principals
    }

    fn insert(&mut self, id: Id, name: &str) {
        // `OWNER:NAME` is a user's own group; all else is the administrators'.
        let owner = name.split_once(':').and_then(|(owner, _)| self.id(owner)).filter(|_| id.0 < 0);
        let owner = owner.unwrap_or(Id::ADMINISTRATORS.0);
        self.by_name.insert(name.into(), id.0);
        self.by_id.insert(id.0, PrincipalEntry { name: name.into(), owner, ..PrincipalEntry::default() });
    }

    fn person_mut(&mut self, id: i32) -> &mut PrincipalEntry {
        self.by_id.get_mut(&id).expect("whoever has a name has a number")
    }

    pub(super) fn get(&self, id: i32) -> Option<&PrincipalEntry> {
        self.by_id.get(&id)
    }

    pub(super) fn id(&self, name: &str) -> Option<i32> {
        self.by_name.get(name).copied()
    }

    /// Returns all principals, by number.
    pub(super) fn all(&self) -> impl Iterator<Item = (i32, &PrincipalEntry)> {
        self.by_id.iter().map(|(id, person)| (*id, person))
    }

    /// Returns the greatest number of a user and the least of a group that was ever given.
    pub(super) fn last(&self) -> (i32, i32) {
        (self.last_user, self.last_group)
    }

    /// Returns the current protection subdomain: the number, and those of all groups it is in, also through others;
    /// ascending.
    pub(super) fn subdomain(&self, id: i32) -> Option<Vec<i32>> {
        let mut found = BTreeSet::from([id, Id::ANYUSER.0]);
        if id != Id::ANONYMOUS.0 {
            found.insert(Id::AUTHUSER.0);
        }
        let mut ahead = self.get(id)?.groups.clone();
        while let Some(group) = ahead.pop() {
            if found.insert(group) {
                ahead.extend(self.get(group).into_iter().flat_map(|group| &group.groups));
            }
        }
        Some(found.into_iter().collect())
    }
}

/// Name of unauthenticated clients.
const ANONYMOUS: &str = "anonymous";

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Two users, and groups in one another.
    pub(in crate::cell) const ACCOUNTS: &str = r#"
version = 1
[user.anne]
id = 1001
[user.bert]
id = 1002
[group.staff]
id = -2001
members = ["anne", "anne:friends"]
[group."anne:friends"]
id = -2002
members = ["bert"]
[group."system:administrators"]
members = ["anne"]
"#;

    #[test]
    fn whoever_is_in_a_group_is_in_those_that_the_group_is_in() {
        let principals = Principals::of(&Accounts::parse(ACCOUNTS).unwrap());
        let id = |name: &str| principals.id(name).unwrap();
        assert_eq!((id("anne"), id("staff"), id("anonymous")), (1001, -2001, 32766));
        assert_eq!(principals.get(-2001).unwrap().members, [-2002, 1001]);
        assert_eq!(principals.get(-2002).unwrap().owner, 1001);
        assert_eq!(principals.get(-2001).unwrap().owner, -204);
        assert_eq!(principals.get(1002).unwrap().groups, [-2002]);
        assert_eq!(principals.subdomain(1002).unwrap(), [-2002, -2001, -102, -101, 1002]);
        assert_eq!(principals.subdomain(1001).unwrap(), [-2001, -204, -102, -101, 1001]);
        assert_eq!(principals.subdomain(32766).unwrap(), [-101, 32766]);
        assert_eq!(principals.subdomain(77), None);
        assert_eq!(principals.last(), (1002, -2002));
    }

    #[test]
    fn the_subdomain_is_the_one_that_access_lists_are_decided_with() {
        let accounts = Accounts::parse(ACCOUNTS).unwrap();
        let principals = Principals::of(&accounts);
        for name in ["anne", "bert"] {
            let user = accounts.user(name).unwrap();
            let ids: Vec<i32> = user.subdomain().iter().map(|id| id.0).collect();
            assert_eq!(principals.subdomain(user.id().0).unwrap(), ids);
        }
    }
}
