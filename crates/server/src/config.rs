//! The configuration: `linerate.toml`, checked as a whole before anything starts. Unknown keys are refused
//! by name, and every refusal says where and what would do.

mod limits;
mod listen;
mod server;

use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

pub use self::limits::LimitsSection;
pub use self::listen::parse_listen;
pub use self::server::ServerSection;

/// Everything an operator can say. `Config::default()` serves nothing until a volume is added.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Lanes, state and shutdown.
    pub server: ServerSection,
    /// Exported directories.
    #[serde(rename = "volume")]
    pub volumes: Vec<VolumeSection>,
    /// Plain HTTP.
    pub http: HttpSection,
    /// HTTPS.
    pub https: HttpsSection,
    /// Limits of HTTP connections, plain and TLS.
    pub limits: LimitsSection,
    /// Access log.
    pub log: LogSection,
    /// Metrics and health.
    pub admin: AdminSection,
}

/// `[[volume]]`
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct VolumeSection {
    /// Its name in logs, metrics and other protocols. Letters, digits, `.`, `-` and `_`.
    pub name: String,
    /// The directory.
    pub path: PathBuf,
    /// The URL path it appears under.
    #[serde(default = "root_mount")]
    pub mount: String,
    /// Whether symbolic links that stay inside the directory are followed. Links that lead out never are.
    #[serde(default = "yes")]
    pub symlinks: bool,
    /// Whether names that begin with a dot are served and listed.
    #[serde(default)]
    pub hidden: bool,
    /// Whether a directory without an index file is listed.
    #[serde(default = "yes")]
    pub listings: bool,
    /// Whether `.br`, `.zst` and `.gz` siblings are sent in place of a file to clients that take them.
    #[serde(default = "yes")]
    pub precompressed: bool,
}

/// `[http]`
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct HttpSection {
    /// Addresses; empty switches plain HTTP off.
    #[serde(deserialize_with = "listen::addresses")]
    pub listen: Vec<SocketAddr>,
    /// Answer every plain request with a redirect to HTTPS.
    pub redirect_to_https: bool,
}

/// `[https]`
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct HttpsSection {
    /// Addresses; empty switches HTTPS off.
    #[serde(deserialize_with = "listen::addresses")]
    pub listen: Vec<SocketAddr>,
    /// Port that redirects name, when a gateway maps it; absent: the port of the first HTTPS address.
    pub public_port: Option<u16>,
    /// Only TLS 1.2: the version that NICs offload today.
    pub tls12_only: bool,
    /// Offer HTTP/2.
    pub http2: bool,
    /// Hand transmit encryption to the kernel where it can.
    pub kernel_tls: bool,
    /// Certificates; without any, a self-signed one is made and kept.
    #[serde(rename = "certificate")]
    pub certificates: Vec<CertificateSection>,
}

/// `[[https.certificate]]`
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct CertificateSection {
    /// Host names it is shown for (SNI), `*.` allowed in front; empty: for every name no other has.
    #[serde(default)]
    pub names: Vec<String>,
    /// PEM file with the certificate and its chain.
    pub cert: PathBuf,
    /// PEM file with the private key.
    pub key: PathBuf,
}

/// `[log]`
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct LogSection {
    /// A file, or `-` for standard output; absent: no access log.
    pub access: Option<PathBuf>,
    /// Format of its lines.
    pub format: LogFormat,
}

/// Formats of the access log.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Apache's combined format.
    #[default]
    Combined,
    /// One JSON object a line.
    Json,
}

/// `[admin]`
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct AdminSection {
    /// Address of metrics, health and `linerate stat`; `off`: none.
    #[serde(deserialize_with = "listen::address")]
    pub listen: Option<SocketAddr>,
}

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is not TOML, has an unknown key or a value of the wrong kind. The text shows the line.
    #[error("in {}: {source}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: Box<toml::de::Error>,
    },
    /// It contradicts itself or the machine.
    #[error("{key}: {problem}")]
    Invalid {
        /// The key, dotted.
        key: String,
        /// What is wrong and what would do.
        problem: String,
    },
}

