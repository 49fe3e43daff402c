//! Specification of a volume by the configuration. Plain data that every lane opens for itself.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use identity::Writable;
use index::Quota;

/// An exported directory: its name for clients, where it lies, and what of it is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeSpec {
    /// Name of the volume.
    pub name: VolumeName,
    /// The directory.
    pub path: PathBuf,
    /// Options of what is served.
    pub options: VolumeOptions,
    /// Users that may change the volume. All but [`Writable::Nobody`] need a cache that
    /// [shares](crate::Cache::sharing).
    pub writable: Writable,
    /// Set if lanes share its files even where no client may change them: see [`VolumeSpec::with_objects`].
    pub with_objects: bool,
    /// Set if access lists, modes and descriptors count, though no client may change it or relies on its files'
    /// numbers: see [`VolumeSpec::guarded`].
    pub guarded: bool,
    /// Quota of the volume, where it is writable.
    pub quota: Quota,
    /// Set if usage is counted, though nothing limits it.
    pub counted: bool,
    /// Set if other programs on this machine find locked what clients lock (fcntl(2)), and the other way
    /// round.
    pub local_locks: bool,
}

/// Name of a volume: 1 to 80 bytes of printable ASCII without slashes, backslashes, quotes, blanks or a leading dot.
/// So it fits an SMB share, an AFS volume and a path component alike.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VolumeName(String);

/// Options of what is served of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeOptions {
    /// Set to follow symbolic links that stay beneath the directory. Those that lead out are refused in any case.
    pub follow_symlinks: bool,
    /// Set to serve and list names that begin with a dot. A `.well-known` at the top is served in any case.
    pub serve_hidden: bool,
}

/// Reason why a text is no volume name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is no volume name: 1 to 80 of A-Z a-z 0-9 . _ - $, not beginning with a dot")]
pub struct VolumeNameError {
    name: String,
}

impl VolumeSpec {
    /// Makes the specification of a read-only volume of this name at `path`.
    pub fn new(name: VolumeName, path: impl AsRef<Path>, options: VolumeOptions) -> Self {
        Self {
            name,
            path: path.as_ref().to_owned(),
            options,
            writable: Writable::Nobody,
            with_objects: false,
            guarded: false,
            quota: Quota::default(),
            counted: false,
            local_locks: true,
        }
    }

    /// Lets the users that `writable` names change the volume.
    #[must_use]
    pub fn writable_by(self, writable: Writable) -> Self {
        Self { writable, ..self }
    }

    /// Gives the files numbers and versions, and callbacks for clients that cache, even where no client may
    /// change them: for a service of such clients. Access lists count then too. It takes a cache that
    /// [shares](crate::Cache::sharing).
    #[must_use]
    pub fn with_objects(self) -> Self {
        Self { with_objects: true, ..self }
    }

    /// Has rights count as they do in a writable volume. Its files have no lasting numbers and nothing is
    /// written, no mark either. It takes a cache that [shares](crate::Cache::sharing).
    #[must_use]
    pub fn guarded(self) -> Self {
        Self { guarded: true, ..self }
    }

    /// Limits the volume to this quota.
    #[must_use]
    pub fn limited_to(self, quota: Quota) -> Self {
        Self { quota, ..self }
    }

    /// Has the usage of the volume counted.
    #[must_use]
    pub fn counted(self) -> Self {
        Self { counted: true, ..self }
    }

    /// Returns whether what it holds is counted.
    pub fn is_counted(&self) -> bool {
        self.is_writable() && (self.counted || self.quota != Quota::default())
    }

    /// Returns whether an opening by one is an opening by the other: what it may hold can change while it is
    /// open.
    pub fn is_opened_as(&self, other: &Self) -> bool {
        *self == Self { quota: self.quota, counted: self.counted, ..other.clone() }
    }

    /// Returns whether any client may change it.
    pub fn is_writable(&self) -> bool {
        self.writable != Writable::Nobody
    }

    /// Returns whether its files have lasting numbers and versions: any client may change them, or clients
    /// that cache are served.
    pub fn is_numbered(&self) -> bool {
        self.with_objects || self.is_writable()
    }

