//! Limits of this process on descriptors and locked memory.

use rustix::process::{Resource, getrlimit};

use super::{Area, Finding, Verdict};
use crate::topology::table::size;

pub(super) fn all() -> Vec<Finding> {
    let files = getrlimit(Resource::Nofile);
    let locked = getrlimit(Resource::Memlock);
    // Root locks memory without limit.
    let exempt = rustix::process::geteuid().is_root();
    vec![open_files(files.current, files.maximum), locked_memory(locked.current, exempt)]
}

/// Checks the number of open files. The server raises the soft limit to the hard one, so the hard one counts.
fn open_files(soft: Option<u64>, hard: Option<u64>) -> Finding {
    let count = |limit: Option<u64>| limit.map_or_else(|| "unlimited".to_owned(), |limit| limit.to_string());
    let found = format!("{}, can be raised to {}", count(soft), count(hard));
    let advice = format!(
        "LimitNOFILE={OPEN_FILES_MIN} in the service file, --ulimit nofile={OPEN_FILES_MIN} for docker, or a line in \
         /etc/security/limits.conf; each connection and each cached open file takes one"
    );
    let verdict = if hard.is_some_and(|hard| hard < OPEN_FILES_LEAST) { Verdict::Bad } else { Verdict::Warn };
    Finding::new(Area::Limits, "open files", found, format!(">= {OPEN_FILES_MIN}")).unless(
        hard.is_none_or(|hard| hard >= OPEN_FILES_MIN),
        verdict,
        advice,
    )
}

/// Checks the limit of locked memory. Buffers registered with the ring stay in memory and count here.
fn locked_memory(soft: Option<u64>, exempt: bool) -> Finding {
    let found = match soft {
        _ if exempt => "unlimited (root)".to_owned(),
        None => "unlimited".to_owned(),
        Some(bytes) => size(bytes),
    };
    let advice = "LimitMEMLOCK=infinity in the service file, or --ulimit memlock=-1 for docker; without it \
                  buffers cannot be registered with the ring";
    let holds = exempt || soft.is_none_or(|bytes| bytes >= LOCKED_BYTES_MIN);
    let wanted = format!(">= {}", size(LOCKED_BYTES_MIN));
    Finding::new(Area::Limits, "locked memory", found, wanted).unless(holds, Verdict::Warn, advice)
}

/// Descriptors wanted: 10,000 connections, as many open files, and room.
const OPEN_FILES_MIN: u64 = 65_536;
/// Least descriptors: with fewer even a small server refuses clients.
const OPEN_FILES_LEAST: u64 = 1024;
const LOCKED_BYTES_MIN: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hard_limit_decides_about_open_files() {
        assert_eq!(open_files(Some(1024), Some(1 << 20)).verdict, Verdict::Good);
        assert_eq!(open_files(Some(1024), None).found, "1024, can be raised to unlimited");
        assert_eq!(open_files(Some(1024), Some(4096)).verdict, Verdict::Warn);
        assert_eq!(open_files(Some(256), Some(256)).verdict, Verdict::Bad);
        assert!(open_files(Some(1024), Some(4096)).advice.unwrap().contains("LimitNOFILE=65536"));
    }

    #[test]
    fn locked_memory_does_not_bind_root() {
        assert_eq!(locked_memory(Some(8 << 20), true).verdict, Verdict::Good);
        let bound = locked_memory(Some(8 << 20), false);
        assert_eq!((bound.verdict, bound.found.as_str()), (Verdict::Warn, "8 MiB"));
    }
}
