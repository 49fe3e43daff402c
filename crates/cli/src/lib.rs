//! Common parts of the command lines of `linerate` and `linerate-bench`: figures, tables, progress bars,
//! passwords, manual pages, and how a program ends.

// Output goes by `cli::output` alone, which neither panics where its reader is gone nor loses what it cannot write.
#![deny(clippy::print_stdout, clippy::print_stderr)]

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use clap::builder::Resettable;
use clap::error::{ContextKind, ContextValue};
use clap::{Arg, Command, Parser};

use transfer::authority::without_user;

pub mod bar;
pub mod cell;
mod order;
pub mod output;
pub mod password;
mod size;

pub use order::with_options_behind;
pub use size::size;

/// Turns the outcome of a command into its exit status; `complain` gets an error with its causes. Output that was lost, as on a full
/// disk, is a failure.
pub fn ended(done: anyhow::Result<ExitCode>, complain: impl FnOnce(&str)) -> ExitCode {
    let code = match done {
        Ok(code) => code,
        // The reader closed the pipe: `linerate stat | head` is no failure.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&output::harmless(&error_chain(&error)));
            ExitCode::FAILURE
        }
    };
    if output::finish() { code } else { ExitCode::FAILURE }
}

/// Parses the command line. Where it is none, or asks for help or the version, it ends the program as it should. A
/// variable of the environment that is empty counts as one that is not set.
///
/// # Errors
/// The exit status then.
pub fn parsed<T: Parser>(line: impl IntoIterator<Item = OsString>) -> Result<T, ExitCode> {
    parsed_by(without_empty_variables(T::command()), line).map_err(without_passwords).map_err(|told| {
        let is_wrong = told.use_stderr();
        let styled = told.render();
        let columns = match is_wrong {
            true => terminal_size::terminal_size_of(std::io::stderr()).map(|(width, _)| width.0),
            false => output::columns(),
        };
        let is_terminal = match is_wrong {
            true => std::io::stderr().is_terminal(),
            false => std::io::stdout().is_terminal(),
        };
        let text = match is_terminal && !is_plain() {
            true => styled.ansi().to_string(),
            false => styled.to_string(),
        };
        let text = match columns {
            Some(columns) => with_short_usage(&text, columns.into()),
            None => text,
        };
        match is_wrong {
            true => output::write_error_bytes(text.as_bytes()),
            false => output::write_bytes(text.as_bytes()),
        }
        let code = u8::try_from(told.exit_code()).unwrap_or(2);
        if output::finish() { code.into() } else { ExitCode::FAILURE }
    })
}

fn parsed_by<T: Parser>(
    mut command: Command,
    line: impl IntoIterator<Item = OsString>,
) -> Result<T, clap::Error> {
    let mut matches = command.try_get_matches_from_mut(line)?;
    T::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
}

/// Takes users and passwords out of the addresses that an error repeats.
fn without_passwords(mut error: clap::Error) -> clap::Error {
    let shown = |value: &ContextValue| match value {
        ContextValue::String(text) => Some(ContextValue::String(without_user(text))),
        ContextValue::Strings(texts) => {
            Some(ContextValue::Strings(texts.iter().map(|text| without_user(text)).collect()))
        }
        _ => None,
    };
    let all: Vec<_> = error.context().filter_map(|(kind, value)| Some((kind, shown(value)?))).collect();
    let changes = all.iter().any(|(kind, value)| error.get(*kind) != Some(value));
    for (kind, value) in all {
        error.insert(kind, value);
    }
    if changes {
        // It repeats the argument.
        error.insert(ContextKind::Suggested, ContextValue::None);
    }
    error
}

/// Returns a help or an error whose lines of usage, which nothing else breaks, are no longer than so many columns.
fn with_short_usage(text: &str, columns: usize) -> String {
    let shorter = |line: &str| {
        let plain = without_styles(line);
        if plain.chars().count() <= columns || !plain.starts_with(USAGE) {
            return line.to_owned();
        }
        let (mut out, mut used) = (String::new(), 0);
        for (at, word) in line.split(' ').enumerate() {
            let length = without_styles(word).chars().count();
            if at > 0 && used + 1 + length > columns {
                out.push('\n');
                out.extend(std::iter::repeat_n(' ', USAGE.len()));
                used = USAGE.len();
            } else if at > 0 {
                out.push(' ');
                used += 1;
            }
            out.push_str(word);
            used += length;
        }
        out
    };
    text.split('\n').map(shorter).collect::<Vec<_>>().join("\n")
}

/// Returns what a terminal shows of a text with colours: each begins with an escape and ends with an `m`.
fn without_styles(text: &str) -> String {
    let mut parts = text.split('\x1b');
    let first = parts.next().unwrap_or_default();
    parts.fold(first.to_owned(), |shown, part| shown + part.split_once('m').map_or(part, |(_, shown)| shown))
}

const USAGE: &str = "Usage: ";

/// Has arguments not look at variables of the environment that are empty.
fn without_empty_variables(command: Command) -> Command {
    let is_empty = |name: &OsStr| std::env::var_os(name).is_some_and(|value| value.is_empty());
    let without = |arg: Arg| match arg.get_env().is_some_and(is_empty) {
        true => arg.env(Resettable::Reset),
        false => arg,
    };
    let names: Vec<_> = command.get_subcommands().map(|below| below.get_name().to_owned()).collect();
    let command = command.mut_args(without);
    names.into_iter().fold(command, |command, name| command.mut_subcommand(name, without_empty_variables))
}

