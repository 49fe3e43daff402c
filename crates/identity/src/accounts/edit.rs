//! Changes of the accounts file's text that leave comments, order and everything else as they are.

use std::sync::Arc;

use toml_edit::{Array, DocumentMut, Item, Table, Value};
use zeroize::Zeroizing;

use super::{Accounts, AccountsError};
use crate::name::{Id, Who, check_group_name, check_user_name};
use crate::verifier::{NtHash, PasswordHash};

/// Text of an accounts file while [`AccountsStore::change`](super::AccountsStore::change) edits it.
#[derive(Debug)]
pub struct Edit {
    document: DocumentMut,
}

/// User to be added to the accounts.
#[derive(Clone, Debug, Default)]
pub struct NewUser {
    /// The user's name ([`check_user_name`]).
    pub name: String,
    /// Number of the user; `None` for the next free one.
    pub id: Option<Id>,
    /// The POSIX user that the user is mapped to.
    pub uid: Option<u32>,
    /// The user's first POSIX group.
    pub gid: Option<u32>,
    /// The user's names in other realms.
    pub principals: Vec<Who>,
    /// Verifier of the user's password; `None` for a user that signs in by other means.
    pub password: Option<PasswordHash>,
    /// NT hash of the user's password, which SMB needs.
    pub nt: Option<NtHash>,
}

impl Edit {
    /// Text that a new accounts file begins with.
    pub(super) const EMPTY: &str = "\
# Users and groups of Linerate. `linerate user` and `linerate group` change this file and keep your comments; after
# changes of your own, send the server a SIGHUP. The format: docs/users/access.md.
version = 1
";

    pub(super) fn new(text: &str) -> Result<Self, AccountsError> {
        // Read as accounts first, whose errors say more, and which a change must not hide.
        Accounts::parse(text)?;
        let document = text.parse().map_err(|error: toml_edit::TomlError| {
            AccountsError::Syntax(error.message().lines().collect::<Vec<_>>().join(", "))
        })?;
        Ok(Self { document })
    }

    /// Parses the text as changed so far.
    ///
    /// # Errors
    /// What the changes so far would be refused for.
    pub fn accounts(&self) -> Result<Arc<Accounts>, AccountsError> {
        Accounts::parse(&Zeroizing::new(self.document.to_string()))
    }

    /// Adds a user and returns the user's number.
    ///
    /// # Errors
    /// The name or number is in use already, or not allowed, or no number is left.
    pub fn add_user(&mut self, user: &NewUser) -> Result<Id, AccountsError> {
        let [next, _] = self.accounts()?.next_ids();
        let id = user.id.or(next).ok_or_else(no_user_number)?;
        self.insert_user(user, id)?;
        if next.is_some_and(|next| id >= next) {
            self.document.insert("last_user", number(id.0));
        }
        self.accounts().map(|_| id)
    }

    /// Adds users with the next numbers. With `replace` a user that exists already is given the NT hash that
    /// comes, and keeps all else. Returns each user's number, and whether it existed.
    ///
    /// # Errors
    /// A name is in use already, or not allowed, or no number is left.
    pub fn import_users(
        &mut self,
        users: &[NewUser],
        replace: bool,
    ) -> Result<Vec<(Id, bool)>, AccountsError> {
        let before = self.accounts()?;
        let [mut next, _] = before.next_ids();
        let mut last = None;
        let mut done = Vec::with_capacity(users.len());
        for user in users {
            if let Some(known) = before.id_of_user(&user.name).filter(|_| replace) {
                self.put(&user.name, "nt", user.nt.as_ref().map(NtHash::to_text));
                done.push((known, true));
                continue;
            }
            let id = next.ok_or_else(no_user_number)?;
            self.insert_user(user, id)?;
            done.push((id, false));
            last = Some(id);
            next = id.after();
        }
        if let Some(last) = last {
            self.document.insert("last_user", number(last.0));
        }
        self.accounts().map(|_| done)
    }

    /// Replaces the verifiers of a user; `None` removes one.
    ///
    /// # Errors
    /// There is no such user.
    pub fn set_password(
        &mut self,
        name: &str,
        password: Option<&PasswordHash>,
        nt: Option<&NtHash>,
    ) -> Result<(), AccountsError> {
        self.user(name)?;
        self.put_password(name, password, nt);
        Ok(())
    }

