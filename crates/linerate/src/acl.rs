//! `linerate acl`: the access lists of directories, straight in the tree.

use std::collections::BTreeMap;
use std::ffi::{CStr, OsString};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use afs_client::addressed;
use anyhow::{Context, bail, ensure};
use identity::{ATTRIBUTE_WITNESS, Accounts, Acl, Rights, Side, Who};
use rustix::fs::{OFlags, XattrFlags};
use rustix::io::Errno;
use serde_json::{Value, json};
use server::lists::{self, Marked, RightsIn};

use crate::accounts::Where;
use crate::output::{complain, printable, say, table};

mod accept;
mod convert;

/// Commands of `linerate acl`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Show the access list that counts for a directory
    Get(Get),
    /// Change the access list of a directory
    ///
    /// A list counts in its directory and below it, in every volume, until another one does.
    ///
    /// Rights are letters of rlidwka (read, lookup, insert, delete, write, lock, administer) and A to H, or read
    /// (rl), write (rlidwk), all (rlidwka) and none, which takes the entry away. A directory that has no list of its
    /// own begins with that of the nearest above; with none above, with `system:anyuser=rl` if everybody may
    /// read it.
    #[command(after_help = "Examples:
  linerate acl set /srv/pub alice=write staff=read
  linerate acl set /srv/pub -mallory=w
  linerate acl set /srv/pub --clear system:authuser=read alice=all")]
    Set(Set),
    /// Show all access lists at and below a directory
    List(List),
    /// Move lists and security descriptors to where their volume keeps them
    ///
    /// A volume keeps them in attributes that take CAP_SYS_ADMIN (trusted, of servers of root), or in attributes of users (user, of all
    /// others), as its mark says. What lies in the other kind closes its directory, or file, to all but administrators until this command
    /// has moved it. Those of users may be set by whoever owns a directory: look at them before, by `acl list --attribute user`. With --to the volume's mark is changed too: stop its server before, and give the volume's own directory.
    #[command(after_help = "Examples:
  linerate acl convert /srv/pub --dry-run
  linerate acl convert /srv/pub --to user")]
    Convert(convert::Args),
    /// Say that a volume's lists are as they should be after a restore
    ///
    /// A volume, or a directory, whose lists were lost, as by a copy that leaves extended attributes out, is served to administrators alone
    /// until then.
    /// Look at what there is before, by `linerate acl list DIR`: without a list everybody may read what the server can. It counts at once,
    /// and from the next start on for a volume that is served to administrators alone.
    Accept(accept::Args),
}

#[derive(Debug, clap::Args)]
struct Get {
    /// The directory
    dir: PathBuf,
    /// JSON for scripts
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    kept: Kept,
}

#[derive(Debug, clap::Args)]
struct Set {
    /// The directory
    dir: PathBuf,
    /// Who has which rights: NAME=RIGHTS; -NAME=RIGHTS denies them
    #[arg(value_name = "NAME=RIGHTS", value_parser = parse_change)]
    changes: Vec<Change>,
    /// What [`with_denials`] makes of -NAME=RIGHTS
    #[arg(long = DENY, hide = true, conflicts_with = "inherit", value_name = "NAME=RIGHTS", value_parser = parse_denial)]
    denials: Vec<Change>,
    /// Deny what is named, as if each name had a hyphen
    #[arg(long)]
    negative: bool,
    /// Begin with an empty list
    #[arg(long)]
    clear: bool,
    /// Take the directory's own list away, so that the nearest above counts again
    #[arg(long, conflicts_with_all = ["changes", "negative", "clear"])]
    inherit: bool,
    /// Take names that the accounts do not know
    #[arg(long)]
    unknown: bool,
    /// Admin address of the server that is told, so that the change counts at once
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8090")]
    server: SocketAddr,
    /// State directory of the server, whose owner is believed to run it: for root, where another user does
    #[arg(long, value_name = "DIR", env = "LINERATE_STATE")]
    state: Option<PathBuf>,
    #[command(flatten)]
    kept: Kept,
    #[command(flatten)]
    place: Where,
}

