//! Block devices of a machine and their nodes.

use super::Tree;

/// A whole block device. Loop, RAM and empty devices are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockDevice {
    /// Name of the device, such as `nvme0n1`.
    pub name: String,
    /// Major and minor number, as `stat` reports them for files on the device.
    pub number: (u32, u32),
    /// Node of the hardware; for device-mapper and RAID the node all parts agree on.
    pub node: Option<u32>,
    /// Size of the device in bytes.
    pub size_bytes: u64,
    /// True if the device has a spinning disk's seek cost.
    pub rotational: bool,
}

pub(super) fn read_all(tree: &Tree) -> Vec<BlockDevice> {
    let names = tree.names(BLOCK_DIR);
    let real = names.into_iter().filter(|name| !MEMORY_BACKED.iter().any(|prefix| name.starts_with(prefix)));
    real.filter_map(|name| read_one(tree, name)).filter(|disk| disk.size_bytes > 0).collect()
}

fn read_one(tree: &Tree, name: String) -> Option<BlockDevice> {
    let dir = format!("{BLOCK_DIR}/{name}");
    let number = tree.text(&format!("{dir}/dev"))?;
    let (major, minor) = number.split_once(':')?;
    let sectors: u64 = tree.number(&format!("{dir}/size"))?;
    Some(BlockDevice {
        number: (major.parse().ok()?, minor.parse().ok()?),
        node: node_of(tree, &dir, STACK_DEPTH_MAX),
        // The unit of `size` is 512 bytes whatever the device's own sector is.
        size_bytes: sectors.saturating_mul(512),
        rotational: tree.text(&format!("{dir}/queue/rotational")).as_deref() == Some("1"),
        name,
    })
}

fn node_of(tree: &Tree, dir: &str, depth: u32) -> Option<u32> {
    let depth = depth.checked_sub(1)?;
    let parts = tree.names(&format!("{dir}/slaves"));
    if parts.is_empty() {
        return tree.hardware_node(dir);
    }
    let mut nodes = parts.iter().map(|part| node_of(tree, &format!("{dir}/slaves/{part}"), depth));
    let first = nodes.next()??;
    nodes.all(|node| node == Some(first)).then_some(first)
}

const BLOCK_DIR: &str = "sys/block";
const MEMORY_BACKED: [&str; 4] = ["loop", "ram", "zram", "nbd"];
const STACK_DEPTH_MAX: u32 = 8;
