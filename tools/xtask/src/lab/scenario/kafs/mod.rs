//! Linux's own AFS client (kafs): two guests mount the tree that a third serves, and use it as people use a file system.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use super::fsx::{self, Mapping};
use super::{Scenario, project};
use crate::lab::guest::server::Server;
use crate::lab::guest::{Guest, disk, kernel_version, modprobe, net};
use crate::lab::machine::{Machine, Model, Nic};
use crate::process;

mod alone;
mod faults;
mod mapped;
mod mount;
mod together;

pub(crate) use mapped::KafsMapped;

pub(crate) struct Kafs;

impl Scenario for Kafs {
    fn name(&self) -> &'static str {
        "kafs"
    }

    fn about(&self) -> &'static str {
        "Linux's AFS client reads and writes the tree, sees at once what others change, outlives a pulled cable and a killed server"
    }

    fn packages(&self) -> &'static [&'static str] {
        PACKAGES
    }

    fn machines(&self) -> Vec<Machine> {
        machines()
    }

    fn limit(&self) -> Duration {
        Duration::from_secs(1200)
    }

    fn run(&self, guest: &mut Guest) -> anyhow::Result<()> {
        run(guest, &Roles { first, second, undisturbed: false })
    }
}

/// The scenario [`Kafs`] for the random load alone, for a short time.
pub(crate) struct KafsFsx;

impl Scenario for KafsFsx {
    fn name(&self) -> &'static str {
        "kafs-fsx"
    }

    fn about(&self) -> &'static str {
        "ten minutes of reads, writes and cuts at random by Linux's AFS client leave the bytes that they must"
    }

    fn packages(&self) -> &'static [&'static str] {
        PACKAGES
    }

    fn machines(&self) -> Vec<Machine> {
        machines()
    }

    fn limit(&self) -> Duration {
        Duration::from_secs(900)
    }

    fn run(&self, guest: &mut Guest) -> anyhow::Result<()> {
        let (first, second) =
            (|guest: &mut Guest| random_load(guest, LONG), |guest: &mut Guest| random_load(guest, LONG));
        run(guest, &Roles { first, second, undisturbed: true })
    }
}

/// Roles of the clients.
struct Roles {
    first: fn(&mut Guest) -> anyhow::Result<()>,
    second: fn(&mut Guest) -> anyhow::Result<()>,
    /// Set if no other client changes the tree.
    undisturbed: bool,
}

fn run(guest: &mut Guest, roles: &Roles) -> anyhow::Result<()> {
    if guest.name() == SERVER {
        join_wires()?;
        return serve(guest, roles.undisturbed);
    }
    let host = if guest.name() == FIRST { 2 } else { 3 };
    net::set_up("lan", &format!("10.73.0.{host}/24"))?;
    guest.await_signal("serving")?;
    mount::mount()?;
    let role = if guest.name() == FIRST { roles.first } else { roles.second };
    let outcome = role(guest);
    let passed = outcome.is_ok() && fs::write(mount::at(&passed(guest.name())), "").is_ok();
    if !passed {
        if let Err(error) = &outcome {
            guest.note(format!("{}: {error:#}", guest.name()))?;
        }
        guest.note(lengths(MOUNT))?;
        let lines = process::output("dmesg", &["--notime"])?;
        let lines: Vec<&str> = lines.lines().collect();
        guest.note(lines[lines.len().saturating_sub(KERNEL_LINES)..].join("\n"))?;
    }
    // No step waits for what does not come.
    guest.signal(KILL)?;
    guest.signal(&format!("{} is done", guest.name()))?;
    if !passed {
        // The server tells first what it was asked last.
        DONE.iter().try_for_each(|event| guest.signal(event))?;
        guest.await_signal(TOLD)?;
    }
    outcome
}

