//! Parser of smbpasswd(5), Samba's accounts as text: `name:uid:LM:NT:[flags]:LCT-time:`, as `pdbedit -Lw`
//! prints them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::check_posix_id;
use crate::name::{BadName, check_user_name};
use crate::verifier::NtHash;

/// User of a smbpasswd file.
#[derive(Clone, Debug)]
pub struct SambaUser {
    /// Number of the user's line, from 1.
    pub line: usize,
    /// Name of the user in the smbpasswd file.
    pub name: String,
    /// POSIX user that owns the user's files; `None` where the line names no user or root, as which no client
    /// acts here.
    pub uid: Option<u32>,
    /// NT hash of the user, or the reason why the user is not imported.
    pub taken: Result<NtHash, LeftOut>,
}

impl SambaUser {
    /// Returns the name for the accounts file, in lower case: a sign-in with any case finds it.
    pub fn name_here(&self) -> String {
        self.name.to_lowercase()
    }
}

/// Reason why a user is not imported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeftOut {
    /// The account is that of a workstation, a server or a domain.
    #[error("the account of a machine or a domain")]
    Machine,
    /// The user is disabled in the file.
    #[error("disabled")]
    Disabled,
    /// The user has no password, or its hash was not exported.
    #[error("no NT hash")]
    NoHash,
    /// The name is not allowed in the accounts.
    #[error("{0}")]
    Name(BadName),
}

/// Line that is not in the format of smbpasswd. The line is not repeated, as it may hold a hash.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct BadLine {
    /// Number of the line, from 1.
    pub line: usize,
    /// Description of the problem.
    pub problem: String,
}

/// Reads the text of a smbpasswd file. Comments and empty lines are skipped.
///
/// # Errors
/// All lines that are not of the form, and those of a name that an earlier one has.
pub fn parse_smbpasswd(text: &str) -> Result<Vec<SambaUser>, Vec<BadLine>> {
    let (mut users, mut bad) = (Vec::new(), Vec::new());
    let mut names = HashMap::new();
    for (at, text) in text.lines().enumerate() {
        let line = at + 1;
        if text.trim().is_empty() || text.starts_with('#') {
            continue;
        }
        match user(line, text) {
            Ok(user) => match names.entry(user.name_here()) {
                Entry::Vacant(free) => {
                    free.insert(line);
                    users.push(user);
                }
                Entry::Occupied(first) => {
                    bad.push(BadLine { line, problem: format!("line {} has this name too", first.get()) });
                }
            },
            Err(problem) => bad.push(BadLine { line, problem: problem.to_owned() }),
        }
    }
    if bad.is_empty() { Ok(users) } else { Err(bad) }
}

fn user(line: usize, text: &str) -> Result<SambaUser, &'static str> {
    let mut fields = text.split(':');
    let mut field = || fields.next().map(str::trim).ok_or(FORM);
    let (name, uid, _lm, nt, flags) = (field()?, field()?, field()?, field()?, field()?);
    if name.is_empty() {
        return Err("the name is missing");
    }
    let uid: i64 = uid.parse().map_err(|_| "the second field is no uid")?;
    let flags = flags.strip_prefix('[').and_then(|flags| flags.strip_suffix(']'));
    let flags =
        flags.ok_or("the fifth field is no [flags], without which nobody can tell who may sign in")?;
    let has = |letters: &str| flags.contains(|flag: char| letters.contains(flag));
    let hash = match nt {
        none if none.starts_with("NO PASSWORD") || none.bytes().all(|byte| byte == b'X') => None,
        hash => Some(
            hash.parse::<NtHash>().map_err(|_| "the fourth field is no NT hash: 32 hexadecimal digits")?,
        ),
    };
    let mut user = SambaUser {
        line,
        name: name.to_owned(),
        uid: u32::try_from(uid).ok().filter(|uid| check_posix_id(*uid).is_ok()),
        taken: Err(LeftOut::NoHash),
    };
    user.taken = match hash {
        _ if has("WSI") || name.ends_with('$') => Err(LeftOut::Machine),
        _ if has("D") => Err(LeftOut::Disabled),
        // With N any password would do.
        None => Err(LeftOut::NoHash),
        Some(_) if has("N") => Err(LeftOut::NoHash),
        Some(hash) => check_user_name(&user.name_here()).map(|()| hash).map_err(LeftOut::Name),
    };
    Ok(user)
}

