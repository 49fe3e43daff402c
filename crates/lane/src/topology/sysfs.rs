//! Reading of small kernel files below a root.

use std::io;
use std::path::{Path, PathBuf};

use super::{CpuSet, TopologyError};

/// A directory that holds `sys` and `proc`.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    root: PathBuf,
}

impl Tree {
    pub(crate) fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.root.join(relative)
    }

    /// Returns a file's content without the newline at the end. Some attributes exist but refuse to be read
    /// (`speed` of a link that is down): that is `None` too.
    pub(crate) fn text(&self, relative: &str) -> Option<String> {
        read_trimmed(&self.path(relative)).ok()
    }

    pub(crate) fn number<T: std::str::FromStr>(&self, relative: &str) -> Option<T> {
        self.text(relative)?.parse().ok()
    }

    /// Returns a CPU list that every machine has.
    pub(crate) fn cpu_list(&self, relative: &str) -> Result<CpuSet, TopologyError> {
        let path = self.path(relative);
        let text =
            read_trimmed(&path).map_err(|source| TopologyError::Read { path: path.clone(), source })?;
        text.parse().map_err(|source| TopologyError::Parse { path, source })
    }

    /// Returns the names in a directory, sorted; none when the directory cannot be read.
    pub(crate) fn names(&self, relative: &str) -> Vec<String> {
        let Ok(entries) = self.path(relative).read_dir() else { return Vec::new() };
        let mut names: Vec<_> =
            entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// Returns the numbers of entries named `prefix` and a number, in ascending order.
    pub(crate) fn numbered(&self, relative: &str, prefix: &str) -> Vec<u32> {
        let names = self.names(relative);
        let mut ids: Vec<u32> =
            names.iter().filter_map(|name| name.strip_prefix(prefix)?.parse().ok()).collect();
        ids.sort_unstable();
        ids
    }

    /// Returns the hardware behind the link `relative`: the nearest ancestor that has a `numa_node`. The walk
    /// is needed because a virtio device has none; the PCI function above it has.
    pub(crate) fn hardware(&self, relative: &str) -> Option<PathBuf> {
        let root = self.path("sys/devices").canonicalize().ok()?;
        let device = self.path(relative).canonicalize().ok()?;
        let mut below_root = device.ancestors().take_while(|dir| dir.starts_with(&root));
        below_root.find(|dir| dir.join("numa_node").exists()).map(Path::to_owned)
    }

    /// Returns the node of the hardware behind the link `relative`. The kernel writes -1 for unknown.
    pub(crate) fn hardware_node(&self, relative: &str) -> Option<u32> {
        read_trimmed(&self.hardware(relative)?.join("numa_node")).ok()?.parse().ok()
    }
}

fn read_trimmed(path: &Path) -> io::Result<String> {
    Ok(std::fs::read_to_string(path)?.trim_end().to_owned())
}
