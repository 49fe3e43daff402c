//! A directory to serve and the configuration file that says so, side by side.

use std::path::PathBuf;

use tempfile::TempDir;

use super::{Launch, Server};

pub(crate) struct Site {
    dir: TempDir,
}

impl Site {
    /// Files to serve, and configuration beyond `[[volume]]` and the addresses: other sections, or keys of
    /// `[server]` first.
    pub(crate) fn new(files: &[(&str, &[u8])], configuration: &str) -> Self {
        let site = Self { dir: tempfile::tempdir().unwrap() };
        std::fs::create_dir(site.root()).unwrap();
        for (name, content) in files {
            std::fs::write(site.path(name), content).unwrap();
        }
        site.configure(&format!("{configuration}\n{ANY_PORT}"));
        site
    }

    /// Replaces the configuration, addresses included; the volume stays.
    pub(crate) fn configure(&self, configuration: &str) {
        std::fs::write(self.config(), format!("{configuration}\n{VOLUME}")).unwrap();
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.dir.path().join("linerate.toml")
    }

    /// The served directory.
    pub(crate) fn root(&self) -> PathBuf {
        self.dir.path().join("root")
    }

    /// A served file.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    /// A file beside the served directory.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn launch(&self) -> Launch {
        Launch::config(&self.config())
    }

    pub(crate) fn start(&self) -> Server {
        self.launch().start()
    }
}

/// Addresses whose ports the kernel chooses.
pub(crate) const ANY_PORT: &str = "[http]\nlisten = [\"127.0.0.1:0\"]\n[https]\nlisten = [\"127.0.0.1:0\"]\n\
    [admin]\nlisten = \"127.0.0.1:0\"\n";

const VOLUME: &str = "[[volume]]\nname = \"files\"\npath = \"root\"\n";
