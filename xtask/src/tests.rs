//! `cargo xtask test`: one command from a fresh clone to every test run, and a list of what was skipped.

use std::path::Path;

use anyhow::Context;

use crate::skipped::Skipped;
use crate::{lab, packages, process};

/// Flags of `cargo xtask test`.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// Do not install Debian packages
    #[arg(long)]
    offline: bool,
    /// Passed on to `cargo test`; the kernel lab's scenarios are left out then
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    if !args.offline {
        packages::install(packages::TESTS)?;
    }
    let list = Skipped::new(process::target().join("skipped"))?;
    let outcome = cargo_test(&args.rest, list.path()).and_then(|()| match args.rest.is_empty() {
        true => lab::run_for_tests(!args.offline),
        false => Ok(None),
    });
    // What was skipped is told of a failed run too.
    let lab = outcome.as_ref().ok().cloned().flatten();
    let told = list.tell(lab.map(|reason| format!("the kernel lab's scenarios: {reason}")));
    outcome?;
    told
}

fn cargo_test(rest: &[String], skipped: &Path) -> anyhow::Result<()> {
    let mut args = vec!["test", "--workspace", "--no-fail-fast"];
    args.extend(rest.iter().map(String::as_str));
    let skipped = skipped.to_str().context("the build directory's path is not UTF-8")?;
    process::run_with("cargo", &args, &[(testkit::LIST_VARIABLE, skipped)])
}
