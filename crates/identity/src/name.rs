//! Names and numbers of users and groups.

use std::fmt;
use std::str::FromStr;

/// AFS number: users have positive ones, groups negative ones. Numbers are never given twice, so a file's
/// recorded owner stays the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(pub i32);

impl Id {
    /// Number of `system:administrators`.
    pub const ADMINISTRATORS: Self = Self(-204);
    /// Number of `system:anyuser`, the group of every client.
    pub const ANYUSER: Self = Self(-101);
    /// Number of `system:authuser`, the group of every authenticated user.
    pub const AUTHUSER: Self = Self(-102);
    /// Number of unauthenticated clients.
    pub const ANONYMOUS: Self = Self(32766);
    /// Numbers that no user or group of an accounts file may have, as AFS reserves some of them.
    pub(crate) const RESERVED_GROUPS: std::ops::RangeInclusive<i32> = -999..=0;

    /// Returns the next number that a user may have; `None` after the last.
    pub(crate) fn after(self) -> Option<Self> {
        let next = self.0.checked_add(1)?;
        Some(Self(if next == Self::ANONYMOUS.0 { next + 1 } else { next }))
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Groups that exist in all accounts. Only the first has members of its own choice.
pub const SYSTEM_GROUPS: [(&str, Id); 3] = [
    ("system:administrators", Id::ADMINISTRATORS),
    ("system:anyuser", Id::ANYUSER),
    ("system:authuser", Id::AUTHUSER),
];

/// Longest name of a user or group, in bytes: AFS's wire has 64 with the terminating zero.
pub const NAME_MAX: usize = 63;
/// Longest realm, in bytes.
pub const REALM_MAX: usize = 63;

/// User or group as an access list names it: a name, and the realm that knows it by that name. The realm is
/// empty on a server that has none.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Who {
    name: Box<str>,
    realm: Box<str>,
}

impl Who {
    /// Makes a name in a realm, which may be empty.
    ///
    /// # Errors
    ///
    /// The name is empty, too long, or has a character that no name has.
    pub fn new(name: &str, realm: &str) -> Result<Self, BadName> {
        check_part(name, NAME_MAX)?;
        if !realm.is_empty() {
            check_part(realm, REALM_MAX)?;
        }
        if name.starts_with("system:") && !realm.is_empty() {
            return Err(BadName::new(&format!("{name}@{realm}"), "groups of the system have no realm"));
        }
        Ok(Self { name: name.into(), realm: realm.into() })
    }

    /// Returns the name in its realm.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the realm, empty for none.
    pub fn realm(&self) -> &str {
        &self.realm
    }

    /// Puts a name without a realm into `realm`, except system groups, which have none.
    ///
    /// # Errors
    /// A realm that cannot be.
    pub fn in_realm(self, realm: &str) -> Result<Self, BadName> {
        if self.realm.is_empty() && !self.name.starts_with("system:") {
            Self::new(&self.name, realm)
        } else {
            Ok(self)
        }
    }
}

/// Parses `NAME` or `NAME@REALM`.
impl FromStr for Who {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        match text.split_once('@') {
            Some((_, "")) => Err(BadName::new(text, "the realm after @ is missing")),
            Some((name, realm)) => Self::new(name, realm),
            None => Self::new(text, ""),
        }
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.realm.is_empty() {
            f.pad(&self.name)
        } else {
            f.pad(&format!("{}@{}", self.name, self.realm))
        }
    }
}

/// Error of a name that is not valid, with the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} cannot be a name: {problem}")]
pub struct BadName {
    name: String,
    problem: &'static str,
}

impl BadName {
    fn new(name: &str, problem: &'static str) -> Self {
        Self { name: name.to_owned(), problem }
    }
}

