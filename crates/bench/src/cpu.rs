//! What a process has used of the processors.

/// CPU time of a process with all its threads so far.
pub(crate) fn cpu_seconds(pid: u32) -> Option<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Behind the name, which may have anything in it: utime and stime are the 12th and 13th words (proc(5)).
    let (_, behind) = text.rsplit_once(')')?;
    let mut words = behind.split_whitespace().skip(11);
    let ticks: u64 = words.next()?.parse::<u64>().ok()? + words.next()?.parse::<u64>().ok()?;
    Some(ticks as f64 / TICKS_PER_SECOND)
}

/// Of `/proc/PID/stat` on every Linux (USER_HZ).
const TICKS_PER_SECOND: f64 = 100.0;
