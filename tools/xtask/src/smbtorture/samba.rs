//! Samba 4.22 of Debian's backports, unpacked below the build directory: the system's own packages stay as they are.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use crate::process;

const RELEASE: &str = "bookworm-backports";
const PACKAGES: [&str; 4] = ["samba", "samba-vfs-modules", "samba-testsuite", "smbclient"];

/// Programs of Samba, and where they lie.
#[derive(Debug)]
pub(crate) struct Samba {
    root: PathBuf,
    version: String,
}

impl Samba {
    /// Unpacks it, if it is not there yet.
    pub(crate) fn unpacked() -> anyhow::Result<Self> {
        let directory = process::target().join("smbtorture");
        let root = directory.join("root");
        if !root.join("usr/bin/smbtorture").is_file() {
            unpack(&directory, &root).context("Samba 4.22 cannot be unpacked")?;
        }
        let mut samba = Self { root, version: String::new() };
        let said = samba.command("usr/bin/smbtorture").arg("--version").output()?;
        let said = String::from_utf8_lossy(&said.stdout);
        samba.version = said.lines().last().unwrap_or_default().trim_start_matches("Version ").to_owned();
        ensure!(samba.version.starts_with("4.22."), "smbtorture is {:?}, not 4.22", samba.version);
        Ok(samba)
    }

    pub(crate) fn version(&self) -> &str {
        &self.version
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Makes the command of a program of Samba's, with its own libraries.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.root.join(program));
        command.env("LD_LIBRARY_PATH", self.libraries());
        command
    }

    fn libraries(&self) -> OsString {
        let usr = self.root.join("usr/lib/x86_64-linux-gnu");
        let mut paths = usr.clone().into_os_string();
        for more in [usr.join("samba"), self.root.join("lib/x86_64-linux-gnu")] {
            paths.push(":");
            paths.push(more);
        }
        paths
    }

    /// Returns the names of all tests of SMB 2 and 3.
    pub(crate) fn tests(&self) -> anyhow::Result<Vec<String>> {
        let output = self.command("usr/bin/smbtorture").arg("--list").output()?;
        let tests: Vec<_> = String::from_utf8_lossy(&output.stdout).lines().filter_map(test_name).collect();
        ensure!(!tests.is_empty(), "smbtorture lists no tests");
        Ok(tests)
    }
}

/// Returns a test's name: the list has the last part twice.
fn test_name(line: &str) -> Option<String> {
    let line = line.strip_prefix("smb2.").map(|_| line)?;
    let name = line.rmatch_indices('.').find_map(|(at, _)| {
        let (before, last) = (&line[..at], &line[at + 1..]);
        before.strip_suffix(last).is_some_and(|head| head.ends_with('.')).then(|| before.to_owned())
    });
    name.filter(|name| name.matches('.').count() > 0)
}

fn unpack(directory: &Path, root: &Path) -> anyhow::Result<()> {
    let apt = directory.join("apt");
    for part in ["lists/partial", "archives/partial"] {
        std::fs::create_dir_all(apt.join(part))?;
    }
    std::fs::create_dir_all(root)?;
    // The mirror that this machine uses has the backports too.
    let format = ["indextargets", "--format", "$(RELEASE) $(REPO_URI)", "Created-By: Packages"];
    let targets = process::output("apt-get", &format)?;
    let uri = targets.lines().find_map(|line| line.strip_prefix("bookworm "));
    let uri = uri.context("this is no Debian bookworm")?;
    let kept = std::fs::read_to_string("/etc/apt/sources.list").unwrap_or_default();
    let list = apt.join("sources.list");
    std::fs::write(&list, format!("{kept}\ndeb {uri} {RELEASE} main\n"))?;
    let options = [
        format!("Dir::Etc::sourcelist={}", list.display()),
        format!("Dir::State::lists={}", apt.join("lists").display()),
        format!("Dir::Cache::archives={}", apt.join("archives").display()),
        "Dir::Cache::pkgcache=".to_owned(),
        "Dir::Cache::srcpkgcache=".to_owned(),
    ];
    let options = options.iter().flat_map(|option| ["-o", option.as_str()]);
    let mut args: Vec<&str> = options.chain(["-qy", "-t", RELEASE]).collect();
    process::output("apt-get", &[&args[..], &["update"]].concat())?;
    args.extend(["--download-only", "--no-install-recommends", "--reinstall", "install"]);
    args.extend(PACKAGES);
    process::output("apt-get", &args)?;
    for package in std::fs::read_dir(apt.join("archives"))? {
        let package = package?.path();
        if package.extension().is_some_and(|extension| extension == "deb") {
            process::output("dpkg-deb", &[Path::new("-x"), &package, root])?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_the_last_part_of_a_name_twice() {
        for (line, name) in [
            ("smb2.lock.valid-request.valid-request", Some("smb2.lock.valid-request")),
            ("smb2.connect.connect", Some("smb2.connect")),
            ("smb2.create.a.b.a.b", Some("smb2.create.a.b")),
            ("smb2.lock.lock contention.lock contention", Some("smb2.lock.lock contention")),
            ("rpc.lsa.lsa", None),
            ("smb2.lock.a", None),
        ] {
            assert_eq!(test_name(line).as_deref(), name, "{line}");
        }
    }
}
