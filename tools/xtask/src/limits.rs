//! `cargo xtask limits`: everything that clients share, and how much of it one may have, as `docs/reference/limits.md`.
//!
//! A limit is told where the code sets it: a block of comments above its constant or option, one key a line.
//!
//! ```text
//! //@ limit: open pipes
//! //@ section: SMB
//! //@ unit: pipe
//! //@ connection: {PER_SESSION_MAX} of a session
//! //@ all: process: {}
//! //@ empty: STATUS_INSUFFICIENT_RESOURCES; others feel nothing
//! //@ counter: smb_pipes_displaced
//! //@ attack: smb-pools
//! ```
//!
//! `{}` is the value of the constant or option below, `{NAME}` that of another one of the file, and `{NAME:b}` tells it in KiB, MiB or
//! GiB. At least one of `connection`, `address` and `all` is there; `all` begins with `process:` or `lane:`. Counters are named as
//! `/metrics` has them, without `linerate_` and `_total`; `none` where there is nothing to count. Attacks are scenarios of
//! `cargo xtask hostile`. A limit that clients cannot reach says `reach: server` and `attack: none, REASON`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, ensure};

use crate::page::push_lines;
use crate::{hostile, spec};

mod value;

/// Flags of `cargo xtask limits`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write nothing; fail where the page is not that of the code
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let root = spec::root();
    let page = page(&limits(&root)?)?;
    let path = root.join("docs/reference/limits.md");
    if args.check {
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        ensure!(kept == page, "docs/reference/limits.md is not that of the code: run `cargo xtask limits`");
        return Ok(());
    }
    std::fs::write(&path, page).with_context(|| format!("cannot write {}", path.display()))
}

/// One limit: an entry of the page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Limit {
    /// Pool that clients share.
    pub(crate) pool: String,
    /// The part of the page.
    pub(crate) section: String,
    unit: String,
    /// Shares of one connection, one address and all.
    shares: [String; 3],
    empty: String,
    /// Counters as `/metrics` has them, without `linerate_`.
    pub(crate) counters: Vec<String>,
    pub(crate) attack: Attack,
    /// `FILE:LINE`.
    place: String,
}

/// Attack that takes all that one address can get of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Attack {
    /// Scenarios of `cargo xtask hostile`.
    By(Vec<String>),
    /// Clients cannot reach the limit, for this reason.
    None(String),
}

impl Default for Attack {
    fn default() -> Self {
        Self::By(Vec::new())
    }
}

/// Returns every limit that the code tells, in the order of the page.
pub(crate) fn limits(root: &Path) -> anyhow::Result<Vec<Limit>> {
    let files = spec::all_sources(root)?;
    let (mut limits, mut faults, mut exported) = (Vec::new(), Vec::new(), Exported::default());
    for file in files {
        let name = file.strip_prefix(root)?.to_str().context("a path that is not UTF-8")?.to_owned();
        if !name.contains("/src/") || name.contains("/tests/") || name.contains("/testkit/") {
            continue;
        }
        let text = std::fs::read_to_string(&file)?;
        // Tests are last in a file.
        let (text, tests) = text.split_once("#[cfg(test)]\nmod tests").unwrap_or((&text, ""));
        if name.starts_with("crates/") && tests.contains("//@ limit: ") {
            faults.push(format!("{name}: a limit among the tests, which nobody reads"));
        }
        exported.read(text);
        for told in told(&name, text) {
            match told {
                Ok(limit) => limits.push(limit),
                Err(error) => faults.push(format!("{error:#}")),
            }
        }
    }
    for limit in &limits {
        faults.extend(check(limit, &exported).into_iter().map(|fault| {
            let Limit { place, pool, .. } = limit;
            format!("{place}: {pool}: {fault}")
        }));
    }
    let mut named = BTreeSet::new();
    let twice = limits.iter().filter(|limit| !named.insert((&limit.section, &limit.pool)));
    faults.extend(twice.map(|limit| format!("{}: {} is told twice", limit.place, limit.pool)));
    ensure!(faults.is_empty(), "{}", faults.join("\n"));
    let at = |limit: &Limit| PAGE.find(&mark(&limit.section));
    limits.sort_by_key(at);
    Ok(limits)
}

/// Returns the limits that a file tells.
fn told(file: &str, text: &str) -> Vec<anyhow::Result<Limit>> {
    let lines: Vec<&str> = text.lines().collect();
    let begins = lines.iter().enumerate().filter(|(_, line)| line.trim_start().starts_with("//@ limit: "));
    begins
        .map(|(at, _)| {
            let place = format!("{file}:{}", at + 1);
            limit(place.clone(), &lines[at..], text).context(place)
        })
        .collect()
}

