//! `linerate user`: users and their passwords.

use std::process::ExitCode;

use anyhow::{Context, bail, ensure};
use identity::{Account, AccountsStore, Id, NewUser, NtHash, PasswordHash, Secret, Strength, Who};
use serde_json::json;

use crate::accounts::{Where, parse_posix_id, read, reload_hint};
use crate::output::{say, table};
use crate::password::{first_line, prompt};

mod import;

/// Commands of `linerate user`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Add a user; asks for the password
    Add(Add),
    /// Give a user another password
    Passwd(Passwd),
    /// Take a user away; his number is never given again
    ///
    /// His name stays on access lists, where it then gives nothing, and denies everybody what it denied. Whoever is
    /// given the name later has what the lists say: to keep somebody out, `linerate user disable` is the safer way.
    Del(Name),
    /// Let a user sign in no more
    Disable(Name),
    /// Let a disabled user sign in again
    Enable(Name),
    /// Show the users
    List(List),
    /// Take users over from Samba, with what they sign in with
    ///
    /// On Samba's machine, as root: pdbedit -Lw > users; then linerate user import users, and users is deleted: who has it has their
    /// passwords, to SMB. Machines, disabled users and those without an NT hash are left out. A mistake in one line, or a name that
    /// there is already, and nothing is changed.
    Import(import::Args),
}

#[derive(Debug, clap::Args)]
struct Add {
    /// Name of the user: a to z, 0 to 9, dot, hyphen, underscore
    name: String,
    /// AFS number; without it, the next that nobody has had
    #[arg(long, value_parser = clap::value_parser!(i32).range(1..))]
    id: Option<i32>,
    /// POSIX user he is mapped to: new files become his, where the server may give them away
    #[arg(long, value_parser = parse_posix_id)]
    uid: Option<u32>,
    /// His first POSIX group
    #[arg(long, value_parser = parse_posix_id)]
    gid: Option<u32>,
    /// His name in a realm, such as that of his Kerberos tickets; may be given several times
    #[arg(long = "principal", value_name = "NAME@REALM")]
    principals: Vec<Who>,
    /// No password: he signs in by other means
    #[arg(long, conflicts_with_all = ["nt", "password_stdin"])]
    no_password: bool,
    /// Keep an NT hash too, which SMB with passwords needs; it is as good as the password to a thief
    #[arg(long)]
    nt: bool,
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    place: Where,
}

#[derive(Debug, clap::Args)]
struct Passwd {
    /// Name of the user
    name: String,
    /// Keep an NT hash from now on, which SMB with passwords needs; it is as good as the password to a thief
    #[arg(long, conflicts_with = "no_nt")]
    nt: bool,
    /// Keep no NT hash any more
    #[arg(long)]
    no_nt: bool,
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    place: Where,
}

#[derive(Debug, clap::Args)]
struct Input {
    /// Read the password from standard input, where it is the first line
    #[arg(long)]
    password_stdin: bool,
}

#[derive(Debug, clap::Args)]
struct Name {
    /// Name of the user
    name: String,
    #[command(flatten)]
    place: Where,
}