impl Config {
    /// Reads and checks a file. Relative paths in it are meant from the file's directory.
    ///
    /// # Errors
    /// [`ConfigError`], naming the key.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
        let mut config: Self = toml::from_str(&text)
            .map_err(|source| ConfigError::Parse { path: path.to_owned(), source: Box::new(source) })?;
        config.resolve_paths(path.parent().unwrap_or(Path::new(".")));
        config.check()?;
        Ok(config)
    }

    /// A configuration that serves one directory at `/`.
    pub fn for_directory(path: &Path) -> Self {
        let volume = VolumeSection {
            name: "files".to_owned(),
            path: path.to_owned(),
            mount: root_mount(),
            symlinks: true,
            hidden: false,
            listings: true,
            precompressed: true,
        };
        Self { volumes: vec![volume], ..Self::default() }
    }

    /// Checks what types alone cannot say.
    ///
    /// # Errors
    /// The first contradiction.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.volumes.is_empty() {
            return Err(invalid(
                "volume",
                "nothing to serve: name a directory, or add a [[volume]] with name and path",
            ));
        }
        if self.http.listen.is_empty() && self.https.listen.is_empty() {
            return Err(invalid(
                "http.listen",
                "no address to listen on: give http.listen or https.listen one",
            ));
        }
        if self.http.redirect_to_https && self.https.listen.is_empty() {
            return Err(invalid(
                "http.redirect_to_https",
                "there is no HTTPS to redirect to: set https.listen",
            ));
        }
        if self.server.lanes.is_some() && self.server.cpus.is_some() {
            return Err(invalid("server.cpus", "excludes server.lanes: give one of them"));
        }
        self.server.check_marks()?;
        self.check_addresses()?;
        self.check_volumes()?;
        self.limits.check()
    }

    /// How long a drain may take.
    pub fn drain(&self) -> Duration {
        Duration::from_secs(self.server.drain_seconds)
    }

    fn check_addresses(&self) -> Result<(), ConfigError> {
        let mut seen = HashSet::new();
        let http = self.http.listen.iter().map(|addr| ("http.listen", addr));
        let https = self.https.listen.iter().map(|addr| ("https.listen", addr));
        let admin = self.admin.listen.iter().map(|addr| ("admin.listen", addr));
        for (key, addr) in http.chain(https).chain(admin) {
            if addr.port() != 0 && !seen.insert(*addr) {
                return Err(invalid(
                    key,
                    format!("{addr} is used twice: every listener needs an address of its own"),
                ));
            }
        }
        Ok(())
    }

    fn check_volumes(&self) -> Result<(), ConfigError> {
        let (mut names, mut mounts) = (HashSet::new(), HashSet::new());
        for (index, volume) in self.volumes.iter().enumerate() {
            let key = |field: &str| format!("volume[{index}].{field}");
            let named = !volume.name.is_empty()
                && volume.name.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_".contains(&b));
            if !named {
                return Err(invalid(
                    &key("name"),
                    format!("{:?}: use letters, digits, '.', '-' and '_'", volume.name),
                ));
            }
            if !names.insert(&volume.name) {
                return Err(invalid(&key("name"), format!("{:?} is used twice", volume.name)));
            }
            let mount = &volume.mount;
            if !is_reachable(mount) {
                return Err(invalid(
                    &key("mount"),
                    format!(
                        "{mount:?}: begin with one '/', end without, no '.' or '..' as a name, such as \"/pub\""
                    ),
                ));
            }
            if !mounts.insert(mount) {
                return Err(invalid(&key("mount"), format!("{mount:?} is used twice")));
            }
            match std::fs::metadata(&volume.path) {
                Ok(meta) if meta.is_dir() => {}
                Ok(_) => {
                    return Err(invalid(
                        &key("path"),
                        format!("{} is not a directory", volume.path.display()),
                    ));
                }
                Err(error) => {
                    return Err(invalid(&key("path"), format!("{}: {error}", volume.path.display())));
                }
            }
        }
        Ok(())
    }

    fn resolve_paths(&mut self, base: &Path) {
        let resolve = |path: &mut PathBuf| *path = base.join(&*path);
        self.volumes.iter_mut().for_each(|volume| resolve(&mut volume.path));
        self.server.state_dir.iter_mut().for_each(resolve);
        self.log.access.iter_mut().filter(|path| *path != Path::new("-")).for_each(resolve);
        for certificate in &mut self.https.certificates {
            resolve(&mut certificate.cert);
            resolve(&mut certificate.key);
        }
    }
}

impl Default for HttpSection {
    fn default() -> Self {
        Self { listen: vec![SocketAddr::from(([127, 0, 0, 1], 8080))], redirect_to_https: false }
    }
}

impl Default for HttpsSection {
    fn default() -> Self {
        Self {
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 8443))],
            public_port: None,
            tls12_only: false,
            http2: true,
            kernel_tls: true,
            certificates: Vec::new(),
        }
    }
}

impl Default for AdminSection {
    fn default() -> Self {
        Self { listen: Some(SocketAddr::from(([127, 0, 0, 1], 8090))) }
    }
}

fn invalid(key: &str, problem: impl Into<String>) -> ConfigError {
    ConfigError::Invalid { key: key.to_owned(), problem: problem.into() }
}