#[derive(Debug, clap::Args)]
struct List {
    /// The directory
    dir: PathBuf,
    /// JSON for scripts
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    kept: Kept,
}

#[derive(Debug, clap::Args)]
struct Kept {
    /// Where lists are kept; without it, as the volume keeps them, or a server that is yours
    #[arg(long, value_enum, value_name = "WHERE")]
    attribute: Option<Attribute>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Attribute {
    /// trusted.linerate.acl: what servers with CAP_SYS_ADMIN go by, such as those of root
    Trusted,
    /// user.linerate.acl: what all others go by
    User,
}

#[derive(Clone, Debug)]
struct Change {
    side: Side,
    who: Who,
    rights: Rights,
}

/// Returns the command line as it is parsed: each `-NAME=RIGHTS` of `acl set` is an option then, so that others may
/// stand behind it.
pub(crate) fn with_denials(line: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut line: Vec<OsString> = line.collect();
    if line.get(1..3).is_some_and(|command| command == ["acl", "set"]) {
        for argument in line[3..].iter_mut().take_while(|argument| *argument != "--") {
            let text = argument.to_str().and_then(|text| text.strip_prefix('-'));
            if let Some(denied) = text.filter(|text| !text.starts_with('-') && text.contains('=')) {
                *argument = format!("--{DENY}={denied}").into();
            }
        }
    }
    line
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::Get(get) => self::get(get)?,
        Command::Set(set) => self::set(set)?,
        Command::List(list) => return self::list(list),
        Command::Convert(args) => return convert::run(args),
        Command::Accept(args) => accept::run(args)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn get(args: &Get) -> anyhow::Result<()> {
    let dir = fs::canonicalize(&args.dir).with_context(|| format!("cannot find {}", args.dir.display()))?;
    let attribute = args.kept.to_read(&dir)?;
    let nearest = nearest(&dir, attribute)?;
    if args.json {
        let shown = nearest.as_ref().map(|(from, acl)| as_json(from, acl));
        say!("{}", serde_json::to_string_pretty(&shown)?);
        return Ok(());
    }
    match nearest {
        Some((from, acl)) => {
            if from != dir {
                say!("{} has no list of its own; what counts is that of {}", dir.display(), from.display());
            }
            show(&acl);
        }
        None => say!(
            "{} has no access list, nor has a directory above it: what counts is the server's default",
            dir.display()
        ),
    }
    remark_other(&dir, attribute);
    Ok(())
}

fn set(args: &Set) -> anyhow::Result<()> {
    let dir = fs::canonicalize(&args.dir).with_context(|| format!("cannot find {}", args.dir.display()))?;
    let (attribute, marked) = args.kept.to_write(&dir)?;
    let file = open(&dir)?;
    // Of two that change one list at once, the second begins with what the first has made of it.
    wait_for_others(&file).with_context(|| format!("cannot lock {}", dir.display()))?;
    if args.inherit {
        remove(&file, attribute)
            .and_then(|()| clear_other(&file, attribute, marked.as_ref()))
            .and_then(|()| say_it_is_meant(&file, marked.as_ref()))
            .with_context(|| format!("cannot take the list of {} away", dir.display()))?;
        tell_server(args.server, args.state.as_deref());
        say!("{} has no list of its own", dir.display());
        return Ok(());
    }
    let mut changes = args.changes.iter().chain(&args.denials).peekable();
    ensure!(args.clear || changes.peek().is_some(), "say who has which rights: alice=write, or --clear");
    let accounts = known(&args.place, args.unknown)?;
    let mut unknown = Vec::new();
    let mut acl = if args.clear { Acl::new() } else { beginning(&dir, &file, attribute)? };
    for change in changes {
        let who = named(change, accounts.as_deref(), args)?;
        let side = if args.negative { Side::Denied } else { change.side };
        if accounts.is_none()
            && !args.unknown
            && !change.rights.is_empty()
            && Accounts::none().id_of(&who).is_none()
        {
            unknown.push(who.to_string());
        }
        acl.set(side, who, change.rights)?;
    }
    write(&file, attribute, &acl)
        .and_then(|()| clear_other(&file, attribute, marked.as_ref()))
        // The answer says that it counts, which holds over a loss of power too.
        .and_then(|()| Ok(file.sync_all()?))
        .with_context(|| format!("cannot set the list of {}", dir.display()))?;
    told(args.server, args.state.as_deref(), |server| server::console::list_given(server, &dir));
    show(&acl);
    if !unknown.is_empty() {
        complain!(
            "linerate: there are no accounts at {} yet, so nobody is {}: such an entry gives nothing, one that denies denies everybody; \
             `linerate user add NAME` makes a user, --unknown takes every name without a word",
            args.place.store()?.path().display(),
            unknown.join(", ")
        );
    }
    remark_place(attribute, marked.as_ref());
    remark_other(&dir, attribute);
    Ok(())
}

/// Fails when a list cannot be read, after all others were shown.
fn list(args: &List) -> anyhow::Result<ExitCode> {
    let root = fs::canonicalize(&args.dir).with_context(|| format!("cannot find {}", args.dir.display()))?;
    let attribute = args.kept.to_read(&root)?;
    let device = fs::metadata(&root)?.dev();
    let mut found = BTreeMap::new();
    let mut code = ExitCode::SUCCESS;
    let mut waiting = vec![root];
    while let Some(dir) = waiting.pop() {
        match own(&dir, attribute) {
            Ok(Some(acl)) => drop(found.insert(dir.clone(), acl)),
            Ok(None) => {}
            Err(error) => {
                complain!("linerate: {error:#}");
                code = ExitCode::FAILURE;
            }
        }
        match below(&dir, device) {
            Ok(more) => waiting.extend(more),
            Err(error) => {
                complain!("linerate: cannot look into {}: {error}", dir.display());
                code = ExitCode::FAILURE;
            }
        }
    }
    if args.json {
        let lists: Vec<_> = found.iter().map(|(dir, acl)| as_json(dir, acl)).collect();
        say!("{}", serde_json::to_string_pretty(&lists)?);
    } else {
        let mut table = table(["directory", "access list"], &[]);
        for (dir, acl) in &found {
            let shown = if acl.is_empty() { "nobody".to_owned() } else { acl.to_string() };
            table.add_row([printable(dir.as_os_str().as_bytes()), shown]);
        }
        say!("{table}");
    }
    Ok(code)
}

impl Kept {
    /// Returns where the lists of a directory are looked for.
    fn to_read(&self, dir: &Path) -> anyhow::Result<Attribute> {
        let marked = marked_above(dir)?;
        Ok(self.attribute.unwrap_or_else(|| Attribute::of(marked.as_ref())))
    }

    /// Returns where a list is set, and the volume that says so.
    fn to_write(&self, dir: &Path) -> anyhow::Result<(Attribute, Option<Marked>)> {
        let marked = marked_above(dir)?;
        let Some(volume) = &marked else {
            return Ok((self.attribute.unwrap_or_else(Attribute::of_process), None));
        };
        let attribute = Attribute::from(volume.rights);
        let root = volume.root.display();
        if let Some(asked) = self.attribute.filter(|asked| *asked != attribute) {
            bail!(
                "the volume at {root} keeps its access lists in {}, so that one in {} would close the directory to all but \
                 administrators: leave --attribute out, or move all of them by `linerate acl convert {root} --to {}`",
                attribute.shown(),
                asked.shown(),
                asked.word()
            );
        }
        if attribute == Attribute::Trusted && !lists::writes_trusted_attributes() {
            bail!(
                "the volume at {root} keeps its access lists in {}, which takes CAP_SYS_ADMIN to write: run this command as root (sudo)",
                attribute.shown()
            );
        }
        Ok((attribute, marked))
    }
}

fn marked_above(dir: &Path) -> anyhow::Result<Option<Marked>> {
    lists::marked_above(dir).with_context(|| format!("cannot tell which volume {} lies in", dir.display()))
}

/// Has a server that runs go by what was changed from now on.
fn tell_server(server: SocketAddr, state: Option<&Path>) {
    told(server, state, server::console::rights_changed);
}

fn told(
    server: SocketAddr,
    state: Option<&Path>,
    tell: impl FnOnce(server::console::RunningServer) -> Result<(), server::console::ConsoleError>,
) {
    let told = server::console::RunningServer::new(server, state).and_then(tell);
    if let Err(error) = told {
        let error = error.to_string();
        let end = if error.ends_with(['.', '?']) { "" } else { "." };
        complain!(
            "linerate: no server was told: {error}{end} A server that runs sees the change by itself within about a second; \
             --server names its admin address"
        );
    }
}

/// Says where the list was put, and why there.
fn remark_place(attribute: Attribute, marked: Option<&Marked>) {
    match marked {
        Some(volume) => complain!(
            "linerate: the list is in {}, where the volume at {} keeps its lists",
            attribute.shown(),
            volume.root.display()
        ),
        None if attribute == Attribute::Trusted => complain!(
            "linerate: the list is in {}, as no volume's mark says otherwise: a server without CAP_SYS_ADMIN cannot read it, and closes \
             the directory to all but administrators; for such a server set it with --attribute user",
            attribute.shown()
        ),
        None => {}
    }
}

impl From<RightsIn> for Attribute {
    fn from(rights: RightsIn) -> Self {
        match rights {
            RightsIn::Trusted => Self::Trusted,
            RightsIn::User => Self::User,
        }
    }
}

impl Attribute {
    /// Returns where a volume keeps its lists; without one, as a server does that has the rights of this
    /// process.
    pub(crate) fn of(volume: Option<&Marked>) -> Self {
        volume.map_or_else(Self::of_process, |volume| volume.rights.into())
    }

    /// Returns where a server keeps lists that has the rights of this process, and makes a volume.
    fn of_process() -> Self {
        if lists::writes_trusted_attributes() { Self::Trusted } else { Self::User }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Trusted => "trusted",
            Self::User => "user",
        }
    }

    /// Returns the attribute of security descriptors that goes with it, as Samba has them.
    pub(crate) fn descriptor(self) -> &'static CStr {
        match self {
            Self::Trusted => lists::DESCRIPTOR_TRUSTED,
            Self::User => lists::DESCRIPTOR_USER,
        }
    }

