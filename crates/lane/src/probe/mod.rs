//! Findings about the kernel, limits and NICs of this machine, and what to change: for `linerate doctor` and
//! start-up.
//!
//! Findings from files take the root of `/proc` and `/sys` as parameter; findings from system calls ask the
//! running kernel. Nothing here changes a setting.

mod bond;
mod files;
mod kernel;
mod limits;
mod memory;
mod network;
mod nic;
mod qdisc;
mod replies;
mod sockets;
mod sysctl;
mod tree;
mod uring;

use std::fmt;
use std::path::Path;

use rustix::thread::CapabilitySet;

pub use network::{Address, DefaultRoute, Network, Qdisc, Redirect, SourceRule};
pub use tree::HandlesLack;
pub use uring::RingRefusal;

use crate::topology::table::Table;
use crate::topology::{Topology, TopologyError, Tree};

/// Finding about one property of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Area of the finding.
    pub area: Area,
    /// Name of the property, such as `net.core.rmem_max` or `eth0 interrupts`.
    pub name: String,
    /// State that was found.
    pub found: String,
    /// State that Linerate wants.
    pub wanted: String,
    /// Comparison of the found and the wanted state.
    pub verdict: Verdict,
    /// Advice what to change, as commands where possible; `None` when nothing is to be done.
    pub advice: Option<String>,
    /// Lines for a root shell that do what is advised; empty where words have to do.
    pub commands: Vec<String>,
    /// Lines for the configuration file that belong to the commands.
    pub config: Option<String>,
}

/// Subject of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Area {
    /// Kernel version and system calls.
    Kernel,
    /// The io_uring and its operations.
    IoUring,
    /// TLS in the kernel, UDP segmentation, listener selection.
    Sockets,
    /// Limits of the process on descriptors and memory.
    Limits,
    /// Settings of the network stack.
    Network,
    /// Huge pages and NUMA balancing.
    Memory,
    /// Clock governor and CPU quota.
    Cpu,
    /// Node, interrupts and queues of a NIC.
    Nic,
    /// Limits of change notification.
    Watches,
    /// Directories that are served, and the state kept for them.
    Trees,
}

/// Verdict on what was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// The machine is as wanted.
    Good,
    /// The server works, slower or with less capacity.
    Warn,
    /// The server cannot start, or cannot provide a configured service.
    Bad,
}

/// Refusal of a call that no lane can do without. The text names the call, and says what to change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lacking {
    /// The kernel gives no io_uring that can be entered and have something registered.
    #[error("{refusal}. Linerate needs it; to change that: {}", refusal.advice())]
    Ring {
        /// The call that is refused, and the reason.
        refusal: RingRefusal,
    },
    /// The kernel refuses openat2(2), which opens names beneath a directory and nowhere else.
    #[error(
        "openat2 is refused: {error}. Linerate opens every file by it; to change that: {}",
        kernel::OPENAT2_ADVICE
    )]
    OpenAt2 {
        /// Answer of the kernel to openat2(2).
        error: rustix::io::Errno,
    },
}

/// Checks the calls that no lane can do without, before anything is started that has to be ended in order.
///
/// # Errors
/// The first that is refused.
pub fn require_calls() -> Result<(), Lacking> {
    uring::require(&Tree::new(Path::new("/"))).map_err(|refusal| Lacking::Ring { refusal })?;
    kernel::require_openat2().map_err(|error| Lacking::OpenAt2 { error })
}

/// Returns all findings about the running machine.
pub fn examine_machine() -> Vec<Finding> {
    let mut findings = examine_kernel(Path::new("/"));
    match Topology::of_this_machine() {
        Ok(topology) => {
            findings.extend(examine_files(Path::new("/"), &topology));
            findings.extend(examine_network(Path::new("/"), &topology, &Network::of_this_machine()));
        }
        Err(error) => findings.push(unreadable(&error)),
    }
    findings.sort_by_key(|finding| finding.area);
    findings
}

/// Returns findings from files below `root`: settings, memory, CPUs, NICs.
pub fn examine_files(root: &Path, topology: &Topology) -> Vec<Finding> {
    let tree = Tree::new(root);
    let mut findings = vec![kernel::version(&tree)];
    findings.extend(sysctl::all(&tree));
    findings.extend(memory::all(&tree, topology));
    findings.extend(files::watches(&tree));
    findings.extend(kernel::cpu_clock(&tree, topology));
    findings.extend(kernel::cpu_quota(&tree, topology));
    findings.extend(nic::all(&tree, topology));
    findings
}

