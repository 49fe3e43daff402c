//! Limit on files that this process may open.

use anyhow::Context;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Sees to it that at least `wanted` may be open.
pub(crate) fn raise_limit_to(wanted: u64) -> anyhow::Result<()> {
    let now = getrlimit(Resource::Nofile);
    if now.current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    // Raising the upper limit needs a privilege that not even root has everywhere.
    let maximum = now.maximum.map(|maximum| maximum.max(wanted));
    let limit = Rlimit { current: Some(wanted), maximum };
    setrlimit(Resource::Nofile, limit).with_context(|| {
        format!("{wanted} descriptors are needed: raise the limit with `ulimit -n {wanted}`")
    })
}

/// Opens as many as may be opened without a privilege, here and in what is started from here.
pub(crate) fn raise_limit() -> anyhow::Result<()> {
    let now = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: now.maximum, ..now }).context("the descriptor limit")
}

/// Returns how many may be open.
pub(crate) fn limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}
