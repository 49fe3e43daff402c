//! What every lane serves, in a form that travels between threads; each lane opens its own volumes from it.

use std::path::PathBuf;
use std::sync::Arc;

use http::limits::Limits;
use http::service::{Mount, Site};
use tls::{Alpn, CertificateFiles, ServerTls, TicketKeys, TlsConfig, Versions, Warning};
use vfs::{Cache, Volume, VolumeOptions, VolumeSpec};

use crate::config::{Config, VolumeSection};

/// The serving half of a configuration, checked and with its certificates loaded.
#[derive(Clone)]
pub(crate) struct SiteSpec {
    volumes: Vec<MountSpec>,
    limits: Limits,
    pacing: Option<u64>,
    tls: Option<Arc<ServerTls>>,
    /// The one volume to be opened anew, all others staying as they are; `None` opens all.
    reopened: Option<String>,
}

#[derive(Clone, Debug)]
struct MountSpec {
    volume: VolumeSpec,
    place: String,
    listings: bool,
    precompressed: bool,
}

/// What keeps a site from being served.
#[derive(Debug, thiserror::Error)]
pub enum SiteError {
    /// A certificate or key.
    #[error(transparent)]
    Tls(#[from] tls::ConfigError),
    /// Nowhere to keep the certificate that the server makes for itself.
    #[error(
        "no directory to keep the self-signed certificate in: set server.state_dir, XDG_STATE_HOME or HOME, or give \
         https.certificate"
    )]
    NoStateDir,
    /// A volume's name.
    #[error(transparent)]
    Name(#[from] vfs::VolumeNameError),
    /// A volume's directory.
    #[error("cannot open the volume {name} at {}: {source}", path.display())]
    Volume {
        /// Its name.
        name: String,
        /// Its directory.
        path: PathBuf,
        /// Why.
        source: vfs::Error,
    },
}

impl SiteSpec {
    /// Loads certificates, and makes the self-signed one if none is configured.
    pub(crate) fn new(config: &Config, tickets: &Arc<TicketKeys>) -> Result<Self, SiteError> {
        let volumes = config.volumes.iter().map(MountSpec::new).collect::<Result<_, _>>()?;
        let tls = match config.https.listen.is_empty() {
            true => None,
            false => Some(Arc::new(tls_config(config)?.load(Arc::clone(tickets))?)),
        };
        let pacing = config.limits.pacing_bytes_per_second;
        Ok(Self { volumes, limits: config.limits.to_http(), pacing, tls, reopened: None })
    }

    /// Takes no more connections on a lane than there are descriptors for.
    pub(crate) fn fit(&mut self, connections_per_lane: usize) {
        self.limits.connections_max = self.limits.connections_max.min(connections_per_lane);
    }

    /// Opens only the volume of this name anew, where the others are served already.
    pub(crate) fn reopen_only(&mut self, name: &str) {
        self.reopened = Some(name.to_owned());
    }

    /// The site of the current lane, which serves `old` so far.
    pub(crate) fn open(&self, cache: &Cache, old: Option<&Site>) -> Result<Site, SiteError> {
        let mut mounts = Vec::new();
        for MountSpec { volume: spec, place, listings, precompressed } in &self.volumes {
            let stays = self.reopened.as_ref().is_some_and(|reopened| reopened != spec.name.as_str());
            let kept = old.filter(|_| stays).and_then(|old| old.volume(&spec.name)).cloned();
            let opened = kept.map_or_else(|| Volume::open(cache, spec), Ok);
            let volume = opened.map_err(|source| SiteError::Volume {
                name: spec.name.as_str().to_owned(),
                path: spec.path.clone(),
                source,
            })?;
            let mut mount = Mount::new(place, volume, *listings);
            mount.precompressed = *precompressed;
            mounts.push(mount);
        }
        let mut site = Site::new(mounts);
        site.limits = self.limits.clone();
        site.pacing = self.pacing;
        site.tls = self.tls.as_ref().map(|tls| Arc::clone(&tls.config));
        Ok(site)
    }

    /// What the administrator should know about the certificates.
    pub(crate) fn warnings(&self) -> &[Warning] {
        self.tls.as_ref().map_or(&[], |tls| &tls.warnings)
    }
}

impl MountSpec {
    fn new(section: &VolumeSection) -> Result<Self, SiteError> {
        let options = VolumeOptions { follow_symlinks: section.symlinks, serve_hidden: section.hidden };
        let volume = VolumeSpec::new(section.name.parse()?, &section.path, options);
        let place = section.mount.clone();
        Ok(Self { volume, place, listings: section.listings, precompressed: section.precompressed })
    }
}

fn tls_config(config: &Config) -> Result<TlsConfig, SiteError> {
    let state_dir = config.server.state_dir.clone().or_else(default_state_dir);
    // It is used for nothing else.
    let state_dir = match config.https.certificates.is_empty() {
        true => state_dir.ok_or(SiteError::NoStateDir)?,
        false => state_dir.unwrap_or_default(),
    };
    let mut tls = TlsConfig::new(state_dir);
    tls.certificates = config
        .https
        .certificates
        .iter()
        .map(|section| CertificateFiles {
            certificate: section.cert.clone(),
            key: section.key.clone(),
            names: section.names.clone(),
        })
        .collect();
    if config.https.tls12_only {
        tls.versions = Versions::Tls12Only;
    }
    if !config.https.http2 {
        tls.alpn.retain(|alpn| *alpn != Alpn::H2);
    }
    Ok(tls)
}

/// As the XDG Base Directory Specification says; for root as the FHS says, unless the former is asked for. A service
/// manager that keeps a directory for the server names it in STATE_DIRECTORY (systemd.exec(5)). None where nothing says
/// where: not the working directory, which may be anybody's.
fn default_state_dir() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let root = || rustix::process::geteuid().is_root().then(|| PathBuf::from("/var/lib"));
    absolute("STATE_DIRECTORY").or_else(|| {
        absolute("XDG_STATE_HOME")
            .or_else(root)
            .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
            .map(|base| base.join("linerate"))
    })
}
