//! `linerate user import`: Samba's users, with the hashes that they sign in with.

use std::fmt::Write as _;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use identity::{Accounts, AccountsStore, Id, NewUser, SambaUser, Secret, check_posix_id, parse_smbpasswd};
use serde_json::json;

use crate::accounts::{Where, reload_hint};
use crate::output::{say, table};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// What `pdbedit -Lw` has printed (smbpasswd's form); - is standard input
    file: PathBuf,
    /// Give users that there are already the file's hash; all else of them stays, their password for other services too
    #[arg(long)]
    replace: bool,
    /// Take no POSIX numbers over
    ///
    /// Without this a user is mapped to the POSIX user that he was to Samba, and to that one's first group where this machine's
    /// /etc/passwd knows him by the same name and number.
    #[arg(long)]
    no_uid: bool,
    /// Show what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// JSON for scripts
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Where,
}

/// A user that is imported.
struct ImportedUser {
    line: usize,
    user: NewUser,
}

/// A user that is skipped, and why.
struct SkippedUser {
    line: usize,
    name: String,
    why: String,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let store = args.place.store()?;
    let secret = read(&args.file)?;
    let text = std::str::from_utf8(secret.expose());
    let text = text.with_context(|| format!("{} is no UTF-8", args.file.display()))?;
    let users = parse_smbpasswd(text).map_err(|bad| refused(&args.file, &bad))?;
    ensure!(!users.is_empty(), "{}: there is nobody in it", args.file.display());
    let passwd = (!args.no_uid).then(passwd);
    let (taken, left) = sorted(users, passwd.as_deref());
    if store.exists() {
        refuse_known(&args.file, &taken, &*store.read()?, args.replace)?;
    }
    let new: Vec<NewUser> = taken.iter().map(|taken| taken.user.clone()).collect();
    let done = if args.dry_run {
        store.rehearse(|edit| edit.import_users(&new, args.replace))?
    } else if new.is_empty() {
        // No file is made without users.
        Vec::new()
    } else {
        store.change(|edit| edit.import_users(&new, args.replace))?
    };
    if args.json {
        say!("{}", serde_json::to_string_pretty(&as_json(args, &taken, &done, &left))?);
    } else {
        tell(args, &store, &taken, &done, &left);
    }
    Ok(())
}

/// Returns the users to import, mapped as `passwd` and their lines say, and those left out.
fn sorted(users: Vec<SambaUser>, passwd: Option<&str>) -> (Vec<ImportedUser>, Vec<SkippedUser>) {
    let (mut taken, mut left) = (Vec::new(), Vec::new());
    for user in users {
        let uid = user.uid.filter(|_| passwd.is_some());
        let gid = passwd.and_then(|passwd| first_group(passwd, &user.name, uid?));
        let name = user.name_here();
        match user.taken {
            Ok(nt) => {
                let new = NewUser { name, uid, gid, nt: Some(nt), ..NewUser::default() };
                taken.push(ImportedUser { line: user.line, user: new });
            }
            Err(why) => left.push(SkippedUser { line: user.line, name: user.name, why: why.to_string() }),
        }
    }
    (taken, left)
}

/// Refuses users that are there already, all of them by line: nothing is done in part.
fn refuse_known(
    file: &Path,
    taken: &[ImportedUser],
    accounts: &Accounts,
    replace: bool,
) -> anyhow::Result<()> {
    let groups = accounts.groups();
    let mut bad = Vec::new();
    for ImportedUser { line, user } in taken {
        let name = &user.name;
        if groups.iter().any(|group| group.name == *name) {
            bad.push(format!("line {line}: there is a group {name}"));
        } else if accounts.id_of_user(name).is_some() && !replace {
            bad.push(format!(
                "line {line}: there is a user {name} already; --replace gives him the file's hash"
            ));
        }
    }
    if bad.is_empty() { Ok(()) } else { Err(refused(file, &bad)) }
}

fn refused<T: std::fmt::Display>(file: &Path, bad: &[T]) -> anyhow::Error {
    let mut text = format!("{}: nothing has changed", file.display());
    for problem in bad.iter().take(PROBLEMS_TOLD) {
        let _ = write!(text, "\n  {problem}");
    }
    if bad.len() > PROBLEMS_TOLD {
        let _ = write!(text, "\n  and {} more", bad.len() - PROBLEMS_TOLD);
    }
    anyhow::Error::msg(text)
}

