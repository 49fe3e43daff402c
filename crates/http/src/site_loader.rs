//! Site of HTTP, in a form that travels between threads: certificates loaded, volumes by name. Each lane
//! makes its own [`Site`] of it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::SystemTime;

use identity::{Accounts, Writable};
use service::config::{ConfigError, Size};
use service::socket::reachable;
use service::volumes::{LaneVolumes, VolumeSection};
use service::{
    Bound, ConnectionsMax, Greeting, LaneService, LaneStart, LoadContext, Problem, Role as Numbered,
    Settings, Transport, Wanted,
};
use tls::{Alpn, CertificateFiles, KtlsPolicy, ServerTls, TlsConfig, Versions};
use vfs::VolumeName;

use crate::limits::Limits;
use crate::service::{HttpCounters, Mount, Role, Service, Site};
use crate::settings::{Auth, CertificateSection, ContentSecurityPolicy, HttpSettings, MountSection};

/// The roles of sockets, as the server keeps them.
pub(crate) const PLAIN: Numbered = Numbered(0);
pub(crate) const TLS: Numbered = Numbered(1);
pub(crate) const REDIRECT: Numbered = Numbered(2);

/// State that a lane needs to serve.
pub(crate) struct HttpSite {
    mounts: Vec<MountSection>,
    limits: Limits,
    pacing: Option<u64>,
    accounts: Arc<Accounts>,
    uploads_synced: bool,
    tls: Option<Arc<ServerTls>>,
    ktls: KtlsPolicy,
    /// Set if clients know the issuer of the certificate.
    is_trusted: bool,
    /// Port that redirects name, where the configuration says so.
    public_port: Option<u16>,
    sockets: Vec<Bound>,
    uploads: Option<Uploads>,
    /// The certificate that was made is gone with the check that it was made for.
    is_trial: bool,
}

/// Mounts that files may be uploaded to.
struct Uploads {
    mount: String,
    /// Set if an upload takes a user.
    of_users: bool,
}

/// Error: there is no directory to keep the certificate in that the server makes for itself.
#[derive(Debug, thiserror::Error)]
#[error(
    "no directory to keep the self-signed certificate in: set server.state_dir, XDG_STATE_HOME or HOME, or give \
     https.certificate"
)]
struct NoStateDir;

impl HttpSite {
    /// Loads certificates, and makes the self-signed one if none is configured.
    pub(crate) fn load(settings: &HttpSettings, context: &LoadContext<'_>) -> Result<Self, Problem> {
        let https = &settings.https;
        let tls = match https.listen.is_empty() {
            true => None,
            false => {
                let tls = tls_config(settings, context.state_dir)?.load(settings.tickets()?);
                Some(Arc::new(tls.map_err(|error| of_certificate(settings, error))?))
            }
        };
        let mut limits = settings.http.limits.to_http();
        limits.upload_bytes_max = settings.http.upload_max;
        limits.connections_max = limits.connections_max.min(context.connections_per_lane);
        Ok(Self {
            mounts: settings.mounts.clone(),
            limits,
            pacing: settings.http.limits.pacing_bytes_per_second.map(|Size(rate)| rate),
            accounts: Arc::clone(context.accounts),
            uploads_synced: settings.http.uploads_synced,
            tls,
            ktls: if https.kernel_tls { KtlsPolicy::Auto } else { KtlsPolicy::Off },
            is_trusted: !https.certificates.is_empty(),
            public_port: https.public_port,
            sockets: Vec::new(),
            uploads: Uploads::first(settings, context.volumes),
            is_trial: context.is_trial,
        })
    }

    /// Returns the site of the current lane.
    pub(crate) fn open(&self, volumes: &LaneVolumes) -> Result<Site, String> {
        let mut mounts = Vec::new();
        for MountSection { volume: name, keys, .. } in &self.mounts {
            let volume = volumes.get(name).ok_or_else(|| format!("the volume {name} is not open"))?;
            let mut mount = Mount::new(&keys.mount, volume.clone(), keys.listings);
            mount.precompressed = keys.precompressed.unwrap_or(!mount.volume.is_writable());
            mount.auth = keys.auth;
            mount.sandboxes = match keys.content_security_policy {
                ContentSecurityPolicy::Auto => mount.sandboxes,
                ContentSecurityPolicy::Sandbox => true,
                ContentSecurityPolicy::Off => false,
            };
            mounts.push(mount);
        }
        let mut site = Site::new(mounts).of_users(Arc::clone(&self.accounts));
        site.limits = self.limits.clone();
        site.pacing = self.pacing;
        site.uploads_synced = self.uploads_synced;
        site.tls = self.tls.as_ref().map(|tls| tls.lane_config());
        // Only what is bound knows the port that the kernel chose.
        let bound = self.addresses(|role| role == TLS).next().map(|address| address.port());
        site.https_port = self.public_port.or(bound).unwrap_or(443);
        Ok(site)
    }

