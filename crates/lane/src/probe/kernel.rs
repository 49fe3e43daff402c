//! Kernel version, path resolution, CPU clocks and CPU quotas.

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::{Area, Finding, Verdict};
use crate::topology::table::or_dash;
use crate::topology::{Topology, Tree};

pub(super) fn version(tree: &Tree) -> Finding {
    let release = tree.text("proc/sys/kernel/osrelease");
    let numbers = release.as_deref().and_then(major_minor);
    let wanted = format!("{}.{} or newer", KERNEL_MIN.0, KERNEL_MIN.1);
    let advice = "boot a newer kernel: multishot receive and deferred ring work are missing in this one";
    Finding::new(Area::Kernel, "version", or_dash(release), wanted).unless(
        numbers.is_some_and(|numbers| numbers >= KERNEL_MIN),
        Verdict::Bad,
        advice,
    )
}

/// Checks openat2(2), the only call by which names are resolved beneath an export's root.
pub(super) fn openat2() -> Finding {
    let opened = open_beneath();
    let found = opened.as_ref().map_or_else(|error| format!("refused: {error}"), |()| "works".to_owned());
    Finding::new(Area::Kernel, "openat2", found, "works").unless(opened.is_ok(), Verdict::Bad, OPENAT2_ADVICE)
}

/// Returns the error of a kernel that does not know openat2, or of a filter that refuses the call.
pub(super) fn require_openat2() -> Result<(), Errno> {
    match open_beneath() {
        Err(error @ (Errno::PERM | Errno::NOSYS)) => Err(error),
        _ => Ok(()),
    }
}

/// Opens the root directory from itself, which every user may search.
fn open_beneath() -> Result<(), Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open("/", flags, Mode::empty())?;
    rustix::fs::openat2(root, ".", flags, Mode::empty(), ResolveFlags::BENEATH).map(drop)
}

/// Checks the governor of the CPUs' clocks, where the kernel controls them.
pub(super) fn cpu_clock(tree: &Tree, topology: &Topology) -> Option<Finding> {
    let governor = |id| tree.text(&format!("sys/devices/system/cpu/cpu{id}/cpufreq/scaling_governor"));
    let mut governors: Vec<String> = topology.usable_cpus().iter().filter_map(governor).collect();
    governors.sort();
    governors.dedup();
    let slow = governors.iter().any(|governor| governor != "performance");
    let advice =
        "cpupower frequency-set -g performance; otherwise clocks sink between bursts and raise again late";
    (!governors.is_empty()).then(|| {
        Finding::new(Area::Cpu, "clock governor", governors.join(", "), "performance").unless(
            !slow,
            Verdict::Warn,
            advice,
        )
    })
}

/// Checks the cgroup's share of CPU time (version 2), which a container sets with `--cpus`.
pub(super) fn cpu_quota(tree: &Tree, topology: &Topology) -> Option<Finding> {
    let groups = tree.text("proc/self/cgroup")?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let limit = tree.text(&format!("sys/fs/cgroup/{path}/cpu.max"))?;
    let usable = topology.usable_cpus().len();
    let cpus = quota_cpus(&limit);
    let found = cpus.map_or_else(|| "none".to_owned(), |cpus| format!("{cpus:.1} CPUs"));
    let wanted = format!("none, or at least {usable} CPUs");
    let advice = "give whole CPUs (cpuset, docker --cpuset-cpus) in place of a quota, or run fewer lanes: \
                  a lane that has used its share stops in the middle of a transfer";
    let enough = cpus.is_none_or(|cpus| cpus >= usable as f64);
    Some(Finding::new(Area::Cpu, "CPU quota", found, wanted).unless(enough, Verdict::Warn, advice))
}

/// Returns the first two numbers of a kernel release: 6.1 of `6.1.0-56-cloud-amd64`.
fn major_minor(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Returns the CPUs that `cpu.max` allows, which holds quota and period in microseconds, or `max`.
fn quota_cpus(limit: &str) -> Option<f64> {
    let (quota, period) = limit.split_once(' ')?;
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
    (period > 0.0).then_some(quota / period)
}

/// Oldest kernel that is tested; SENDMSG_ZC and DEFER_TASKRUN are there since 6.1.
const KERNEL_MIN: (u32, u32) = (6, 1);
pub(super) const OPENAT2_ADVICE: &str = "allow openat2 in the seccomp profile of the container or service";
