//! One guest from outside: its QEMU process, its console, its channel, its cables.

use std::io::{BufRead, BufReader, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};

use super::kernel::Kernel;
use super::machine::{Machine, Wires};

/// Parameters that a guest is started with.
pub(crate) struct Boot<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) wires: &'a Wires,
    pub(crate) kernel: &'a Kernel,
    pub(crate) initrd: &'a Path,
    /// Directory for sockets; it is gone after the run.
    pub(crate) work: &'a Path,
    pub(crate) console: &'a Path,
    pub(crate) terminal: Terminal,
}

/// Part of the console that a person sees while the guest runs. It is written to a file as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Terminal {
    /// Nothing.
    Hidden,
    /// All that the guest prints, on standard error.
    Shown,
    /// The guest's console is this terminal.
    Connected,
}

/// A running guest, killed when its owner goes.
pub(crate) struct Guest {
    child: Child,
    console: PathBuf,
    channel: UnixStream,
    monitor: Monitor,
}

impl Guest {
    pub(crate) fn start(boot: &Boot<'_>) -> anyhow::Result<Self> {
        let name = boot.machine.name;
        let socket = |kind: &str| boot.work.join(format!("{name}.{kind}"));
        let (channel, monitor) = (socket("channel"), socket("monitor"));
        let mut command = command(boot, &channel, &monitor)?;
        let child = command.spawn().context("cannot start qemu-system-x86_64")?;
        let mut starting = Starting(Some(child));
        let channel = starting.connect(&channel, boot.console)?;
        let monitor = Monitor::new(starting.connect(&monitor, boot.console)?)?;
        let child = starting.0.take().context("it was started")?;
        Ok(Self { child, console: boot.console.to_owned(), channel, monitor })
    }

    /// Returns where the guest talks.
    pub(crate) fn channel(&self) -> anyhow::Result<UnixStream> {
        Ok(self.channel.try_clone()?)
    }

    /// Pulls or plugs the cable of a card.
    pub(crate) fn set_carrier(&mut self, nic: &str, up: bool) -> anyhow::Result<()> {
        self.monitor.call("set_link", &json!({ "name": nic, "up": up }))
    }

    /// Waits a moment for its end by itself.
    pub(crate) fn wait(&mut self, patience: Duration) -> bool {
        let give_up = Instant::now() + patience;
        while Instant::now() < give_up {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        false
    }

    /// Returns the end of what the guest printed.
    pub(crate) fn console_tail(&self, lines: usize) -> String {
        let text = std::fs::read(&self.console).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).replace('\r', "");
        let all: Vec<&str> = text.lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n    | ")
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // It may be gone already; then there is nothing to stop.
        let _ = self.child.kill();
        let _ = self.child.wait();
        // Wakes the reader.
        let _ = self.channel.shutdown(Shutdown::Both);
    }
}

/// A child that is killed unless it is taken out.
struct Starting(Option<Child>);

