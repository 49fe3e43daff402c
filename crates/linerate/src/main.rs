//! The command line: serve a directory, look at a server, measure one.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use cli::{bar, output, password};

mod accounts;
mod acl;
mod afs;
mod bench;
mod doctor;
mod get;
mod group;
mod ls;
mod moving;
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
        Command::Completions { shell } => cli::completions(Cli::command(), shell),
        Command::Man { command, .. } if command.first().is_some_and(|name| name == "bench") => {
            bench::man(&command[1..])
        }
        Command::Man { command, dir } => cli::man(Cli::command(), &command, dir.as_deref()).inspect(|_| {
            if let Some(dir) = &dir {
                bench::write_pages(dir);
            }
        }),
    };
    // Standard error may be a pipe that is never read: that must not keep the program from ending.
    cli::ended(done, |text| server::logs::complain(&format!("linerate: {text}\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
