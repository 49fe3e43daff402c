//! `linerate doctor`: what kernel, limits, NICs and the directories that are served give, and what to change.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lane::layout::{Layout, Wishes};
use lane::probe::{self, Area, Finding, Verdict};
use lane::topology::Topology;
use serde_json::json;
use server::config::{Config, ServerSection};

use crate::output::say;

mod descriptors;

/// Flags of `linerate doctor`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Directories that are to be served
    dirs: Vec<PathBuf>,
    /// Configuration file, whose directories are looked at
    #[arg(short, long, value_name = "FILE", conflicts_with = "dirs")]
    config: Option<PathBuf>,
    /// JSON for scripts
    #[arg(long)]
    json: bool,
}

/// Fails when something keeps the server from working, so that scripts can ask.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut findings = probe::examine_machine();
    let (dirs, state) = match &args.config {
        Some(file) => {
            let config = Config::load(file, &crate::serve::services())?;
            (config.volumes.iter().map(|volume| volume.path.clone()).collect(), config.server.state_dir())
        }
        None => (args.dirs.clone(), server::config::default_state_dir()),
    };
    findings.extend(probe::examine_trees(dirs.iter().map(PathBuf::as_path), state.as_deref()));
    findings.extend(dirs.iter().filter_map(|dir| descriptors::of(dir)));
    findings.extend(dirs.iter().filter_map(|dir| lists(dir)));
    if args.json {
        let findings: Vec<_> = findings.iter().map(as_json).collect();
        say!("{}", serde_json::to_string_pretty(&findings)?);
    } else {
        say!("{}", probe::report(&findings).to_string().trim_end());
        if let Some(lanes) = lanes() {
            say!("\nWhich lanes serve what, unless the configuration says otherwise:\n{lanes}");
        }
    }
    let works = findings.iter().all(|finding| finding.verdict != Verdict::Bad);
    Ok(if works { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What keeps the access lists of a volume from being gone by, if anything does.
fn lists(dir: &Path) -> Option<Finding> {
    let advice = server::lists::trouble(dir, server::lists::writes_trusted_attributes())?;
    Some(Finding {
        area: Area::Trees,
        name: format!("{} access lists", dir.display()),
        found: "not where the server goes by them".to_owned(),
        wanted: "where the volume keeps them".to_owned(),
        verdict: Verdict::Warn,
        advice: Some(advice),
        commands: vec![format!(
            "linerate acl convert '{}'",
            dir.display().to_string().replace('\'', r"'\''")
        )],
        config: None,
    })
}

/// A line for each silo that a server with the default configuration has here.
fn lanes() -> Option<String> {
    let topology = Topology::of_this_machine().ok()?;
    let server = ServerSection::default();
    let wishes = Wishes { silos: server.silos, share_cores: server.share_cores, ..Wishes::default() };
    let layout = Layout::new(&topology, &wishes).ok()?;
    let lines = server::who_serves_what(&layout, server.nodes_without_nic);
    Some(lines.iter().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n"))
}

fn as_json(finding: &Finding) -> serde_json::Value {
    json!({
        "area": finding.area.to_string(),
        "name": finding.name,
        "found": finding.found,
        "wanted": finding.wanted,
        "verdict": finding.verdict.to_string(),
        "advice": finding.advice,
        "commands": finding.commands,
        "config": finding.config,
    })
}
