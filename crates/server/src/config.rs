//! Configuration: `linerate.toml`, checked as a whole before anything starts. Unknown keys are refused by
//! name, and every refusal says where and what would do.
//!
//! What is here concerns the server, whatever it serves; each service reads its own tables and gives back its
//! [`Settings`].

mod changes;
mod identity;
mod server;
mod without_effect;

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ::identity::{AccountsStore, Writable};
use serde::Deserialize;
use service::config::Keys;
pub use service::config::{ConfigError, Document, parse_listen};
use service::log::Format;
pub use service::volumes::VolumeSection;
use service::{Bound, Service, Settings, Transport, Wanted};

pub use self::changes::AT_START;
pub(crate) use self::changes::Changes;
pub use self::identity::{IdentitySection, default_accounts};
pub use self::server::{NodesWithoutNic, ServerSection, default_state_dir};
use crate::kept_files::KeptFiles;
use crate::listeners::Change;
use crate::logs::is_one;
use crate::overlap::MountedDirectories;
use crate::server_error::ServerError;

/// Services of the program, in the order of their lines in messages.
pub type Services = [Arc<dyn Service>];

/// Configuration of a server, complete.
#[derive(Clone, Debug)]
pub struct Config {
    /// Lanes, state and shutdown.
    pub server: ServerSection,
    /// File that the configuration was read from, if any.
    pub file: Option<PathBuf>,
    /// Directories that the server exports.
    pub volumes: Vec<VolumeSection>,
    /// Access and audit log.
    pub log: LogSection,
    /// Address and names of metrics and health.
    pub admin: AdminSection,
    /// Accounts of the users.
    pub identity: IdentitySection,
    /// Settings of each service.
    pub(crate) wishes: Vec<Wish>,
    /// Keys that the file gives, with their values.
    pub(crate) said: BTreeMap<String, String>,
    /// Document that the configuration was read from.
    document: Document,
}

/// Service with its settings in the configuration.
#[derive(Clone)]
pub(crate) struct Wish {
    pub(crate) service: Arc<dyn Service>,
    pub(crate) settings: Option<Arc<dyn Settings>>,
}

/// Tables of the server itself.
#[derive(Deserialize)]
struct Tables {
    #[serde(default)]
    server: ServerSection,
    #[serde(default)]
    log: LogSection,
    #[serde(default)]
    admin: AdminSection,
    #[serde(default)]
    identity: IdentitySection,
}

/// Table `[log]`: access and audit log.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct LogSection {
    /// File, FIFO or socket of the access log, or `-` for standard output; absent for no access log.
    pub access: Option<PathBuf>,
    /// Format of the access log's lines.
    pub format: LogFormat,
    /// Path of the audit log, with the same rules as `access`.
    pub audit: Option<PathBuf>,
    /// Format of the audit log's lines.
    pub audit_format: AuditFormat,
}

/// Format of the access log.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Combined format of Apache.
    #[default]
    Combined,
    /// JSON, one object a line.
    Json,
}

/// Format of the audit log.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum AuditFormat {
    /// JSON, one object a line.
    #[default]
    Json,
    /// Format of OpenAFS's servers.
    OpenAfs,
}

impl From<LogFormat> for Format {
    fn from(format: LogFormat) -> Self {
        match format {
            LogFormat::Combined => Self::Text,
            LogFormat::Json => Self::Json,
        }
    }
}

impl From<AuditFormat> for Format {
    fn from(format: AuditFormat) -> Self {
        match format {
            AuditFormat::OpenAfs => Self::Text,
            AuditFormat::Json => Self::Json,
        }
    }
}

/// Table `[admin]`: metrics and health.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct AdminSection {
    /// Address of metrics, health and `linerate stat`; `None` for `off`.
    #[serde(deserialize_with = "service::config::address")]
    pub listen: Option<SocketAddr>,
    /// Names and addresses by which the admin address may be asked, beside `localhost`, loopback addresses
    /// and that at which a request comes in.
    pub names: Vec<String>,
}

