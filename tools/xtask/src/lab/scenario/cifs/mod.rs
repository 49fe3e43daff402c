//! Linux's own SMB client (cifs.ko): a guest mounts the tree that it serves, by each dialect, signed and sealed, and uses it as people use
//! a file system.

use std::fs;
use std::io::Write;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, ensure};

use super::fsx::{self, Mapping};
use super::{Scenario, project};
use crate::lab::guest::server::Server;
use crate::lab::guest::{Guest, disk, kernel_version, modprobe};
use crate::lab::machine::Machine;
use crate::process;

mod channels;
mod copies;
mod mapped;
mod use_of;

pub(crate) use channels::CifsChannels;
use copies::Copies;
pub(crate) use mapped::CifsMapped;

pub(crate) struct Cifs;

impl Scenario for Cifs {
    fn name(&self) -> &'static str {
        "cifs"
    }

    fn about(&self) -> &'static str {
        "Linux's SMB client mounts the tree by 3.1.1, sealed, as it is and signed: copies, renames, a project, random loads"
    }

    fn packages(&self) -> &'static [&'static str] {
        PACKAGES
    }

    fn machines(&self) -> Vec<Machine> {
        vec![Machine { nodes: 1, nics: Vec::new(), disk_mib: Some(512), ..Machine::two_nodes() }]
    }

    fn limit(&self) -> Duration {
        Duration::from_secs(2400)
    }

    fn run(&self, guest: &mut Guest) -> anyhow::Result<()> {
        run(guest, |guest| each(guest, &["vers=3.1.1,seal", "vers=3.1.1", "vers=3.1.1,sign"]))
    }
}

/// The scenario [`Cifs`] by the dialects before 3.1.1.
pub(crate) struct CifsOld;

impl Scenario for CifsOld {
    fn name(&self) -> &'static str {
        "cifs-old"
    }

    fn about(&self) -> &'static str {
        "the same by 2.1, and by 3.0 as it is and sealed"
    }

    fn packages(&self) -> &'static [&'static str] {
        PACKAGES
    }

    fn machines(&self) -> Vec<Machine> {
        Cifs.machines()
    }

    fn limit(&self) -> Duration {
        Cifs.limit()
    }

    fn run(&self, guest: &mut Guest) -> anyhow::Result<()> {
        run(guest, |guest| each(guest, &["vers=2.1", "vers=3.0", "vers=3.0,seal"]))
    }
}

/// The scenario [`Cifs`] by one dialect, with ten thousand files.
pub(crate) struct CifsMany;

impl Scenario for CifsMany {
    fn name(&self) -> &'static str {
        "cifs-many"
    }

    fn about(&self) -> &'static str {
        "ten thousand files are copied and compared by Linux's SMB client, and ten thousand names of a directory listed"
    }

    fn packages(&self) -> &'static [&'static str] {
        &["e2fsprogs"]
    }

    fn machines(&self) -> Vec<Machine> {
        Cifs.machines()
    }

    fn limit(&self) -> Duration {
        Duration::from_secs(3600)
    }

    fn run(&self, guest: &mut Guest) -> anyhow::Result<()> {
        run(guest, |guest| mounted(guest, "vers=3.1.1", many))
    }
}

/// The scenario [`Cifs`] for the random load alone, for a short time.
pub(crate) struct CifsFsx;

impl Scenario for CifsFsx {
    fn name(&self) -> &'static str {
        "cifs-fsx"
    }

    fn about(&self) -> &'static str {
        "ten minutes of reads, writes, cuts and mappings at random by Linux's SMB client leave the bytes that they must"
    }

    fn packages(&self) -> &'static [&'static str] {
        &["e2fsprogs", "gcc", "libc6-dev"]
    }

    fn machines(&self) -> Vec<Machine> {
        Cifs.machines()
    }

    fn limit(&self) -> Duration {
        Duration::from_secs(1200)
    }

    fn run(&self, guest: &mut Guest) -> anyhow::Result<()> {
        run(guest, |guest| mounted(guest, "vers=3.1.1", |guest| random_load(guest, "steps at random", LONG)))
    }
}

/// Serves the tree, does this with it as a client, and has the volume checked.
fn run(guest: &mut Guest, work: impl FnOnce(&mut Guest) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let server = serve(guest)?;
    modprobe(&["cifs"])?;
    refused()?;
    let outcome = work(guest);
    if outcome.is_err() {
        told(guest, &server)?;
    }
    outcome?;
    server.stop()?;
    let output = guest.linerate().args(["volume", "check", "--dry-run", "--state", STATE]).output()?;
    let told = [output.stdout, output.stderr].concat();
    ensure!(output.status.success(), "volume check: {}", String::from_utf8_lossy(&told));
    Ok(())
}

