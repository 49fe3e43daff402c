//! `linerate volume`: what is kept of volumes beside their trees. Which are served, the configuration says.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use server::volumes::{UsageState, VolumeName, VolumeShown, Volumes, VolumesError};

use crate::output::{self, say, table};
use crate::stat;

mod check;

/// Commands of `linerate volume`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Give a tree its number before it is first served, and print what the configuration needs
    ///
    /// The directory is made where there is none. A server does the same by itself when it first serves a volume that is
    /// writable.
    Create(Create),
    /// Show the volumes
    List(Look),
    /// Show all that is known of a volume
    Status(Status),
    /// Compare what is kept of volumes with their trees, and mend what does not agree
    ///
    /// Numbers and places of files, marks and generations, what a crash left, access lists, volumes inside of volumes. Takes the
    /// index for itself: stop the server first. The exit code is 0 when there was nothing to do, 3 when all that was wrong is
    /// mended, 4 when something is left to do, 1 when something could not be compared.
    Check(Check),
    /// Forget a volume: its number, and the numbers and versions of its files; the files stay
    ///
    /// Clients fetch anew what they had of it, and it has another number when it is served again.
    Remove(Remove),
}

#[derive(Debug, clap::Args)]
struct Create {
    /// What it is called
    name: VolumeName,
    /// Its directory
    path: PathBuf,
    #[command(flatten)]
    place: Where,
}

#[derive(Debug, clap::Args)]
struct Look {
    /// JSON for scripts
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: Server,
    #[command(flatten)]
    place: Where,
}

#[derive(Debug, clap::Args)]
struct Status {
    /// Which volume
    name: String,
    #[command(flatten)]
    look: Look,
}

#[derive(Debug, clap::Args)]
struct Check {
    /// Which volume; without it, all of them
    name: Option<String>,
    /// Mend nothing: only say what is wrong
    #[arg(long)]
    dry_run: bool,
    /// Put an index aside that cannot be opened, being damaged or of a later version, and begin a new one
    ///
    /// Numbers and versions begin anew above all that were given out, and clients fetch again what they have cached. The old index is
    /// kept beside the new one. Refused where it can be opened.
    #[arg(long, conflicts_with_all = ["name", "dry_run", "json"])]
    replace_index: bool,
    /// JSON for scripts
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Where,
}

#[derive(Debug, clap::Args)]
struct Remove {
    /// Which volume
    name: String,
    /// Do it: without this, only say what would be done
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    place: Where,
}

/// Where the index is.
#[derive(Debug, clap::Args)]
struct Where {
    /// The state directory of the server; without it, that of the server run as you
    ///
    /// As server.state_dir of the configuration. For root /var/lib/linerate, for others linerate in $XDG_STATE_HOME or
    /// ~/.local/state.
    #[arg(long, value_name = "DIR", env = "LINERATE_STATE")]
    state: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct Server {
    /// Admin address of the server, which is asked while it runs
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8090")]
    server: SocketAddr,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::Create(create) => self::create(create)?,
        Command::List(look) => list(look)?,
        Command::Status(Status { name, look }) => status(name, look)?,
        Command::Check(check) => return check::run(check),
        Command::Remove(remove) => return self::remove(remove),
    }
    Ok(ExitCode::SUCCESS)
}

fn create(args: &Create) -> anyhow::Result<()> {
    let state = args.place.state()?;
    let volumes = Volumes::open_or_make(&state)?;
    let made = volumes.create(&args.name, &args.path);
    volumes.close()?;
    let made = made?;
    say!("{} is volume {}. To serve it, put this into the configuration:\n", made.name, made.id);
    if server::config::default_state_dir().as_ref() != Some(&state) {
        say!("[server]\nstate_dir = {}\n", quoted(&state.canonicalize()?)?);
    }
    say!("[[volume]]\nname = \"{}\"\npath = {}\nwritable = \"listed\"", made.name, quoted(&made.path)?);
    Ok(())
}

/// Quotes a path as JSON and TOML do alike.
fn quoted(path: &Path) -> anyhow::Result<String> {
    Ok(serde_json::to_string(&path.to_string_lossy())?)
}

fn list(args: &Look) -> anyhow::Result<()> {
    let (why_none, volumes) = args.look()?;
    if args.json {
        say!("{}", serde_json::to_string_pretty(&volumes)?);
        return Ok(());
    }
    if volumes.is_empty() {
        say!("no volumes: {why_none}");
        return Ok(());
    }
    let mut table = table(["volume", "number", "served", "path", "trouble"], &[1]);
    for volume in volumes {
        let served = served(&volume);
        let (id, path) = (number(&volume), volume.path.display().to_string());
        table.add_row([volume.name, id, served, path, volume.trouble.unwrap_or_default()]);
    }
    say!("{}", table.trim_fmt());
    Ok(())
}