    fn name(self) -> &'static CStr {
        match self {
            Self::Trusted => identity::ATTRIBUTE_PRIVILEGED,
            Self::User => identity::ATTRIBUTE_UNPRIVILEGED,
        }
    }

    fn shown(self) -> &'static str {
        self.name().to_str().expect("it is written here")
    }

    fn other(self) -> Self {
        if self == Self::Trusted { Self::User } else { Self::Trusted }
    }
}

/// Warns of a list of the other kind, which closes the directory.
fn remark_other(dir: &Path, attribute: Attribute) {
    let other = attribute.other();
    if has(dir, other.name()) {
        complain!(
            "linerate: another list lies in {} (--attribute {} shows it): a server that sees both closes the directory to all but \
             administrators; `linerate acl convert {}` moves what lies where the volume keeps none",
            other.shown(),
            other.word(),
            dir.display()
        );
    }
}

fn has(dir: &Path, name: &CStr) -> bool {
    let Ok(file) = open(dir) else { return false };
    matches!(rustix::fs::fgetxattr(file, name, &mut [0; 1]), Ok(_) | Err(Errno::RANGE))
}

fn parse_denial(text: &str) -> Result<Change, String> {
    parse_change(text).map(|change| Change { side: Side::Denied, ..change })
}

fn parse_change(text: &str) -> Result<Change, String> {
    let (side, entry) = text.strip_prefix('-').map_or((Side::Given, text), |rest| (Side::Denied, rest));
    let (who, rights) = entry
        .split_once('=')
        .ok_or("give NAME=RIGHTS such as alice=write, or -NAME=RIGHTS to deny them".to_owned())?;
    let who = who.parse().map_err(|error: identity::BadName| error.to_string())?;
    let rights = rights.parse().map_err(|error: identity::UnknownRight| error.to_string())?;
    Ok(Change { side, who, rights })
}