    /// Disables a user's sign-in, or enables it again.
    ///
    /// # Errors
    /// There is no such user.
    pub fn set_disabled(&mut self, name: &str, disabled: bool) -> Result<(), AccountsError> {
        let user = self.user(name)?;
        if disabled {
            user.insert("disabled", toml_edit::value(true));
        } else {
            user.remove("disabled");
        }
        Ok(())
    }

    /// Removes a user, from all groups too. The number is not given again.
    ///
    /// # Errors
    /// There is no such user.
    pub fn remove_user(&mut self, name: &str) -> Result<(), AccountsError> {
        self.user(name)?;
        self.remove("user", name)
    }

    /// Adds a group and returns its number.
    ///
    /// # Errors
    /// The name is in use already, or not allowed, or no number is left.
    pub fn add_group(&mut self, name: &str, gid: Option<u32>) -> Result<Id, AccountsError> {
        check_group_name(name).map_err(|problem| AccountsError::invalid("the name", problem))?;
        self.refuse_taken(name)?;
        let [_, next] = self.accounts()?.next_ids();
        let mut table = Table::new();
        let is_administrators = name == "system:administrators";
        let id = if is_administrators { Some(Id::ADMINISTRATORS) } else { next };
        let id = id.ok_or_else(|| AccountsError::no_number("last_group", "group", Id(i32::MIN)))?;
        if !is_administrators {
            table.insert("id", number(id.0));
            self.document.insert("last_group", number(id.0));
        }
        gid.map(|gid| table.insert("gid", number(gid)));
        self.tables("group").insert(name, Item::Table(table));
        self.accounts().map(|_| id)
    }

    /// Removes a group, from all other groups too.
    ///
    /// # Errors
    /// There is no such group.
    pub fn remove_group(&mut self, name: &str) -> Result<(), AccountsError> {
        self.group(name)?;
        self.remove("group", name)
    }

    /// Adds a user or group to a group; returns false for a member it already had. `system:administrators` is
    /// made when it gets its first member.
    ///
    /// # Errors
    /// There is no such group or member, or groups would lie in each other in a circle or too deep.
    pub fn add_member(&mut self, group: &str, member: &str) -> Result<bool, AccountsError> {
        if group == "system:administrators" && self.group(group).is_err() {
            self.add_group(group, None)?;
        }
        let members = self.members(group)?;
        if members.iter().any(|known| known.as_str() == Some(member)) {
            return Ok(false);
        }
        push(members, member);
        self.accounts().map(|_| true)
    }

    /// Removes a user or group from a group.
    ///
    /// # Errors
    /// There is no such group, or it has no such member.
    pub fn remove_member(&mut self, group: &str, member: &str) -> Result<(), AccountsError> {
        let members = self.members(group)?;
        let at = members.iter().position(|known| known.as_str() == Some(member));
        let at =
            at.ok_or_else(|| AccountsError::NotFound(format!("{member} is not in the group {group}")))?;
        members.remove(at);
        tidy(members);
        Ok(())
    }

    /// Returns the new text, if it can be parsed as accounts.
    pub(super) fn finish(self) -> Result<Zeroizing<String>, AccountsError> {
        let text = Zeroizing::new(self.document.to_string());
        Accounts::parse(&text)?;
        Ok(text)
    }

    fn insert_user(&mut self, user: &NewUser, id: Id) -> Result<(), AccountsError> {
        check_user_name(&user.name).map_err(|problem| AccountsError::invalid("the name", problem))?;
        self.refuse_taken(&user.name)?;
        let mut table = Table::new();
        table.insert("id", number(id.0));
        for (key, given) in [("uid", user.uid), ("gid", user.gid)] {
            given.map(|given| table.insert(key, number(given)));
        }
        if !user.principals.is_empty() {
            table.insert("principals", Item::Value(list(user.principals.iter().map(ToString::to_string))));
        }
        self.tables("user").insert(&user.name, Item::Table(table));
        self.put_password(&user.name, user.password.as_ref(), user.nt.as_ref());
        Ok(())
    }

