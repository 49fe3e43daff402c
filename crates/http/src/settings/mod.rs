//! Configuration of HTTP: `[http]` with `[http.limits]`, `[https]`, and where volumes are mounted.

mod limits;

use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use serde::Deserialize;
use service::config::{ConfigError, Document, Keys, Size};
use service::volumes::VolumeSection;
use service::{Problem, Settings};
use tls::TicketKeys;
use vfs::VolumeName;

pub use self::limits::LimitsSection;
use crate::limits::Limits;
use crate::path;

/// HTTP as a service of a server: the one value of the process.
#[derive(Debug, Default)]
pub struct Http {
    http: Option<Vec<SocketAddr>>,
    https: Option<Vec<SocketAddr>>,
    /// Sessions outlive reloads.
    tickets: Arc<OnceLock<Arc<TicketKeys>>>,
}

impl Http {
    /// Listens at these instead of what the configuration says; `None` leaves that to the configuration.
    pub fn listening(http: Option<Vec<SocketAddr>>, https: Option<Vec<SocketAddr>>) -> Self {
        Self { http, https, tickets: Arc::default() }
    }
}

impl service::Service for Http {
    fn name(&self) -> &'static str {
        "http"
    }

    fn keys(&self) -> Keys {
        Keys {
            tables: &["http", "https"],
            volume: &["mount", "listings", "precompressed", "auth", "content_security_policy"],
        }
    }

    fn listen_keys(&self) -> &'static [&'static str] {
        &["http.listen", "https.listen"]
    }

    fn read(
        &self,
        document: &Document,
        volumes: &[VolumeSection],
    ) -> Result<Option<Arc<dyn Settings>>, ConfigError> {
        let HttpTables { mut http, mut https, server } = document.tables()?;
        let keys = document.volumes::<VolumeKeys>()?;
        http.listen = self.http.clone().unwrap_or(http.listen);
        https.listen = self.https.clone().unwrap_or(https.listen);
        for (index, certificate) in https.certificates.iter_mut().enumerate() {
            for (key, path) in [("cert", &certificate.cert), ("key", &certificate.key)] {
                if path.as_os_str().is_empty() {
                    let key = format!("https.certificate[{index}].{key}");
                    return Err(ConfigError::invalid(key, "it is empty: give the path of a PEM file"));
                }
            }
            document.resolve(&mut certificate.cert);
            document.resolve(&mut certificate.key);
        }
        let mounts = volumes.iter().zip(keys).map(|(volume, keys)| MountSection {
            volume: volume.name.clone(),
            path: volume.path.clone(),
            keys,
        });
        let tickets = Arc::clone(&self.tickets);
        let (mounts, egress_rate) = (mounts.collect(), server.egress_rate.map(|Size(rate)| rate));
        let settings = HttpSettings { http, https, egress_rate, mounts, tickets };
        settings.check()?;
        let is_wanted = !settings.http.listen.is_empty() || !settings.https.listen.is_empty();
        Ok(is_wanted.then(|| Arc::new(settings) as _))
    }
}

/// The settings of a configuration.
#[derive(Debug)]
pub struct HttpSettings {
    /// `[http]`
    pub http: HttpSection,
    /// `[https]`
    pub https: HttpsSection,
    /// `server.egress_rate`: the server's own, here for what follows from it.
    egress_rate: Option<u64>,
    /// The volumes, in the order of the configuration.
    pub mounts: Vec<MountSection>,
    tickets: Arc<OnceLock<Arc<TicketKeys>>>,
}

/// Mount of a volume.
#[derive(Clone, Debug)]
pub struct MountSection {
    /// Name of the volume.
    pub volume: VolumeName,
    /// The volume's directory, for messages.
    pub path: PathBuf,
    /// Keys of the volume for HTTP.
    pub keys: VolumeKeys,
}

#[derive(Deserialize)]
struct HttpTables {
    #[serde(default)]
    http: HttpSection,
    #[serde(default)]
    https: HttpsSection,
    #[serde(default)]
    server: ServerKeys,
}

/// Keys of `[server]` that concern HTTP.
#[derive(Default, Deserialize)]
struct ServerKeys {
    egress_rate: Option<Size>,
}

/// Keys of `[[volume]]` that are about HTTP.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct VolumeKeys {
    /// The URL path it appears under.
    #[serde(default = "root_mount")]
    pub mount: String,
    /// Set if a directory without an index file is listed.
    #[serde(default = "yes")]
    pub listings: bool,
    /// Set if `.br`, `.zst` and `.gz` siblings are sent in place of a file to clients that take them. Without a value
    /// they are where no client may make any.
    pub precompressed: Option<bool>,
    /// Conditions under which users authenticate.
    #[serde(default)]
    pub auth: Auth,
    /// Policy for documents of the volume in browsers.
    #[serde(default)]
    pub content_security_policy: ContentSecurityPolicy,
}

