//! The command line: serve a directory, look at a server, measure one.

// Output goes by `cli::output` alone, which neither panics where its reader is gone nor loses what it cannot write.
#![deny(clippy::print_stdout, clippy::print_stderr)]

use std::ffi::OsString;
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
mod put;
mod remote;
mod rxdebug;
mod serve;
mod smb;
mod smb_users;
mod staging;
mod stat;
mod transfer_cmd;
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
    /// Manage users
    User(user::Args),
    /// Manage groups of users, for access lists
    Group(group::Args),
    /// Show and edit access lists
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
    let cli: Cli = match cli::parsed(in_order(std::env::args_os())) {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    let done = match cli.command {
        Command::Serve(args) => serve::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Stat(args) => stat::run(&args),
        Command::Smb(args) => smb_users::run(&args),
        Command::User(args) => user::run(&args),
        Command::Group(args) => group::run(&args),
        Command::Acl(args) => acl::run(&args),
        Command::Volume(args) => volume::run(&args),
        Command::Get(args) => transfer_cmd::ended(get::run(&args)),
        Command::Put(args) => transfer_cmd::ended(put::run(&args)),
        Command::Ls(args) => transfer_cmd::ended(ls::run(&args)),
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

/// Returns the command line as it is parsed: options behind the names of commands, denials as options.
fn in_order(line: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    acl::with_denials(cli::with_options_behind(&Cli::command(), line).into_iter())
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// Arguments of each command beside its options. `bench` hands all it gets to a program of its own.
    const NAMES: [(&str, &[&str]); 34] = [
        ("serve", &["/srv"]),
        ("doctor", &["/srv", "/home"]),
        ("stat", &["127.0.0.1:8090"]),
        ("smb sessions", &[]),
        ("smb opens", &[]),
        ("smb locks", &[]),
        ("smb interfaces", &["smb://localhost/pub"]),
        ("smb close", &["session", "1"]),
        ("user add", &["alice"]),
        ("user passwd", &["alice"]),
        ("user del", &["alice"]),
        ("user disable", &["alice"]),
        ("user enable", &["alice"]),
        ("user list", &[]),
        ("user import", &["users.txt"]),
        ("group add", &["staff"]),
        ("group del", &["staff"]),
        ("group add-member", &["staff", "alice", "bob"]),
        ("group remove-member", &["staff", "alice", "bob"]),
        ("group list", &[]),
        ("acl get", &["/srv"]),
        ("acl set", &["/srv", "alice=write", "-bob=w", "staff=read"]),
        ("acl list", &["/srv"]),
        ("acl convert", &["/srv"]),
        ("acl accept", &["/srv"]),
        ("volume create", &["pub", "/srv"]),
        ("volume list", &[]),
        ("volume status", &["pub"]),
        ("volume check", &["pub"]),
        ("volume remove", &["pub"]),
        ("get", &["smb://localhost/pub/a"]),
        ("put", &["a", "smb://localhost/pub/a"]),
        ("ls", &["smb://localhost/pub"]),
        ("rxdebug", &["localhost", "7000"]),
    ];

    /// The commands that have no others, by their names.
    fn leaves(command: &clap::Command, name: &str, found: &mut Vec<(String, clap::Command)>) {
        let below = |part: &clap::Command| format!("{name} {}", part.get_name()).trim().to_owned();
        command.get_subcommands().for_each(|part| leaves(part, &below(part), found));
        if command.get_subcommands().next().is_none() {
            found.push((name.to_owned(), command.clone()));
        }
    }

    /// An option as a user gives it, with a value that it takes.
    fn given(option: &clap::Arg) -> Option<Vec<String>> {
        let name = format!("--{}", option.get_long()?);
        if !option.get_action().takes_values() {
            return Some(vec![name]);
        }
        let sample = || match option.get_id().as_str() {
            "server" | "admin" | "http" | "https" | "afs" | "smb" => "127.0.0.1:8090",
            "connections" | "count" | "interval" | "lanes" | "oob_threshold" | "patience" | "timeout"
            | "id" | "uid" | "gid" => "3",
            _ => "sample",
        };
        let value = option.get_possible_values().first().map(|value| value.get_name().to_owned());
        let value = value.unwrap_or_else(|| sample().to_owned());
        Some(if option.is_require_equals_set() { vec![format!("{name}={value}")] } else { vec![name, value] })
    }

    #[test]
    fn options_may_stand_before_and_behind_names_in_every_command() {
        let mut commands = Vec::new();
        leaves(&Cli::command(), "", &mut commands);
        commands.retain(|(name, _)| !["bench", "completions", "man"].contains(&name.as_str()));
        assert_eq!(commands.len(), NAMES.len(), "each command is in the table");
        let read = |parts: &[&[String]]| {
            let words = parts.iter().copied().flatten().map(OsString::from);
            let line = std::iter::once(OsString::from("linerate")).chain(words);
            Cli::try_parse_from(in_order(line))
                .map(|cli| format!("{cli:?}"))
                .map_err(|error| (error.kind(), error.to_string()))
        };
        let mut tried = 0;
        for (name, command) in &commands {
            let words: Vec<String> = name.split(' ').map(str::to_owned).collect();
            let names = NAMES.iter().find(|(known, _)| known == name).expect("it is in the table").1;
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            for option in command.get_arguments().filter(|option| !option.is_hide_set()).filter_map(given) {
                let (before, behind) = (read(&[&words, &option, &names]), read(&[&words, &names, &option]));
                match &before {
                    Ok(before) => assert_eq!(behind.as_ref(), Ok(before), "{name} {names:?} {option:?}"),
                    // An option that takes no names beside it, or a value that this test does not know.
                    Err((kind, told)) => {
                        assert_eq!(behind.as_ref().unwrap_err().0, *kind, "{name} {names:?} {option:?}");
                        let is_refused =
                            matches!(kind, ErrorKind::ArgumentConflict | ErrorKind::MissingRequiredArgument);
                        assert!(is_refused, "{name} {option:?}: {told}");
                    }
                }
                // Before the command's own name, and before that of the commands that it is one of.
                for at in (0..words.len()).filter(|_| before.is_ok()) {
                    let (above, below) = words.split_at(at);
                    let line = [above, &option, below, &names];
                    assert_eq!(read(&line), before, "{line:?}");
                }
                tried += 1;
            }
        }
        assert!(tried > 100, "{tried} options");
    }
}
