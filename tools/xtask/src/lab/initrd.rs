//! The first file system of a guest: it loads what reaching the host's files takes, lays a writable layer over
//! them and hands over to this very program.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

use super::kernel::Kernel;
use crate::process;

/// Writes the archive to `path`. The guest runs `agent` with `args` once the host's root is its own. It sees the host's
/// directories in `needed` wherever they lie.
pub(crate) fn write(
    path: &Path,
    kernel: &Kernel,
    agent: &Path,
    args: &[&str],
    needed: &[&Path],
) -> anyhow::Result<()> {
    let stage = tempfile::tempdir()?;
    let root = stage.path();
    for directory in ["bin", "modules", "proc", "sys", "dev", "lower", "upper", "root"] {
        std::fs::create_dir(root.join(directory))?;
    }
    std::fs::copy(BUSYBOX, root.join("bin/busybox")).context("busybox-static")?;
    let mut names = Vec::new();
    for module in modules(kernel)? {
        let name = module.file_name().context("a module is a file")?.to_owned();
        std::fs::copy(kernel.modules.join(&kernel.version).join(&module), root.join("modules").join(&name))?;
        names.push(name.to_string_lossy().into_owned());
    }
    let init = root.join("init");
    std::fs::write(&init, script(&names, kernel, agent, args, &hidden(needed)))?;
    std::fs::set_permissions(&init, std::fs::Permissions::from_mode(0o755))?;
    archive(root, path)
}

/// Returns the modules of [`FIRST`] and what they stand on, in the order to load them.
fn modules(kernel: &Kernel) -> anyhow::Result<Vec<PathBuf>> {
    let text = std::fs::read_to_string(kernel.modules.join(&kernel.version).join("modules.dep"))?;
    let mut seen = BTreeSet::new();
    let mut order = Vec::new();
    for name in FIRST {
        // What is missing here is built into the kernel.
        let Some((module, below)) =
            text.lines().filter_map(|line| line.split_once(':')).find(|(module, _)| {
                let file = module.rsplit('/').next().unwrap_or(module);
                file.split('.').next() == Some(*name)
            })
        else {
            continue;
        };
        // modules.dep names the closest first.
        for path in below.split_whitespace().rev().chain([module]) {
            if seen.insert(path) {
                order.push(PathBuf::from(path));
            }
        }
    }
    ensure!(!order.is_empty(), "the kernel has no module to reach the host's files with");
    Ok(order)
}

/// Returns those of the directories that a guest's own file systems would hide, each once.
fn hidden(needed: &[&Path]) -> Vec<PathBuf> {
    let mut hidden: Vec<PathBuf> = Vec::new();
    let mut sorted = needed.to_vec();
    // What contains another comes first.
    sorted.sort_unstable();
    for path in sorted {
        if OWN.iter().any(|own| path.starts_with(own)) && !hidden.iter().any(|known| path.starts_with(known))
        {
            hidden.push(path.to_owned());
        }
    }
    hidden
}

fn script(modules: &[String], kernel: &Kernel, agent: &Path, args: &[&str], hidden: &[PathBuf]) -> String {
    let load: String = modules
        .iter()
        .map(|name| match name.strip_suffix(".xz") {
            Some(plain) => format!("$b xz -dc /modules/{name} > /{plain} && $b insmod /{plain}\n"),
            None => format!("$b insmod /modules/{name}\n"),
        })
        .collect();
    let (mut keep, mut give_back) = (String::new(), String::new());
    for (n, path) in hidden.iter().enumerate() {
        let path = quote(&path.to_string_lossy());
        keep += &format!(
            "$b mkdir -p /kept/{n} && $b mount --bind /root{path} /kept/{n} || give_up \"no checkout\"\n"
        );
        give_back += &format!("$b mkdir -p /root{path} && $b mount --move /kept/{n} /root{path}\n");
    }
    let own: String = OWN.iter().map(|own| format!("$b mount -t tmpfs tmpfs /root{own}\n")).collect();
    let modules = quote(&kernel.modules.to_string_lossy());
    let command = std::iter::once(&*agent.to_string_lossy())
        .chain(args.iter().copied())
        .map(quote)
        .collect::<Vec<_>>()
        .join(" ");
    // A program that ends as process 1 is a kernel panic: the shell stays, and turns the machine off.
    format!(
        r#"#!/bin/busybox sh
b=/bin/busybox
give_up() {{ echo "lab: $1"; $b poweroff -f; }}
$b mount -t proc proc /proc && $b mount -t sysfs sysfs /sys && $b mount -t devtmpfs devtmpfs /dev
{load}$b mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=524288 host /lower || give_up "no host"
$b mount -t tmpfs tmpfs /upper && $b mkdir /upper/files /upper/work
$b mount -t overlay -o lowerdir=/lower,upperdir=/upper/files,workdir=/upper/work overlay /root || give_up "no root"
$b mkdir -p /root/usr/lib/modules
$b mount --bind /root{modules} /root/usr/lib/modules || give_up "no modules"
for d in proc sys dev; do $b mount --move /$d /root/$d; done
{keep}{own}{give_back}exec $b switch_root /root /bin/busybox sh -c {handover}
"#,
        handover = quote(&format!("{command}; /bin/busybox poweroff -f")),
    )
}

/// Quotes a word for the shell.
fn quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn archive(root: &Path, path: &Path) -> anyhow::Result<()> {
    let names = process::output("find", &[root.as_os_str(), "-printf".as_ref(), "%P\\n".as_ref()])?;
    let mut cpio = Command::new("cpio")
        .args(["--create", "--format=newc", "--quiet"])
        .current_dir(root)
        .stdin(Stdio::piped())
        .stdout(std::fs::File::create(path)?)
        .spawn()
        .context("cannot start cpio")?;
    let mut names_in = cpio.stdin.take().context("cpio reads names")?;
    std::io::Write::write_all(&mut names_in, names.trim_start().as_bytes())?;
    drop(names_in);
    ensure!(cpio.wait()?.success(), "cpio failed");
    Ok(())
}

/// Drivers that the guest's own files cannot bring because they lie behind them.
const FIRST: &[&str] = &["virtio_pci", "9p", "9pnet_virtio", "overlay", "virtio_console"];
/// Directories where a guest has file systems of its own instead of the host's.
const OWN: &[&str] = &["/run", "/tmp"];
const BUSYBOX: &str = "/bin/busybox";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkout_below_tmp_is_kept_once_with_all_it_holds() {
        let needed = ["/tmp/a/target/debug", "/tmp/a", "/home/b", "/tmp/ab", "/tmp/a/target/release"];
        let found = hidden(&needed.map(Path::new));
        assert_eq!(found, [Path::new("/tmp/a"), Path::new("/tmp/ab")]);
    }

    #[test]
    fn words_with_quotes_reach_the_shell_whole() {
        let echoed = process::output("sh", &["-c", &format!("printf %s {}", quote("it's a $x \\ `y`"))]);
        assert_eq!(echoed.unwrap(), "it's a $x \\ `y`");
    }
}
