//! The Debian packages that tests and comparisons start real programs from.

use std::process::{Command, Stdio};

use anyhow::bail;

use crate::process;

/// Packages that the tests need: real clients and a real browser.
pub(crate) const TESTS: &[&str] = &[
    "curl",
    "openssl",
    "chromium",
    "chromium-driver",
    "iproute2",
    "e2fsprogs",
    "xfsprogs",
    "tshark",
    "openafs-client",
    "openafs-fuse",
    "libopenafs-dev",
    "openafs-fileserver",
    "openafs-dbserver",
    "nghttp2-client",
    "smbclient",
    "python3-impacket",
    "python3-venv",
    "samba",
    "samba-vfs-modules",
    "nginx-light",
    "haproxy",
    "varnish",
    "zsync",
    "zchunk",
    "rclone",
    "gvfs-backends",
    "libglib2.0-bin",
    "dbus-daemon",
    "wget",
    "lftp",
];

/// Packages that `cargo xtask compare` needs: the peers and the load generators.
pub(crate) const COMPARE: &[&str] = &["nginx-light", "wrk", "nghttp2-client", "openssl"];

/// Packages that `cargo xtask compare rx --stock` needs: the peers, and the network between them.
pub(crate) const STOCK_RX: &[&str] = &["libopenafs-dev", "iproute2"];

/// Packages that `cargo xtask compare afs` needs: the peer, its clients, and the network between them.
pub(crate) const STOCK_AFS: &[&str] =
    &["libopenafs-dev", "openafs-fileserver", "openafs-dbserver", "openafs-client", "iproute2"];

/// Packages that `cargo xtask compare smb` needs: the peer and its client.
pub(crate) const STOCK_SMB: &[&str] = &["samba", "samba-vfs-modules", "smbclient"];

/// Packages that `cargo xtask smbtorture` needs: a share on a file system that clones.
pub(crate) const SMBTORTURE: &[&str] = &["btrfs-progs"];

/// Packages that `cargo xtask smbtorture run --iptables` needs.
pub(crate) const IPTABLES: &[&str] = &["iptables"];

/// Packages that `cargo xtask counts` needs.
pub(crate) const COUNTS: &[&str] = &["valgrind"];

/// Packages that `cargo xtask lab` needs: the machine, the first file system, and what every scenario uses inside.
pub(crate) const LAB: &[&str] =
    &["qemu-system-x86", "busybox-static", "cpio", "kmod", "iproute2", "curl", "util-linux"];

/// Programs that must be there before a guest can be booted.
pub(crate) const LAB_PROGRAMS: &[&str] =
    &["qemu-system-x86_64", "busybox", "cpio", "depmod", "dpkg-deb", "setpriv"];

/// Installs those of `packages` that are missing.
pub(crate) fn install(packages: &[&str]) -> anyhow::Result<()> {
    let missing: Vec<&str> = packages.iter().copied().filter(|package| !is_installed(package)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    if !rustix::process::geteuid().is_root() {
        bail!("these Debian packages are missing: run `sudo apt-get install {}` first", missing.join(" "));
    }
    process::run("apt-get", &["update", "-q"])?;
    let mut args =
        vec!["DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-qy", "--no-install-recommends"];
    args.extend(missing);
    process::run("env", &args)
}

fn is_installed(package: &str) -> bool {
    Command::new("dpkg-query")
        .args(["--show", "--showformat=${db:Status-Abbrev}", package])
        .stderr(Stdio::null())
        .output()
        .is_ok_and(|output| output.stdout.starts_with(b"ii"))
}
