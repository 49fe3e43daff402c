//! A run from its beginning to its end, and how one that failed is told.

use std::fmt::Write;
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::known::Known;
use crate::operation::{Look, Step};
use crate::reduce::reduce;
use crate::run::Run;
use crate::site::Site;

/// The step that a run failed at, and why.
#[derive(Debug)]
pub struct Failure {
    /// Number of steps that were begun.
    pub begun: usize,
    /// Error that was found.
    pub error: anyhow::Error,
}

/// Number of steps that were done, and the failure.
#[derive(Debug)]
pub struct Outcome {
    /// Steps whose parties were there.
    pub done: usize,
    /// Failure that ended the run early, or was found at its end.
    pub failure: Option<Failure>,
}

/// A failing run, reduced.
#[derive(Debug)]
pub struct Reduced {
    /// Steps that are left.
    pub steps: Vec<Step>,
    /// Error by which it fails.
    pub error: anyhow::Error,
}

/// Does these steps on a fresh tree, on the current lane. Descriptors of removed files are to be closed so soon after
/// their last opens.
///
/// # Errors
/// The run could not begin.
pub async fn go_through(
    site: Box<dyn Site>,
    known: Vec<Known>,
    steps: Vec<Step>,
    closed_within: Duration,
) -> anyhow::Result<Outcome> {
    let mut run = Run::new(site, known).await.context("the beginning of a run")?;
    let mut done = 0;
    for (at, step) in steps.iter().enumerate() {
        let stepped = lane::time::timeout(STEP_MAX, run.step(step)).await;
        match stepped.unwrap_or_else(|_| Err(anyhow::anyhow!("it takes more than {STEP_MAX:?}"))) {
            Ok(is_done) => done += usize::from(is_done),
            Err(error) => {
                let error = error.context(step.operation.to_string());
                return Ok(Outcome { done, failure: Some(Failure { begun: at + 1, error }) });
            }
        }
    }
    let ended = run.ends(closed_within).await;
    let failure = ended.err().map(|error| Failure { begun: steps.len(), error });
    Ok(Outcome { done, failure })
}

/// Leaves steps out for as long as the run fails in the same way, within a time.
pub fn reduced(
    steps: &[Step],
    failure: Failure,
    within: Duration,
    mut live: impl FnMut(&[Step]) -> anyhow::Result<Outcome>,
) -> Reduced {
    let mut error = failure.error;
    let begun = Instant::now();
    let steps = reduce(&steps[..failure.begun], within, |steps| match live(steps) {
        Ok(Outcome { failure: Some(failure), .. }) => {
            let is_same = kind(&failure.error) == kind(&error);
            if is_same {
                error = failure.error;
            }
            is_same
        }
        Ok(_) => false,
        Err(error) => {
            eprintln!("after {:?} an attempt could not be made: {error:#}", begun.elapsed());
            false
        }
    });
    Reduced { steps, error }
}

/// Prints a reduced run as a sequence.
pub fn explain(reduced: &Reduced) -> String {
    let mut text = format!("reduced to {} steps:\n", reduced.steps.len());
    for step in &reduced.steps {
        let looks = [(step.looks.afs, " AFS"), (step.looks.smb, " SMB"), (step.looks.http, " HTTP")];
        let who = |which: Look| -> String {
            looks.iter().filter(|(look, _)| *look == which).map(|(_, who)| *who).collect()
        };
        let (all, nothing) = (who(Look::All), who(Look::Nothing));
        let _ = write!(text, "  {:>4} {}", step.index, step.operation);
        for (who, what) in [(all, "all is seen by"), (nothing, "nothing by")] {
            if !who.is_empty() {
                let _ = write!(text, " ({what}{who})");
            }
        }
        text.push('\n');
    }
    let _ = write!(text, "  {:#}", reduced.error);
    text
}

/// Prints the places of steps in their run, as `--only` takes them.
pub fn places(steps: &[Step]) -> String {
    let places: Vec<_> = steps.iter().map(|step| step.index.to_string()).collect();
    places.join(",")
}

/// Returns the first words of the error: a shorter run that fails by something else is no part of the longer one.
fn kind(error: &anyhow::Error) -> String {
    error.root_cause().to_string().split(' ').take(3).collect::<Vec<_>>().join(" ")
}

/// A removed file is closed so soon after its last open: twice the time that the server keeps unused files open, and
/// some for a busy machine;
pub const CLOSED_WITHIN: Duration = Duration::from_secs(13);
/// it is taken for one that stays open while a run is reduced.
pub const CLOSED_SOON: Duration = Duration::from_millis(1500);
/// No server that works takes longer for a step and its looks.
const STEP_MAX: Duration = Duration::from_secs(120);
