//! The disk of a guest that has one, and what the page cache holds of it.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};

use super::server::Background;
use super::{modprobe, wait_for};
use crate::process;

/// Makes an ext4 file system on the guest's disk and mounts it. The scenario names the package e2fsprogs.
pub(crate) fn mount(at: &Path) -> anyhow::Result<()> {
    modprobe(&["virtio_blk", "ext4"])?;
    wait_for("the disk", || Path::new(DISK).exists().then_some(()))?;
    process::output("/sbin/mkfs.ext4", &["-q", "-F", "-O", "^has_journal", DISK])?;
    std::fs::create_dir_all(at)?;
    process::output("mount", &["-o".as_ref(), "noatime".as_ref(), DISK.as_ref(), at.as_os_str()])?;
    Ok(())
}

/// Writes out what is to be written and forgets every page of every file.
pub(crate) fn drop_caches() -> anyhow::Result<()> {
    rustix::fs::sync();
    std::fs::write("/proc/sys/vm/drop_caches", "3").context("/proc/sys/vm/drop_caches")
}

/// Pages of `numa_maps`, summed by node over the mappings that `of` picks by their line.
pub(crate) fn pages_by_node(pid: u32, of: impl Fn(&str) -> bool) -> anyhow::Result<Vec<u64>> {
    let path = format!("/proc/{pid}/numa_maps");
    let text = std::fs::read_to_string(&path).context(path)?;
    let mut nodes = Vec::new();
    for word in text.lines().filter(|line| of(line)).flat_map(str::split_whitespace) {
        let Some((node, pages)) = word.strip_prefix('N').and_then(|word| word.split_once('=')) else {
            continue;
        };
        let node: usize = node.parse()?;
        ensure!(node < NODES_MAX, "{word}");
        if nodes.len() <= node {
            nodes.resize(node + 1, 0);
        }
        nodes[node] += pages.parse::<u64>()?;
    }
    Ok(nodes)
}

/// Returns where the page cache holds the files of a directory, all of which is so many bytes and in memory. It reads
/// the numa_maps of a process that keeps all of them mapped. It brings nothing into memory. The scenario names the
/// package vmtouch.
pub(crate) fn file_pages_by_node(directory: &Path, bytes: usize) -> anyhow::Result<Vec<u64>> {
    let all = bytes.div_ceil(rustix::param::page_size()) as u64;
    let summary = process::output("vmtouch", &[directory])?;
    ensure!(summary.contains(&format!("{all}/{all}")), "some is not in memory:\n{summary}");
    let process = Background::start(Command::new("vmtouch").args(["-q", "-l"]).arg(directory))?;
    let ours = format!(" file={}/", directory.display());
    wait_for("vmtouch to map the files", || {
        let pages = pages_by_node(process.pid(), |line| line.contains(&ours)).ok()?;
        (pages.iter().sum::<u64>() == all).then_some(pages)
    })
}

const DISK: &str = "/dev/vda";
/// Largest number of NUMA nodes; more than any guest has.
const NODES_MAX: usize = 64;
