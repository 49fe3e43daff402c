//! `linerate doctor`: what kernel, limits and NICs give, and what to change.

use std::process::ExitCode;

use lane::layout::{Layout, Wishes};
use lane::probe::{self, Finding, Verdict};
use lane::topology::Topology;
use serde_json::json;
use server::config::ServerSection;

use crate::output::say;

/// Flags of `linerate doctor`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// JSON for scripts
    #[arg(long)]
    json: bool,
}

/// Fails when something keeps the server from working, so that scripts can ask.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let findings = probe::examine_machine();
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