/// Policy for documents in browsers that show them: by themselves all that their origin may, which every user
/// has that signs in there.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum ContentSecurityPolicy {
    /// `Sandbox` where some user may change the volume, else `Off`.
    #[default]
    Auto,
    /// Documents run no scripts and belong to no origin.
    Sandbox,
    /// No policy: documents may do what they want.
    Off,
}

/// Conditions under which users of a volume authenticate, with a password (RFC 7617).
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Auth {
    /// Users never authenticate: every client is anonymous.
    Off,
    /// Users authenticate for what anonymous clients may not do; credentials that are sent are checked everywhere.
    /// Only volumes that some user may change have anything of that kind.
    #[default]
    WhenRequired,
    /// Users authenticate for everything.
    Always,
}

/// `[http]`
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct HttpSection {
    /// Addresses; empty switches plain HTTP off.
    #[serde(deserialize_with = "service::config::addresses")]
    pub listen: Vec<SocketAddr>,
    /// Set if every plain request is answered with a redirect to HTTPS.
    pub redirect_to_https: bool,
    /// Bytes of the longest file that is uploaded.
    #[serde(deserialize_with = "service::config::bytes")]
    pub upload_max: u64,
    /// Set if an upload is on the disk, with its name, before it is answered.
    pub uploads_synced: bool,
    /// `[http.limits]`
    pub limits: LimitsSection,
}

/// `[https]`
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct HttpsSection {
    /// Addresses; empty switches HTTPS off.
    #[serde(deserialize_with = "service::config::addresses")]
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

impl HttpSettings {
    fn check(&self) -> Result<(), ConfigError> {
        let (http, https) = (&self.http, &self.https);
        if http.upload_max == 0 {
            let problem = "0 would refuse every upload: give at least 1, or leave `writable` out for volumes without any";
            return Err(ConfigError::invalid("http.upload_max", problem));
        }
        if https.public_port == Some(0) {
            let problem = "0 is no port: give 1 to 65535, or leave it away for that of the first address";
            return Err(ConfigError::invalid("https.public_port", problem));
        }
        if http.listen.is_empty() && https.listen.is_empty() {
            return http.limits.check(self.egress_rate);
        }
        if self.mounts.is_empty() {
            return Err(ConfigError::invalid(
                "volume",
                "nothing to serve: name a directory, or add a [[volume]] with name and path",
            ));
        }
        if http.redirect_to_https && https.listen.is_empty() {
            return Err(ConfigError::invalid(
                "http.redirect_to_https",
                "there is no HTTPS to redirect to: set https.listen",
            ));
        }
        for (index, section) in https.certificates.iter().enumerate() {
            if let Some(name) = section.names.iter().find(|name| !tls::is_server_name(name)) {
                return Err(ConfigError::invalid(
                    format!("https.certificate[{index}].names"),
                    format!(
                        "no client asks for {name:?}: give DNS names such as \"files.example.org\", or all of a domain, \
                         \"*.example.org\", without ports; without names those of the certificate count"
                    ),
                ));
            }
        }
        let mut seen = HashSet::new();
        for (index, section) in self.mounts.iter().enumerate() {
            let (key, mount) = (format!("volume[{index}].mount"), &section.keys.mount);
            if !is_reachable(mount) {
                return Err(ConfigError::invalid(
                    key,
                    format!(
                        "{mount:?}: begin with one '/', end without, no '.' or '..' as a name, such as \"/pub\""
                    ),
                ));
            }
            if !seen.insert(mount) {
                return Err(ConfigError::invalid(key, format!("{mount:?} is used twice")));
            }
        }
        http.limits.check(self.egress_rate)
    }

    /// Returns the keys of session tickets, which outlive reloads.
    pub(crate) fn tickets(&self) -> Result<Arc<TicketKeys>, Problem> {
        if let Some(keys) = self.tickets.get() {
            return Ok(Arc::clone(keys));
        }
        let keys = TicketKeys::new().map_err(|_| "TLS ticket keys: no random numbers")?;
        Ok(Arc::clone(self.tickets.get_or_init(|| Arc::new(keys))))
    }
}

impl Default for HttpSection {
    fn default() -> Self {
        Self {
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 8080))],
            redirect_to_https: false,
            upload_max: Limits::default().upload_bytes_max,
            uploads_synced: true,
            limits: LimitsSection::default(),
        }
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

