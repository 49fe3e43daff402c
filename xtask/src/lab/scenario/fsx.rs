//! A file read, written, cut and mapped at random: `fsx.c`, which is compiled where it runs.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;

use crate::process;

/// Whether the file is mapped too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mapping {
    /// Read and written by mappings, among others.
    Mapped,
    /// Neither.
    Unmapped,
}

/// Works on `file` for so long and makes it durable at the end; gives the steps that there was time for, and the bytes that the file must
/// have then.
pub(super) fn run(file: &str, time: Duration, mapping: Mapping) -> anyhow::Result<(f64, Vec<u8>)> {
    if !Path::new(PROGRAM).exists() {
        fs::write(SOURCE, include_str!("fsx.c"))?;
        process::output("cc", &["-O1", "-o", PROGRAM, SOURCE])?;
    }
    let seconds = time.as_secs().to_string();
    let mut words = vec![file, SEED, &seconds, COPY];
    words.extend((mapping == Mapping::Unmapped).then_some("unmapped"));
    let steps = process::output(PROGRAM, &words)?;
    Ok((steps.trim().parse().context(steps)?, fs::read(COPY)?))
}

/// What is done is the same each time, but for how much of it there is time for.
const SEED: &str = "11";
const SOURCE: &str = "/tmp/fsx.c";
const PROGRAM: &str = "/tmp/fsx";
const COPY: &str = "/tmp/fsx.good";
