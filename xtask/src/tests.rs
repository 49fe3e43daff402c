//! `cargo xtask test`: one command from a fresh clone to every test run.

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
    let mut cargo = vec!["test", "--workspace", "--no-fail-fast"];
    cargo.extend(args.rest.iter().map(String::as_str));
    process::run("cargo", &cargo)?;
    if args.rest.is_empty() {
        lab::run_for_tests(!args.offline)?;
    }
    Ok(())
}
