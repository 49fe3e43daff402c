//! `linerate serve`: from the command line to a running server.

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use identity::Writable;
use server::config::{Config, ConfigError, LogFormat, Services};
use server::logs::{self, Diagnostics};
use server::{Server, ServerError};

use crate::output::say;

/// Flags of `linerate serve`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Directory to serve; its volume is called as it is
    #[arg(required_unless_present = "config", conflicts_with = "config")]
    dir: Option<PathBuf>,
    /// Configuration file, for everything the flags cannot say
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address for HTTP; may be given several times, `off` for none
    #[arg(long, value_name = "ADDR", value_parser = parse_listen)]
    http: Vec<Listen>,
    /// Address for HTTPS; may be given several times, `off` for none
    #[arg(long, value_name = "ADDR", value_parser = parse_listen)]
    https: Vec<Listen>,
    /// Address for AFS's file server, such as 0.0.0.0:7000; `off` for none
    #[arg(long, value_name = "ADDR", value_parser = parse_afs)]
    afs: Option<Listen>,
    /// Address for SMB, such as 0.0.0.0:445; may be given several times, `off` for none
    #[arg(long, value_name = "ADDR", value_parser = parse_listen)]
    smb: Vec<Listen>,
    /// Address for metrics and `linerate stat`; `off` for none
    #[arg(long, value_name = "ADDR", value_parser = parse_admin)]
    admin: Option<Listen>,
    /// Accounts of the users; without it, those that `linerate user` makes for you
    #[arg(long, value_name = "FILE", env = "LINERATE_ACCOUNTS")]
    accounts: Option<PathBuf>,
    /// Number of lanes; without it, one for each core
    #[arg(short, long)]
    lanes: Option<usize>,
    /// One silo over all NUMA nodes, to compare with
    #[arg(long)]
    no_silo: bool,
    /// Access log: a file, or - for standard output
    #[arg(long, value_name = "FILE")]
    access_log: Option<PathBuf>,
    /// Write the access log as JSON
    #[arg(long, requires = "access_log")]
    json_log: bool,
    /// Serve and list names that begin with a dot
    #[arg(long, conflicts_with = "config")]
    serve_dotfiles: bool,
    /// How `--serve-dotfiles` was called before
    #[arg(long = "hidden", hide = true)]
    renamed_hidden: bool,
    /// Who may write: `anyone`, `listed` for whom access lists let, or users and groups with commas between; from
    /// a server of root also whom mode bits let
    #[arg(long, value_name = "WHO", conflicts_with = "config")]
    writable: Option<Writable>,
    /// Check whether a start would succeed, then end; `--check=reload` for a server that runs already
    #[arg(long, value_enum, value_name = "FOR", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "start", hide_possible_values = true)]
    check: Option<Check>,
}

/// What `--check` checks for.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Check {
    /// All that a start needs, its addresses included
    Start,
    /// A reload of a server that has its addresses already
    Reload,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    anyhow::ensure!(!args.renamed_hidden, "--hidden is called --serve-dotfiles now");
    // Before there is any other thread, which would keep them.
    server::process::prepare().context("the privileges of the process cannot be given up")?;
    let filter = std::env::var("LINERATE_LOG").ok().filter(|filter| !filter.is_empty());
    let _diagnostics = Diagnostics::start(filter.as_deref(), cli::is_plain()).context("LINERATE_LOG")?;
    let source = args.clone_source();
    // One value each for the process: what they keep outlives reloads.
    let services = source.services();
    let given = source.clone();
    let load = move || source.load(&services);
    let config = load()?;
    if let Some(check) = args.check {
        let what = match check {
            Check::Start => server::CheckFor::Start,
            Check::Reload => server::CheckFor::Reload,
        };
        for warning in server::check(&config, what).map_err(|error| given.told(error))? {
            logs::warn(&warning);
        }
        say!("the configuration is good");
        return Ok(ExitCode::SUCCESS);
    }
    let server = Server::start(config).map_err(|error| given.told(error))?;
    logs::announce(&greeting(&server));
    for warning in server.warnings() {
        logs::warn(warning);
    }
    server.run(move || load().map_err(|error| cli::error_chain(&error)))?;
    Ok(ExitCode::SUCCESS)
}

