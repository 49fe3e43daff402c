//! The first program of a guest: it runs the scenario that the guest was booted for.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};

use super::channel::{Channel, FromGuest};
use super::guest::{Guest, net, wait_for};
use super::qemu;
use super::scenario::{self, Scenario};
use crate::process;

/// Flags of `cargo xtask lab-guest`, which only guests call.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The scenario
    scenario: String,
    /// This guest's role in it
    machine: String,
    /// The program under test
    #[arg(long)]
    linerate: PathBuf,
    /// A shell instead of the scenario
    #[arg(long)]
    shell: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    ensure!(std::process::id() != 1 && Path::new("/sys/class/virtio-ports").exists(), "only guests run this");
    mount_the_rest()?;
    let chosen = scenario::choose(std::slice::from_ref(&args.scenario))?;
    let scenario = chosen.first().context("a guest runs a scenario")?;
    let machine = scenario.machines().into_iter().find(|machine| machine.name == args.machine);
    let machine = machine.with_context(|| format!("{} has no guest {}", args.scenario, args.machine))?;
    let mut guest = Guest { machine, linerate: args.linerate.clone(), channel: open_channel()? };
    let outcome = guest.live(*scenario, args.shell);
    let last = match &outcome {
        Ok(()) => FromGuest::Passed,
        Err(error) => FromGuest::Failed { error: format!("{error:#}") },
    };
    guest.channel.say(&last)?;
    outcome
}

impl Guest {
    fn live(&mut self, scenario: &dyn Scenario, shell: bool) -> anyhow::Result<()> {
        net::name_cards(&self.machine)?;
        self.channel.say(&FromGuest::Ready)?;
        if shell {
            return self.shell();
        }
        // A panic of an assertion is told like any failure, and the guest ends.
        let run = std::panic::AssertUnwindSafe(|| scenario.run(self));
        std::panic::catch_unwind(run).unwrap_or_else(|panic| {
            let words = panic.downcast_ref::<String>().cloned();
            let words = words.or_else(|| panic.downcast_ref::<&str>().map(|&words| words.to_owned()));
            bail!("panicked: {}", words.unwrap_or_default())
        })
    }
}

fn mount_the_rest() -> anyhow::Result<()> {
    for directory in ["/dev/pts", "/dev/shm"] {
        std::fs::create_dir_all(directory)?;
    }
    process::output("mount", &["-t", "devpts", "devpts", "/dev/pts"])?;
    process::output("mount", &["-t", "tmpfs", "tmpfs", "/dev/shm"])?;
    process::output("mount", &["-t", "cgroup2", "cgroup2", "/sys/fs/cgroup"])?;
    // It has booted quietly. From here on the console has all that the kernel says, so that a task which hangs is told with its stack.
    std::fs::write("/proc/sys/kernel/printk", "7")?;
    // devtmpfs makes device nodes alone; shells and tools want these as well.
    for (link, target) in [("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")] {
        std::os::unix::fs::symlink(format!("/proc/self/fd{target}"), Path::new("/dev").join(link))?;
    }
    Ok(())
}

fn open_channel() -> anyhow::Result<Channel<File, File>> {
    let port = wait_for("the channel", || {
        let ports = std::fs::read_dir("/sys/class/virtio-ports").ok()?;
        let mut ports = ports.filter_map(|port| Some(port.ok()?.path()));
        ports.find(|port| std::fs::read_to_string(port.join("name")).is_ok_and(|n| n.trim() == qemu::PORT))
    })?;
    let name = port.file_name().context("a port has a name")?;
    let file = File::options().read(true).write(true).open(Path::new("/dev").join(name))?;
    Ok(Channel::new(file.try_clone()?, file))
}
