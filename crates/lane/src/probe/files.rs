//! Limits of change notification.

use super::{Area, Finding, Verdict, sysctl_advice};
use crate::topology::Tree;

/// Checks the limits of watches. A watch is held for every directory whose entries are cached.
pub(super) fn watches(tree: &Tree) -> Vec<Finding> {
    let limits = [
        ("max_user_watches", WATCHES_MIN),
        ("max_user_instances", INSTANCES_MIN),
        ("max_queued_events", QUEUE_MIN),
    ];
    let finding = |(name, least): (&str, u64)| {
        let found: u64 = tree.number(&format!("proc/sys/fs/inotify/{name}"))?;
        let setting = format!("fs.inotify.{name}");
        let advice = sysctl_advice(&setting, least);
        let finding = Finding::new(Area::Watches, setting, found.to_string(), format!(">= {least}"));
        Some(finding.unless(found >= least, Verdict::Warn, advice))
    };
    limits.into_iter().filter_map(finding).collect()
}

const WATCHES_MIN: u64 = 65_536;
const INSTANCES_MIN: u64 = 128;
const QUEUE_MIN: u64 = 16_384;