    fn put_password(&mut self, name: &str, password: Option<&PasswordHash>, nt: Option<&NtHash>) {
        self.put(name, "password", password.map(PasswordHash::to_text));
        self.put(name, "nt", nt.map(NtHash::to_text));
    }

    fn put(&mut self, name: &str, key: &str, text: Option<Zeroizing<String>>) {
        let Some(table) = self.tables("user").get_mut(name).and_then(Item::as_table_like_mut) else { return };
        match text {
            Some(text) => drop(table.insert(key, toml_edit::value(text.as_str()))),
            None => drop(table.remove(key)),
        }
    }

    fn refuse_taken(&mut self, name: &str) -> Result<(), AccountsError> {
        for kind in ["user", "group"] {
            if self.tables(kind).contains_key(name) {
                return Err(AccountsError::Exists(format!("there is a {kind} {name} already")));
            }
        }
        Ok(())
    }

    fn remove(&mut self, kind: &str, name: &str) -> Result<(), AccountsError> {
        self.tables(kind).remove(name);
        let groups = self.tables("group");
        for (_, group) in groups.iter_mut() {
            let members = group.get_mut("members").and_then(Item::as_array_mut);
            if let Some(members) = members.filter(|members| has(members, name)) {
                members.retain(|member| member.as_str() != Some(name));
                tidy(members);
            }
        }
        Ok(())
    }

    fn user(&mut self, name: &str) -> Result<&mut dyn toml_edit::TableLike, AccountsError> {
        self.one("user", name)
    }

    fn group(&mut self, name: &str) -> Result<&mut dyn toml_edit::TableLike, AccountsError> {
        self.one("group", name)
    }

    fn one(&mut self, kind: &str, name: &str) -> Result<&mut dyn toml_edit::TableLike, AccountsError> {
        let found = self.tables(kind).get_mut(name).and_then(Item::as_table_like_mut);
        found.ok_or_else(|| AccountsError::NotFound(format!("there is no {kind} {name}")))
    }

    fn members(&mut self, group: &str) -> Result<&mut Array, AccountsError> {
        let group = self.group(group)?;
        let members = group.entry("members").or_insert(toml_edit::value(Array::new()));
        members.as_array_mut().ok_or_else(|| AccountsError::Syntax("members is no list".to_owned()))
    }

    /// Returns the table of `[user.…]` or `[group.…]`, made if missing, without a header of its own.
    fn tables(&mut self, kind: &str) -> &mut dyn toml_edit::TableLike {
        let tables = self.document.entry(kind).or_insert_with(|| {
            let mut table = Table::new();
            table.set_implicit(true);
            Item::Table(table)
        });
        tables.as_table_like_mut().expect("the text has been read as accounts, where it is a table")
    }
}

fn no_user_number() -> AccountsError {
    AccountsError::no_number("last_user", "user", Id(i32::MAX))
}

fn number(number: impl Into<i64>) -> Item {
    toml_edit::value(number.into())
}

fn list(texts: impl IntoIterator<Item = String>) -> Value {
    let mut array = Array::new();
    texts.into_iter().for_each(|text| array.push(text));
    Value::Array(array)
}

fn has(members: &Array, name: &str) -> bool {
    members.iter().any(|member| member.as_str() == Some(name))
}

/// Appends a member on a line of its own, so that a difference of files shows members that came and went.
fn push(members: &mut Array, member: &str) {
    members.push(member);
    tidy(members);
}

/// Puts every member on a line of its own, with the comments beside it.
fn tidy(members: &mut Array) {
    for member in members.iter_mut() {
        let prefix =
            member.decor().prefix().and_then(|prefix| prefix.as_str()).unwrap_or_default().to_owned();
        if !prefix.contains('\n') {
            member.decor_mut().set_prefix(format!("{}\n    ", prefix.trim_end()));
        }
    }
    let is_empty = members.is_empty();
    members.set_trailing_comma(!is_empty);
    let trailing = members.trailing().as_str().unwrap_or_default().to_owned();
    if !trailing.contains('\n') || is_empty && trailing.trim().is_empty() {
        members.set_trailing(if is_empty { "" } else { "\n" });
    }
}

#[cfg(test)]
mod tests;
