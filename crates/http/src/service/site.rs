//! Site that one lane serves: the mounted volumes and the rules for them. Replaced as a whole on reload.

use std::sync::Arc;

use identity::Accounts;
use rustls::ServerConfig;
use vfs::{Caller, Volume, VolumeName};

use crate::limits::Limits;
use crate::settings::Auth;

/// Site of one lane, as handlers see it. A request sees one `Site` from its first byte to its last.
pub struct Site {
    mounts: Vec<Mount>,
    /// Bounds of every connection.
    pub limits: Limits,
    /// Names tried, in order, when a directory is asked for.
    pub index: Vec<String>,
    /// Upper bound on the sending rate of one connection, bytes per second.
    pub pacing: Option<u64>,
    /// Cache-Control of files; none is sent without it, so caches decide by Last-Modified.
    pub cache_control: Option<&'static str>,
    /// Certificates and protocol versions of TLS listeners.
    pub tls: Option<Arc<ServerConfig>>,
    /// Port of HTTPS that redirects name.
    pub https_port: u16,
    /// The users.
    pub(super) accounts: Arc<Accounts>,
    /// The caller of unauthenticated requests.
    pub(super) anonymous: Caller,
    /// Set if an upload is on the disk, with its name, before it is answered.
    pub uploads_synced: bool,
}

/// A volume at a place in the URL tree.
pub struct Mount {
    prefix: Vec<u8>,
    /// Volume that is served there.
    pub volume: Volume,
    /// Set if directories without an index file are listed.
    pub listings: bool,
    /// Conditions under which users authenticate.
    pub auth: Auth,
    /// Set if `.br`, `.zst` and `.gz` siblings that are not older than their file are served to clients that take
    /// them.
    pub precompressed: bool,
    /// Set if documents that could run scripts in browsers run none, and belong to no origin. Set by default where
    /// some user may change the volume.
    pub sandboxes: bool,
}

impl Mount {
    /// Mounts `volume` at `place`: `/` for the whole tree, `/music` for a part of it.
    pub fn new(place: &str, volume: Volume, listings: bool) -> Self {
        Self {
            prefix: place.trim_matches('/').into(),
            sandboxes: volume.is_writable(),
            volume,
            listings,
            auth: Auth::default(),
            precompressed: true,
        }
    }

    /// Returns where it is mounted, without slashes at the ends.
    pub fn prefix(&self) -> &[u8] {
        &self.prefix
    }
}

impl Site {
    /// Creates a site of these mounts with default rules.
    pub fn new(mut mounts: Vec<Mount>) -> Self {
        mounts.sort_by(|a, b| b.prefix.len().cmp(&a.prefix.len()).then_with(|| a.prefix.cmp(&b.prefix)));
        Self {
            mounts,
            limits: Limits::default(),
            index: vec!["index.html".into(), "index.htm".into()],
            pacing: None,
            cache_control: None,
            tls: None,
            https_port: 443,
            accounts: Accounts::none(),
            anonymous: Caller::anonymous(),
            uploads_synced: true,
        }
    }

    /// Returns the site with these users.
    #[must_use]
    pub fn of_users(mut self, accounts: Arc<Accounts>) -> Self {
        self.anonymous = Caller::new(accounts.anonymous());
        self.accounts = accounts;
        self
    }

    /// Returns whether some user may change something.
    pub(super) fn is_writable(&self) -> bool {
        self.mounts.iter().any(|mount| mount.volume.is_writable())
    }

    /// Returns the volume of this name, if it is mounted.
    pub fn volume(&self, name: &VolumeName) -> Option<&Volume> {
        self.mounts.iter().map(|mount| &mount.volume).find(|volume| volume.name() == name)
    }

    /// Returns the mount a decoded path lies in, the innermost of several, and the rest of the path.
    pub(super) fn resolve<'p>(&self, path: &'p [u8]) -> Option<(&Mount, &'p [u8])> {
        self.mounts.iter().find_map(|mount| {
            if mount.prefix.is_empty() {
                return Some((mount, path));
            }
            let rest = path.strip_prefix(&mount.prefix[..])?;
            match rest {
                [] => Some((mount, rest)),
                [b'/', rest @ ..] => Some((mount, rest)),
                _ => None,
            }
        })
    }

    /// Returns the names of the directories in `path` that exist because something is mounted there or below, and what
    /// is mounted right there.
    pub(super) fn mounted_below(&self, path: &[u8]) -> Vec<(Vec<u8>, Option<&Mount>)> {
        let mut names: Vec<(Vec<u8>, Option<&Mount>)> = Vec::new();
        for mount in &self.mounts {
            let below = if path.is_empty() {
                Some(&mount.prefix[..])
            } else {
                mount.prefix.strip_prefix(path).and_then(|rest| rest.strip_prefix(b"/"))
            };
            let below = below.unwrap_or_default();
            let name = below.split(|byte| *byte == b'/').next().unwrap_or_default();
            if name.is_empty() {
                continue;
            }
            let here = (name.len() == below.len()).then_some(mount);
            match names.iter_mut().find(|(known, _)| known == name) {
                Some((_, mounted)) => *mounted = mounted.or(here),
                None => names.push((name.to_vec(), here)),
            }
        }
        names
    }
}
