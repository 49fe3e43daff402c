//! `linerate-bench`, or `linerate bench`: load generators for file servers.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

mod commands;

/// Measure a file server.
///
/// Try: linerate-bench http http://127.0.0.1:8080/hello.txt --seconds 5
#[derive(Debug, Parser)]
#[command(name = "linerate-bench", bin_name = "linerate bench", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[command(flatten)]
    Load(commands::Load),
    /// Print a completion script for your shell
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Print a manual page (roff), for man -l -, or write all of them
    Man {
        /// The load whose page it is, such as `http`; none: that of linerate-bench
        command: Vec<String>,
        /// Write the pages of all loads into this directory, such as /usr/share/man/man1
        #[arg(long, value_name = "DIR", conflicts_with = "command")]
        dir: Option<PathBuf>,
    },
}

fn main() -> ExitCode {
    let command = match cli::parsed::<Cli>(cli::with_options_behind(&Cli::command(), std::env::args_os())) {
        Ok(Cli { command }) => command,
        Err(code) => return code,
    };
    let done = match command {
        Command::Load(load) => commands::run(&load),
        Command::Completions { shell } => cli::completions(Cli::command(), shell),
        Command::Man { command, dir } => cli::man(Cli::command(), &command, dir.as_deref()),
    };
    cli::ended(done, |text| cli::output::complain!("linerate-bench: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