    /// Returns whether the kernel may seal.
    pub(crate) fn ktls(&self) -> KtlsPolicy {
        self.ktls
    }

    /// Returns a command that uploads a file. A name and password go over TLS, where there is TLS.
    fn upload(&self, plain: Option<&SocketAddr>, sealed: Option<&SocketAddr>) -> Option<String> {
        let Uploads { mount, of_users } = self.uploads.as_ref()?;
        let insecure = if self.is_trusted || sealed.is_none() { "" } else { "--insecure " };
        let user = if *of_users { "--user NAME " } else { "" };
        let base = sealed.map(|address| format!("https://{address}"));
        let base = base.or_else(|| plain.map(|address| format!("http://{address}")))?;
        // Where the URL ends in a slash, curl adds the file's name.
        Some(format!("curl {insecure}{user}--upload-file FILE {base}{}/", mount.trim_end_matches('/')))
    }

    fn addresses(&self, which: impl Fn(Numbered) -> bool) -> impl Iterator<Item = SocketAddr> {
        self.sockets.iter().filter(move |bound| which(bound.role)).map(|bound| bound.address)
    }
}

impl Settings for HttpSettings {
    fn sockets(&self) -> Vec<Wanted> {
        let wanted = |key, listen: &[SocketAddr], role| {
            let wanted = |&address| Wanted { key, address, transport: Transport::Tcp, role };
            listen.iter().map(wanted).collect::<Vec<_>>()
        };
        let plain = if self.http.redirect_to_https { REDIRECT } else { PLAIN };
        let mut all = wanted("http.listen", &self.http.listen, plain);
        all.extend(wanted("https.listen", &self.https.listen, TLS));
        all
    }

    fn connections(&self) -> ConnectionsMax {
        ConnectionsMax {
            key: "http.limits.connections_per_lane",
            per_lane: self.http.limits.connections_per_lane,
        }
    }

    fn own_files(&self) -> Vec<PathBuf> {
        let of = |certificate: &CertificateSection| [certificate.cert.clone(), certificate.key.clone()];
        self.https.certificates.iter().flat_map(of).collect()
    }

    fn load(&self, context: &LoadContext<'_>) -> Result<Box<dyn service::Site>, Problem> {
        Ok(Box::new(HttpSite::load(self, context)?))
    }
}

impl Uploads {
    /// Returns the first mount that some user may write to.
    fn first(settings: &HttpSettings, volumes: &[VolumeSection]) -> Option<Self> {
        let mut of_volumes = settings.mounts.iter().zip(volumes);
        let (mount, volume) = of_volumes.find(|(_, volume)| volume.writable != Writable::Nobody)?;
        Some(Self { mount: mount.keys.mount.clone(), of_users: volume.writable != Writable::anyone() })
    }
}

/// Returns what is spoken at a socket of this role, as `site` says it.
pub(crate) fn role_of(role: Numbered, site: &Site) -> Role {
    match role {
        TLS => Role::Tls,
        REDIRECT => Role::Redirect { https_port: site.https_port },
        _ => Role::Plain,
    }
}

impl service::Site for HttpSite {
    fn warnings(&self) -> Vec<String> {
        let of_tls = self.tls.iter().flat_map(|tls| &tls.warnings);
        let is_told =
            |warning: &&tls::Warning| !self.is_trial || !matches!(warning, tls::Warning::SelfSigned { .. });
        let of_tls = of_tls.filter(is_told).map(ToString::to_string);
        let locked = no_passwords(&self.mounts, &self.accounts).into_iter();
        of_tls.chain(locked.map(|(_, told)| told)).collect()
    }

    fn troubles(&self, now: SystemTime) -> Vec<(String, String)> {
        let of_time = self.tls.iter().flat_map(|tls| tls.out_of_time(now));
        let of_time =
            of_time.map(|(path, told)| (format!("certificate {}", path.display()), told.to_string()));
        let of_names = self.tls.iter().flat_map(|tls| tls.misnamed()).map(|(path, told)| {
            let of = if let tls::Warning::OtherName { name, .. } = told { name } else { "none" };
            (format!("certificate {}, name {of}", path.display()), told.to_string())
        });
        let locked = no_passwords(&self.mounts, &self.accounts).into_iter();
        let locked = locked.map(|(volume, told)| (format!("volume {volume}, HTTP"), told));
        of_time.chain(of_names).chain(locked).collect()
    }