/// Returns whether the user wants neither colours (<https://no-color.org>) nor bars, or has a terminal that
/// knows none.
pub fn is_plain() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    is_set("NO_COLOR") || std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

/// Prints a completion script of `program`.
pub fn completions(program: Command, shell: clap_complete::Shell) -> anyhow::Result<ExitCode> {
    let mut program = without_hidden(&program);
    let name = program.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut program, name, &mut script);
    output::write_bytes(&script);
    Ok(ExitCode::SUCCESS)
}

/// Returns the command as its help shows it: what is hidden there is offered by no shell.
fn without_hidden(command: &Command) -> Command {
    // A command keeps its name for as long as the process runs.
    let name: &'static str = command.get_name().to_owned().leak();
    let shown = Command::new(name)
        .args(command.get_arguments().filter(|arg| !arg.is_hide_set()).cloned())
        .groups(command.get_groups().map(|group| {
            let is_shown =
                |id: &&clap::Id| command.get_arguments().any(|arg| arg.get_id() == *id && !arg.is_hide_set());
            let members: Vec<_> = group.get_args().filter(is_shown).cloned().collect();
            clap::ArgGroup::new(group.get_id().clone()).args(members).multiple(true)
        }))
        .subcommands(command.get_subcommands().filter(|below| !below.is_hide_set()).map(without_hidden));
    let shown = match command.get_about() {
        Some(about) => shown.about(about.clone()),
        None => shown,
    };
    match command.get_version() {
        Some(version) => shown.version(&*version.to_owned().leak()),
        None => shown,
    }
}

/// Prints the manual page of a command of `program`, named by `names`, or writes the pages of all commands into `dir`.
pub fn man(program: Command, names: &[String], dir: Option<&Path>) -> anyhow::Result<ExitCode> {
    if let Some(dir) = dir {
        let mut program = program.disable_help_subcommand(true);
        program.build();
        std::fs::create_dir_all(dir)
            .and_then(|()| write_pages(&program, dir))
            .with_context(|| format!("cannot write manual pages into {}", dir.display()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut command = program.disable_help_subcommand(true);
    // Subcommands get their whole names.
    command.build();
    for name in names {
        let sub = command.find_subcommand(name);
        command = sub.with_context(|| format!("there is no command {}", names.join(" ")))?.clone();
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page)?;
    output::write_bytes(&page);
    Ok(ExitCode::SUCCESS)
}

/// Writes the pages of a command and of those below it. What has the name of a page goes, so that nothing is written through a link.
fn write_pages(command: &Command, dir: &Path) -> std::io::Result<()> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        write_pages(below, dir)?;
    }
    let page = clap_mangen::Man::new(command.clone());
    let path = dir.join(page.get_filename());
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => page.render(&mut File::create_new(path)?),
    }
}

/// Returns the error and its causes, each said once: some errors tell their cause themselves.
pub fn error_chain(error: &anyhow::Error) -> String {
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
    use clap::{CommandFactory as _, ValueEnum as _};

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[arg(long)]
        file: Option<std::path::PathBuf>,
        #[arg(value_parser = refused)]
        address: Option<String>,
    }

    fn refused(_: &str) -> Result<String, &'static str> {
        Err("it is none")
    }

    #[test]
    fn an_address_that_is_refused_is_repeated_without_its_password() {
        for line in [&["x", "smb://u:Secret007@h/s"][..], &["x", "--file=x", "afs://u:Sec/ret007@h"]] {
            let refused = parsed_by::<Line>(Line::command(), line.iter().map(OsString::from)).unwrap_err();
            let told = without_passwords(refused).render().to_string();
            assert!(
                told.contains("://...@h") && !told.contains("Sec") && told.contains("it is none"),
                "{told}"
            );
        }
        let one_more =
            parsed_by::<Line>(Line::command(), ["x", "--smb://u:Secret007@h/s"].map(OsString::from));
        let told = without_passwords(one_more.unwrap_err()).render().to_string();
        assert!(!told.contains("Secret007"), "{told}");
    }

    #[test]
    fn a_line_of_usage_is_broken_where_the_terminal_ends_and_nothing_else_is() {
        let text = "Usage: \x1b[1mprogram command\x1b[0m [OPTIONS] <FIRST> <SECOND>...\n\nA long line of other words that stays\n";
        assert_eq!(with_short_usage(text, 80), text);
        let short = with_short_usage(text, 33);
        assert!(short.ends_with("\n\nA long line of other words that stays\n"), "{short}");
        let usage: Vec<_> = short.split("\n\n").next().unwrap().lines().map(without_styles).collect();
        assert_eq!(usage, ["Usage: program command [OPTIONS]", "       <FIRST> <SECOND>..."]);
    }

    #[test]
    fn no_shell_offers_what_the_help_does_not_show() {
        let program = Command::new("x").version("1").subcommand(
            Command::new("y")
                .about("about y")
                .arg(Arg::new("shown").long("shown"))
                .arg(Arg::new("old").long("old-name").hide(true)),
        );
        let program = program.subcommand(Command::new("z").hide(true));
        for shell in clap_complete::Shell::value_variants() {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut without_hidden(&program), "x", &mut script);
            let script = String::from_utf8(script).unwrap();
            assert!(script.contains("shown") && script.contains("help"), "{shell}: {script}");
            assert!(!script.contains("old-name") && !script.contains(" z "), "{shell}: {script}");
        }
    }

    #[test]
    fn an_error_says_each_cause_once() {
        let error = anyhow::anyhow!("no such file").context("cannot read x: no such file").context("start");
        assert_eq!(error_chain(&error), "start: cannot read x: no such file");
    }
}
