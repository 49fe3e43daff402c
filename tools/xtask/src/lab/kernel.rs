//! Debian's kernels, downloaded as packages and unpacked beside the build, never installed.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::process;

/// Which of Debian's kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Release {
    /// The stable suite's.
    #[value(name = "6.1")]
    Stable,
    /// The backports suite's.
    #[value(name = "6.12")]
    Backports,
    /// The newest that Debian builds for the release after stable, for what only new kernels do.
    #[value(name = "newest")]
    Newest,
}

/// An unpacked kernel.
#[derive(Debug)]
pub(crate) struct Kernel {
    /// Version as `uname -r` says it.
    pub(crate) version: String,
    /// Bootable image.
    pub(crate) image: PathBuf,
    /// Holds the directory named after the version, as `/lib/modules` does.
    pub(crate) modules: PathBuf,
}

impl Kernel {
    /// Downloads and unpacks it, unless the newest is there.
    pub(crate) fn fetch(release: Release) -> anyhow::Result<Self> {
        let apt = Apt::new(release)?;
        let package = match apt.newest() {
            Ok(package) => package,
            // Without a package index or a network the one that was unpacked last serves as well.
            Err(error) => {
                return Self::unpacked(release).with_context(|| format!("no kernel can be had: {error:#}"));
            }
        };
        let home = directory(release);
        let root = home.join(&package);
        if !root.join(COMPLETE).exists() {
            eprintln!("lab: downloading {package}");
            unpack(&apt, &package, &root)?;
        }
        std::fs::write(home.join(CURRENT), &package)?;
        Self::in_root(&root)
    }

    fn unpacked(release: Release) -> anyhow::Result<Self> {
        let home = directory(release);
        let package = std::fs::read_to_string(home.join(CURRENT)).context("none was unpacked before")?;
        Self::in_root(&home.join(package))
    }

    fn in_root(root: &Path) -> anyhow::Result<Self> {
        let modules = root.join("usr/lib/modules");
        let modules = if modules.exists() { modules } else { root.join("lib/modules") };
        let version = std::fs::read_dir(&modules)?.next().context("the package has no modules")??;
        let version = version.file_name().to_string_lossy().into_owned();
        // Newer packages have it beside the modules.
        let images =
            [root.join("boot").join(format!("vmlinuz-{version}")), modules.join(&version).join("vmlinuz")];
        let image = images.into_iter().find(|image| image.exists()).context("the package has no image")?;
        Ok(Self { version, image, modules })
    }
}

fn unpack(apt: &Apt, package: &str, root: &Path) -> anyhow::Result<()> {
    // A half of an earlier attempt.
    let _ = std::fs::remove_dir_all(root);
    std::fs::create_dir_all(root)?;
    let download = tempfile::tempdir()?;
    for part in apt.parts(package)? {
        apt.download(&part, download.path())?;
    }
    for deb in std::fs::read_dir(download.path())? {
        let deb = deb?.path();
        process::output("dpkg-deb", &["--extract".as_ref(), deb.as_os_str(), root.as_os_str()])?;
    }
    let kernel = Kernel::in_root(root)?;
    let base = kernel.modules.parent().and_then(Path::parent).context("modules lie in a lib directory")?;
    process::output("/sbin/depmod", &["--basedir".as_ref(), base.as_os_str(), kernel.version.as_ref()])?;
    std::fs::write(root.join(COMPLETE), "")?;
    Ok(())
}

fn directory(release: Release) -> PathBuf {
    super::directory().join(match release {
        Release::Stable => "kernel-stable",
        Release::Backports => "kernel-backports",
        Release::Newest => "kernel-newest",
    })
}

/// apt-get, told to look into a suite that the machine itself need not know.
struct Apt {
    /// Options of every call.
    options: Vec<String>,
    /// The private package lists.
    state: tempfile::TempDir,
}

impl Apt {
    fn new(release: Release) -> anyhow::Result<Self> {
        let state = tempfile::tempdir()?;
        let mut apt = Self { options: Vec::new(), state };
        match release {
            Release::Stable => {}
            Release::Backports => apt.look_into("bookworm-backports")?,
            Release::Newest => apt.look_into("trixie-backports")?,
        }
        Ok(apt)
    }