impl Config {
    /// Reads and checks a file for `services`. Relative paths in it are meant from the file's directory.
    ///
    /// # Errors
    /// [`ConfigError`], naming the key.
    pub fn load(path: &Path, services: &Services) -> Result<Self, ConfigError> {
        let config = Self::read(&Document::read(path)?, services)?;
        config.check()?;
        Ok(config)
    }

    /// Makes the configuration that serves one directory with defaults.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn for_directory(path: &Path, services: &Services) -> Result<Self, ConfigError> {
        Self::read(&Document::for_directory(path), services)
    }

    /// Reads a document for `services` without the server's own checks, which a caller that changes the
    /// result makes afterwards, by [`Config::check`].
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn read(document: &Document, services: &Services) -> Result<Self, ConfigError> {
        Self::read_unplaced(document, services).map_err(|error| document.placed(error))
    }

    fn read_unplaced(document: &Document, services: &Services) -> Result<Self, ConfigError> {
        let keys: Vec<Keys> =
            std::iter::once(OWN).chain(services.iter().map(|service| service.keys())).collect();
        document.refuse_unknown(&keys)?;
        let Tables { mut server, mut log, admin, mut identity } = document.tables()?;
        server.check_egress_rate()?;
        let paths = [
            ("server.state_dir", &server.state_dir),
            ("identity.accounts", &identity.accounts),
            ("log.access", &log.access),
            ("log.audit", &log.audit),
        ];
        let is_empty = |path: &Option<PathBuf>| path.as_ref().is_some_and(|path| path.as_os_str().is_empty());
        if let Some((key, _)) = paths.into_iter().find(|(_, path)| is_empty(path)) {
            return Err(ConfigError::invalid(key, "it is empty: give a path, or leave it away"));
        }
        let mut volumes = VolumeSection::all(document)?;
        server.state_dir.iter_mut().for_each(|path| document.resolve(path));
        identity.accounts.iter_mut().for_each(|path| document.resolve(path));
        let logs = log.access.iter_mut().chain(&mut log.audit);
        logs.filter(|path| *path != Path::new("-")).for_each(|path| document.resolve(path));
        let wish = |service: &Arc<dyn Service>| {
            let settings = service.read(document, &volumes)?;
            Ok(Wish { service: Arc::clone(service), settings })
        };
        let wishes = services.iter().map(wish).collect::<Result<Vec<_>, ConfigError>>()?;
        for volume in &mut volumes {
            let mut wanted = wishes.iter().filter_map(|wish| wish.settings.as_ref());
            volume.objects = wanted.any(|settings| settings.needs_objects(&volume.name));
        }
        let file = document.file().map(Path::to_owned);
        let (said, document) = (document.said(), document.clone());
        Ok(Self { server, file, volumes, log, admin, identity, wishes, said, document })
    }

    /// Checks what types alone cannot express.
    ///
    /// # Errors
    /// The first contradiction.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.check_unplaced().map_err(|error| self.placed(error))
    }

    /// Returns the error of a key whose value cannot be used here.
    pub(crate) fn refused(&self, key: &str, problem: impl fmt::Display) -> ServerError {
        self.placed(ConfigError::invalid(key, problem.to_string())).into()
    }

    /// Returns the error with the file and the line of its key.
    pub(crate) fn placed(&self, error: ConfigError) -> ConfigError {
        self.document.placed(error)
    }

    fn check_unplaced(&self) -> Result<(), ConfigError> {
        if self.admin.listen.is_none() && self.wishes.iter().all(|wish| wish.settings.is_none()) {
            return Err(self.nothing_to_do());
        }
        if self.server.lanes == Some(0) {
            return Err(ConfigError::invalid(
                "server.lanes",
                "0 is none: give at least 1, or leave it away for one a core",
            ));
        }
        if self.server.lanes.is_some() && self.server.cpus.is_some() {
            return Err(ConfigError::invalid("server.cpus", "excludes server.lanes: give one of them"));
        }
        self.server.check_marks()?;
        if self.server.drain_seconds > DRAIN_SECONDS_MAX {
            let problem =
                format!("{} is more than a day: give at most {DRAIN_SECONDS_MAX}", self.server.drain_seconds);
            return Err(ConfigError::invalid("server.drain_seconds", problem));
        }
        self.log.check()?;
        self.check_own_files()?;
        self.admin.check_names()?;
        self.check_addresses()?;
        for (index, volume) in self.volumes.iter().enumerate() {
            volume.check(index)?;
        }
        self.check_overlaps()
    }

    /// Refuses a log, and accounts, that would be written into another file of the server: the configuration,
    /// accounts, certificates, keys, what is kept in the state directory.
    pub(crate) fn check_own_files(&self) -> Result<(), ConfigError> {
        let accounts = self.identity.accounts.clone().or_else(default_accounts);
        let lock = accounts.as_ref().map(|path| AccountsStore::new(path).lock_file());
        let wanted = self.wishes.iter().filter_map(|wish| wish.settings.as_ref());
        let of_services = wanted.flat_map(|settings| settings.own_files());
        let others: Vec<PathBuf> = self.file.clone().into_iter().chain(of_services).collect();
        let kept = self.server.state_dir().map(KeptFiles::in_directory).unwrap_or_default();
        let of_accounts: Vec<PathBuf> = accounts.iter().cloned().chain(lock).collect();
        for (key, log) in [("log.access", &self.log.access), ("log.audit", &self.log.audit)] {
            let Some(log) = log else { continue };
            let read = others.iter().chain(&of_accounts).find(|own| is_one(log, own));
            let what = match (read, kept.find(log)) {
                (Some(own), _) => format!("that the server reads ({})", own.display()),
                (None, Some(own)) => {
                    format!("that the server keeps in its state directory ({})", own.display())
                }
                (None, None) => continue,
            };
            let problem = format!(
                "{} is a file {what}, and lines of a log would spoil it: give the log a file of its own",
                log.display()
            );
            return Err(ConfigError::invalid(key, problem));
        }
        for path in &of_accounts {
            let Some(own) = others.iter().find(|own| is_one(path, own)).cloned().or_else(|| kept.find(path))
            else {
                continue;
            };
            let problem = format!(
                "{} is another file of the server ({}), and a change of the accounts would spoil it: give them a file of their own",
                path.display(),
                own.display()
            );
            return Err(ConfigError::invalid("identity.accounts", problem));
        }
        Ok(())
    }

    /// Returns the longest time of a drain.
    pub fn drain(&self) -> Duration {
        Duration::from_secs(self.server.drain_seconds)
    }

    /// Returns the addresses that services want, each with the service's index.
    pub(crate) fn sockets(&self) -> Vec<(usize, Wanted)> {
        let of = |(at, wish): (usize, &Wish)| {
            let wanted = wish.settings.iter().flat_map(|settings| settings.sockets());
            wanted.map(move |wanted| (at, wanted)).collect::<Vec<_>>()
        };
        self.wishes.iter().enumerate().flat_map(of).collect()
    }

    /// Returns the bound addresses of services, with their names.
    pub(crate) fn bound(&self, change: &Change) -> Vec<(&'static str, Bound)> {
        let of = |(at, wish): (usize, &Wish)| {
            let name = wish.service.name();
            change.bound(at).into_iter().map(move |bound| (name, bound))
        };
        self.wishes.iter().enumerate().flat_map(of).collect()
    }

    fn nothing_to_do(&self) -> ConfigError {
        let keys: Vec<&str> =
            self.wishes.iter().flat_map(|wish| wish.service.listen_keys()).copied().collect();
        let all = [&keys[..], &["admin.listen"]].concat().join(" or ");
        let key = keys.first().copied().unwrap_or("admin.listen");
        ConfigError::invalid(key, format!("no address to listen on: give {all} one"))
    }

    /// Refuses overlapping directories of volumes that clients write to or whose files are numbered. A file
    /// in both would have two numbers and two versions, and clients of the one would not be notified of
    /// changes by those of the other.
    fn check_overlaps(&self) -> Result<(), ConfigError> {
        let is_numbered =
            |(_, volume): &(usize, &VolumeSection)| volume.objects || volume.writable != Writable::Nobody;
        let numbered: Vec<_> = self.volumes.iter().enumerate().filter(is_numbered).collect();
        if numbered.len() < 2 {
            return Ok(());
        }
        let places = MountedDirectories::now();
        for (at, (index, volume)) in numbered.iter().enumerate() {
            let overlap = |(_, other): &&(usize, &VolumeSection)| places.overlap(&volume.path, &other.path);
            let Some((_, other)) = numbered[..at].iter().find(overlap) else { continue };
            let problem = format!(
                "{} of volume {} and {} of volume {} lie one inside the other, and a file that is served by AFS or SMB, or that can \
                 be written to, is in one volume: give one of them another directory, or serve it by HTTP alone and have nobody \
                 write to it",
                volume.path.display(),
                volume.name,
                other.path.display(),
                other.name
            );
            return Err(ConfigError::invalid(format!("volume[{index}].path"), problem));
        }
        Ok(())
    }

    fn check_addresses(&self) -> Result<(), ConfigError> {
        let mut seen = HashSet::new();
        let wanted =
            self.sockets().into_iter().map(|(_, wanted)| (wanted.key, wanted.address, wanted.transport));
        let admin = self.admin.listen.map(|address| ("admin.listen", address, Transport::Tcp));
        for (key, address, transport) in wanted.chain(admin) {
            if address.port() != 0 && !seen.insert((address, transport)) {
                return Err(ConfigError::invalid(
                    key,
                    format!("{address} is used twice: every listener needs an address of its own"),
                ));
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Wish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(self.service.name()).field("settings", &self.settings).finish()
    }
}

impl LogSection {
    /// Refuses one file for both logs, whose lines would be of two formats, and whose rotations would cut
    /// each other.
    fn check(&self) -> Result<(), ConfigError> {
        let (Some(access), Some(audit)) = (&self.access, &self.audit) else { return Ok(()) };
        if !is_one(access, audit) {
            return Ok(());
        }
        let place = |path: &Path| match path == Path::new("-") {
            true => "standard output".to_owned(),
            false => path.display().to_string(),
        };
        let (access, audit) = (place(access), place(audit));
        let problem =
            format!("{access} is where log.audit goes too ({audit}): give each log a place of its own");
        Err(ConfigError::invalid("log.access", problem))
    }
}

impl AdminSection {
    fn check_names(&self) -> Result<(), ConfigError> {
        let is_name = |name: &String| {
            !name.is_empty()
                && (name.parse::<std::net::IpAddr>().is_ok()
                    || name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte)))
        };
        match self.names.iter().find(|name| !is_name(name)) {
            None => Ok(()),
            Some(name) => Err(ConfigError::invalid(
                "admin.names",
                format!(
                    "{name:?} is no name of a host: give names or addresses without ports, such as \"files.example\""
                ),
            )),
        }
    }
}