/// Returns what this program can serve, as a configuration says.
pub(crate) fn services() -> Arc<Services> {
    Arc::new([
        Arc::new(http::Http::listening(None, None)),
        Arc::new(afs::Afs::listening(None)),
        Arc::new(smb::Smb::listening(None)),
    ])
}

/// Source that a reload reads again.
#[derive(Clone, Debug)]
struct ReloadSource {
    dir: Option<PathBuf>,
    file: Option<PathBuf>,
    http: Vec<Listen>,
    https: Vec<Listen>,
    afs: Option<Listen>,
    smb: Vec<Listen>,
    admin: Option<Listen>,
    accounts: Option<PathBuf>,
    lanes: Option<usize>,
    no_silo: bool,
    access_log: Option<PathBuf>,
    json_log: bool,
    serve_dotfiles: bool,
    writable: Option<Writable>,
}

impl Args {
    fn clone_source(&self) -> ReloadSource {
        ReloadSource {
            dir: self.dir.clone(),
            file: self.config.clone(),
            http: self.http.clone(),
            https: self.https.clone(),
            afs: self.afs.clone(),
            smb: self.smb.clone(),
            admin: self.admin.clone(),
            accounts: self.accounts.clone(),
            lanes: self.lanes,
            no_silo: self.no_silo,
            access_log: self.access_log.clone(),
            json_log: self.json_log,
            serve_dotfiles: self.serve_dotfiles,
            writable: self.writable.clone(),
        }
    }
}

impl ReloadSource {
    /// Returns what this program can serve.
    fn services(&self) -> Arc<Services> {
        let given = |listen: &[Listen]| {
            (!listen.is_empty()).then(|| listen.iter().flat_map(|listen| &listen.0).copied().collect())
        };
        let afs = self.afs.as_ref().map(|listen| listen.0.clone());
        Arc::new([
            Arc::new(http::Http::listening(given(&self.http), given(&self.https))),
            Arc::new(afs::Afs::listening(afs)),
            Arc::new(smb::Smb::listening(given(&self.smb))),
        ])
    }

    fn load(&self, services: &Services) -> anyhow::Result<Config> {
        Ok(self.read(services).map_err(|error| self.as_given(error))?)
    }

    fn told(&self, error: ServerError) -> anyhow::Error {
        match error {
            ServerError::Config(error) => self.as_given(error).into(),
            ServerError::Accounts(error) if self.accounts.is_some() => anyhow::anyhow!("--accounts: {error}"),
            other => other.into(),
        }
    }

    /// Words an error about what the command line gave as such, and not by the key of a configuration that it would be.
    fn as_given(&self, error: ConfigError) -> ConfigError {
        let ConfigError::Invalid { key, problem, place } = error else { return error };
        let of_directory = self.dir.is_some();
        let argument = match key.as_str() {
            "volume[0].path" | "volume[0].name" if of_directory => "DIR",
            "volume[0].writable" if self.writable.is_some() => "--writable",
            "identity.accounts" if self.accounts.is_some() => "--accounts",
            "server.lanes" if self.lanes.is_some() => "--lanes",
            "admin.listen" if self.admin.is_some() => "--admin",
            "log.access" if self.access_log.is_some() => "--access-log",
            "http.listen" if !self.http.is_empty() => "--http",
            "https.listen" if !self.https.is_empty() => "--https",
            "afs.listen" if self.afs.is_some() => "--afs",
            "smb.listen" if !self.smb.is_empty() => "--smb",
            _ => return ConfigError::Invalid { key, problem, place },
        };
        ConfigError::invalid(argument, problem)
    }