fn status(name: &str, args: &Look) -> anyhow::Result<()> {
    let volume = known(args.look()?.1, name)?;
    if args.json {
        say!("{}", serde_json::to_string_pretty(&volume)?);
        return Ok(());
    }
    let served = served(&volume);
    let mut table = table(["volume", &volume.name], &[]);
    table.add_row(["number", &number(&volume)]);
    table.add_row(["path", &volume.path.display().to_string()]);
    table.add_row(["served", &served]);
    table.add_row(["generation", &volume.generation.to_string()]);
    if let Some(usage) = &volume.usage {
        table.add_row(["bytes", &of(usage.bytes, usage.quota_bytes)]);
        table.add_row(["files", &of(usage.files, usage.quota_files)]);
        table.add_row(["counted", &counted(usage.state)]);
    }
    table.add_row(["trouble", volume.trouble.as_deref().unwrap_or("none")]);
    say!("{}", table.trim_fmt());
    Ok(())
}

/// Returns what is used, of what there may be.
fn of(used: u64, quota: Option<u64>) -> String {
    match quota {
        Some(quota) => format!("{used} of {quota}"),
        None => used.to_string(),
    }
}

fn counted(state: UsageState) -> String {
    match state {
        UsageState::Counted => "yes".to_owned(),
        UsageState::Earlier => "earlier: something may have changed since".to_owned(),
        UsageState::Counting { directories } => {
            format!("{} so far", output::counted(directories, "directory", "directories"))
        }
        UsageState::InDoubt => "no: a change did not come to its end, it is counted anew".to_owned(),
    }
}

fn number(volume: &VolumeShown) -> String {
    if volume.id == 0 { "none".to_owned() } else { volume.id.to_string() }
}

fn served(volume: &VolumeShown) -> String {
    match (volume.served, volume.writable) {
        (true, true) => "yes",
        (true, false) => "read-only",
        (false, _) => "no",
    }
    .to_owned()
}

fn known(volumes: Vec<VolumeShown>, name: &str) -> anyhow::Result<VolumeShown> {
    let volume = volumes.into_iter().find(|volume| volume.name == name);
    volume.with_context(|| format!("there is no volume {name}: linerate volume list shows them"))
}

fn remove(args: &Remove) -> anyhow::Result<ExitCode> {
    let state = args.place.existing()?;
    let opened = if args.yes { Volumes::open(&state)? } else { Volumes::look(&state)? };
    let Some(volumes) = opened else {
        bail!("there is no index in {}, and so no volume {}", state.display(), args.name);
    };
    if !args.yes {
        let VolumeShown { name, id, path, .. } = known(volumes.list(), &args.name)?;
        say!(
            "volume {name} (number {id}) would be forgotten, and the numbers and versions of its files; what lies in {} \
             stays. Give --yes to do it",
            path.display()
        );
        return Ok(ExitCode::FAILURE);
    }
    let removed = known(volumes.list(), &args.name).and_then(|_| Ok(volumes.remove(&args.name)?));
    volumes.close()?;
    let removed = removed?;
    say!("volume {} is forgotten; what lies in {} is as it was", removed.name, removed.path.display());
    if let Some(trouble) = removed.trouble {
        say!("nothing was done to the directory: {trouble}");
    }
    Ok(ExitCode::SUCCESS)
}

impl Look {
    /// Returns the volumes, and the reason where there are none. The index is asked, or while a server holds it that server.
    fn look(&self) -> anyhow::Result<(String, Vec<VolumeShown>)> {
        let state = self.place.existing()?;
        let asked = || stat::fetch(self.server.server);
        let opened = match Volumes::look(&state) {
            Err(VolumesError::InUse) => match asked() {
                Ok(asked) => {
                    return Ok((format!("the server at {} knows none", self.server.server), asked.volumes));
                }
                // Another command may hold it, for a moment.
                Err(error) => match Volumes::look_patiently(&state) {
                    Err(VolumesError::InUse) => {
                        let told = "a server holds the index, and is asked: --server gives its admin address";
                        return Err(error.context(told));
                    }
                    opened => opened,
                },
            },
            opened => opened,
        };
        let place = state.display();
        Ok(match opened? {
            Some(volumes) => (format!("the index in {place} knows none"), volumes.list()),
            None => (
                format!("there is no index in {place}; a server makes one for volumes that are writable"),
                Vec::new(),
            ),
        })
    }
}

impl Where {
    /// Returns the state directory ([`state`](Self::state)), where something is looked for: a directory that
    /// was named is there.
    fn existing(&self) -> anyhow::Result<PathBuf> {
        if let Some(state) = self.state.as_ref().filter(|state| !state.is_dir()) {
            bail!("there is no directory {}: --state takes the state directory of a server", state.display());
        }
        self.state()
    }

    fn state(&self) -> anyhow::Result<PathBuf> {
        let state = self.state.clone().or_else(server::config::default_state_dir);
        state.context("nothing says where the index is: there is no HOME; give --state DIR")
    }
}