/// Mounts the tree in each of these ways, and does there all that people do with a tree.
fn each(guest: &mut Guest, ways: &[&'static str]) -> anyhow::Result<()> {
    ways.iter().try_for_each(|&options| {
        guest.step(options, |guest| mounted(guest, options, |guest| everything(guest, options)))
    })
}

/// Mounts the tree, does this there, and removes whatever that has left.
fn mounted(
    guest: &mut Guest,
    options: &str,
    work: impl FnOnce(&mut Guest) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    mount(options, PASSWORD)?;
    work(guest)?;
    guest.step(&format!("{options}: all is removed"), |_| use_of::remove_all())?;
    process::output("umount", &[MOUNT])?;
    let complaints = complaints()?;
    ensure!(complaints.is_empty(), "the client complains: {complaints:?}");
    Ok(())
}

fn everything(guest: &mut Guest, options: &str) -> anyhow::Result<()> {
    use_of::contents().context("contents")?;
    use_of::names_and_links().context("names and links")?;
    Copies::prepare(FEW)?.there_and_back(guest).context("copies of a tree")?;
    use_of::renames().context("a storm of renames")?;
    project::clone_and_make(&at("project")).context("a project")?;
    ensure!(fs::exists(format!("{TREE}/project/f.c"))?, "the project is not in the tree that is served");
    random_load(guest, &format!("{options}: steps at random"), SHORT)
}

fn many(guest: &mut Guest) -> anyhow::Result<()> {
    guest.step("copies of ten thousand files", |guest| Copies::prepare(MANY)?.there_and_back(guest))?;
    guest.step("a directory of ten thousand names", |_| use_of::many_names(MANY))
}

/// Runs the random load, whose bytes are compared here and in the tree.
fn random_load(guest: &mut Guest, figure: &str, time: Duration) -> anyhow::Result<()> {
    let mapping = if kernel_version()? >= LOSES_MAPPED { Mapping::Unmapped } else { Mapping::Mapped };
    let (steps, good) = fsx::run(&at("fsx"), time, mapping).context("a random load")?;
    guest.figure(figure, steps, "steps")?;
    fsx::compare(&fs::read(format!("{TREE}/fsx"))?, &good).context("the file of the random load in the tree")
}

/// Returns what the client's kernel has complained of.
fn complaints() -> anyhow::Result<Vec<String>> {
    let said = process::output("dmesg", &["--notime"])?;
    Ok(said.lines().filter(|line| line.starts_with("CIFS: VFS")).map(str::to_owned).collect())
}

/// Serves the tree on a disk of the guest's own, for one user.
fn serve(guest: &Guest) -> anyhow::Result<Server> {
    disk::mount("/srv".as_ref())?;
    fs::create_dir_all(TREE)?;
    add_user(guest)?;
    guest.serve(&format!(
        "[server]\nstate_dir = \"{STATE}\"\n[identity]\naccounts = \"{ACCOUNTS}\"\n\
         [http]\nlisten = []\n[https]\nlisten = []\n[smb]\nlisten = \"{SERVER}:445\"\nsigning = \"allowed\"\n\
         [[volume]]\nname = \"tree\"\npath = \"{TREE}\"\nwritable = \"{USER}\"\nserve_dotfiles = true\n"
    ))
}

fn add_user(guest: &Guest) -> anyhow::Result<()> {
    let mut command = guest.linerate();
    command.args(["user", "add", USER, "--nt", "--password-stdin", "--accounts", ACCOUNTS]);
    let mut child = command.stdin(Stdio::piped()).spawn()?;
    child.stdin.take().context("it has a standard input")?.write_all(format!("{PASSWORD}\n").as_bytes())?;
    ensure!(child.wait()?.success(), "linerate user add");
    Ok(())
}

fn mount(options: &str, password: &str) -> anyhow::Result<()> {
    mount_from(SERVER, options, password)
}

fn mount_from(server: &str, options: &str, password: &str) -> anyhow::Result<()> {
    let options = format!("ip={server},username={USER},password={password},{options}");
    mount_share(&format!("//{server}/tree"), &options)
}

/// Mounts the tree without the helper that would ask for names and passwords.
fn mount_share(share: &str, options: &str) -> anyhow::Result<()> {
    fs::create_dir_all(MOUNT)?;
    process::output("mount", &["-i", "-t", "cifs", "-o", options, share, MOUNT])?;
    Ok(())
}

/// Checks that a wrong password is reported as one: `mount` says of it no more than that a mount which can only be
/// read cannot be had either.
fn refused() -> anyhow::Result<()> {
    let error = mount("vers=3.1.1", "wrong").err().context("a wrong password is taken")?;
    let said = process::output("dmesg", &["--notime"])?;
    ensure!(said.contains("STATUS_LOGON_FAILURE"), "a wrong password: {error:#}\n{said}");
    // What is complained of from here on is another matter.
    process::output("dmesg", &["--clear"])?;
    Ok(())
}

/// Reports a failure with: the last that the client's kernel and the server have said, and of the kernel's
/// warnings the first lines.
fn told(guest: &mut Guest, server: &Server) -> anyhow::Result<()> {
    let kernel = process::output("dmesg", &["--notime"])?;
    for warning in kernel.split("[ cut here ]").skip(1) {
        guest.note(warning.lines().take(WARNING_LINES).collect::<Vec<_>>().join("\n"))?;
    }
    for text in [kernel, server.log()] {
        let lines: Vec<&str> = text.lines().collect();
        guest.note(lines[lines.len().saturating_sub(LINES_TOLD)..].join("\n"))?;
    }
    Ok(())
}

fn at(name: &str) -> String {
    format!("{MOUNT}/{name}")
}

const PACKAGES: &[&str] = &["e2fsprogs", "gcc", "git", "libc6-dev", "make"];
const SERVER: &str = "127.0.0.1";
const TREE: &str = "/srv/tree";
const STATE: &str = "/srv/state";
const ACCOUNTS: &str = "/srv/accounts.toml";
const MOUNT: &str = "/tmp/cifs";
const USER: &str = "anne";
const PASSWORD: &str = "Secret007";
/// Files of the tree that is copied.
const FEW: usize = 300;
const MANY: usize = 10_000;
/// First version of Linux whose client itself loses, now and then, what was written by a mapping, whatever the server
/// (`cifs-mapped`, docs/design/smb.md).
const LOSES_MAPPED: (u32, u32) = (6, 10);
const SHORT: Duration = Duration::from_secs(10);
const LONG: Duration = Duration::from_secs(600);
const LINES_TOLD: usize = 20;
const WARNING_LINES: usize = 30;
