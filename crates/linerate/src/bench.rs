//! `linerate bench`: hands over to `linerate-bench`, a program of its own, as a server has no use for load generators.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::anyhow;

/// Flags of `linerate bench`.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// Flags of linerate-bench; none shows them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<OsString>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    become_bench(&args.rest)
}

/// Prints the manual page of a load.
pub(crate) fn man(command: &[String]) -> anyhow::Result<ExitCode> {
    let rest: Vec<_> =
        [OsString::from("man")].into_iter().chain(command.iter().map(OsString::from)).collect();
    become_bench(&rest)
}

/// Has `linerate-bench` write its manual pages too, where it lies beside this program.
pub(crate) fn write_pages(dir: &Path) {
    let program = beside();
    if program.is_absolute() {
        // Without them there are those of linerate alone, as where the load generators are not installed.
        let _ = Command::new(program).args(["man", "--dir"]).arg(dir).status();
    }
}

/// Becomes `linerate-bench`; returns only where it cannot be started.
fn become_bench(args: &[OsString]) -> anyhow::Result<ExitCode> {
    let program = beside();
    let error = Command::new(&program).args(args).exec();
    Err(anyhow!(error).context(format!(
        "cannot start {}, which has the load generators: install it beside linerate, or build it by \
         `cargo build --release -p linerate-bench`",
        program.display()
    )))
}

/// Returns the program that lies beside this one, or else the one that the search path finds.
fn beside() -> PathBuf {
    let own = std::env::current_exe().ok();
    let beside = own.and_then(|own| Some(own.parent()?.join(NAME)));
    beside.filter(|path| path.is_file()).unwrap_or_else(|| NAME.into())
}

const NAME: &str = "linerate-bench";
