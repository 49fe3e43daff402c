//! `cargo xtask test`: one command from a fresh clone to every test run, and a list of what was skipped.

use std::path::Path;

use anyhow::Context;

use crate::skipped::Skipped;
use crate::{interop, lab, packages, process, torture};

/// Flags of `cargo xtask test`.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// Do not install Debian packages, nor other clients that tests use
    #[arg(long)]
    offline: bool,
    /// Passed on to `cargo test`; torture and the kernel lab's scenarios are left out then
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    if !args.offline {
        packages::install(packages::TESTS)?;
        interop::install()?;
    }
    let list = Skipped::new(process::target().join("skipped"))?;
    let outcome = cargo_test(&args.rest, list.path()).and_then(|()| match args.rest.is_empty() {
        true => beside_cargo(!args.offline),
        false => Ok(Vec::new()),
    });
    // What was skipped is told of a failed run too.
    let told = list.tell(outcome.as_ref().ok().cloned().unwrap_or_default());
    outcome?;
    told
}

/// What is no test of a crate; answers what of it was skipped.
fn beside_cargo(install: bool) -> anyhow::Result<Vec<String>> {
    let mut skipped = torture::run_for_tests()?;
    let lab = lab::run_for_tests(install)?;
    skipped.extend(lab.map(|reason| format!("the kernel lab's scenarios: {reason}")));
    Ok(skipped)
}

fn cargo_test(rest: &[String], skipped: &Path) -> anyhow::Result<()> {
    let mut args = vec!["test", "--workspace", "--no-fail-fast"];
    args.extend(rest.iter().map(String::as_str));
    let skipped = skipped.to_str().context("the build directory's path is not UTF-8")?;
    process::run_with("cargo", &args, &[(testkit::LIST_VARIABLE, skipped)])
}