/// Returns the accounts, if there are any that can be read: then names are checked against them.
fn known(place: &Where, any_name: bool) -> anyhow::Result<Option<std::sync::Arc<Accounts>>> {
    let store = place.store()?;
    if !store.exists() {
        return Ok(None);
    }
    match store.read() {
        Ok(accounts) => Ok(Some(accounts)),
        Err(_) if any_name => Ok(None),
        Err(error) => Err(error).context("cannot tell whether these users exist; --unknown takes every name"),
    }
}

/// Returns the name that a change is for, in the realm of the accounts if no other is named.
fn named(change: &Change, accounts: Option<&Accounts>, args: &Set) -> anyhow::Result<Who> {
    let who = change.who.clone();
    let Some(accounts) = accounts else { return Ok(who) };
    // Whose account is gone is taken out of a list as others are.
    if accounts.id_of(&who).is_none() && !args.unknown && !change.rights.is_empty() {
        let file = args.place.store()?;
        bail!(
            "there is no user or group {who} in {}: a positive entry would give nothing, a negative one deny everybody; \
             --unknown takes it",
            file.path().display()
        );
    }
    Ok(who.in_realm(accounts.realm())?)
}

/// Returns what a list that is changed begins with.
fn beginning(dir: &Path, file: &File, attribute: Attribute) -> anyhow::Result<Acl> {
    if let Some((_, acl)) = nearest(dir, attribute)? {
        return Ok(acl);
    }
    let mut acl = Acl::new();
    if file.metadata()?.mode() & 0o005 == 0o005 {
        acl.set(Side::Given, "system:anyuser".parse()?, Rights::READER)?;
    }
    Ok(acl)
}

