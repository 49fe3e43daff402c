//! A million callbacks: a hundred clients rely on ten thousand files each, whose directory is renamed.

use serde::{Deserialize, Serialize};
use testkit::netns::Namespace;

use super::ours::Ours;
use super::row::MANY;
use super::servers::VOLUME;
use super::site::{self};
use crate::compare::programs::{Programs, json};
use crate::compare::stock::link::{inside, on_own_thread};

/// The row's JSON line.
#[derive(Debug, Serialize)]
pub(super) struct Line {
    load: &'static str,
    #[serde(flatten)]
    report: Report,
    bytes_per_callback_most: f64,
    told_seconds_most: f64,
    reached: bool,
}

/// Fields that the comparison reads from the report of `linerate bench callbacks`.
#[derive(Debug, Serialize, Deserialize)]
struct Report {
    clients: u64,
    files: u64,
    callbacks: u64,
    asking_seconds: f64,
    server_bytes_grown: u64,
    server_bytes_per_callback: f64,
    rename_seconds: f64,
    told_seconds: f64,
    not_told: u64,
}

/// Measures Linerate alone: the bars are no ratios.
pub(super) fn measure(programs: &Programs<'_>) -> anyhow::Result<Line> {
    let work = tempfile::Builder::new().prefix("linerate-compare").tempdir_in("/dev/shm")?;
    site::fill(&work.path().join("tree"))?;
    let clients = on_own_thread(Namespace::new)?;
    let ours = Ours::start(work.path(), &clients, site::MTU, false, "", programs)?;
    let server = ours.server();
    let report: Report = inside(&clients, || {
        let mut command = programs.command(programs.linerate, None);
        let address = format!("afs://{}/{VOLUME}/{MANY}", server.address);
        command.args(["bench", "callbacks", &address, "--json", "--clients", "100"]);
        json(command.args(["--pid", &server.process.to_string()]))
    })?;
    Ok(Line {
        load: NAME,
        bytes_per_callback_most: BYTES_MOST,
        told_seconds_most: TOLD_SECONDS_MOST,
        reached: report.callbacks >= CALLBACKS_LEAST
            && report.not_told == 0
            && report.told_seconds <= TOLD_SECONDS_MOST
            && report.server_bytes_per_callback <= BYTES_MOST,
        report,
    })
}

pub(super) const NAME: &str = "a million callbacks broken by a rename";
const CALLBACKS_LEAST: u64 = 1_000_000;
const BYTES_MOST: f64 = 100.0;
const TOLD_SECONDS_MOST: f64 = 2.0;
