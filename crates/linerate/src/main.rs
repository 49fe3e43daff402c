//! The command line: serve a directory, look at a server, measure one.

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

mod bench;
mod doctor;
mod output;
mod rxdebug;
mod serve;
mod stat;

/// A file server that fills the link.
///
/// Serves one directory tree to HTTP and HTTPS clients at the speed of the network card.
///
/// Try: linerate serve ./demo
#[derive(Debug, Parser)]
#[command(name = "linerate", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve a directory
    Serve(serve::Args),
    /// Tell what this machine gives a file server, and what to change
    Doctor(doctor::Args),
    /// Show what a running server does, one line a second
    Stat(stat::Args),
    /// Measure a server
    Bench(bench::Args),
    /// Ask an Rx server for its version, packets, connections and peers
    Rxdebug(rxdebug::Args),
    /// Print a completion script for your shell
    Completions {
        /// Which shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page (roff), for man -l -
    #[command(hide = true)]
    Man,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match cli.command {
        Command::Serve(args) => serve::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Stat(args) => stat::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Rxdebug(args) => rxdebug::run(&args),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "linerate", &mut std::io::stdout());
            Ok(ExitCode::SUCCESS)
        }
        Command::Man => man(),
    };
    match done {
        Ok(code) => code,
        // Somebody closed the pipe: `linerate stat | head` is no failure.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // Whoever started a server may not read what it says: that must not keep it from ending.
            server::logs::complain(&format!("linerate: {}\n", told(&error)));
            ExitCode::FAILURE
        }
    }
}

fn man() -> anyhow::Result<ExitCode> {
    clap_mangen::Man::new(Cli::command()).render(&mut std::io::stdout())?;
    Ok(ExitCode::SUCCESS)
}

/// The error and its causes, each said once: some errors tell their cause themselves.
fn told(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<std::io::Error>();
    io.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_each_cause_once() {
        let error = anyhow::anyhow!("no such file").context("cannot read x: no such file").context("start");
        assert_eq!(told(&error), "start: cannot read x: no such file");
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