/// Joins the wires of both clients to one network.
fn join_wires() -> anyhow::Result<()> {
    modprobe(&["bridge"])?;
    net::ip("link add lan type bridge")?;
    for nic in [FIRST, SECOND] {
        net::ip(&format!("link set {nic} master lan"))?;
        net::ip(&format!("link set {nic} up"))?;
    }
    net::set_up("lan", &format!("{SERVER_IP}/24"))
}

fn serve(guest: &mut Guest, undisturbed: bool) -> anyhow::Result<()> {
    disk::mount("/srv".as_ref())?;
    alone::prepare()?;
    faults::prepare(guest)?;
    let server = start(guest)?;
    guest.signal("serving")?;
    let server = faults::kill(guest, server)?;
    DONE.iter().try_for_each(|event| guest.await_signal(event))?;
    // A version that a change of a client's own did not bring has it give up what it has yet to write.
    let behind = server.scrape()?.sum(BEHIND, &[])?;
    guest.figure("changes behind the server's back", behind, "changes")?;
    let passed =
        [FIRST, SECOND].iter().all(|name| fs::exists(format!("{TREE}/{}", passed(name))).unwrap_or(false));
    if !passed {
        // What was asked last is on its way to the log.
        std::thread::sleep(Duration::from_secs(3));
        let calls = fs::read_to_string(AUDIT)?;
        let calls: Vec<&str> = calls.lines().collect();
        let last = calls[calls.len().saturating_sub(CALLS_TOLD)..].iter();
        let last: Vec<&str> = last.map(|call| call.get(..CALL_TOLD).unwrap_or(call)).collect();
        guest.note(last.join("\n"))?;
        guest.note(lengths(TREE))?;
    }
    guest.signal(TOLD)?;
    if !passed {
        // Which tells why.
        return Ok(());
    }
    ensure!(!undisturbed || behind == 0.0, "{behind} changes of clients were taken for somebody else's");
    server.stop()?;
    check(guest)
}

/// Lists the lengths of the files that were made last in the tree, as it is served or as a client has it. The list
/// goes into the report of a failure, so it cannot fail itself.
fn lengths(root: &str) -> String {
    let script = format!(
        "cd {root} && find . -name .git -prune -o -name many -prune -o -type f -mmin -2 -printf '{root}/%P: %s bytes\\n' | head -50"
    );
    process::output("sh", &["-c", &script]).unwrap_or_else(|error| format!("{root}: {error:#}"))
}

fn start(guest: &Guest) -> anyhow::Result<Server> {
    guest.serve(&format!(
        "[[volume]]\nname = \"tree\"\npath = \"{TREE}\"\nwritable = \"anyone\"\nserve_dotfiles = true\nafs_name = \"root.cell\"\n\
         [server]\nstate_dir = \"{STATE}\"\n\
         [http]\nlisten = [\"{SERVER_IP}:8080\"]\n[https]\nlisten = []\n\
         [log]\naudit = \"{AUDIT}\"\naudit_format = \"openafs\"\n\
         [afs]\nlisten = \"{SERVER_IP}:7000\"\ncell = \"{CELL}\"\n"
    ))
}

/// Checks that there is nothing to mend, whatever has happened.
fn check(guest: &Guest) -> anyhow::Result<()> {
    let output = guest.linerate().args(["volume", "check", "--dry-run", "--state", STATE]).output()?;
    let told = [output.stdout, output.stderr].concat();
    ensure!(output.status.success(), "volume check: {}", String::from_utf8_lossy(&told));
    Ok(())
}

fn first(guest: &mut Guest) -> anyhow::Result<()> {
    ensure!(mount::read("hello")? == "hello from the tree\n", "another file is there");
    guest.step("a project", |_| project::clone_and_make(&mount::at("project")))?;
    guest.step("a killed server", faults::killed_server)?;
    // Before 6.10 what is mapped is not always what was written, to whatever server (`kafs-mapped`): programs built there may not run.
    if kernel_version()? >= (6, 10) {
        guest.step("a project after it", |_| project::clone_and_make(&mount::at("another")))?;
    }
    guest.step("contents", alone::contents)?;
    guest.step("names and links", |_| alone::names_and_links())?;
    guest.step("changes of others", together::others)?;
    guest.step("ten thousand names", |_| alone::many_names())?;
    guest.step("a pulled cable", faults::pulled_cable)?;
    guest.step("a server out of reach", faults::unreachable)?;
    guest.step("race", |guest| together::race(guest, "one"))?;
    guest.step("fsx", |guest| random_load(guest, SHORT))
}

