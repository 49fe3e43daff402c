//! Format of the accounts file: TOML, version 1. What is not known is refused with its line.

use std::collections::{BTreeMap, HashMap};
use std::str::FromStr;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

use super::error::AccountsError;
use super::limits;
use crate::name::{Id, Who, check_group_name, check_user_name};
use crate::principal::Names;
use crate::verifier::{NtHash, PasswordHash};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AccountsFile {
    #[serde(rename = "version")]
    _version: i64,
    #[serde(default)]
    realm: String,
    #[serde(default)]
    last_user: i32,
    #[serde(default)]
    last_group: i32,
    #[serde(default, deserialize_with = "toml_file::tables")]
    pub(super) user: BTreeMap<String, UserTable>,
    #[serde(default, deserialize_with = "toml_file::tables")]
    pub(super) group: BTreeMap<String, GroupTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UserTable {
    pub(super) id: i32,
    #[serde(default, deserialize_with = "from_text")]
    pub(super) password: Option<PasswordHash>,
    #[serde(default, deserialize_with = "from_text")]
    pub(super) nt: Option<NtHash>,
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
    #[serde(default, deserialize_with = "all_from_text")]
    pub(super) principals: Vec<Who>,
    #[serde(default)]
    pub(super) disabled: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GroupTable {
    id: Option<i32>,
    pub(super) gid: Option<u32>,
    #[serde(default)]
    pub(super) members: Vec<String>,
}

pub(super) fn parse(text: &str) -> Result<AccountsFile, AccountsError> {
    if text.len() > limits::FILE_MAX {
        return Err(AccountsError::Syntax(format!("it has more than {} bytes", limits::FILE_MAX)));
    }
    match read::<Version>(text)?.version {
        Some(VERSION) => {}
        Some(other) => return Err(AccountsError::Version(other)),
        None => {
            return Err(AccountsError::invalid("version", "is missing: write `version = 1` above all else"));
        }
    }
    let file: AccountsFile = read(text)?;
    file.check()?;
    Ok(file)
}

impl AccountsFile {
    /// Returns the table of names and numbers; fails on a name or number that is used twice.
    pub(super) fn names(&self) -> Result<Names, AccountsError> {
        let users = self.user.iter().map(|(name, user)| ("user", name, Id(user.id)));
        let groups = self.group.iter().map(|(name, group)| ("group", name, group.id(name)));
        let mut local: HashMap<Box<str>, Id> = HashMap::new();
        let mut owners: HashMap<Id, String> = HashMap::new();
        for (kind, name, id) in users.chain(groups) {
            let key = format!("{kind}.{name}");
            if local.insert(name.as_str().into(), id).is_some() {
                return Err(AccountsError::invalid(key, "a user has this name too"));
            }
            if let Some(other) = owners.insert(id, key.clone()) {
                return Err(AccountsError::invalid(format!("{key}.id"), format!("{other} has {id} too")));
            }
        }
        let foreign = self.foreign(&local)?;
        Ok(Names { realm: self.realm.as_str().into(), local, foreign })
    }

    fn foreign(&self, local: &HashMap<Box<str>, Id>) -> Result<HashMap<Who, Id>, AccountsError> {
        let mut foreign = HashMap::new();
        for (name, user) in &self.user {
            let invalid =
                |problem: String| AccountsError::invalid(format!("user.{name}.principals"), problem);
            for who in &user.principals {
                if who.realm().is_empty() {
                    return Err(invalid(format!("{who} has no realm: write NAME@REALM")));
                }
                let taken = who.realm() == self.realm && who.name() != name && local.contains_key(who.name());
                let other = foreign.insert(who.clone(), Id(user.id));
                if taken || other.is_some_and(|other| other != Id(user.id)) {
                    return Err(invalid(format!("{who} is somebody else too")));
                }
            }
        }
        Ok(foreign)
    }

    /// Returns the next numbers of a user and of a group; `None` where the last possible number has been
    /// given.
    pub(super) fn next_ids(&self) -> [Option<Id>; 2] {
        let users = self.user.values().map(|user| user.id).filter(|id| *id != Id::ANONYMOUS.0);
        let last_user = users.chain([self.last_user, FIRST - 1]).max().unwrap_or_default();
        let groups = self.group.iter().map(|(name, group)| group.id(name).0);
        let last_group = groups.chain([self.last_group, 1 - FIRST]).min().unwrap_or_default();
        [Id(last_user).after(), last_group.checked_sub(1).map(Id)]
    }

    fn check(&self) -> Result<(), AccountsError> {
        if !self.realm.is_empty() {
            Who::new("x", &self.realm).map_err(|problem| AccountsError::invalid("realm", problem))?;
        }
        for (key, is_wrong) in [("last_user", self.last_user < 0), ("last_group", self.last_group > 0)] {
            if is_wrong {
                let problem = "numbers of users are positive, those of groups negative";
                return Err(AccountsError::invalid(key, problem));
            }
        }
        for (kind, count, most) in
            [("user", self.user.len(), limits::USERS_MAX), ("group", self.group.len(), limits::GROUPS_MAX)]
        {
            if count > most {
                return Err(AccountsError::invalid(
                    kind,
                    format!("there are {count}, at most {most} may be"),
                ));
            }
        }
        self.user.iter().try_for_each(|(name, user)| user.check(name))?;
        self.group.iter().try_for_each(|(name, group)| group.check(name))
    }
}

impl UserTable {
    fn check(&self, name: &str) -> Result<(), AccountsError> {
        let invalid =
            |key: &str, problem: &str| Err(AccountsError::invalid(format!("user.{name}{key}"), problem));
        if let Err(problem) = check_user_name(name) {
            return invalid("", &problem.to_string());
        }
        if self.id <= 0 || self.id == Id::ANONYMOUS.0 {
            return invalid(".id", "numbers of users are positive, and 32766 is anonymous");
        }
        for (key, number) in [(".uid", self.uid), (".gid", self.gid)] {
            if let Err(problem) = number.map_or(Ok(()), check_posix_id) {
                return invalid(key, problem);
            }
        }
        Ok(())
    }
}

impl GroupTable {
    pub(super) fn id(&self, name: &str) -> Id {
        if name == "system:administrators" { Id::ADMINISTRATORS } else { Id(self.id.unwrap_or_default()) }
    }

    fn check(&self, name: &str) -> Result<(), AccountsError> {
        let invalid =
            |key: &str, problem: &str| Err(AccountsError::invalid(format!("group.{name}{key}"), problem));
        if let Err(problem) = check_group_name(name) {
            return invalid("", &problem.to_string());
        }
        if let Err(problem) = self.gid.map_or(Ok(()), check_posix_id) {
            return invalid(".gid", problem);
        }
        match (self.id(name), self.id) {
            (Id::ADMINISTRATORS, None | Some(-204)) => Ok(()),
            (Id::ADMINISTRATORS, Some(_)) => invalid(".id", "that of system:administrators is -204"),
            (_, None) => invalid("", "its id is missing: numbers of groups are negative, from -1000 on"),
            (Id(id), _) if id > 0 || Id::RESERVED_GROUPS.contains(&id) => {
                invalid(".id", "numbers of groups are negative, and those above -1000 are the system's")
            }
            _ => Ok(()),
        }
    }
}

#[derive(Deserialize)]
struct Version {
    version: Option<i64>,
}

/// Deserializes the text. No error shows what verifies a password.
fn read<T: DeserializeOwned>(text: &str) -> Result<T, AccountsError> {
    let is_secret = |key: &str| [".password", ".nt"].iter().any(|ending| key.ends_with(ending));
    toml_file::read_hiding(text, is_secret).map_err(|refusal| AccountsError::Syntax(refusal.to_string()))
}

/// Refuses a POSIX number of a user or group that no client may act as.
///
/// # Errors
/// What is wrong with it.
pub fn check_posix_id(number: u32) -> Result<(), &'static str> {
    match number {
        0 => Err("nobody acts as root: put administrators into the group system:administrators"),
        // chown(2), setresuid(2)
        u32::MAX => {
            Err("4294967295 is -1, by which system calls mean no change: give a number from 1 to 4294967294")
        }
        _ => Ok(()),
    }
}

fn from_text<'de, D: Deserializer<'de>, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: FromStr<Err: std::fmt::Display>,
{
    let text = zeroize::Zeroizing::new(String::deserialize(deserializer)?);
    text.parse().map(Some).map_err(serde::de::Error::custom)
}

fn all_from_text<'de, D: Deserializer<'de>, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    T: FromStr<Err: std::fmt::Display>,
{
    let texts = Vec::<String>::deserialize(deserializer)?;
    texts.iter().map(|text| text.parse().map_err(serde::de::Error::custom)).collect()
}

pub(super) const VERSION: i64 = 1;
/// First number of a user, and negated that of a group.
const FIRST: i32 = 1000;