#[derive(Debug, clap::Args)]
struct List {
    /// JSON for scripts
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Where,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::Add(add) => self::add(add)?,
        Command::Passwd(passwd) => self::passwd(passwd)?,
        Command::Del(Name { name, place }) => {
            let store = place.store()?;
            store.change(|edit| edit.remove_user(name))?;
            done(&store, &format!("{name} is gone; access lists that name {name} stay as they are"));
        }
        Command::Disable(Name { name, place }) => {
            let store = place.store()?;
            store.change(|edit| edit.set_disabled(name, true))?;
            done(
                &store,
                &format!("{name} is disabled here; servers that run refuse {name} once they have read it"),
            );
        }
        Command::Enable(Name { name, place }) => {
            let store = place.store()?;
            store.change(|edit| edit.set_disabled(name, false))?;
            done(
                &store,
                &format!(
                    "{name} is enabled here; servers that run let {name} sign in once they have read it"
                ),
            );
        }
        Command::List(list) => self::list(list)?,
        Command::Import(args) => import::run(args)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn add(args: &Add) -> anyhow::Result<()> {
    let store = args.place.store()?;
    identity::check_user_name(&args.name)?;
    // Before the user types a password for nothing.
    if store.exists() && store.read()?.users().iter().any(|user| user.name == args.name) {
        bail!(
            "there is a user {} already: linerate user passwd {} gives another password",
            args.name,
            args.name
        );
    }
    let password = if args.no_password { None } else { Some(args.input.password(&args.name)?) };
    let user = NewUser {
        name: args.name.clone(),
        id: args.id.map(Id),
        uid: args.uid,
        gid: args.gid,
        principals: args.principals.clone(),
        nt: password.as_ref().filter(|_| args.nt).and_then(NtHash::new),
        password: password.map(|password| PasswordHash::new(&password, Strength::default())),
    };
    let id = store.change(|edit| edit.add_user(&user))?;
    done(&store, &format!("{} is user {id}", user.name));
    if user.password.is_some() {
        by_smb(&user.name, user.nt.is_some());
    }
    Ok(())
}

fn passwd(args: &Passwd) -> anyhow::Result<()> {
    let store = args.place.store()?;
    let accounts = read(&store)?;
    let users = accounts.users();
    let user = users.iter().find(|user| user.name == args.name);
    let user = user.with_context(|| format!("there is no user {0}: linerate user add {0}", args.name))?;
    let password = args.input.password(&args.name)?;
    let keeps_nt = args.nt || user.has_nt && !args.no_nt;
    let nt = if keeps_nt { NtHash::new(&password) } else { None };
    let hash = PasswordHash::new(&password, Strength::default());
    store.change(|edit| edit.set_password(&args.name, Some(&hash), nt.as_ref()))?;
    let smb = if nt.is_some() { ", for SMB too" } else { "" };
    done(&store, &format!("{} has a new password{smb}", args.name));
    if args.nt {
        by_smb(&args.name, true);
    }
    Ok(())
}

/// Says how a user reaches the shares, or what keeps it from them.
fn by_smb(name: &str, has_nt: bool) {
    if !has_nt {
        say!("SMB does not know {name}'s password: linerate user passwd {name} --nt");
        return;
    }
    say!("By SMB, with the server's name and a volume's in place of SERVER and VOLUME:");
    say!("  smbclient -U {name} //SERVER/VOLUME");
    say!("  mount -t cifs -o username={name},vers=3.1.1,uid=$(id -u) //SERVER/VOLUME /mnt");
    say!("  in Windows: net use Z: \\\\SERVER\\VOLUME /user:{name}");
    say!("  in the Finder, Go > Connect to Server: smb://{name}@SERVER/VOLUME");
}

impl Input {
    /// Asks twice, without showing what is typed.
    fn password(&self, name: &str) -> anyhow::Result<Secret> {
        let password = if self.password_stdin { first_line()? } else { ask(name)? };
        let text = std::str::from_utf8(password.expose()).ok().context("the password is no UTF-8")?;
        ensure!(
            text.chars().count() >= PASSWORD_CHARS_MIN && text.len() <= Secret::LENGTH_MAX,
            "a password has at least {PASSWORD_CHARS_MIN} characters and at most {} bytes",
            Secret::LENGTH_MAX
        );
        ensure!(!text.contains(char::is_control), "a password has no control characters");
        Ok(password)
    }
}

fn ask(name: &str) -> anyhow::Result<Secret> {
    let first = prompt(&format!("Password for {name}: "))?;
    let again = prompt("Once more: ")?;
    ensure!(first.expose() == again.expose(), "these were two different passwords: nothing has changed");
    Ok(first)
}

fn list(args: &List) -> anyhow::Result<()> {
    let store = args.place.store()?;
    let users = read(&store)?.users();
    if args.json {
        let users: Vec<_> = users.iter().map(as_json).collect();
        say!("{}", serde_json::to_string_pretty(&users)?);
        return Ok(());
    }
    let mut table = table(["user", "id", "uid", "password", "groups", "principals"], &[1, 2]);
    for user in users {
        let uid = user.uid.map(|uid| uid.to_string()).unwrap_or_default();
        let principals = user.principals.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        let password = password_shown(&user);
        table.add_row([user.name, user.id.to_string(), uid, password, user.groups.join(" "), principals]);
    }
    say!("{table}");
    Ok(())
}

fn password_shown(user: &Account) -> String {
    let kind = match (user.strength.is_some(), user.has_nt) {
        (true, true) => "yes, and for SMB",
        (true, false) => "yes",
        (false, true) => "for SMB",
        (false, false) => "none",
    };
    if user.disabled { format!("disabled ({kind})") } else { kind.to_owned() }
}

fn as_json(user: &Account) -> serde_json::Value {
    json!({
        "name": user.name,
        "id": user.id.0,
        "uid": user.uid,
        "gid": user.gid,
        "principals": user.principals.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "disabled": user.disabled,
        "password": user.strength.map(|strength| json!({
            "memory_kib": strength.memory_kib,
            "passes": strength.passes,
            "lanes": strength.lanes,
        })),
        "nt": user.has_nt,
        "groups": user.groups,
    })
}

fn done(store: &AccountsStore, what: &str) {
    say!("{what}\n{}", reload_hint(store.path()));
}

/// Shorter ones are guessed, whatever a guess costs.
const PASSWORD_CHARS_MIN: usize = 8;