/// Reads the limit whose block begins with the first of these lines.
fn limit(place: String, lines: &[&str], text: &str) -> anyhow::Result<Limit> {
    let mut said: BTreeMap<&str, String> = BTreeMap::new();
    let mut key = "limit";
    for (n, line) in lines.iter().map_while(|line| line.trim_start().strip_prefix("//@ ")).enumerate() {
        let begun = KEYS.into_iter().find_map(|key| Some((key, line.strip_prefix(key)?.strip_prefix(": ")?)));
        match begun {
            Some(("limit", _)) if n > 0 => break,
            Some((begun, said_here)) => {
                key = begun;
                let before = said.insert(key, said_here.trim().to_owned());
                ensure!(before.is_none(), "{key} is said twice");
            }
            None => {
                let kept = said.entry(key).or_default();
                kept.push(' ');
                kept.push_str(line.trim());
            }
        }
    }
    // Of the line of code that it stands above.
    let is_code = |line: &&&str| !line.trim_start().starts_with("//") && !line.trim_start().starts_with("#[");
    let here = lines.iter().find(is_code).copied().unwrap_or_default();
    let mut filled = |key: &str| value::fill(&said.remove(key).unwrap_or_default(), here, text);
    let shares = [filled("connection")?, filled("address")?, filled("all")?];
    let (unit, empty) = (filled("unit")?, filled("empty")?);
    let mut part = |key: &str| said.remove(key).filter(|said| !said.is_empty());
    let mut needed = |key: &str| part(key).with_context(|| format!("it does not say its {key}"));
    let (pool, section, counter, attack) =
        (needed("limit")?, needed("section")?, needed("counter")?, needed("attack")?);
    ensure!(
        !unit.is_empty() && !empty.is_empty(),
        "it does not say its unit, or what happens when it is empty"
    );
    ensure!(shares.iter().any(|share| !share.is_empty()), "it does not say who may have how much");
    let all = &shares[2];
    ensure!(
        all.is_empty() || ["process: ", "lane: "].iter().any(|scope| all.starts_with(scope)),
        "all says whether it is of the process or of a lane: {all}"
    );
    let is_of_server = match part("reach").as_deref() {
        None | Some("client") => false,
        Some("server") => true,
        Some(reach) => anyhow::bail!("who is {reach}?"),
    };
    let attack = match (attack.strip_prefix("none"), is_of_server) {
        (Some(reason), true) => Attack::None(reason.trim_start_matches(", ").to_owned()),
        (None, false) => Attack::By(attack.split(", ").map(str::to_owned).collect()),
        (Some(_), false) => anyhow::bail!("clients can reach it, and nothing attacks it"),
        (None, true) => anyhow::bail!("clients cannot reach it, and something attacks it"),
    };
    ensure!(attack != Attack::None(String::new()), "it does not say why nothing attacks it");
    let counters = match counter.as_str() {
        "none" => Vec::new(),
        counters => counters.split(", ").map(str::to_owned).collect(),
    };
    Ok(Limit { pool, section, unit, shares, empty, counters, attack, place })
}

/// Returns what is wrong with it.
fn check(limit: &Limit, exported: &Exported) -> Vec<String> {
    let mut faults = Vec::new();
    if !PAGE.contains(&mark(&limit.section)) {
        faults.push(format!("there is no section {}", limit.section));
    }
    faults.extend(
        limit
            .counters
            .iter()
            .filter(|counter| !exported.has(counter))
            .map(|counter| format!("there is no counter {counter}")),
    );
    if let Attack::By(attacks) = &limit.attack {
        let unknown = attacks.iter().filter(|attack| !hostile::names().any(|name| name == **attack));
        faults.extend(unknown.map(|attack| format!("there is no scenario {attack}")));
    }
    faults
}

/// Names of counters that the code declares.
#[derive(Debug, Default)]
struct Exported {
    /// Families without their area, and those of them with a label: `refused` and `refused{reason="busy"}`.
    names: BTreeSet<String>,
}

