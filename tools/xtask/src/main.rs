//! Tasks of this repository: `cargo xtask test`, `cargo xtask ci`, `cargo xtask compare http`, `cargo xtask lab NAME`.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod ci;
mod compare;
mod counts;
mod cpu;
mod descriptors;
mod hostile;
mod idle;
mod interop;
mod lab;
mod limits;
mod messages;
mod metrics;
mod one_tree;
mod packages;
mod page;
mod process;
#[cfg(test)]
mod profiles;
mod server;
mod skipped;
mod smbtorture;
mod spec;
mod tests;
mod torture;

/// Tasks of the Linerate repository.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Install the Debian packages the tests use, then run every test
    Test(tests::Args),
    /// What must hold before a change lands: format, lints, licences, docs, tests
    Ci(ci::Args),
    /// Measure Linerate and a peer side by side
    Compare(compare::Args),
    /// Count the instructions of the hot paths and hold them against the baseline
    Counts(counts::Args),
    /// Attack the server as hostile clients do while a good client measures what it feels
    Hostile(hostile::Args),
    /// Measure what an idle keep-alive connection costs in memory
    Idle(idle::Args),
    /// Build a client of another author that takes long to build, and run the tests that use it
    Interop(interop::Args),
    /// Boot guests with other kernels and machines, and run scenarios inside
    Lab(lab::Args),
    /// List everything that clients share, how much of it one may have, and what attacks it
    Limits(limits::Args),
    /// List every WARN and ERROR of the server's log with its cause and what to do
    Messages(messages::Args),
    /// List every metric that a server tells
    Metrics,
    /// Change one tree by SMB, AFS, HTTP and local programs at random, and hold what all of them see against a model
    OneTree(one_tree::Args),
    /// Run Samba's tests of SMB against the server, and hold them against what smbd passes
    Smbtorture(smbtorture::Args),
    /// Report which sections of the specifications the code says it obeys
    Spec(spec::Args),
    /// Kill a process that changes a tree, or its file system, again and again, and look what is there
    Torture(torture::Args),
    /// A scenario's part inside a guest
    #[command(hide = true)]
    LabGuest(lab::inside::Args),
    /// The process that is killed
    #[command(hide = true)]
    TortureChild(torture::child::Args),
}

fn main() -> ExitCode {
    let done = match Cli::parse().task {
        Task::Test(args) => tests::run(&args),
        Task::Ci(args) => ci::run(&args),
        Task::Compare(args) => compare::run(&args),
        Task::Counts(args) => counts::run(&args),
        Task::Hostile(args) => hostile::run(&args),
        Task::Idle(args) => idle::run(&args),
        Task::Interop(args) => interop::run(&args),
        Task::Lab(args) => lab::run(&args),
        Task::Limits(args) => limits::run(&args),
        Task::Messages(args) => messages::run(&args),
        Task::Metrics => metrics::run(),
        Task::OneTree(args) => one_tree::run(&args),
        Task::Smbtorture(args) => smbtorture::run(&args),
        Task::Spec(args) => spec::run(&args),
        Task::Torture(args) => torture::run(&args),
        Task::LabGuest(args) => lab::inside::run(&args),
        Task::TortureChild(args) => torture::child::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests_of_documents {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn tasks_that_documents_name_exist() {
        let root = spec::root();
        let known: Vec<_> = Cli::command().get_subcommands().map(|task| task.get_name().to_owned()).collect();
        let mut files: Vec<_> =
            ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(|name| root.join(name)).into();
        for part in ["", "users", "operators", "design", "reference"] {
            let entries = std::fs::read_dir(root.join("docs").join(part)).unwrap();
            files.extend(
                entries
                    .map(|entry| entry.unwrap().path())
                    .filter(|path| path.extension().is_some_and(|kind| kind == "md")),
            );
        }
        let mut named = 0;
        for path in files {
            let text = std::fs::read_to_string(&path).unwrap();
            for rest in text.split("cargo xtask ").skip(1) {
                let task: String =
                    rest.chars().take_while(|char| char.is_ascii_lowercase() || *char == '-').collect();
                // Such as "cargo xtask TASK".
                if !task.is_empty() {
                    assert!(known.contains(&task), "{}: cargo xtask {task}", path.display());
                    named += 1;
                }
            }
        }
        assert!(named > 20, "{named}");
    }
}
