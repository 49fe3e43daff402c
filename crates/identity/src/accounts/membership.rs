//! Members of groups, also through other groups.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::error::AccountsError;
use super::format::GroupTable;
use super::limits;
use crate::name::{Id, SYSTEM_GROUPS};
use crate::principal::Names;

/// Groups of users and of groups, without circles.
#[derive(Debug, Default)]
pub(super) struct Memberships {
    /// The groups that name a user or group as a member.
    above: HashMap<Id, Vec<Id>>,
    gids: HashMap<Id, u32>,
    names: HashMap<Id, Box<str>>,
}

impl Memberships {
    pub(super) fn new(groups: &BTreeMap<String, GroupTable>, names: &Names) -> Result<Self, AccountsError> {
        let mut all = Self::default();
        all.names.extend(names.local.iter().map(|(name, id)| (*id, name.clone())));
        let mut below: HashMap<Id, Vec<Id>> = HashMap::new();
        for (name, table) in groups {
            let id = table.id(name);
            all.gids.extend(table.gid.map(|gid| (id, gid)));
            for member in &table.members {
                let member = all.member(name, member, names)?;
                all.above.entry(member).or_default().push(id);
                below.entry(id).or_default().push(member);
            }
        }
        let mut heights = HashMap::new();
        for (name, table) in groups {
            all.height(table.id(name), &below, &mut Vec::new(), &mut heights)?;
        }
        Ok(all)
    }

    /// Returns all groups that `id` is in, in no order, without those that every user is in.
    pub(super) fn of(&self, id: Id) -> Vec<Id> {
        let mut seen = HashSet::new();
        let mut found: Vec<Id> = Vec::new();
        let mut next = Some(id);
        let mut at = 0;
        while let Some(member) = next {
            let above = self.above.get(&member).into_iter().flatten().copied();
            found.extend(above.filter(|group| seen.insert(*group)));
            next = found.get(at).copied();
            at += 1;
        }
        found
    }

    pub(super) fn gid(&self, group: Id) -> Option<u32> {
        self.gids.get(&group).copied()
    }

    pub(super) fn name(&self, id: Id) -> Option<&str> {
        self.names.get(&id).map(|name| &**name)
    }

    fn member(&self, group: &str, member: &str, names: &Names) -> Result<Id, AccountsError> {
        let invalid = |problem: String| AccountsError::invalid(format!("group.{group}.members"), problem);
        if let Some(id) = names.local.get(member) {
            return Ok(*id);
        }
        let is_system = SYSTEM_GROUPS.iter().any(|(name, _)| *name == member);
        Err(invalid(if is_system {
            format!("{member} cannot be a member: name it on the access list itself")
        } else {
            format!("there is no user or group {member:?}")
        }))
    }

    /// Returns the depth of nesting from `group` down, the group included; fails on a circle.
    fn height(
        &self,
        group: Id,
        below: &HashMap<Id, Vec<Id>>,
        path: &mut Vec<Id>,
        heights: &mut HashMap<Id, usize>,
    ) -> Result<usize, AccountsError> {
        if let Some(height) = heights.get(&group) {
            return self.within_bound(path, *height);
        }
        if let Some(at) = path.iter().position(|above| *above == group) {
            let circle: Vec<&str> =
                path[at..].iter().chain([&group]).filter_map(|id| self.name(*id)).collect();
            let key = format!("group.{}.members", self.name(group).unwrap_or_default());
            return Err(AccountsError::invalid(key, format!("a group holds itself: {}", circle.join(" > "))));
        }
        self.within_bound(path, 1)?;
        path.push(group);
        let mut height = 1;
        for member in below.get(&group).into_iter().flatten().filter(|member| member.0 < 0) {
            height = height.max(1 + self.height(*member, below, path, heights)?);
        }
        path.pop();
        heights.insert(group, height);
        Ok(height)
    }

    fn within_bound(&self, path: &[Id], height: usize) -> Result<usize, AccountsError> {
        if path.len() + height <= limits::NESTING_MAX {
            return Ok(height);
        }
        let top = path.first().and_then(|id| self.name(*id)).unwrap_or_default();
        let problem = format!("more than {} groups lie in each other", limits::NESTING_MAX);
        Err(AccountsError::invalid(format!("group.{top}.members"), problem))
    }
}