/// Checks whether a user of an accounts file may have this name, which every protocol can carry.
///
/// # Errors
/// Why not.
pub fn check_user_name(name: &str) -> Result<(), BadName> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '_' | '-');
    check_part(name, NAME_MAX)?;
    if !name.chars().all(fits) {
        return Err(BadName::new(name, "a user's has only a to z, 0 to 9, dot, hyphen and underscore"));
    }
    if !name.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_') {
        return Err(BadName::new(name, "it begins with a letter, a digit or an underscore"));
    }
    if name == "anonymous" {
        return Err(BadName::new(name, "it means who has not said who he is"));
    }
    if WRITABLE_WORDS.contains(&name) {
        return Err(BadName::new(name, "in a volume's `writable` it means something else"));
    }
    Ok(())
}

/// Checks whether a group may have this name: one that a user may have, or `USER:NAME` as in AFS, or
/// `system:administrators`.
///
/// # Errors
/// Why not.
pub fn check_group_name(name: &str) -> Result<(), BadName> {
    match name.split_once(':') {
        Some(("system", "administrators")) => Ok(()),
        Some(("system", _)) => {
            Err(BadName::new(name, "of the system's groups only system:administrators has members"))
        }
        Some((owner, rest)) => {
            check_part(name, NAME_MAX)?;
            check_user_name(owner).and_then(|()| check_user_name(rest))
        }
        None => check_user_name(name),
    }
}

/// Words of a volume's `writable` (docs/reference/configuration.md).
const WRITABLE_WORDS: [&str; 3] = ["anyone", "listed", "nobody"];

fn check_part(part: &str, longest: usize) -> Result<(), BadName> {
    if part.is_empty() {
        return Err(BadName::new(part, "it is empty"));
    }
    if part.len() > longest {
        return Err(BadName::new(part, "it has more than 63 bytes"));
    }
    let is_bad = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '@' | '=' | ',' | '"' | '\\');
    if part.chars().any(is_bad) {
        return Err(BadName::new(part, "it has a space, a control character, or one of @ = , \" \\"));
    }
    // What a command line takes for a flag or for a right taken away.
    if part.starts_with(['-', '+']) {
        return Err(BadName::new(part, "it begins with a sign"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_say_its_realm() {
        let who: Who = "alice@EXAMPLE.COM".parse().unwrap();
        assert_eq!(
            (who.name(), who.realm(), who.to_string().as_str()),
            ("alice", "EXAMPLE.COM", "alice@EXAMPLE.COM")
        );
        let here = "alice".parse::<Who>().unwrap().in_realm("HERE").unwrap();
        assert_eq!(here.to_string(), "alice@HERE");
        let system = "system:anyuser".parse::<Who>().unwrap().in_realm("HERE").unwrap();
        assert_eq!(system.to_string(), "system:anyuser");
        for text in [
            "",
            "@",
            "alice@",
            "@R",
            "a b",
            "a\tb",
            "a\n",
            "a=b",
            "a,b",
            "-a",
            "+a",
            "a@b@c",
            "system:anyuser@R",
        ] {
            assert!(text.parse::<Who>().is_err(), "{text:?}");
        }
        assert!(Who::new(&"n".repeat(63), &"r".repeat(63)).is_ok());
        assert!(Who::new(&"n".repeat(64), "").is_err() && Who::new("n", &"r".repeat(64)).is_err());
    }

    #[test]
    fn users_have_names_that_every_protocol_can_say() {
        assert!(["alice", "a.b-c_d", "7of9", "_x"].iter().all(|name| check_user_name(name).is_ok()));
        for name in
            ["", "Alice", "a:b", "a b", ".a", "-a", "anonymous", "anyone", "listed", "nobody", "ä", "a/b"]
        {
            assert!(check_user_name(name).is_err(), "{name:?}");
        }
        assert!(
            ["staff", "alice:friends", "system:administrators"]
                .iter()
                .all(|name| check_group_name(name).is_ok())
        );
        for name in ["system:anyuser", "system:backup", "a:b:c", ":a", "a:"] {
            assert!(check_group_name(name).is_err(), "{name:?}");
        }
    }
}