/// Returns the group that `name:password:uid:gid:…` of passwd(5) gives this user; none that no client
/// acts as here, such as root's.
fn first_group(passwd: &str, name: &str, uid: u32) -> Option<u32> {
    let of = |line: &str| {
        let mut fields = line.split(':');
        let is_it = fields.next()? == name && fields.nth(1)?.parse() == Ok(uid);
        fields.next().filter(|_| is_it)?.parse().ok()
    };
    passwd.lines().find_map(of).filter(|gid| check_posix_id(*gid).is_ok())
}

fn tell(
    args: &Args,
    store: &AccountsStore,
    taken: &[ImportedUser],
    done: &[(Id, bool)],
    left: &[SkippedUser],
) {
    let number = |number: Option<u32>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
    if !taken.is_empty() {
        let mut table = table(["line", "user", "id", "uid", "gid", ""], &[0, 2, 3, 4]);
        for (ImportedUser { line, user }, (id, is_replaced)) in taken.iter().zip(done) {
            let (uid, gid, what) = match is_replaced {
                true => (String::new(), String::new(), "has the file's hash"),
                false => (number(user.uid), number(user.gid), "new"),
            };
            let row = [line.to_string(), user.name.clone(), id.to_string(), uid, gid, what.to_owned()];
            table.add_row(row);
        }
        say!("{table}\n");
    }
    if !left.is_empty() {
        let mut table = table(["line", "left out", "why"], &[0]);
        for SkippedUser { line, name, why } in left {
            table.add_row([line.to_string(), name.escape_debug().to_string(), why.clone()]);
        }
        say!("{table}\n");
    }
    let verb = if args.dry_run { "would be taken" } else { "taken" };
    say!("{} {verb}, {} left out", taken.len(), left.len());
    if !args.dry_run && !taken.is_empty() {
        say!(
            "They sign in by SMB; linerate user passwd NAME --nt gives somebody a password for all services."
        );
        say!("{}", reload_hint(store.path()));
    }
}

fn as_json(
    args: &Args,
    taken: &[ImportedUser],
    done: &[(Id, bool)],
    left: &[SkippedUser],
) -> serde_json::Value {
    let taken = taken.iter().zip(done).map(|(ImportedUser { line, user }, (id, is_replaced))| {
        let (uid, gid) = if *is_replaced { (None, None) } else { (user.uid, user.gid) };
        json!({ "line": line, "name": user.name, "id": id.0, "uid": uid, "gid": gid, "replaced": is_replaced })
    });
    let left =
        left.iter().map(|SkippedUser { line, name, why }| json!({ "line": line, "name": name, "why": why }));
    json!({
        "dry_run": args.dry_run,
        "taken": taken.collect::<Vec<_>>(),
        "left_out": left.collect::<Vec<_>>(),
    })
}

/// Reads the file, which is as good as its users' passwords.
fn read(path: &Path) -> anyhow::Result<Secret> {
    let mut input: Box<dyn Read> = match path.to_str() {
        Some("-") => Box::new(std::io::stdin()),
        _ => Box::new(std::fs::File::open(path).with_context(|| format!("cannot open {}", path.display()))?),
    };
    let mut bytes = Vec::new();
    let read = input.by_ref().take(Accounts::FILE_MAX as u64 + 1).read_to_end(&mut bytes);
    let secret = Secret::from(bytes);
    let len = read.with_context(|| format!("cannot read {}", path.display()))?;
    ensure!(len <= Accounts::FILE_MAX, "{} has more than {} bytes", path.display(), Accounts::FILE_MAX);
    Ok(secret)
}

/// Returns the text of passwd(5) of this machine; empty where that cannot be read.
fn passwd() -> String {
    std::fs::read_to_string("/etc/passwd").unwrap_or_default()
}

/// Most problems that are shown: of a file that is none of Samba's, every line would be.
const PROBLEMS_TOLD: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_group_is_that_of_the_same_name_and_number() {
        let passwd = "root:x:0:0::/root:/bin/sh\nalice:x:1001:100:Alice:/home/alice:/bin/sh\nbroken\nbob:x:1002:0::/:\n";
        assert_eq!(first_group(passwd, "alice", 1001), Some(100));
        for (name, uid) in [("alice", 1002), ("carol", 1001), ("bob", 1002), ("broken", 1)] {
            assert_eq!(first_group(passwd, name, uid), None, "{name}");
        }
    }
}