    fn is_outdated(&self, now: SystemTime) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_outdated(now))
    }

    fn bound(&mut self, sockets: &[Bound]) {
        self.sockets = sockets.to_vec();
    }

    fn greeting(&self) -> Greeting {
        let place = |mount: &MountSection| format!("{} at {}", mount.path.display(), mount.keys.mount);
        let plain: Vec<_> = self.addresses(|role| role != TLS).flat_map(reachable).collect();
        let sealed: Vec<_> = self.addresses(|role| role == TLS).flat_map(reachable).collect();
        let insecure = if self.is_trusted { "" } else { "--insecure " };
        let urls = plain.iter().map(|address| format!("http://{address}/"));
        let mut tries: Vec<_> =
            plain.first().map(|address| format!("curl http://{address}/")).into_iter().collect();
        if let Some(address) = sealed.first() {
            tries.push(format!("curl {insecure}https://{address}/"));
        }
        tries.extend(self.upload(plain.first(), sealed.first()));
        Greeting {
            serves: self.mounts.iter().map(place).collect(),
            urls: urls.chain(sealed.iter().map(|address| format!("https://{address}/"))).collect(),
            tries,
        }
    }

    fn start(&self, lane: LaneStart<'_>) -> Result<Rc<dyn LaneService>, String> {
        let LaneStart { volumes, commons, log, seed, audit: _ } = lane;
        let counters = Arc::<HttpCounters>::default();
        Ok(Service::new(self.open(volumes)?, counters, Arc::default(), log, self.ktls, commons, seed))
    }
}

/// Returns the volumes that take a user for everything where no user has a password, each with a warning.
fn no_passwords<'m>(mounts: &'m [MountSection], accounts: &Accounts) -> Vec<(&'m VolumeName, String)> {
    let locked = mounts.iter().filter(|mount| mount.keys.auth == Auth::Always);
    let told = locked.map(|MountSection { volume, .. }| {
        //@ level: WARN
        //@ cause: The volume has `auth = "always"`, and the accounts have no user with a password that is not disabled.
        //@ remedy: Give a user a password by `linerate user passwd NAME`, after `linerate user add NAME` where there is none, or leave
        //@ `auth` away.
        let told = format!(
            "volume {volume}: auth is \"always\", and no user has a password, so that HTTP lets nobody in; give one by `linerate user \
             passwd NAME` and reload [volume-auth-nobody]"
        );
        (volume, told)
    });
    if accounts.have_password() { Vec::new() } else { told.collect() }
}

fn tls_config(settings: &HttpSettings, state_dir: Option<&Path>) -> Result<TlsConfig, NoStateDir> {
    let https = &settings.https;
    // It is used for nothing else.
    let state_dir = match https.certificates.is_empty() {
        true => state_dir.ok_or(NoStateDir)?.to_owned(),
        false => state_dir.map_or_else(PathBuf::new, Path::to_owned),
    };
    let mut tls = TlsConfig::new(state_dir);
    let files = https.certificates.iter().map(|section| CertificateFiles {
        certificate: section.cert.clone(),
        key: section.key.clone(),
        names: section.names.clone(),
    });
    tls.certificates = files.collect();
    if https.tls12_only {
        tls.versions = Versions::Tls12Only;
    }
    if !https.http2 {
        tls.alpn.retain(|alpn| *alpn != Alpn::H2);
    }
    Ok(tls)
}

/// Puts before an error of a certificate's file the key of the configuration that names the file.
fn of_certificate(settings: &HttpSettings, error: tls::ConfigError) -> Problem {
    let Some(file) = error.file() else { return error.into() };
    let sections = settings.https.certificates.iter().enumerate();
    let keys = sections.flat_map(|(at, section)| [(at, "cert", &section.cert), (at, "key", &section.key)]);
    let mut named = keys.filter(|(.., path)| *path == file);
    // Of two that name one file the later one has no effect.
    let found =
        if matches!(error, tls::ConfigError::Unused { .. }) { named.next_back() } else { named.next() };
    match found {
        Some((at, key, _)) => {
            ConfigError::invalid(format!("https.certificate[{at}].{key}"), error.to_string()).into()
        }
        None => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use identity::{PasswordHash, Strength};

    use super::*;
    use crate::settings::VolumeKeys;

    #[test]
    fn volumes_that_nobody_can_sign_in_for_are_named() {
        let mount = |name: &str, auth| MountSection {
            volume: name.parse().unwrap(),
            path: PathBuf::new(),
            keys: VolumeKeys {
                mount: "/".to_owned(),
                listings: true,
                precompressed: None,
                auth,
                content_security_policy: ContentSecurityPolicy::default(),
            },
        };
        let mounts = [mount("open", Auth::Off), mount("as", Auth::WhenRequired), mount("shut", Auth::Always)];
        let hash = PasswordHash::new(&"Secret007".into(), Strength::default()).to_text();
        let user = |keys: &str| Accounts::parse(&format!("version = 1\n[user.a]\nid = 1\n{keys}")).unwrap();
        let password = format!("password = '{}'", hash.as_str());
        for (accounts, is_told) in [
            (Accounts::none(), true),
            (user(""), true),
            (user(&format!("{password}\ndisabled = true")), true),
            (user(&password), false),
        ] {
            let told = no_passwords(&mounts, &accounts);
            assert_eq!(told.len(), usize::from(is_told), "{told:?}");
            let is_it = |line: &str| line.starts_with("volume shut: auth is \"always\"");
            assert!(told.iter().all(|(volume, line)| volume.as_str() == "shut" && is_it(line)), "{told:?}");
        }
    }
}
