//! Processor time and memory of a process and its descendants, from procfs.

use std::collections::HashMap;

use anyhow::Context;

/// Returns the user and system seconds of `root` and all living descendants, and of those they have waited for.
pub(crate) fn of_tree(root: u32) -> anyhow::Result<f64> {
    // proc(5): utime, stime, cutime and cstime are fields 14 to 17.
    let ticks = |pid| stat(pid).map_or(0, |fields| fields[11..=14].iter().sum::<u64>());
    let sum: u64 = tree(root)?.into_iter().map(ticks).sum();
    Ok(sum as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// Returns a process and all its living descendants.
pub(crate) fn tree(root: u32) -> anyhow::Result<Vec<u32>> {
    stat(root).with_context(|| format!("process {root} has ended"))?;
    let mut children: HashMap<u64, Vec<u32>> = HashMap::new();
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        if let Some(fields) = stat(pid) {
            children.entry(fields[1]).or_default().push(pid);
        }
    }
    let mut members = vec![root];
    let mut next = 0;
    while next < members.len() {
        members.extend(children.get(&u64::from(members[next])).into_iter().flatten());
        next += 1;
    }
    Ok(members)
}

/// Returns the resident bytes of one process.
pub(crate) fn resident_bytes(pid: u32) -> anyhow::Result<u64> {
    of_status(pid, "VmRSS:")
}

/// Returns the largest number of resident bytes of one process, since it began or [`forget_peak`].
pub(crate) fn peak_bytes(pid: u32) -> anyhow::Result<u64> {
    of_status(pid, "VmHWM:")
}

/// Resets the high-water mark that [`peak_bytes`] reads (proc(5), `clear_refs`).
pub(crate) fn forget_peak(pid: u32) -> anyhow::Result<()> {
    Ok(std::fs::write(format!("/proc/{pid}/clear_refs"), "5")?)
}

fn of_status(pid: u32, field: &str) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let line = line.with_context(|| format!("no {field} in status"))?;
    let kib: u64 = line.split_whitespace().next().context("it has a number")?.parse()?;
    Ok(kib * 1024)
}

/// Returns the fields of proc(5)'s stat from the third on, those that are no numbers as 0; `None` when the process is
/// gone. The name in field 2 may hold anything, so counting starts after it.
fn stat(pid: u32) -> Option<Vec<u64>> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<u64> = rest.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect();
    (fields.len() > 14).then_some(fields)
}
