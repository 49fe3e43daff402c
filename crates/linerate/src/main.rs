//! The command line: serve a directory, look at a server, measure one.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::{CommandFactory, Parser, Subcommand};

mod accounts;
mod acl;
mod afs;
mod bar;
mod bench;
mod doctor;
mod get;
mod group;
mod ls;
mod moving;
mod output;
mod password;
mod put;
mod remote;
mod rxdebug;
mod serve;
mod smb;
mod smb_users;
mod stat;
mod transferred;
mod user;
mod volume;

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
    /// Show who uses a server's SMB shares, or end that
    Smb(smb_users::Args),
    /// Say who may sign in
    User(user::Args),
    /// Put users together, for access lists
    Group(group::Args),
    /// Say who may do what in a directory
    Acl(acl::Args),
    /// Give volumes their numbers, show them, forget them
    Volume(volume::Args),
    /// Fetch files of an AFS cell or an SMB share
    Get(get::Args),
    /// Store files in an AFS cell or an SMB share
    Put(put::Args),
    /// Show what a directory of an AFS cell or an SMB share holds
    Ls(ls::Args),
    /// Measure a server
    Bench(bench::Args),
    /// Ask an Rx server for its version, packets, connections and peers
    Rxdebug(rxdebug::Args),
    /// Print a completion script for your shell
    Completions {
        /// Which shell.
        shell: clap_complete::Shell,
    },
    /// Print a manual page (roff), for man -l -, or write all of them
    Man {
        /// Commands whose page it is, such as `bench http`; none: that of linerate
        command: Vec<String>,
        /// Write the pages of all commands into this directory, such as /usr/share/man/man1
        #[arg(long, value_name = "DIR", conflicts_with = "command")]
        dir: Option<PathBuf>,
    },
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match cli.command {
        Command::Serve(args) => serve::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Stat(args) => stat::run(&args),
        Command::Smb(args) => smb_users::run(&args),
        Command::User(args) => user::run(&args),
        Command::Group(args) => group::run(&args),
        Command::Acl(args) => acl::run(&args),
        Command::Volume(args) => volume::run(&args),
        Command::Get(args) => moving::ended(get::run(&args)),
        Command::Put(args) => moving::ended(put::run(&args)),
        Command::Ls(args) => moving::ended(ls::run(&args)),
        Command::Bench(args) => bench::run(&args),
        Command::Rxdebug(args) => rxdebug::run(&args),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "linerate", &mut std::io::stdout());
            Ok(ExitCode::SUCCESS)
        }
        Command::Man { command, dir } => man(&command, dir.as_deref()),
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

fn man(names: &[String], dir: Option<&Path>) -> anyhow::Result<ExitCode> {
    if let Some(dir) = dir {
        clap_mangen::generate_to(Cli::command(), dir)
            .with_context(|| format!("cannot write manual pages into {}", dir.display()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut command = Cli::command().disable_help_subcommand(true);
    // Subcommands get their whole names.
    command.build();
    for name in names {
        let sub = command.find_subcommand(name);
        command = sub.with_context(|| format!("there is no command {}", names.join(" ")))?.clone();
    }
    clap_mangen::Man::new(command).render(&mut std::io::stdout())?;
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
