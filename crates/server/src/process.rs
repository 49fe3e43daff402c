//! Usage of the process and its threads, from procfs, and its limits.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Usage of the process since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// User and system time of all threads, in seconds.
    pub cpu_seconds: f64,
    /// Voluntary and involuntary context switches of all living threads.
    pub context_switches: u64,
    /// Resident memory, in bytes.
    pub resident_bytes: u64,
}

/// Usage of one thread since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ThreadUsage {
    /// User and system time of the thread, in seconds.
    pub cpu_seconds: f64,
    /// Voluntary and involuntary context switches of the thread.
    pub context_switches: u64,
}

/// Raises the soft limit of open files to the hard one. The soft one is low only for programs that call
/// select(2); the hard one is the administrator's word.
fn allow_every_descriptor() {
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        //@ cause: The kernel did not let the server raise its soft limit of open files to the hard one.
        //@ remedy: Raise the limit where the server is started: `LimitNOFILE=` of systemd, or `ulimit -n`.
        tracing::warn!(
            "open files: their limit cannot be raised ({error}); the server takes fewer connections; set LimitNOFILE= or ulimit -n \
             [open-files-not-raised]"
        );
    }
}

/// Raises the limit of open files and gives up all privileges that a server does not need, for this thread
/// and those it starts. It is for the start of a program; [`Server::start`](crate::Server::start) does it as
/// well.
///
/// # Errors
/// When the kernel refuses to take the privileges.
pub fn prepare() -> io::Result<()> {
    allow_every_descriptor();
    lane::privileges::give_up_the_rest().map(drop)
}

impl Usage {
    /// Reads the present usage.
    ///
    /// # Errors
    /// When procfs is not mounted or not as documented in proc(5).
    pub fn read() -> io::Result<Self> {
        let mut context_switches = 0;
        for task in std::fs::read_dir("/proc/self/task")? {
            // A thread may end between the listing and the read.
            let status = std::fs::read_to_string(task?.path().join("status")).unwrap_or_default();
            context_switches += switches(&status);
        }
        let status = std::fs::read_to_string("/proc/self/status")?;
        let resident_bytes = field(&status, "VmRSS:").unwrap_or(0) * 1024;
        let stat = std::fs::read_to_string("/proc/self/stat")?;
        Ok(Self { cpu_seconds: cpu_seconds(&stat)?, context_switches, resident_bytes })
    }
}

impl ThreadUsage {
    /// Reads the usage of the thread with kernel id `thread` in this process.
    ///
    /// # Errors
    /// When it has ended, or as [`Usage::read`].
    pub fn read(thread: i32) -> io::Result<Self> {
        let dir = format!("/proc/self/task/{thread}");
        let stat = std::fs::read_to_string(format!("{dir}/stat"))?;
        let status = std::fs::read_to_string(format!("{dir}/status"))?;
        Ok(Self { cpu_seconds: cpu_seconds(&stat)?, context_switches: switches(&status) })
    }
}

/// Parses fields 14 and 15 of proc(5)'s stat. The name in field 2 may hold anything, so counting starts after
/// it.
fn cpu_seconds(stat: &str) -> io::Result<f64> {
    let fields = stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace());
    let ticks = fields.and_then(|mut fields| {
        let user: f64 = fields.nth(11)?.parse().ok()?;
        let system: f64 = fields.next()?.parse().ok()?;
        Some(user + system)
    });
    let per_second = rustix::param::clock_ticks_per_second() as f64;
    ticks.map(|ticks| ticks / per_second).ok_or_else(|| io::Error::other("procfs is not as proc(5) says"))
}

fn switches(status: &str) -> u64 {
    field(status, "voluntary_ctxt_switches:").unwrap_or(0)
        + field(status, "nonvoluntary_ctxt_switches:").unwrap_or(0)
}

fn field(status: &str, name: &str) -> Option<u64> {
    status.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_name_with_spaces_and_parentheses_shifts_no_field() {
        let stat = "1 (a) b (c) S 1 1 1 0 -1 4194560 1 0 0 0 250 50 0 0 20 0 1 0 1 1 1";
        assert_eq!(cpu_seconds(stat).unwrap(), 300.0 / rustix::param::clock_ticks_per_second() as f64);
    }

    #[test]
    fn this_process_uses_memory() {
        assert!(Usage::read().unwrap().resident_bytes > 100_000);
    }
}
