//! Pinning threads to CPUs.

use std::io;

use rustix::thread::{CpuSet, sched_setaffinity};

/// Converts to the kernel's set of CPUs; `None` when empty or beyond what a set can hold.
pub(crate) fn cpu_set(cpus: &[u32]) -> Option<libc::cpu_set_t> {
    // SAFETY: a set of zeros is the empty one.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for &cpu in cpus {
        let cpu = usize::try_from(cpu).ok().filter(|&cpu| cpu < CpuSet::MAX_CPU)?;
        // SAFETY: the CPU is within the set.
        unsafe { libc::CPU_SET(cpu, &mut set) };
    }
    (!cpus.is_empty()).then_some(set)
}

/// Allows the calling thread on `cpus` only; an empty list changes nothing.
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