const FORM: &str = "it is not name:uid:LM:NT:[flags]:LCT-time:, as pdbedit -Lw prints users";

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "A4F49C406510BDCAB6824EE7C30FD852";
    const NONE: &str = "XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX";

    /// Formats a line as Samba writes it.
    fn line(name: &str, uid: &str, nt: &str, flags: &str) -> String {
        format!("{name}:{uid}:{NONE}:{nt}:[{flags:<11}]:LCT-65A1B2C3:")
    }

    #[test]
    fn users_come_with_their_hashes_and_all_others_with_a_reason() {
        let none = "NO PASSWORDXXXXXXXXXXXXXXXXXXXXX";
        let text = [
            "# Samba's".to_owned(),
            line("alice", "1001", HASH, "U"),
            String::new(),
            line("Bob.Smith", "4294967295", HASH, "UX"),
            line("root", "0", &HASH.to_lowercase(), "U"),
            line("ws1$", "1005", HASH, "W"),
            line("other$", "1006", HASH, "U"),
            line("trust", "1007", HASH, "I"),
            line("carol", "1002", HASH, "DU"),
            line("dave", "1003", NONE, "U"),
            line("erin", "1004", none, "NU"),
            line("open", "1008", HASH, "NU"),
            line("Hans Müller", "1009", HASH, "U"),
            line("guest", "-2", HASH, "U"),
        ]
        .join("\n");
        let users = parse_smbpasswd(&text).unwrap();
        let taken: Vec<_> = users.iter().filter(|user| user.taken.is_ok()).collect();
        let told: Vec<_> = taken.iter().map(|user| (user.line, user.name_here(), user.uid)).collect();
        let expected =
            [(2, "alice", Some(1001)), (4, "bob.smith", None), (5, "root", None), (14, "guest", None)];
        assert_eq!(told, expected.map(|(line, name, uid)| (line, name.to_owned(), uid)));
        let password = NtHash::new(&"Password".into()).unwrap();
        assert!(taken.iter().all(|user| user.taken.as_ref().unwrap().expose() == password.expose()));
        let left: Vec<_> =
            users.iter().filter_map(|user| Some((user.line, user.taken.clone().err()?))).collect();
        let (name, left) = left.split_last().map(|(last, rest)| (last.clone(), rest)).unwrap();
        assert_eq!(
            left,
            [
                (6, LeftOut::Machine),
                (7, LeftOut::Machine),
                (8, LeftOut::Machine),
                (9, LeftOut::Disabled),
                (10, LeftOut::NoHash),
                (11, LeftOut::NoHash),
                (12, LeftOut::NoHash),
            ]
        );
        assert!(matches!(name, (13, LeftOut::Name(_))), "{name:?}");
    }

    #[test]
    fn every_line_that_is_none_is_told_without_what_it_holds() {
        let text = [
            line("alice", "1001", HASH, "U"),
            "alice".to_owned(),
            format!("bob:1002:{NONE}:{HASH}"),
            line("carol", "x", HASH, "U"),
            line("dave", "1004", &HASH[1..], "U"),
            line("erin", "1005", &HASH.replace('A', "G"), "U"),
            format!("frank:1006:{NONE}:{HASH}:Frank:/home/frank:/bin/sh"),
            line("", "1007", HASH, "U"),
            line("ALICE", "1008", HASH, "U"),
        ]
        .join("\n");
        let bad = parse_smbpasswd(&text).unwrap_err();
        assert_eq!(bad.iter().map(|bad| bad.line).collect::<Vec<_>>(), [2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(bad[7].to_string(), "line 9: line 1 has this name too");
        let told = bad.iter().map(ToString::to_string).collect::<String>();
        assert!(!told.contains(&HASH[1..]) && !told.contains(&HASH[2..].replace('A', "G")), "{told}");
        assert!(parse_smbpasswd("").unwrap().is_empty());
    }
}
