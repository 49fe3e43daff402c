//! What the command lines of `linerate` and `linerate-bench` share: figures, tables, progress bars, passwords, manual pages,
//! and how a program ends.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use clap::Command;

pub mod bar;
pub mod cell;
pub mod output;
pub mod password;
mod size;

pub use size::size;

/// Turns the outcome of a command into its exit status; `complain` gets an error with its causes.
pub fn ended(done: anyhow::Result<ExitCode>, complain: impl FnOnce(&str)) -> ExitCode {
    match done {
        Ok(code) => code,
        // Somebody closed the pipe: `linerate stat | head` is no failure.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&told(&error));
            ExitCode::FAILURE
        }
    }
}

/// Prints a completion script of `program`.
pub fn completions(mut program: Command, shell: clap_complete::Shell) -> anyhow::Result<ExitCode> {
    let name = program.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut program, name, &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the manual page of a command of `program`, named by `names`, or writes the pages of all commands into `dir`.
pub fn man(program: Command, names: &[String], dir: Option<&Path>) -> anyhow::Result<ExitCode> {
    if let Some(dir) = dir {
        clap_mangen::generate_to(program, dir)
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
    clap_mangen::Man::new(command).render(&mut std::io::stdout())?;
    Ok(ExitCode::SUCCESS)
}

/// The error and its causes, each said once: some errors tell their cause themselves.
pub fn told(error: &anyhow::Error) -> String {
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
}