/// Finds the list that counts, and the directory it is of. The volume's root is not known here: the way up ends where
/// the file system begins.
fn nearest(dir: &Path, attribute: Attribute) -> anyhow::Result<Option<(PathBuf, Acl)>> {
    let device = fs::metadata(dir)?.dev();
    for dir in dir.ancestors() {
        if fs::metadata(dir)?.dev() != device {
            break;
        }
        if let Some(acl) = own(dir, attribute)? {
            return Ok(Some((dir.to_owned(), acl)));
        }
    }
    Ok(None)
}

fn own(dir: &Path, attribute: Attribute) -> anyhow::Result<Option<Acl>> {
    let mut bytes = [0; Acl::BYTES_MAX + 1];
    let length = match rustix::fs::fgetxattr(open(dir)?, attribute.name(), &mut bytes) {
        Ok(length) => length,
        Err(Errno::NODATA | Errno::OPNOTSUPP) => return Ok(None),
        // Longer than any list.
        Err(Errno::RANGE) => bytes.len(),
        Err(error) => {
            return Err(error).with_context(|| format!("cannot read the list of {}", dir.display()));
        }
    };
    let acl = Acl::decode(&bytes[..length]);
    let told = || {
        format!(
            "the access list of {} ({}) cannot be read, so it gives nothing; `linerate acl set {} --clear` replaces it",
            dir.display(),
            attribute.shown(),
            dir.display()
        )
    };
    acl.map(Some).with_context(told)
}

fn write(file: &File, attribute: Attribute, acl: &Acl) -> anyhow::Result<()> {
    let set = |name, value: &[u8]| rustix::fs::fsetxattr(file, name, value, XattrFlags::empty());
    set(attribute.name(), &acl.encode()).map_err(explain)?;
    match attribute {
        // Where there is no room for it, it is not needed.
        Attribute::Trusted => drop(set(ATTRIBUTE_WITNESS, b"1")),
        Attribute::User => take_away(file, ATTRIBUTE_WITNESS).map_err(explain)?,
    }
    remove_descriptor(file, attribute)?;
    // A server may act on it at once: it must not come back after a power cut.
    file.sync_all().context("sync")
}

fn remove(file: &File, attribute: Attribute) -> anyhow::Result<()> {
    // A witness whose list is gone would close the directory: where this is interrupted there is a list without one.
    take_away(file, ATTRIBUTE_WITNESS).map_err(explain)?;
    take_away(file, attribute.name()).map_err(explain)?;
    remove_descriptor(file, attribute)?;
    file.sync_all().context("sync")
}