impl Starting {
    fn connect(&mut self, socket: &Path, console: &Path) -> anyhow::Result<UnixStream> {
        let give_up = Instant::now() + Duration::from_secs(10);
        loop {
            if let Ok(stream) = UnixStream::connect(socket) {
                return Ok(stream);
            }
            let child = self.0.as_mut().context("it was started")?;
            if let Some(status) = child.try_wait()? {
                let words = std::fs::read_to_string(console.with_extension("qemu")).unwrap_or_default();
                bail!("QEMU ended at once: {status}\n    {}", words.trim());
            }
            ensure!(Instant::now() < give_up, "QEMU opens no socket");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn command(boot: &Boot<'_>, channel: &Path, monitor: &Path) -> anyhow::Result<Command> {
    let Boot { machine, kernel, .. } = boot;
    // A guest whose lab is killed ends with it: nothing else would end it.
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "KILL", "qemu-system-x86_64"])
        .args(["-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max"])
        .args(["-nodefaults", "-no-reboot", "-display", "none"])
        .args(machine.arguments(boot.wires)?)
        .arg("-kernel")
        .arg(&kernel.image)
        .arg("-initrd")
        .arg(boot.initrd)
        .args(["-append", KERNEL_LINE])
        .args(["-fsdev", "local,id=host,path=/,security_model=none,readonly=on,multidevs=remap"])
        .args(["-device", "virtio-9p-pci,bus=pcie.0,fsdev=host,mount_tag=host"])
        .args(["-device", "virtio-serial-pci,bus=pcie.0"])
        .arg("-chardev")
        .arg(format!("socket,id=channel,path={},server=on,wait=off", channel.display()))
        .args(["-device", &format!("virtserialport,chardev=channel,name={PORT}")])
        .arg("-qmp")
        .arg(format!("unix:{},server=on,wait=off", monitor.display()))
        .arg("-object")
        .arg("rng-random,id=rng,filename=/dev/urandom")
        .args(["-device", "virtio-rng-pci,bus=pcie.0,rng=rng"]);
    if let Some(mib) = machine.disk_mib {
        let disk = boot.work.join(format!("{}.disk", machine.name));
        std::fs::File::create_new(&disk)?.set_len(u64::from(mib) << 20)?;
        // Its content is not needed after the run: the host's cache will do.
        let drive = format!("file={},if=none,id=disk,format=raw,cache=unsafe", disk.display());
        command.args(["-drive", &drive, "-device", "virtio-blk-pci,bus=pcie.0,drive=disk"]);
    }
    let log = boot.console.display();
    let (console, stdout) = match boot.terminal {
        Terminal::Hidden => (format!("file,id=console,path={log}"), Stdio::null()),
        Terminal::Shown => {
            let stderr = std::io::stderr().as_fd().try_clone_to_owned()?;
            (format!("stdio,id=console,signal=off,logfile={log}"), stderr.into())
        }
        Terminal::Connected => (format!("stdio,id=console,signal=off,logfile={log}"), Stdio::inherit()),
    };
    command.args(["-chardev", &console, "-serial", "chardev:console"]).stdout(stdout);
    if boot.terminal != Terminal::Connected {
        command.stdin(Stdio::null());
    }
    command.stderr(std::fs::File::create(boot.console.with_extension("qemu"))?);
    Ok(command)
}

/// QEMU's machine protocol.
struct Monitor {
    reader: BufReader<UnixStream>,
}

impl Monitor {
    fn new(stream: UnixStream) -> anyhow::Result<Self> {
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        let mut monitor = Self { reader: BufReader::new(stream) };
        monitor.read()?;
        monitor.call("qmp_capabilities", &json!({}))?;
        Ok(monitor)
    }

    fn call(&mut self, execute: &str, arguments: &Value) -> anyhow::Result<()> {
        let line = format!("{}\n", json!({ "execute": execute, "arguments": arguments }));
        self.reader.get_mut().write_all(line.as_bytes())?;
        loop {
            let answer = self.read()?;
            if let Some(error) = answer.get("error") {
                bail!("QEMU refuses {execute}: {}", error["desc"].as_str().unwrap_or_default());
            }
            // Events come in between.
            if answer.get("return").is_some() {
                return Ok(());
            }
        }
    }

    fn read(&mut self) -> anyhow::Result<Value> {
        let mut line = String::new();
        ensure!(self.reader.read_line(&mut line)? > 0, "QEMU's monitor has closed");
        Ok(serde_json::from_str(&line)?)
    }
}

/// The name of the guest's end of the channel.
pub(crate) const PORT: &str = "linerate.lab";
/// A panic ends the run at once. Whether the timer ticks is not tried out: on a busy host it comes too late for that.
const KERNEL_LINE: &str =
    "console=ttyS0 panic=-1 oops=panic quiet nokaslr mitigations=off net.ifnames=0 no_timer_check";
