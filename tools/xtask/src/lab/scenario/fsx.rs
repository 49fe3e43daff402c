//! A file read, written, cut and mapped at random: `fsx.c`, which is compiled where it runs.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use crate::process;

/// Use of mappings of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mapping {
    /// The file is read and written by mappings too.
    Mapped,
    /// The file is not mapped.
    Unmapped,
}

/// Runs fsx ([`run_some`]) for as many steps as there is time for.
pub(super) fn run(file: &str, time: Duration, mapping: Mapping) -> anyhow::Result<(f64, Vec<u8>)> {
    run_some(file, time, u32::MAX, mapping)
}

/// Works on `file` for so long, or for so many steps, and makes it durable at the end. Returns the steps that were
/// made, and the bytes that the file must have then.
pub(super) fn run_some(
    file: &str,
    time: Duration,
    steps_max: u32,
    mapping: Mapping,
) -> anyhow::Result<(f64, Vec<u8>)> {
    if !Path::new(PROGRAM).exists() {
        fs::write(SOURCE, include_str!("fsx.c"))?;
        process::output("cc", &["-O1", "-o", PROGRAM, SOURCE])?;
    }
    let seconds = time.as_secs().to_string();
    let steps_max = steps_max.to_string();
    let mut words = vec![file, SEED, &seconds, &steps_max, COPY];
    words.extend((mapping == Mapping::Unmapped).then_some("unmapped"));
    let steps = within(time + PATIENCE, &words)?;
    Ok((steps.trim().parse().context(steps)?, fs::read(COPY)?))
}

/// Checks that a file is as it must be; the error says where it is not.
pub(super) fn compare(found: &[u8], good: &[u8]) -> anyhow::Result<()> {
    ensure!(found.len() == good.len(), "it has {} bytes and not {}", found.len(), good.len());
    let mut others = found.iter().zip(good).enumerate().filter(|(_, (found, good))| found != good);
    let Some((first, _)) = others.next() else { return Ok(()) };
    let (count, last) = others.fold((1, first), |(count, _), (at, _)| (count + 1, at));
    let zeros = found[first..=last].iter().filter(|byte| **byte == 0).count();
    bail!("{count} bytes of {} are others, from {first} to {last}, where {zeros} are zero", good.len())
}

/// Returns what the program prints. One that hangs in its kernel cannot even be killed: the error says where.
fn within(time: Duration, words: &[&str]) -> anyhow::Result<String> {
    let mut command = Command::new(PROGRAM);
    let mut child = command.args(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let until = Instant::now() + time;
    while child.try_wait()?.is_none() {
        if Instant::now() > until {
            // Tasks that wait in the kernel, and for what.
            fs::write("/proc/sysrq-trigger", "w")?;
            let said = process::output("dmesg", &["--notime"])?;
            let lines: Vec<&str> = said.lines().collect();
            let last = lines[lines.len().saturating_sub(LINES_TOLD)..].join("\n");
            bail!("it goes on after {} s:\n{last}", time.as_secs());
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Seed, so that each run does the same steps, as many as there is time for.
const SEED: &str = "11";
/// Time for writing at the end, on a busy host.
const PATIENCE: Duration = Duration::from_secs(180);
const LINES_TOLD: usize = 60;
const SOURCE: &str = "/tmp/fsx.c";
const PROGRAM: &str = "/tmp/fsx";
const COPY: &str = "/tmp/fsx.good";
