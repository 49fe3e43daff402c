//! `linerate doctor`: what kernel, limits, NICs and the directories that are served give, and what to change.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lane::layout::{Layout, Wishes};
use lane::probe::{self, Area, Finding, Verdict};
use lane::topology::Topology;
use serde_json::json;
use server::config::{Config, ServerSection};

use crate::output::{self, keep_names, say, table_within, wrapped};

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
    findings.extend(state.as_deref().and_then(state_trouble));
    findings.extend(dirs.iter().filter_map(|dir| descriptors::of(dir)));
    findings.extend(dirs.iter().filter_map(|dir| lists(dir)));
    if args.json {
        let findings: Vec<_> = findings.iter().map(as_json).collect();
        say!("{}", serde_json::to_string_pretty(&findings)?);
    } else {
        let columns = output::columns().or_else(output::columns_wished).unwrap_or(COLUMNS);
        say!("{}", report(&findings, columns));
        if let Some(lanes) = lanes(columns) {
            let title = "Which lanes serve what, unless the configuration says otherwise:";
            say!("\n{}\n{lanes}", wrapped(title, columns.into(), 2));
        }
    }
    let works = findings.iter().all(|finding| finding.verdict != Verdict::Bad);
    Ok(if works { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Findings for a person, then what to do, the worst first. No line is longer than so many columns, but for what is to be copied:
/// commands and lines of a configuration.
fn report(findings: &[Finding], columns: u16) -> String {
    let mut table = table_within(Some(columns), ["AREA", "NAME", "FOUND", "WANTED", ""], &[]);
    for Finding { area, name, found, wanted, verdict, .. } in findings {
        table.add_row([area.to_string(), name.clone(), found.clone(), wanted.clone(), verdict.to_string()]);
    }
    keep_names(&mut table, 1);
    let mut text = table.trim_fmt();
    let mut advised: Vec<&Finding> = findings.iter().filter(|finding| finding.advice.is_some()).collect();
    advised.sort_by_key(|finding| std::cmp::Reverse(finding.verdict));
    for (at, finding) in advised.iter().enumerate() {
        let Finding { name, verdict, advice, commands, config, .. } = finding;
        let advice = advice.as_deref().unwrap_or_default();
        let told = format!("{}. [{verdict}] {name}: {advice}", at + 1);
        text += &format!("\n{}{}", if at == 0 { "\n" } else { "" }, wrapped(&told, columns.into(), 3));
        commands.iter().for_each(|command| text += &format!("\n       {command}"));
        if let Some(config) = config {
            text += "\n   and in the configuration:";
            config.lines().for_each(|line| text += &format!("\n       {line}"));
        }
    }
    text
}

/// Returns what keeps the access lists of a volume from being gone by, if anything does.
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

/// Returns what keeps a server of this user from using the state directory: others could change what is in it.
fn state_trouble(state: &Path) -> Option<Finding> {
    let advice = server::state_dir::trouble(state)?;
    let path = state.display().to_string().replace('\'', r"'\''");
    Some(Finding {
        area: Area::Trees,
        name: "state directory's owner".to_owned(),
        found: "others than the server can change it".to_owned(),
        wanted: "root's or the server's, written by its owner alone".to_owned(),
        verdict: Verdict::Bad,
        advice: Some(advice),
        commands: vec![format!("chown USER '{path}' && chmod go-w '{path}'")],
        config: None,
    })
}

/// Returns a line for each silo that a server with the default configuration has here.
fn lanes(columns: u16) -> Option<String> {
    let topology = Topology::of_this_machine().ok()?;
    let server = ServerSection::default();
    let wishes = Wishes { silos: server.silos, share_cores: server.share_cores, ..Wishes::default() };
    let layout = Layout::new(&topology, &wishes).ok()?;
    let lines = server::who_serves_what(&layout, server.nodes_without_nic);
    let line = |line: &String| wrapped(&format!("  {line}"), columns.into(), 4);
    Some(lines.iter().map(line).collect::<Vec<_>>().join("\n"))
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

/// Width where the output is no terminal.
const COLUMNS: u16 = 80;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_is_wider_than_the_terminal_but_what_is_to_be_copied() {
        let finding = |name: &str, advice: Option<&str>| Finding {
            area: Area::Network,
            name: name.to_owned(),
            found: "a value that takes many words to say, as those of queues and their processors do"
                .to_owned(),
            wanted: "another one, told in no fewer words than what was found".to_owned(),
            verdict: Verdict::Warn,
            advice: advice.map(str::to_owned),
            commands: vec!["ethtool -L eth0 combined 16 && ".repeat(6)],
            config: Some("[server]\nlanes = 4".to_owned()),
        };
        let advice = "give the interface as many queues as there are lanes, so that packets of a connection come where it is \
                      served, and no other processor is asked for them on their way";
        let findings =
            [finding("eth0 queues", Some(advice)), finding("/srv/a/path/that/is/longer/than/most", None)];
        for columns in [60, 80, 132] {
            let told = report(&findings, columns);
            let is_copied = |line: &&str| !line.starts_with("       ");
            for line in told.lines().filter(is_copied) {
                assert!(line.chars().count() <= columns.into(), "{columns}: {line}");
            }
            assert!(told.contains(&findings[0].commands[0]), "{told}");
            let words: Vec<_> = told.split_whitespace().collect();
            let advice: Vec<_> = advice.split_whitespace().collect();
            assert!(words.windows(advice.len()).any(|part| part == advice), "{told}");
        }
    }
}