fn second(guest: &mut Guest) -> anyhow::Result<()> {
    together::others_seen(guest)?;
    together::race(guest, "two").context("race, second client")?;
    guest.await_signal(DONE[0])
}

/// Works on files of the guest's own for so long; what it leaves is compared here and by HTTP.
fn random_load(guest: &mut Guest, time: Duration) -> anyhow::Result<()> {
    let steps_max = if kernel_version()? < (6, 10) { STEPS_MAX } else { u32::MAX };
    let (until, mut done) = (Instant::now() + time, 0.0);
    for round in 1.. {
        let left = until.saturating_duration_since(Instant::now());
        if left < Duration::from_secs(1) {
            break;
        }
        let name = format!("fsx-{}-{round}", guest.name());
        // What is mapped is not always what was written, to whatever server (`kafs-mapped`).
        let (steps, good) = fsx::run_some(&mount::at(&name), left, steps_max, Mapping::Unmapped)?;
        fsx::compare(&mount::by_http(&name)?, &good).with_context(|| format!("{name} by HTTP"))?;
        done += steps;
    }
    guest.figure(&format!("fsx-{}, steps", guest.name()), done, "steps")
}

/// Returns the machines: a wire leads from the server to each client.
fn machines() -> Vec<Machine> {
    let nic = |name, wire| Nic { name, model: Model::Virtio, node: None, wire };
    let machine = |name, nics, disk_mib| Machine {
        name,
        nodes: 1,
        cpus_per_node: 1,
        memory_mib_per_node: 768,
        nics,
        disk_mib,
    };
    vec![
        machine(SERVER, vec![nic(FIRST, FIRST), nic(SECOND, SECOND)], Some(512)),
        machine(FIRST, vec![nic("lan", FIRST)], None),
        machine(SECOND, vec![nic("lan", SECOND)], None),
    ]
}

/// Returns what a client leaves in the tree that has nothing to complain of.
fn passed(name: &str) -> String {
    format!("passed-{name}")
}

const SERVER: &str = "server";
const FIRST: &str = "first";
const SECOND: &str = "second";
const SERVER_IP: &str = "10.73.0.1";
const CELL: &str = "linerate.test";
const TREE: &str = "/srv/tree";
const STATE: &str = "/srv/state";
const AUDIT: &str = "/tmp/audit.log";
const MOUNT: &str = "/tmp/afs";
/// Number of calls that the report of a failure shows.
const CALLS_TOLD: usize = 60;
/// Bytes of each: some name fifty files.
const CALL_TOLD: usize = 160;
/// Lines of the client's kernel that the report of a failure shows.
const KERNEL_LINES: usize = 30;
/// A client renames files: the server is to be killed.
const KILL: &str = "kill the server";
/// Events by which each client says that it has come to its end.
const DONE: [&str; 2] = ["first is done", "second is done"];
/// File of the server's last requests, which are in the report if a client has failed.
const TOLD: &str = "told";
const PACKAGES: &[&str] = &["e2fsprogs", "gcc", "git", "libc6-dev", "make"];
const BEHIND: &str = "linerate_vfs_external_changes";
const SHORT: Duration = Duration::from_secs(20);
/// Largest number of steps: in step 3,468 of these, Linux 6.1 reads other bytes than it wrote, from the stock server
/// as from this one.
const STEPS_MAX: u32 = 3_000;
const LONG: Duration = Duration::from_secs(600);