/// Returns findings about what the NICs send, from addresses, routes, queueing disciplines and bonds. `root`
/// is where a bond's settings are.
pub fn examine_network(root: &Path, topology: &Topology, network: &Network) -> Vec<Finding> {
    let mut findings = bond::all(&Tree::new(root), topology, network);
    findings.extend(replies::all(topology, network));
    findings.extend(qdisc::all(topology, network));
    findings
}

/// Returns findings that only system calls tell: io_uring, socket features, limits. `root` is where the
/// reasons for a refused ring are looked up.
pub fn examine_kernel(root: &Path) -> Vec<Finding> {
    let mut findings = uring::all(&Tree::new(root));
    findings.push(kernel::openat2());
    findings.extend(sockets::all());
    findings.extend(limits::all());
    findings
}

/// Returns findings about the served directories for a server run by this user, and about the directory of
/// its state.
pub fn examine_trees<'p>(served: impl IntoIterator<Item = &'p Path>, state: Option<&Path>) -> Vec<Finding> {
    let has = rustix::thread::capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective);
    let mut findings = vec![tree::privileges(has), tree::reads_everything(has), tree::state(state)];
    findings.extend(served.into_iter().flat_map(|path| tree::all(path, has)));
    findings
}

/// Returns the findings as an aligned table, then the advice as a numbered list, worst first.
pub fn report(findings: &[Finding]) -> impl fmt::Display {
    Report(findings.to_vec())
}

impl Finding {
    fn new(area: Area, name: impl Into<String>, found: impl Into<String>, wanted: impl Into<String>) -> Self {
        let (name, found, wanted) = (name.into(), found.into(), wanted.into());
        Self {
            area,
            name,
            found,
            wanted,
            verdict: Verdict::Good,
            advice: None,
            commands: Vec::new(),
            config: None,
        }
    }

    /// Keeps the finding good when `holds`, else sets the verdict and the advice.
    fn unless(mut self, holds: bool, verdict: Verdict, advice: impl Into<String>) -> Self {
        if !holds {
            self.verdict = verdict;
            self.advice = Some(advice.into());
        }
        self
    }

    /// Sets the commands of the advice, if there is advice.
    fn with_commands(mut self, commands: Vec<String>) -> Self {
        if self.advice.is_some() {
            self.commands = commands;
        }
        self
    }

    /// Sets the lines of the configuration that the advice needs, if there is advice.
    fn with_config(mut self, config: String) -> Self {
        self.config = self.advice.is_some().then_some(config);
        self
    }
}

impl fmt::Display for Area {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Kernel => "kernel",
            Self::IoUring => "io_uring",
            Self::Sockets => "sockets",
            Self::Limits => "limits",
            Self::Network => "network",
            Self::Memory => "memory",
            Self::Cpu => "cpu",
            Self::Nic => "nic",
            Self::Watches => "watches",
            Self::Trees => "trees",
        })
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Good => "good",
            Self::Warn => "warn",
            Self::Bad => "BAD",
        })
    }
}

struct Report(Vec<Finding>);

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new(["AREA", "NAME", "FOUND", "WANTED", ""]);
        for finding in &self.0 {
            let Finding { area, name, found, wanted, verdict, .. } = finding;
            table.row([area.to_string(), name.clone(), found.clone(), wanted.clone(), verdict.to_string()]);
        }
        write!(f, "{table}")?;
        let mut advised: Vec<&Finding> = self.0.iter().filter(|finding| finding.advice.is_some()).collect();
        advised.sort_by_key(|finding| std::cmp::Reverse(finding.verdict));
        for (at, finding) in advised.iter().enumerate() {
            let advice = finding.advice.as_deref().unwrap_or_default();
            write!(f, "\n{}. [{}] {}: {advice}", at + 1, finding.verdict, finding.name)?;
            for command in &finding.commands {
                write!(f, "\n       {command}")?;
            }
            if let Some(config) = &finding.config {
                write!(f, "\n   and in the configuration:")?;
                config.lines().try_for_each(|line| write!(f, "\n       {line}"))?;
            }
        }
        if advised.is_empty() { Ok(()) } else { writeln!(f) }
    }
}

fn unreadable(error: &TopologyError) -> Finding {
    let advice = "mount /sys and /proc where the server runs";
    Finding::new(Area::Cpu, "topology", error.to_string(), "readable").unless(false, Verdict::Bad, advice)
}

/// Returns advice that sets a value, and makes the setting last.
fn sysctl_advice(setting: &str, value: impl fmt::Display) -> String {
    let value = value.to_string();
    let quote = if value.contains(' ') { "'" } else { "" };
    format!(
        "sysctl -w {quote}{setting}={value}{quote}, and the line `{setting} = {value}` in /etc/sysctl.d/linerate.conf"
    )
}
