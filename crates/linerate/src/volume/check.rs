//! `linerate volume check`: whether index and trees agree.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use server::volumes::{CheckProgress, Problem, VolumeChecked, Volumes};

use super::Check;
use crate::output::{counted, say, table};

/// Outcome of one volume.
struct VolumeOutcome {
    name: String,
    checked: Result<VolumeChecked, String>,
}

pub(super) fn run(args: &Check) -> anyhow::Result<ExitCode> {
    let state = args.place.existing()?;
    if args.replace_index {
        return replace(&state);
    }
    let opened = if args.dry_run { Volumes::look(&state)? } else { Volumes::open(&state)? };
    let Some(volumes) = opened else {
        match &args.name {
            Some(name) => bail!("there is no index in {}, and so no volume {name}", state.display()),
            None if args.json => say!("[]"),
            None => say!("no volumes: there is no index in {}", state.display()),
        }
        return Ok(ExitCode::SUCCESS);
    };
    let mut names: Vec<_> = volumes.list().into_iter().map(|volume| volume.name).collect();
    names.retain(|name| args.name.as_ref().is_none_or(|wanted| wanted == name));
    let outcomes: Vec<_> = names.into_iter().map(|name| outcome(&volumes, name, !args.dry_run)).collect();
    volumes.close()?;
    if let (Some(name), true) = (&args.name, outcomes.is_empty()) {
        bail!("there is no volume {name}: linerate volume list shows them");
    }
    match args.json {
        true => say!("{}", serde_json::to_string_pretty(&outcomes.iter().map(as_json).collect::<Vec<_>>())?),
        false => show(&outcomes),
    }
    Ok(code(&outcomes))
}

/// Begins the index anew, and says where the old one is.
fn replace(state: &Path) -> anyhow::Result<ExitCode> {
    let Some(volumes) = Volumes::replace(state)? else {
        bail!(
            "there is no index in {}: a server makes one when it first serves a writable volume",
            state.display()
        );
    };
    if let Some((aside, why)) = volumes.replaced() {
        say!("{why}; it is kept as {}, and a new index is begun", aside.display());
        say!("start the server: its volumes keep their numbers by the marks on their directories");
    }
    volumes.close()?;
    Ok(ExitCode::SUCCESS)
}

/// Checks a volume, with a progress bar on a terminal.
fn outcome(volumes: &Volumes, name: String, repair: bool) -> VolumeOutcome {
    let progress = Arc::new(CheckProgress::default());
    let bar = ProgressBar::with_draw_target(None, cli::bar::target()).with_prefix(name.clone());
    bar.set_style(ProgressStyle::with_template("{spinner} {prefix}: {msg} [{elapsed}]").expect("it is one"));
    let checked = std::thread::scope(|scope| {
        let checking = scope.spawn(|| volumes.check(&name, repair, &progress));
        while !checking.is_finished() {
            bar.set_message(match (progress.names(), progress.records()) {
                (names, 0) => format!("{} compared", counted(names, "name", "names")),
                (names, records) => format!(
                    "{} and {} compared",
                    counted(names, "name", "names"),
                    counted(records, "record", "records")
                ),
            });
            bar.tick();
            std::thread::park_timeout(TICK);
        }
        checking.join()
    });
    bar.finish_and_clear();
    let checked = match checked {
        Ok(checked) => checked.map_err(|error| error.to_string()),
        Err(panic) => std::panic::resume_unwind(panic),
    };
    VolumeOutcome { name, checked }
}

/// Shows problems first, then a line for each volume.
fn show(outcomes: &[VolumeOutcome]) {
    for VolumeOutcome { name, checked } in outcomes {
        match checked {
            Err(why) => say!("{name}: cannot be compared: {why}"),
            Ok(VolumeChecked { report, overlaps }) => {
                for problem in &report.problems {
                    let what = if problem.mended { "mended" } else { "left" };
                    say!("{name}: {} ({what})", problem.trouble);
                }
                let listed = report.problems.len() as u64;
                if report.found > listed {
                    say!("{name}: and {} more", report.found - listed);
                }
                for other in overlaps {
                    say!("{name}: its directory and that of {other} lie one inside the other (left)");
                }
            }
        }
    }
    let mut table = table(["volume", "names", "records", "wrong", "mended", "left"], &[1, 2, 3, 4, 5]);
    for VolumeOutcome { name, checked } in outcomes {
        let Ok(VolumeChecked { report, overlaps }) = checked else { continue };
        let wrong = report.found + overlaps.len() as u64;
        let figures = [report.names, report.records, wrong, report.mended, wrong - report.mended];
        let figures = figures.map(|figure| figure.to_string());
        table.add_row(std::iter::once(name.clone()).chain(figures));
    }
    if !table.is_empty() {
        say!("{}", table.trim_fmt());
    }
}

fn as_json(outcome: &VolumeOutcome) -> serde_json::Value {
    let VolumeOutcome { name, checked } = outcome;
    let VolumeChecked { report, overlaps } = match checked {
        Ok(checked) => checked,
        Err(why) => return json!({ "name": name, "error": why }),
    };
    let problem = |problem: &Problem| json!({ "kind": problem.trouble.word(), "what": problem.trouble.to_string(), "mended": problem.mended });
    let problems: Vec<_> = report.problems.iter().map(problem).collect();
    json!({
        "name": name,
        "directories": report.directories,
        "names": report.names,
        "descriptors": report.descriptors,
        "records": report.records,
        "found": report.found,
        "mended": report.mended,
        "holds": report.holds.map(|holds| json!({ "bytes": holds.bytes, "files": holds.files })),
        "problems": problems,
        "overlaps": overlaps,
    })
}

/// Returns the exit code that the help names; of several volumes the worst counts.
fn code(outcomes: &[VolumeOutcome]) -> ExitCode {
    let checked = || outcomes.iter().filter_map(|outcome| outcome.checked.as_ref().ok());
    match () {
        () if outcomes.iter().any(|outcome| outcome.checked.is_err()) => ExitCode::FAILURE,
        () if checked().all(VolumeChecked::is_clean) => ExitCode::SUCCESS,
        () if checked().all(VolumeChecked::is_mended) => ExitCode::from(MENDED),
        () => ExitCode::from(LEFT),
    }
}

const MENDED: u8 = 3;
const LEFT: u8 = 4;
/// Time between two looks at how far it has come.
const TICK: Duration = Duration::from_millis(100);
