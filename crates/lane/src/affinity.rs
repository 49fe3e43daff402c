//! Pinning threads to CPUs.

use std::io;

use rustix::thread::{CpuSet, sched_setaffinity};

/// Allows the calling thread on `cpus` only; on an empty list it may run anywhere it could before.
///
/// # Errors
/// `EINVAL` when none of the CPUs is online or allowed to this process.
pub(crate) fn pin_to(cpus: &[u32]) -> io::Result<()> {
    if cpus.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    for &cpu in cpus {
        let cpu = usize::try_from(cpu).map_err(io::Error::other)?;
        if cpu >= CpuSet::MAX_CPU {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        set.set(cpu);
    }
    Ok(sched_setaffinity(None, &set)?)
}