    fn read(&self, services: &Services) -> Result<Config, ConfigError> {
        let mut config = match (&self.file, &self.dir) {
            (Some(file), _) => Config::load(file, services)?,
            (None, Some(dir)) => {
                let absolute = std::path::absolute(dir).map_err(|error| {
                    ConfigError::invalid("volume[0].path", format!("cannot find {}: {error}", dir.display()))
                })?;
                Config::for_directory(&absolute, services)?
            }
            (None, None) => unreachable!("clap asks for one of them"),
        };
        if let Some(admin) = &self.admin {
            config.admin.listen = admin.0.first().copied();
        }
        if self.accounts.is_some() {
            config.identity.accounts = self.accounts.as_deref().map(absolute);
        }
        if self.lanes.is_some() {
            config.server.lanes = self.lanes;
        }
        if self.no_silo {
            config.server.silos = false;
        }
        if self.access_log.is_some() {
            config.log.access = self.access_log.as_deref().map(absolute);
        }
        if self.json_log {
            config.log.format = LogFormat::Json;
        }
        if self.serve_dotfiles {
            config.volumes.iter_mut().for_each(|volume| volume.serve_dotfiles = true);
        }
        if let Some(writable) = &self.writable {
            config.volumes.iter_mut().for_each(|volume| volume.writable = writable.clone());
        }
        config.check()?;
        Ok(config)
    }
}

/// Addresses, or none for `off`.
#[derive(Clone, Debug)]
struct Listen(Vec<SocketAddr>);

fn parse_listen(text: &str) -> Result<Listen, String> {
    // A port alone means loopback: nothing is opened to others by an omission.
    if let Ok(port) = text.trim_start_matches(':').parse() {
        return Ok(Listen(vec![SocketAddr::from(([127, 0, 0, 1], port))]));
    }
    let addresses = server::config::parse_listen(text);
    addresses.map(Listen).map_err(|problem| format!("{problem}; a port alone is one of loopback"))
}

fn parse_afs(text: &str) -> Result<Listen, String> {
    match parse_listen(text)? {
        Listen(addresses) if addresses.len() > 1 || addresses.iter().any(SocketAddr::is_ipv6) => {
            Err("give one IPv4 address, such as 0.0.0.0:7000, or off".to_owned())
        }
        one => Ok(one),
    }
}

fn parse_admin(text: &str) -> Result<Listen, String> {
    match parse_listen(text)? {
        Listen(addresses) if addresses.len() > 1 => Err("give one address, or off".to_owned()),
        one => Ok(one),
    }
}

fn absolute(path: &Path) -> PathBuf {
    if path == Path::new("-") {
        path.to_owned()
    } else {
        std::path::absolute(path).unwrap_or(path.to_owned())
    }
}

/// Tells a person where to look; scripts read the log or the admin address.
fn greeting(server: &Server) -> String {
    let mut text = String::new();
    put_greeting(server, &mut text).expect("a string takes every text");
    text
}

fn put_greeting(server: &Server, out: &mut String) -> std::fmt::Result {
    let writers = server.who_may_write();
    let read_only = if writers.is_empty() { ", read-only" } else { "" };
    writeln!(out, "Linerate {} serves{read_only}:", env!("CARGO_PKG_VERSION"))?;
    let told = server.greetings();
    for line in told.iter().flat_map(|told| told.serves.iter().chain(&told.urls)) {
        writeln!(out, "  {line}")?;
    }
    for line in &writers {
        writeln!(out, "  {line}")?;
    }
    let lanes = server.who_serves_what();
    // With one silo there is nothing to tell apart.
    for line in lanes.iter().filter(|_| lanes.len() > 1) {
        writeln!(out, "  {line}")?;
    }
    writeln!(out, "\nTry:")?;
    for line in told.iter().flat_map(|told| &told.tries) {
        writeln!(out, "  {line}")?;
    }
    if let Some(addr) = server.addresses().admin {
        writeln!(out, "  linerate stat {addr}")?;
        writeln!(out, "  curl http://{addr}/metrics")?;
    }
    writeln!(out, "\nCtrl-C ends it after transfers in progress; a second Ctrl-C at once.")
}

#[cfg(test)]
mod keys;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_stays_on_loopback() {
        let parsed = |text: &str| parse_listen(text).unwrap().0;
        assert_eq!(parsed("8081"), ["127.0.0.1:8081".parse().unwrap()]);
        assert_eq!(parsed(":8081"), ["127.0.0.1:8081".parse().unwrap()]);
        assert_eq!(parsed("[::]:1"), ["[::]:1".parse().unwrap()]);
        assert_eq!(parsed("*:1")[0], "0.0.0.0:1".parse().unwrap());
        assert!(parsed("off").is_empty());
        assert!(parse_listen("localhost").is_err());
        assert!(parse_admin("*:1").is_err() || parsed("*:1").len() == 1);
    }
}