/// Marks a directory as meant to have no list: a server that has seen the list would take it for lost otherwise.
fn say_it_is_meant(file: &File, marked: Option<&Marked>) -> anyhow::Result<()> {
    match marked {
        Some(_) => lists::accept(file, false).context("the extended attribute that says so cannot be set"),
        None => Ok(()),
    }
}

/// Keeps other such commands from the directory until it is closed: each would write over what the other has
/// written. A server that writes to a tree holds the lock of its directory for good, so a command that has
/// waited for as long as a command takes goes on.
fn wait_for_others(file: &File) -> io::Result<()> {
    let give_up = Instant::now() + LOCK_TIME;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if Instant::now() >= give_up => return Ok(()),
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(5)),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

/// Removes a list where the volume keeps none, which would close the directory all the same.
fn clear_other(file: &File, attribute: Attribute, marked: Option<&Marked>) -> anyhow::Result<()> {
    if marked.is_none() || !lists::writes_trusted_attributes() {
        return Ok(());
    }
    take_away(file, attribute.other().name()).map_err(explain)?;
    remove_descriptor(file, attribute.other())?;
    file.sync_all().context("sync")
}

/// Removes an attribute, if there is one.
fn take_away(file: impl AsFd, name: &CStr) -> Result<(), Errno> {
    match rustix::fs::fremovexattr(file, name) {
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(()),
        removed => removed,
    }
}

/// Removes a security descriptor of the directory's own, which would count in place of the list.
fn remove_descriptor(file: &File, attribute: Attribute) -> anyhow::Result<()> {
    take_away(file, attribute.descriptor()).map_err(explain)
}

fn explain(error: Errno) -> anyhow::Error {
    let error_text = match error {
        Errno::OPNOTSUPP => "its file system keeps no extended attributes of this kind",
        Errno::PERM | Errno::ACCESS => "only the directory's owner may, and for trusted.* root alone",
        Errno::ROFS => "its file system is read-only",
        Errno::NOSPC | Errno::DQUOT => "there is no room for the attribute",
        _ => return io::Error::from(error).into(),
    };
    anyhow::anyhow!("{error_text}")
}

fn open(dir: &Path) -> anyhow::Result<File> {
    let flags = OFlags::DIRECTORY.bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(dir);
    file.with_context(|| format!("cannot open {}", dir.display()))
}

/// Returns the directories in `dir` on the same file system; links are not followed.
fn below(dir: &Path, device: u64) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() && entry.metadata()?.dev() == device {
            found.push(entry.path());
        }
    }
    Ok(found)
}

fn show(acl: &Acl) {
    if acl.is_empty() {
        say!("nobody has any right, but for administrators");
        return;
    }
    let mut table = table(["who", "rights"], &[]);
    for (side, sign) in [(Side::Given, ""), (Side::Denied, "-")] {
        for entry in acl.entries(side) {
            table.add_row([format!("{sign}{}", entry.who), entry.rights.to_string()]);
        }
    }
    say!("{table}");
}

fn as_json(dir: &Path, acl: &Acl) -> Value {
    let of = |side| -> Vec<Value> {
        let entries = acl.entries(side).iter();
        entries
            .map(|entry| json!({ "who": entry.who.to_string(), "rights": entry.rights.to_string() }))
            .collect()
    };
    json!({
        "directory": dir.display().to_string(),
        // Of names that are no UTF-8 the one above stands for several.
        "path": addressed(dir.as_os_str().as_bytes()),
        "positive": of(Side::Given),
        "negative": of(Side::Denied),
    })
}

/// The option that denies, which users write as a hyphen.
const DENY: &str = "deny";
/// Longer than one such command takes.
const LOCK_TIME: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_a_name_and_rights_and_a_hyphen_denies() {
        let change = parse_change("alice@R=write").unwrap();
        assert_eq!(
            (change.side, change.who.to_string(), change.rights),
            (Side::Given, "alice@R".into(), Rights::WRITER)
        );
        let change = parse_change("-system:anyuser=rl").unwrap();
        assert_eq!((change.side, change.who.name()), (Side::Denied, "system:anyuser"));
        for text in ["alice", "=rl", "alice=", "alice=x", "--alice=rl", "al ice=r"] {
            assert!(parse_change(text).is_err(), "{text}");
        }
    }
}