impl Exported {
    fn read(&mut self, text: &str) {
        // The volumes' gauges are written as they are.
        let whole = text.split("\"linerate_").skip(1).filter_map(|rest| rest.split('"').next());
        self.names.extend(whole.map(str::to_owned));
        for line in text.lines().map(str::trim) {
            // Blocks that make their readings themselves.
            let named = line.strip_prefix("name: \"").and_then(|rest| rest.strip_suffix("\","));
            self.names.extend(named.map(str::to_owned));
            let Some((declared, _)) = line.split_once(": \"") else { continue };
            let declared =
                declared.strip_prefix("count ").or(declared.strip_prefix("gauge ")).unwrap_or(declared);
            match declared.split_once(" as ") {
                None => _ = self.names.insert(declared.to_owned()),
                Some((_, family)) => {
                    let Some((family, label)) = family.split_once(" [") else { continue };
                    let label = label.trim_end_matches(']').replace(" = ", "=");
                    self.names.insert(family.to_owned());
                    self.names.insert(format!("{family}{{{label}}}"));
                }
            }
        }
    }

    fn has(&self, counter: &str) -> bool {
        let of = |area: &&str| counter.strip_prefix(*area).and_then(|rest| rest.strip_prefix('_'));
        self.names.contains(counter) || AREAS.iter().filter_map(of).any(|name| self.names.contains(name))
    }
}

/// Returns the page: the template with a section's entries at each mark.
fn page(limits: &[Limit]) -> anyhow::Result<String> {
    let mut page = String::new();
    for line in PAGE.lines() {
        let Some(section) = line.strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}")) else {
            let _ = writeln!(page, "{line}");
            continue;
        };
        let rows: Vec<_> = limits.iter().filter(|limit| limit.section == section).collect();
        ensure!(!rows.is_empty(), "there is no limit of {section}");
        for limit in rows {
            push_entry(&mut page, limit);
        }
    }
    Ok(page)
}

/// Appends the entry of a limit, whose form the page's head explains.
fn push_entry(page: &mut String, limit: &Limit) {
    let Limit { pool, unit, shares: [connection, address, all], empty, counters, attack, .. } = limit;
    let all = all.split_once(": ").unwrap_or_default();
    let shares = [("connection", &connection[..]), ("address", address), all];
    let shares: Vec<_> = shares
        .into_iter()
        .filter(|(_, share)| !share.is_empty())
        .map(|(whose, share)| format!("*{whose}* {share}"))
        .collect();
    push_lines(page, "- ", "  ", &format!("**{pool}** ({unit}): {}", shares.join("; ")));
    let empty = empty.strip_suffix(ALONE).map_or_else(|| empty.clone(), |empty| format!("{empty}†"));
    push_lines(page, "  - ", "    ", &format!("*empty* {empty}"));
    let mut counters = counters.iter().map(|counter| format!("`{counter}`")).collect::<Vec<_>>().join(", ");
    if !counters.is_empty() {
        counters.push_str("; ");
    }
    let attack = match attack {
        Attack::By(attacks) => attacks.join(", "),
        Attack::None(reason) => format!("none: {reason}"),
    };
    push_lines(page, "  - ", "    ", &format!("{counters}*attack* {attack}"));
}

/// What most limits say of others, for which the page has a sign.
const ALONE: &str = "; others feel nothing";

/// Returns where the entries of a section stand in the template.
fn mark(section: &str) -> String {
    format!("{{{{{section}}}}}\n")
}

const PAGE: &str = include_str!("limits/page.md");

const KEYS: [&str; 10] =
    ["limit", "section", "unit", "connection", "address", "all", "empty", "counter", "attack", "reach"];

