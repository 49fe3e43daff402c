//! A file read, written, cut and mapped at random: `fsx.c`, which is compiled where it runs.

use std::fs;
use std::time::Duration;

use anyhow::{Context, ensure};

use super::mount::{at, by_http, kernel};
use crate::lab::guest::Guest;
use crate::process;

/// Works on a file of the guest's own for so long; what it leaves is compared here and by HTTP.
pub(super) fn run(guest: &mut Guest, time: Duration) -> anyhow::Result<()> {
    fs::write("/tmp/fsx.c", include_str!("fsx.c"))?;
    process::output("cc", &["-O1", "-o", "/tmp/fsx", "/tmp/fsx.c"])?;
    let name = format!("fsx-{}", guest.name());
    let (file, seconds) = (at(&name), time.as_secs().to_string());
    let mut words = vec![file.as_str(), SEED, &seconds, COPY];
    words.extend((kernel() < (6, 10)).then_some("unmapped"));
    let steps = process::output("/tmp/fsx", &words)?;
    guest.figure(&format!("{name}, steps"), steps.trim().parse().context(steps)?, "steps")?;
    let good = fs::read(COPY)?;
    ensure!(by_http(&name)? == good, "{name} is another by HTTP");
    Ok(())
}

/// What is done is the same each time, but for how much of it there is time for.
const SEED: &str = "11";
const COPY: &str = "/tmp/fsx.good";
