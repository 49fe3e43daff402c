//! Processor time of a process.

/// Returns the CPU time of a process with all its threads so far.
pub(crate) fn cpu_seconds(pid: u32) -> Option<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Behind the name, which may have anything in it: utime and stime are the 12th and 13th words (proc(5)).
    let (_, behind) = text.rsplit_once(')')?;
    let mut words = behind.split_whitespace().skip(11);
    let ticks: u64 = words.next()?.parse::<u64>().ok()? + words.next()?.parse::<u64>().ok()?;
    Some(ticks as f64 / TICKS_PER_SECOND)
}

/// Clock of a load's processor time: the server's process, where its id was given, and this one.
pub(crate) struct CpuClock {
    pid: Option<u32>,
    before: (Option<f64>, Option<f64>),
}

impl CpuClock {
    /// Starts the clock now.
    pub(crate) fn start(pid: Option<u32>) -> Self {
        Self { pid, before: Self::now(pid) }
    }

    /// Returns the CPU seconds that the server and this process have taken since the start.
    pub(crate) fn spent(&self) -> (Option<f64>, Option<f64>) {
        let after = Self::now(self.pid);
        let between = |after: Option<f64>, before: Option<f64>| Some(after? - before?);
        (between(after.0, self.before.0), between(after.1, self.before.1))
    }

    fn now(pid: Option<u32>) -> (Option<f64>, Option<f64>) {
        (pid.and_then(cpu_seconds), cpu_seconds(std::process::id()))
    }
}

/// Ticks a second of the times in `/proc/PID/stat`, on every Linux (USER_HZ).
const TICKS_PER_SECOND: f64 = 100.0;