    /// Reads the package lists of a suite, from the machine's own mirror and with its key.
    fn look_into(&mut self, suite: &str) -> anyhow::Result<()> {
        let state = self.state.path();
        let list = state.join("backports.list");
        let lists = state.join("lists");
        std::fs::create_dir_all(lists.join("partial"))?;
        let line = format!("deb [signed-by={ARCHIVE_KEY}] {} {suite} main\n", mirror()?);
        std::fs::write(&list, line)?;
        self.options = [
            format!("Dir::Etc::sourcelist={}", list.display()),
            "Dir::Etc::sourceparts=-".to_owned(),
            format!("Dir::State::lists={}", lists.display()),
            format!("Dir::Cache::pkgcache={}", state.join("pkgcache").display()),
            format!("Dir::Cache::srcpkgcache={}", state.join("srcpkgcache").display()),
        ]
        .into_iter()
        .flat_map(|option| ["-o".to_owned(), option])
        .collect();
        self.call("apt-get", &["update", "-q"])
            .with_context(|| format!("the suite {suite} cannot be had"))?;
        Ok(())
    }

    /// Returns the package that the suite's meta-package stands for.
    fn newest(&self) -> anyhow::Result<String> {
        let show = || self.call("apt-cache", &["show", "--no-all-versions", "linux-image-amd64"]);
        // A machine that was never told of any package knows none before its first update.
        let shown = show().or_else(|_| self.call("apt-get", &["update", "-q"]).and_then(|_| show()))?;
        let package = dependencies(&shown).find(|name| name.starts_with("linux-image-"));
        package.map(str::to_owned).context("the package index knows no linux-image-amd64")
    }

    /// Returns the packages that hold the kernel's files: newer ones have the image and the modules apart.
    fn parts(&self, package: &str) -> anyhow::Result<Vec<String>> {
        let shown = self.call("apt-cache", &["show", "--no-all-versions", package])?;
        let apart = |name: &&str| name.starts_with("linux-binary-") || name.starts_with("linux-modules-");
        let parts: Vec<String> = dependencies(&shown).filter(apart).map(str::to_owned).collect();
        Ok(if parts.is_empty() { vec![package.to_owned()] } else { parts })
    }

    fn download(&self, package: &str, into: &Path) -> anyhow::Result<()> {
        let mut command = std::process::Command::new("apt-get");
        command.args(&self.options).args(["download", "-q", package]).current_dir(into);
        let output = command.output().context("cannot start apt-get")?;
        if !output.status.success() {
            bail!("{package} cannot be downloaded: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(())
    }

    fn call(&self, program: &str, args: &[&str]) -> anyhow::Result<String> {
        let options = self.options.iter().map(String::as_str);
        let args: Vec<&str> = options.chain(args.iter().copied()).collect();
        process::output(program, &args)
    }
}

/// Returns the names that a package's Depends field begins with, as `apt-cache show` prints it.
fn dependencies(shown: &str) -> impl Iterator<Item = &str> {
    let list = shown.lines().find_map(|line| line.strip_prefix("Depends: ")).unwrap_or_default();
    list.split(", ").filter_map(|one| one.split(' ').next()).filter(|name| !name.is_empty())
}

/// Returns the mirror of Debian that this machine uses.
fn mirror() -> anyhow::Result<String> {
    let sites = process::output("apt-get", &["indextargets", "--format", "$(SITE)"])?;
    let site = sites.lines().find(|site| site.ends_with("/debian"));
    site.map(str::to_owned).context("apt-get knows no mirror of Debian")
}

/// Debian's own, from the package debian-archive-keyring.
const ARCHIVE_KEY: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// Marks a directory that was unpacked to its end.
const COMPLETE: &str = ".complete";
/// Names the package that was used last.
const CURRENT: &str = "current";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_named_without_its_version() {
        let shown =
            "Package: linux-image-amd64\nDepends: linux-base-amd64 (= 7), linux-image-7-amd64 (= 7)\n";
        let names: Vec<&str> = dependencies(shown).collect();
        assert_eq!(names, ["linux-base-amd64", "linux-image-7-amd64"]);
        assert_eq!(dependencies("Package: none\n").count(), 0);
    }
}