impl Default for AdminSection {
    fn default() -> Self {
        Self { listen: Some(SocketAddr::from(([127, 0, 0, 1], 8090))), names: Vec::new() }
    }
}

/// Longest drain, so that a server stops on the same day.
const DRAIN_SECONDS_MAX: u64 = 86_400;
/// Keys that the server reads itself.
const OWN: Keys = Keys {
    tables: &["server", "log", "admin", "identity"],
    volume: &[
        "name",
        "path",
        "symlinks",
        "serve_dotfiles",
        "writable",
        "quota",
        "max_files",
        "track_usage",
        "posix_locks",
    ],
};

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str) -> Result<Config, String> {
        load_for(text, &[Arc::new(http::Http::default())])
    }

    fn load_for(text: &str, services: &Services) -> Result<Config, String> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("data")).unwrap();
        let path = dir.path().join("linerate.toml");
        std::fs::write(&path, text).unwrap();
        Config::load(&path, services).map_err(|error| error.to_string())
    }

    const VOLUME: &str = "[[volume]]\nname = 'a'\npath = 'data'\n";

    #[test]
    fn writable_volumes_one_inside_the_other_are_refused_by_any_way_there() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("tree/below")).unwrap();
        std::fs::create_dir(dir.path().join("other")).unwrap();
        std::os::unix::fs::symlink("tree/below", dir.path().join("link")).unwrap();
        let load = |other: &str, writable: &str| {
            let path = dir.path().join("linerate.toml");
            let text = format!(
                "[[volume]]\nname = 'a'\npath = 'tree'\nwritable = 'anyone'\n\
                 [[volume]]\nname = 'b'\npath = '{other}'\nmount = '/b'\nwritable = '{writable}'\n"
            );
            std::fs::write(&path, text).unwrap();
            Config::load(&path, &[Arc::new(http::Http::default())]).map_err(|error| error.to_string())
        };
        for other in ["tree", "tree/below", ".", "link"] {
            let problem = load(other, "listed").unwrap_err();
            assert!(problem.starts_with("volume[1].path: "), "{problem}");
            assert!(problem.ends_with("/linerate.toml, line 7)"), "{problem}");
            assert!(
                problem.contains("of volume b and ") && problem.contains("one inside the other"),
                "{problem}"
            );
            assert!(load(other, "nobody").is_ok(), "who only reads may see it twice");
        }
        assert!(load("other", "listed").is_ok());
    }

    #[test]
    fn unknown_keys_are_refused_by_name_and_place() {
        for (text, words, line) in [
            (
                format!("[http]\nlisten_on = []\n{VOLUME}"),
                "unknown key `listen_on`: the keys here are `listen`, `redirect_to_https`, `upload_max`, `uploads_synced`, `limits`",
                2,
            ),
            (format!("[server]\nlane = 2\n{VOLUME}"), "unknown key `lane`: the keys here are `lanes`", 2),
            (
                format!("{VOLUME}[htp]\n"),
                "unknown key `htp`: the keys here are `server`, `log`, `admin`, `identity`, `http`, `https`, `volume`",
                4,
            ),
            (
                format!("{VOLUME}symlink = true\n"),
                "unknown key `symlink`: the keys here are `name`, `path`, `symlinks`, `serve_dotfiles`, `writable`, `quota`, \
                 `max_files`, `track_usage`, `posix_locks`, `mount`, `listings`, `precompressed`",
                4,
            ),
            (
                format!("[http.limits]\nranges = 'x'\n{VOLUME}"),
                "this is the text \"x\", where a number from 0 to 9223372036854775807 is wanted",
                2,
            ),
        ] {
            let error = load(&text).unwrap_err();
            assert!(error.contains(words) && error.contains(&format!("at line {line},")), "{error}");
        }
    }

    #[test]
    fn locks_of_clients_and_other_programs_meet_unless_a_volume_says_otherwise() {
        assert!(load(VOLUME).unwrap().volumes[0].posix_locks);
        assert!(!load(&format!("{VOLUME}posix_locks = false\n")).unwrap().volumes[0].posix_locks);
    }

    #[test]
    fn contradictions_name_their_key() {
        for (text, key) in [
            ("", "volume"),
            ("[http]\nlisten = []\n[https]\nlisten = []\n[admin]\nlisten = 'off'", "http.listen"),
            ("[[volume]]\nname = 'a/b'\npath = 'data'", "volume[0].name"),
            ("[[volume]]\nname = '.a'\npath = 'data'", "volume[0].name"),
            ("[[volume]]\nname = 'a'\npath = 'absent'", "volume[0].path"),
            ("[[volume]]\nname = 'a'\npath = 'data'\nmount = 'x'", "volume[0].mount"),
            ("[[volume]]\nname = 'a'\npath = 'data'\nwritable = 'a b'", "volume[0].writable"),
            ("[[volume]]\nname = 'a'\npath = 'data'\nquota = '1G'", "volume[0].quota"),
            ("[[volume]]\nname = 'a'\npath = 'data'\nwritable = 'anyone'\nquota = 0", "volume[0].quota"),
            (
                "[[volume]]\nname = 'a'\npath = 'data'\nwritable = 'anyone'\nmax_files = 0",
                "volume[0].max_files",
            ),
            ("[[volume]]\nname = 'a'\npath = 'data'\ntrack_usage = true", "volume[0].track_usage"),
            ("[server]\nlanes = 0\n[[volume]]\nname='a'\npath='data'", "server.lanes"),
            ("[server]\nstate_dir = ''\n[[volume]]\nname='a'\npath='data'", "server.state_dir"),
            ("[identity]\naccounts = ''\n[[volume]]\nname='a'\npath='data'", "identity.accounts"),
            ("[log]\naccess = ''\n[[volume]]\nname='a'\npath='data'", "log.access"),
            ("[log]\naudit = ''\n[[volume]]\nname='a'\npath='data'", "log.audit"),
            ("[http.limits]\nranges = 0\n[[volume]]\nname='a'\npath='data'", "http.limits.ranges"),
            ("[admin]\nnames = ['a:80']\n[[volume]]\nname='a'\npath='data'", "admin.names"),
            ("[server]\negress_rate = 0\n[[volume]]\nname='a'\npath='data'", "server.egress_rate"),
            (
                "[server]\negress_marks = { eth0 = 0 }\n[[volume]]\nname='a'\npath='data'",
                "server.egress_marks",
            ),
            (
                "[server.egress_marks]\neth0 = 5\neth1 = 5\n[[volume]]\nname='a'\npath='data'",
                "server.egress_marks",
            ),
            (
                "[server]\negress_marks = { 'a/b' = 1 }\n[[volume]]\nname='a'\npath='data'",
                "server.egress_marks",
            ),
            (
                "[http]\nlisten=['127.0.0.1:1','127.0.0.1:1']\n[[volume]]\nname='a'\npath='data'",
                "http.listen",
            ),
            ("[http]\nlisten='127.0.0.1:8090'\n[[volume]]\nname='a'\npath='data'", "admin.listen"),
        ] {
            let error = load(text).unwrap_err();
            assert!(error.starts_with(&format!("{key}: ")), "{text:?} gave {error}");
        }
    }

    #[test]
    fn without_http_the_admin_address_is_enough_and_with_nothing_at_all_the_keys_are_named() {
        let off = "[http]\nlisten = 'off'\n[https]\nlisten = 'off'\n";
        let config = load(off).unwrap();
        assert!(config.sockets().is_empty() && config.volumes.is_empty());
        assert_eq!(load(&format!("{off}{VOLUME}")).unwrap().volumes.len(), 1, "others may want it");
        let nothing = load(&format!("{off}[admin]\nlisten = 'off'")).unwrap_err();
        let told =
            "http.listen: no address to listen on: give http.listen or https.listen or admin.listen one (";
        assert!(nothing.starts_with(told) && nothing.ends_with("linerate.toml, line 2)"), "{nothing}");
        // A program without HTTP does not know its tables.
        assert!(load_for("", &[]).is_ok());
        assert!(load_for("[http]\n", &[]).unwrap_err().contains("unknown key `http`"));
    }

    #[test]
    fn a_floor_that_the_servers_own_rates_do_not_reach_is_refused() {
        for (limits, bound) in [
            (
                "send_rate_min = 2000\npacing_bytes_per_second = 1000",
                Some("http.limits.pacing_bytes_per_second"),
            ),
            (
                "send_rate_min = 1000\npacing_bytes_per_second = 1000",
                Some("http.limits.pacing_bytes_per_second"),
            ),
            ("send_rate_min = 2000\n[server]\negress_rate = 1500", Some("server.egress_rate")),
            ("send_rate_min = 999\npacing_bytes_per_second = 1000\n[server]\negress_rate = 1000", None),
            ("send_rate_min = 2000", None),
            ("pacing_bytes_per_second = 1\n[server]\negress_rate = 1", None),
        ] {
            let loaded = load(&format!("[http.limits]\n{limits}\n{VOLUME}"));
            match bound {
                None => assert!(loaded.is_ok(), "{limits}: {loaded:?}"),
                Some(bound) => {
                    let error = loaded.unwrap_err();
                    assert!(
                        error.starts_with("http.limits.send_rate_min: ") && error.contains(bound),
                        "{error}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_log_in_a_file_that_the_server_reads_is_refused_by_its_key() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["data", "other"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        std::os::unix::fs::symlink("accounts.toml", dir.path().join("link")).unwrap();
        let path = dir.path().join("linerate.toml");
        let load = |key: &str, file: &str| {
            let text = format!(
                "[identity]\naccounts = 'accounts.toml'\n[log]\n{key} = '{file}'\n[[https.certificate]]\ncert = 'c'\nkey = 'k'\n\
                 {VOLUME}"
            );
            std::fs::write(&path, text).unwrap();
            Config::load(&path, &[Arc::new(http::Http::default())]).map_err(|error| error.to_string())
        };
        for key in ["access", "audit"] {
            for file in ["linerate.toml", "accounts.toml", "link", "c", "k", "other/../k"] {
                let problem = load(key, file).unwrap_err();
                assert!(problem.starts_with(&format!("log.{key}: ")), "{file}: {problem}");
                assert!(problem.contains("a file that the server reads"), "{file}: {problem}");
            }
            for file in ["accounts.toml.log", "access.log", "-", "/dev/null"] {
                load(key, file).unwrap();
            }
        }
    }

    #[test]
    fn a_log_or_accounts_in_a_file_of_the_state_directory_are_refused_by_any_way_there() {
        use std::os::unix::fs::symlink;

        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for name in ["data", "state"] {
            std::fs::create_dir(at(name)).unwrap();
        }
        symlink("state", at("linked")).unwrap();
        symlink("state/index.redb", at("soft")).unwrap();
        let load = |table: &str, key: &str, file: &str| {
            let path = at("linerate.toml");
            let text = format!("[server]\nstate_dir = 'state'\n[{table}]\n{key} = '{file}'\n{VOLUME}");
            std::fs::write(&path, text).unwrap();
            Config::load(&path, &[Arc::new(http::Http::default())]).map_err(|error| error.to_string())
        };
        let keys = [("log", "access"), ("log", "audit"), ("identity", "accounts")];
        let own = [
            "index.redb",
            "index.redb.replaced-1",
            "self-signed.key",
            "self-signed.crt",
            "room-ahead",
            "afs-server-uuid",
        ];
        for is_there in [false, true] {
            for (table, key) in keys {
                let ways = own
                    .iter()
                    .flat_map(|name| ["state", "linked", "data/../state"].map(|dir| format!("{dir}/{name}")));
                let links = ["soft", "hard"].iter().filter(|_| is_there).map(|name| (*name).to_owned());
                for file in ways.chain(links).chain(["state/smb.left".to_owned(), "soft".to_owned()]) {
                    let problem = load(table, key, &file).unwrap_err();
                    assert!(problem.starts_with(&format!("{table}.{key}: ")), "{file}: {problem}");
                    assert!(problem.ends_with("linerate.toml, line 4)"), "{file}: {problem}");
                }
                for file in ["state/access.log", "state/accounts.toml", "index.redb", "data/self-signed.key"]
                {
                    load(table, key, file).unwrap();
                }
            }
            for name in own {
                std::fs::write(at("state").join(name), "").unwrap();
            }
            if !is_there {
                std::fs::hard_link(at("state/index.redb"), at("hard")).unwrap();
            }
        }
        let problem = load("identity", "accounts", "linerate.toml").unwrap_err();
        assert!(
            problem.starts_with("identity.accounts: ") && problem.contains("another file of the server"),
            "{problem}"
        );
    }

    #[test]
    fn two_logs_in_one_place_are_refused_by_both_keys() {
        for (access, audit, is_one) in [
            ("a.log", "a.log", true),
            ("a.log", "./data/../a.log", true),
            ("-", "-", true),
            ("a.log", "b.log", false),
            ("a.log", "-", false),
            ("/dev/null", "/dev/null", false),
        ] {
            let loaded = load(&format!("[log]\naccess = '{access}'\naudit = '{audit}'\n{VOLUME}"));
            let told = loaded.err().unwrap_or_default();
            assert_eq!(
                told.contains("log.access: ") && told.contains("log.audit"),
                is_one,
                "{audit}: {told}"
            );
        }
    }

    #[test]
    fn paths_are_meant_from_the_files_directory() {
        let config = load(&format!("[log]\naccess = 'a.log'\n{VOLUME}")).unwrap();
        assert!(config.log.access.unwrap().is_absolute() && config.volumes[0].path.is_absolute());
        let config = load(&format!("[log]\naccess = '-'\n{VOLUME}")).unwrap();
        assert_eq!(config.log.access.unwrap(), Path::new("-"));
    }
}