    /// Returns whether lanes share its files and rights count in it.
    pub fn has_objects(&self) -> bool {
        self.guarded || self.is_numbered()
    }
}

impl VolumeName {
    /// Bytes of a name that AFS's tools keep too, with `.readonly` behind it.
    pub const BYTES_OF_DIRECTORY: usize = 22;

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Makes a name for the volume of a directory that was given none: as the directory is, so far as that is
    /// a name in every protocol. Each other character becomes a `-`, leading dots and what is more than
    /// [`BYTES_OF_DIRECTORY`](Self::BYTES_OF_DIRECTORY) go; `files-` is put before a number, which AFS would
    /// take for a volume's. `files` where nothing is left, as of `/`.
    pub fn of_directory(path: &Path) -> Self {
        // What `a/..` is called only the file system knows.
        let real = || path.canonicalize().ok();
        let base = path.file_name().map(ToOwned::to_owned);
        let base = base.or_else(|| real()?.file_name().map(ToOwned::to_owned)).unwrap_or_default();
        let allowed = |byte: char| if byte.is_ascii() && is_allowed(byte as u8) { byte } else { '-' };
        let told: String = base.to_string_lossy().trim_start_matches('.').chars().map(allowed).collect();
        let told = match told.bytes().any(|byte| byte.is_ascii_alphanumeric()) {
            true if told.bytes().all(|byte| byte.is_ascii_digit()) => format!("{UNNAMED}-{told}"),
            true => told,
            false => UNNAMED.to_owned(),
        };
        let mut told = told[..told.len().min(Self::BYTES_OF_DIRECTORY)].to_owned();
        // These are names of a volume's copies.
        for copy in [".readonly", ".backup"] {
            if let Some(stem) = told.strip_suffix(copy) {
                told = format!("{stem}-{}", &copy[1..]);
            }
        }
        Self(told)
    }
}

fn is_allowed(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"._-$".contains(&byte)
}

/// The volume of a directory whose own name is none.
const UNNAMED: &str = "files";

impl FromStr for VolumeName {
    type Err = VolumeNameError;

    fn from_str(name: &str) -> Result<Self, VolumeNameError> {
        if (1..=80).contains(&name.len()) && !name.starts_with('.') && name.bytes().all(is_allowed) {
            return Ok(Self(name.to_owned()));
        }
        Err(VolumeNameError { name: name.to_owned() })
    }
}

impl fmt::Display for VolumeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Default for VolumeOptions {
    fn default() -> Self {
        Self { follow_symlinks: true, serve_hidden: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volume_names_fit_every_protocol() {
        for name in ["root.cell", "user_anne-2", "C$", &"v".repeat(80)] {
            assert_eq!(name.parse::<VolumeName>().unwrap().as_str(), name);
        }
        for name in ["", ".hidden", "a/b", "a\\b", "a b", "naïve", "\"", &"v".repeat(81)] {
            assert!(name.parse::<VolumeName>().is_err(), "{name}");
        }
    }

    #[test]
    fn a_directory_names_its_volume() {
        let long = format!("/{}", "n".repeat(40));
        let named = [
            ("/srv/pub", "pub"),
            ("/srv/pub/", "pub"),
            ("pub", "pub"),
            ("/srv/My Files", "My-Files"),
            ("/srv/m\u{fc}sli", "m-sli"),
            ("/home/anne/.config", "config"),
            ("/srv/2024", "files-2024"),
            ("/srv/web.backup", "web-backup"),
            ("/srv/C$", "C$"),
            (&long, &long[1..=22]),
            ("/", "files"),
            ("/srv/\u{65e5}\u{672c}", "files"),
            ("/srv/...", "files"),
        ];
        for (path, name) in named {
            let told = VolumeName::of_directory(Path::new(path));
            assert_eq!(told.as_str(), name, "{path}");
            assert_eq!(told.as_str().parse(), Ok(told));
        }
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("pub/below")).unwrap();
        let above = dir.path().join("pub/below/..");
        assert_eq!(VolumeName::of_directory(&above).as_str(), "pub");
    }
}
