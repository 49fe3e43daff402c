//! Cards, addresses and network namespaces inside a guest.

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail, ensure};

use super::{modprobe, wait_for};
use crate::lab::machine::Machine;
use crate::process;

/// Gives every card the name the scenario knows it by, and brings `lo` up.
pub(crate) fn name_cards(machine: &Machine) -> anyhow::Result<()> {
    modprobe(&["virtio_net", "vmxnet3"])?;
    ip("link set lo up")?;
    for (index, nic) in machine.nics.iter().enumerate() {
        let mac = machine.mac(index);
        let found = wait_for(nic.name, || {
            let cards = std::fs::read_dir("/sys/class/net").ok()?.filter_map(Result::ok);
            let mut cards = cards.map(|card| card.file_name().to_string_lossy().into_owned());
            cards.find(|card| {
                let address = Path::new("/sys/class/net").join(card).join("address");
                std::fs::read_to_string(address).is_ok_and(|address| address.trim() == mac)
            })
        })?;
        ip(&format!("link set {found} name {}", nic.name))?;
    }
    Ok(())
}

/// Runs `ip` with these words.
pub(crate) fn ip(words: &str) -> anyhow::Result<String> {
    let args: Vec<&str> = words.split_whitespace().collect();
    process::output("ip", &args).with_context(|| format!("ip {words}"))
}

/// A network namespace, gone with the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Namespace(&'static str);

impl Namespace {
    pub(crate) fn new(name: &'static str) -> anyhow::Result<Self> {
        ip(&format!("netns add {name}"))?;
        let namespace = Self(name);
        namespace.ip("link set lo up")?;
        Ok(namespace)
    }

    /// Moves a card into it and gives it an address, such as `10.0.0.2/24`.
    pub(crate) fn take(self, nic: &str, address: &str) -> anyhow::Result<()> {
        ip(&format!("link set {nic} netns {}", self.0))?;
        self.ip(&format!("addr add {address} dev {nic}"))?;
        self.ip(&format!("link set {nic} up"))?;
        Ok(())
    }

    /// Moves cards into it and joins them to one with an address.
    pub(crate) fn take_bond(
        self,
        name: &str,
        sends: Sends,
        slaves: &[&str],
        address: &str,
    ) -> anyhow::Result<()> {
        for slave in slaves {
            ip(&format!("link set {slave} netns {}", self.0))?;
        }
        join(&|words| self.ip(words), name, sends, slaves, address)
    }

    /// Makes this card the one by which a bond sends that sends by one card.
    pub(crate) fn send_by(self, bond: &str, slave: &str) -> anyhow::Result<()> {
        self.ip(&format!("link set {bond} type bond active_slave {slave}")).map(drop)
    }

    /// Runs `ip` inside the namespace.
    pub(crate) fn ip(self, words: &str) -> anyhow::Result<String> {
        ip(&format!("-n {} {words}", self.0))
    }

    /// Makes the command of a program inside the namespace.
    pub(crate) fn command(self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", self.0]).arg(program);
        command
    }

    /// Runs `work` on a thread of its own inside it: sockets it opens belong to the namespace.
    pub(crate) fn within<T: Send>(
        self,
        work: impl FnOnce() -> anyhow::Result<T> + Send,
    ) -> anyhow::Result<T> {
        let enter = move || {
            let file = std::fs::File::open(Path::new("/run/netns").join(self.0))?;
            let kind = rustix::thread::LinkNameSpaceType::Network;
            rustix::thread::move_into_link_name_space(file.as_fd(), Some(kind))?;
            work()
        };
        std::thread::scope(|scope| match scope.spawn(enter).join() {
            Ok(outcome) => outcome,
            Err(_) => bail!("a thread inside the namespace panicked"),
        })
    }
}

/// Gives a card an address and brings it up.
pub(crate) fn set_up(nic: &str, address: &str) -> anyhow::Result<()> {
    ip(&format!("addr add {address} dev {nic}"))?;
    ip(&format!("link set {nic} up"))?;
    Ok(())
}

/// Sends a card's interrupts and its transmit queue to the CPUs of a node.
pub(crate) fn direct_interrupts(card: &str, node: u32) -> anyhow::Result<()> {
    let cpus = std::fs::read_to_string(format!("/sys/devices/system/node/node{node}/cpulist"))?;
    let device = std::fs::canonicalize(format!("/sys/class/net/{card}/device"))?;
    // virtio's interrupts belong to the PCI function above it.
    let function = if device.join("msi_irqs").exists() { device } else { device.join("..") };
    let mut moved = 0;
    for irq in std::fs::read_dir(function.join("msi_irqs"))? {
        let path = Path::new("/proc/irq").join(irq?.file_name()).join("smp_affinity_list");
        // Those of unused vectors cannot be moved.
        moved += usize::from(std::fs::write(path, cpus.trim()).is_ok());
    }
    ensure!(moved > 0, "no interrupt of {card} can be moved");
    let mask = std::fs::read_to_string(format!("/sys/devices/system/node/node{node}/cpumap"))?;
    // A driver with one queue has no such list.
    let _ = std::fs::write(format!("/sys/class/net/{card}/queues/tx-0/xps_cpus"), mask.trim());
    Ok(())
}

/// Joins cards to one with an address; connections are dealt out to them by addresses and ports (balance-xor). The
/// cards at the other end of their wires must be joined too, or they hear only a part. The first slave gives the
/// address of the hardware: let it be the vmxnet3 card, which as QEMU emulates it goes deaf when its own is changed.
pub(crate) fn bond(name: &str, slaves: &[&str], address: &str) -> anyhow::Result<()> {
    join(&ip, name, Sends::ByHash, slaves, address)
}

/// Choice of the card by which a bond sends. It receives by all of them either way.
#[derive(Clone, Copy)]
pub(crate) enum Sends {
    /// A hash of a connection's addresses and ports chooses the card.
    ByHash,
    /// One card sends all, as [`Namespace::send_by`] says.
    ByOne,
}

fn join(
    ip: &dyn Fn(&str) -> anyhow::Result<String>,
    name: &str,
    sends: Sends,
    slaves: &[&str],
    address: &str,
) -> anyhow::Result<()> {
    modprobe(&["bonding"])?;
    let mode = match sends {
        Sends::ByHash => "mode balance-xor xmit_hash_policy layer3+4",
        Sends::ByOne => "mode active-backup all_slaves_active 1",
    };
    ip(&format!("link add {name} type bond miimon 100 {mode}"))?;
    for slave in slaves {
        // One that is up cannot be joined.
        ip(&format!("addr flush dev {slave}"))?;
        ip(&format!("link set {slave} down"))?;
        ip(&format!("link set {slave} master {name}"))?;
    }
    ip(&format!("addr add {address} dev {name}"))?;
    ip(&format!("link set {name} up"))?;
    wait_for("every slave of the bond", || {
        let state = ip(&format!("link show master {name} up")).ok()?;
        (state.matches("LOWER_UP").count() == slaves.len()).then_some(())
    })
}