/// Returns whether requests can get there: what they ask for is tidied up, or refused, before anything is
/// looked for.
fn is_reachable(mount: &str) -> bool {
    mount.strip_prefix('/').is_some_and(|place| {
        let path = format!("/{}", path::encode(place.as_bytes()));
        path::decode(path.as_bytes()).is_ok_and(|path| *path.bytes == *place.as_bytes())
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
    use std::path::Path;

    use service::Service as _;

    use super::*;

    /// The sockets that a text asks for.
    fn read(text: &str) -> Result<Option<Arc<dyn Settings>>, String> {
        let document = Document::of_text(Path::new("/etc/linerate.toml"), text);
        let volumes = VolumeSection::all(&document).map_err(|error| error.to_string())?;
        Http::default().read(&document, &volumes).map_err(|error| error.to_string())
    }

    const VOLUME: &str = "[[volume]]\nname = 'a'\npath = 'data'\n";

    #[test]
    fn a_volume_alone_is_enough() {
        let sockets = read(VOLUME).unwrap().unwrap().sockets();
        let keys: Vec<_> = sockets.iter().map(|wanted| (wanted.key, wanted.address.to_string())).collect();
        assert_eq!(
            keys,
            [("http.listen", "127.0.0.1:8080".into()), ("https.listen", "127.0.0.1:8443".into())]
        );
    }

    #[test]
    fn contradictions_name_their_key_and_unknown_keys_their_line() {
        let with = |text: &str| format!("{text}\n{VOLUME}");
        for (text, start) in [
            (String::new(), "volume: "),
            (with("[http.limits]\nranges = 0"), "http.limits.ranges: "),
            (with("[http]\nupload_max = 0"), "http.upload_max: "),
            (with("[https]\npublic_port = 0"), "https.public_port: "),
            (with("[http]\nredirect_to_https = true\n[https]\nlisten = 'off'"), "http.redirect_to_https: "),
            (format!("{VOLUME}mount = 'x'"), "volume[0].mount: "),
            (format!("{VOLUME}[[volume]]\nname = 'b'\npath = 'b'"), "volume[1].mount: "),
            (with("[[https.certificate]]\ncert = ''\nkey = 'k'"), "https.certificate[0].cert: "),
            (with("[[https.certificate]]\ncert = 'c'\nkey = ''"), "https.certificate[0].key: "),
            (with("[http]\nlisten_on = []"), "in /etc/linerate.toml: TOML parse error at line 2, column 1"),
        ] {
            let problem = read(&text).unwrap_err();
            assert!(problem.starts_with(start), "{text:?} gave {problem}");
        }
    }

    #[test]
    fn without_addresses_it_is_not_wanted_and_the_command_line_has_the_last_word() {
        let off = "[http]\nlisten = 'off'\n[https]\nlisten = 'off'\n";
        assert!(read(off).unwrap().is_none(), "no volume is needed either");
        let document = Document::of_text(Path::new("/x"), format!("{off}{VOLUME}"));
        let volumes = VolumeSection::all(&document).unwrap();
        let given = Http::listening(Some(vec![([127, 0, 0, 1], 1).into()]), None);
        assert_eq!(given.read(&document, &volumes).unwrap().unwrap().sockets().len(), 1);
    }

    #[test]
    fn names_that_no_client_can_ask_for_are_refused_by_key_and_value() {
        let table = |names: &str| {
            let one = |names| format!("[[https.certificate]]\ncert = 'c'\nkey = 'k'\nnames = [{names}]\n");
            format!("{}{}{VOLUME}", one("'a.example', '*.b.example'"), one(names))
        };
        for name in [
            "a b",
            "",
            "*",
            "a.*.example",
            "*.*.x",
            "*example.org",
            "now.example:443",
            "https://now.example",
            "127.0.0.1",
            "a.example.",
        ] {
            let problem = read(&table(&format!("'c.example', '{name}'"))).unwrap_err();
            let told = problem.strip_prefix("https.certificate[1].names: ").expect(&problem);
            assert!(told.contains(&format!("{name:?}")), "{told}");
        }
        for name in ["localhost", "a.example.org", "*.example.org", "xn--bcher-kva.example", "A.Example"] {
            read(&table(&format!("'{name}'"))).unwrap();
        }
    }

    #[test]
    fn mounts_that_no_request_can_name_are_refused() {
        for mount in
            ["", "pub", "/pub/", "//", "/a//b", "/..", "/a/../b", "/./a", "/a/.", "/a\\\\..", "/a\\u0000"]
        {
            let text = format!("{VOLUME}mount = \"{mount}\"\n");
            let problem = read(&text).unwrap_err();
            assert!(problem.starts_with("volume[0].mount: "), "{mount:?}: {problem}");
        }
        for mount in ["/", "/pub", "/pub/music", "/a b", "/bücher", "/.hidden"] {
            read(&format!("{VOLUME}mount = \"{mount}\"\n")).unwrap();
        }
    }
}