/// Whether requests can get there: what they ask for is tidied up, or refused, before anything is looked for.
fn is_reachable(mount: &str) -> bool {
    mount.strip_prefix('/').is_some_and(|place| {
        let path = format!("/{}", http::path::encode(place.as_bytes()));
        http::path::decode(path.as_bytes()).is_ok_and(|path| *path.bytes == *place.as_bytes())
    })
}

fn root_mount() -> String {
    "/".to_owned()
}

fn yes() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str) -> Result<Config, String> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("data")).unwrap();
        let path = dir.path().join("linerate.toml");
        std::fs::write(&path, text).unwrap();
        Config::load(&path).map_err(|error| error.to_string())
    }

    const VOLUME: &str = "[[volume]]\nname = 'a'\npath = 'data'\n";

    #[test]
    fn a_volume_alone_is_enough() {
        let config = load(VOLUME).unwrap();
        assert_eq!(config.http.listen, [SocketAddr::from(([127, 0, 0, 1], 8080))]);
        assert_eq!(config.volumes[0].mount, "/");
        assert!(config.volumes[0].precompressed);
        assert!(!load(&format!("{VOLUME}precompressed = false\n")).unwrap().volumes[0].precompressed);
    }

    #[test]
    fn unknown_keys_are_refused_by_name() {
        let error = load(&format!("[http]\nlisten_on = []\n{VOLUME}")).unwrap_err();
        assert!(error.contains("unknown field `listen_on`") && error.contains("listen"), "{error}");
    }

    #[test]
    fn contradictions_name_their_key() {
        for (text, key) in [
            ("", "volume"),
            ("[http]\nlisten = []\n[https]\nlisten = []\n[[volume]]\nname='a'\npath='data'", "http.listen"),
            ("[[volume]]\nname = 'a/b'\npath = 'data'", "volume[0].name"),
            ("[[volume]]\nname = 'a'\npath = 'absent'", "volume[0].path"),
            ("[[volume]]\nname = 'a'\npath = 'data'\nmount = 'x'", "volume[0].mount"),
            ("[limits]\nranges = 0\n[[volume]]\nname='a'\npath='data'", "limits.ranges"),
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
        ] {
            let error = load(text).unwrap_err();
            assert!(error.starts_with(&format!("{key}: ")), "{text:?} gave {error}");
        }
    }

    #[test]
    fn mounts_that_no_request_can_name_are_refused() {
        for mount in
            ["", "pub", "/pub/", "//", "/a//b", "/..", "/a/../b", "/./a", "/a/.", "/a\\\\..", "/a\\u0000"]
        {
            let text = format!("[[volume]]\nname = 'a'\npath = 'data'\nmount = \"{mount}\"\n");
            let error = load(&text).unwrap_err();
            assert!(error.starts_with("volume[0].mount: "), "{mount:?} gave {error}");
        }
        for mount in ["/", "/pub", "/a/b c/%2e%2e", "/.well-known", "/größe", "/a..b"] {
            let text = format!("[[volume]]\nname = 'a'\npath = 'data'\nmount = \"{mount}\"\n");
            assert!(load(&text).is_ok(), "{mount}");
        }
    }

    #[test]
    fn a_floor_that_the_servers_own_rates_do_not_reach_is_refused() {
        for (limits, bound) in [
            ("send_rate_min = 2000\npacing_bytes_per_second = 1000", Some("limits.pacing_bytes_per_second")),
            ("send_rate_min = 1000\npacing_bytes_per_second = 1000", Some("limits.pacing_bytes_per_second")),
            ("send_rate_min = 2000\ntotal_bytes_per_second = 1500", Some("limits.total_bytes_per_second")),
            ("send_rate_min = 999\npacing_bytes_per_second = 1000\ntotal_bytes_per_second = 1000", None),
            ("send_rate_min = 2000", None),
            ("pacing_bytes_per_second = 1\ntotal_bytes_per_second = 1", None),
        ] {
            let loaded = load(&format!("[limits]\n{limits}\n{VOLUME}"));
            match bound {
                None => assert!(loaded.is_ok(), "{limits}: {loaded:?}"),
                Some(bound) => {
                    let error = loaded.unwrap_err();
                    assert!(error.starts_with("limits.send_rate_min: ") && error.contains(bound), "{error}");
                }
            }
        }
    }

    #[test]
    fn paths_are_meant_from_the_files_directory() {
        let config = load(&format!("[log]\naccess = 'a.log'\n{VOLUME}")).unwrap();
        assert!(config.log.access.unwrap().is_absolute());
        let config = load(&format!("[log]\naccess = '-'\n{VOLUME}")).unwrap();
        assert_eq!(config.log.access.unwrap(), Path::new("-"));
    }
}