/// Areas of counters: the first words of the names of counters.
const AREAS: [&str; 16] = [
    "access_log",
    "admin",
    "afs",
    "audit_log",
    "descriptors",
    "diagnostics",
    "http",
    "index",
    "lane",
    "oob",
    "rate",
    "rx",
    "server",
    "silo",
    "smb",
    "vfs",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_that_of_the_code() {
        run(&Args { check: true }).unwrap();
    }

    #[test]
    fn metrics_that_documents_name_are_those_of_the_code() {
        let (root, mut exported) = (spec::root(), Exported::default());
        let files = spec::all_sources(&root).unwrap();
        files.iter().for_each(|file| exported.read(&std::fs::read_to_string(file).unwrap()));
        let read = |name: &str| std::fs::read_to_string(root.join(name)).unwrap();
        let monitoring = read("docs/operators/monitoring.md");
        let named = monitoring.split("linerate_").skip(1).map(|rest| {
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let name = rest.split(|c| !is_name(c)).next().unwrap();
            name.strip_suffix("_total").unwrap_or(name)
        });
        let named: Vec<_> = named.collect();
        assert!(named.len() > 10, "{named:?}");
        for name in named {
            assert!(exported.has(name), "monitoring.md: there is no metric {name}");
        }
        let changelog = read("CHANGELOG.md");
        let (_, renamed) = changelog.split_once("| metric before").unwrap();
        let rows: Vec<_> = renamed.lines().skip(2).take_while(|line| line.starts_with('|')).collect();
        assert!(rows.len() > 10, "{rows:?}");
        for row in rows {
            let names: Vec<_> = row.split('`').skip(1).step_by(2).collect();
            let (old, new) = (names[0], names[names.len() - 1]);
            assert!(!exported.has(old) && exported.has(new), "CHANGELOG.md: {row}");
        }
    }

    const GOOD: &str = r#"
        const OTHER: u64 = 64 << 10;
        //@ limit: open pipes
        //@ section: SMB
        //@ unit: pipe
        //@ connection: {OTHER:b} of a
        //@ session
        //@ all: process: {}
        //@ empty: refused
        //@ counter: smb_refused{reason="a"}, smb_open
        //@ attack: smb-hoards
        /// Of all.
        const ALL_MAX: usize = 16_384;
    "#;

    fn only(text: &str) -> anyhow::Result<Limit> {
        let mut told = told("crates/a/src/a.rs", text);
        assert_eq!(told.len(), 1);
        told.remove(0)
    }

    fn exported() -> Exported {
        let mut exported = Exported::default();
        exported.read("    count a as refused [reason = \"a\"]: \"Refused.\",\n    gauge open: \"Open.\",\n");
        exported
    }

    #[test]
    fn a_limit_is_read_with_the_values_of_the_code() {
        let limit = only(GOOD).unwrap();
        assert_eq!(limit.shares, ["64 KiB of a session", "", "process: 16,384"]);
        assert_eq!(limit.counters, ["smb_refused{reason=\"a\"}", "smb_open"]);
        assert_eq!(limit.attack, Attack::By(vec!["smb-hoards".to_owned()]));
        assert_eq!(check(&limit, &exported()), [""; 0]);
        let mut entry = String::new();
        push_entry(&mut entry, &limit);
        let wanted = "- **open pipes** (pipe): *connection* 64 KiB of a session; *process* 16,384\n  - *empty* refused\n  \
                      - `smb_refused{reason=\"a\"}`, `smb_open`; *attack* smb-hoards\n";
        assert_eq!(entry, wanted);
        push_entry(&mut entry, &only(&GOOD.replace("refused\n", "refused; others feel nothing\n")).unwrap());
        assert!(entry.contains("*empty* refused†\n"), "{entry}");
    }

    #[test]
    fn what_lacks_a_key_a_counter_or_an_attack_is_refused() {
        for (text, why) in [
            (GOOD.replace("//@ unit: pipe\n", ""), "its unit"),
            (GOOD.replace("//@ empty: refused\n", ""), "when it is empty"),
            (GOOD.replace("//@ section: SMB\n", ""), "its section"),
            (GOOD.replace("//@ counter: smb_refused{reason=\"a\"}, smb_open\n", ""), "its counter"),
            (GOOD.replace("//@ attack:", "//@ or"), "its attack"),
            (GOOD.replace("all: process:", "all: some:"), "of the process or of a lane"),
            (GOOD.replace("//@ unit", "//@ empty: all\n//@ unit"), "said twice"),
            (GOOD.replace("{OTHER:b}", "{ANOTHER}"), "no value of ANOTHER"),
            (GOOD.replace("smb-hoards", "none, it is hard"), "nothing attacks it"),
            (GOOD.replace("smb-hoards", "smb-hoards\n//@ reach: server"), "something attacks it"),
            (GOOD.replace("smb-hoards", "none\n//@ reach: server"), "why nothing attacks"),
        ] {
            let error = format!("{:#}", only(&text).unwrap_err());
            assert!(error.contains(why), "{why}: {error}");
        }
        for (text, why) in [
            (GOOD.replace("smb-hoards", "smb-nothing"), "no scenario smb-nothing"),
            (GOOD.replace("reason=\"a\"", "reason=\"b\""), "no counter smb_refused"),
            (GOOD.replace("smb_open", "nfs_open"), "no counter nfs_open"),
            (GOOD.replace("section: SMB", "section: NFS"), "no section NFS"),
        ] {
            let faults = check(&only(&text).unwrap(), &exported()).join(", ");
            assert!(faults.contains(why), "{why}: {faults}");
        }
        let server = GOOD.replace("smb-hoards", "none, lanes do it\n//@ reach: server");
        assert_eq!(only(&server).unwrap().attack, Attack::None("lanes do it".to_owned()));
    }
}
