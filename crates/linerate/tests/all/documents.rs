//! Checks of documents' claims: commands do what README says, and links, commands, keys and metrics that are
//! named exist.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{Launch, linerate, output, raw, tool, wait_for};

#[test]
fn the_commands_of_readme_do_in_order_what_it_says() {
    let Some(_namespace) = testkit::netns::Namespace::new_or_skip() else { return };
    let home = tempfile::tempdir().unwrap();
    let at = |name: &str| home.path().join(name);
    output(
        tool("cp", "coreutils").arg("-a").arg(root().join("demo")).arg(root().join("README.md")).arg(at("")),
    );
    std::fs::create_dir(at("tmp")).unwrap();
    // In place of /etc/linerate/accounts.toml.
    std::fs::write(at("accounts.toml"), "version = 1\n").unwrap();
    std::fs::set_permissions(at("accounts.toml"), PermissionsExt::from_mode(0o600)).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/support/readme.py");
    let mut reader = tool("python3", "python3");
    reader.arg(script).arg("README.md").arg(assert_cmd::cargo::cargo_bin!("linerate")).arg(at(""));
    reader.current_dir(at("")).env("HOME", at("")).env("XDG_STATE_HOME", at("state"));
    let told = output(reader.env("LINERATE_ACCOUNTS", at("accounts.toml")).env("NO_COLOR", "1"));
    let told: Vec<Value> = serde_json::from_slice(&told).unwrap();
    let said = |part: &str| {
        let of = |ran: &&Value| ran["command"].as_str().unwrap().contains(part);
        let ran = told.iter().find(of).unwrap_or_else(|| panic!("README has no command with {part}"));
        ran["said"].as_str().unwrap()
    };
    for ran in &told {
        let command = ran["command"].as_str().unwrap();
        // Servers run on; what is ended by Ctrl-C says so.
        let wanted: Value = match command {
            _ if command.contains(" serve ") => Value::Null,
            _ if command.ends_with(" stat") => (-2).into(),
            _ => 0.into(),
        };
        assert_eq!(ran["status"], wanted, "{command}: {}", ran["said"]);
    }
    for url in
        ["http://127.0.0.1:8080/", "https://127.0.0.1:8443/", "afs://127.0.0.1:7000/", "smb://127.0.0.1:445/"]
    {
        assert!(said("serve ./demo").contains(url), "{url}: {}", said("serve ./demo"));
    }
    let hello = std::fs::read_to_string(root().join("demo/hello.txt")).unwrap();
    assert_eq!(said("8443/hello.txt"), hello);
    assert_eq!(said("--range 0-9"), &hello[..10]);
    assert!(said("doctor").contains("io_uring"), "{}", said("doctor"));
    for listing in [said("smbclient"), said(" ls afs://")] {
        assert!(listing.contains("by-https.md") && listing.contains("by-smb.md"), "{listing}");
    }
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    assert_eq!(said("curl http://127.0.0.1:8080/by-smb.md"), readme);
    assert_eq!(std::fs::read_to_string(at("tmp/by-smb.md")).unwrap(), readme);
    let left: Vec<_> =
        std::fs::read_dir(at("tmp/files")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["by-smb.md"]);
}

/// `INSTA_UPDATE=always` writes the page anew.
#[test]
fn the_page_of_metrics_has_what_a_server_tells() {
    let Some(_namespace) = testkit::netns::Namespace::new_or_skip() else { return };
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join("files")).unwrap();
    let file = home.path().join("linerate.toml");
    std::fs::write(&file, EVERYTHING.replace("HOME", home.path().to_str().unwrap())).unwrap();
    let server = Launch::config(&file).start();
    // AFS has its counters when its lanes have taken up what the last server left.
    let scrape = wait_for("the counters of AFS", || {
        let scrape = String::from_utf8(raw::get(server.admin, "/metrics").body).unwrap();
        scrape.contains("linerate_afs_hosts_met").then_some(scrape)
    });
    let page = metrics_page(&scrape);
    let path = root().join(METRICS);
    if std::env::var("INSTA_UPDATE").as_deref() == Ok("always") {
        std::fs::write(path, page).unwrap();
        return;
    }
    assert!(page == std::fs::read_to_string(path).unwrap(), "`cargo xtask metrics` writes {METRICS} anew");
}

/// A server that has everything which tells of itself.
const EVERYTHING: &str = "\
[server]
state_dir = 'HOME/state'
[admin]
listen = '127.0.0.1:0'
[http]
listen = '127.0.0.1:0'
[https]
listen = '127.0.0.1:0'
[smb]
listen = '127.0.0.1:0'
guest = true
[afs]
listen = '127.0.0.1:7000'
[log]
access = 'HOME/access.log'
audit = 'HOME/audit.log'
[[volume]]
name = 'files'
path = 'HOME/files'
writable = 'anyone'
quota = '1G'
";

/// The page of the metrics of a scrape, a list for each first word.
fn metrics_page(scrape: &str) -> String {
    let mut helps = BTreeMap::new();
    let mut kinds = BTreeMap::new();
    let mut labels: BTreeMap<&str, BTreeMap<&str, BTreeSet<&str>>> = BTreeMap::new();
    for line in scrape.lines() {
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
            helps.insert(name, help);
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        {
            kinds.insert(name, kind);
        } else if let Some((name, list)) = line.split_once('{') {
            let family =
                name.strip_suffix("_total").filter(|family| kinds.contains_key(family)).unwrap_or(name);
            let list = list.rsplit_once('}').expect("a list of labels ends").0;
            for (label, value) in list.split(',').filter_map(|pair| pair.split_once('=')) {
                labels.entry(family).or_default().entry(label).or_default().insert(value.trim_matches('"'));
            }
        }
    }
    let mut page = "# Metrics\n\nMade by `cargo xtask metrics` of what a server tells; not to be edited.\n\n\
                    Metrics of `/metrics` at the admin address, for Prometheus: name, labels with their values, meaning. They are counters, whose \
                    samples\nend in `_total`, unless they are called a gauge. Those with the label `lane` also have `silo` (the lanes of a \
                    NUMA node): sum over\nthem. All of a section have `lane` where its heading says so.\n"
        .to_owned();
    let has_lane = |name: &str| labels.get(name).is_some_and(|labels| labels.contains_key("lane"));
    let area = |name: &str| name.trim_start_matches("linerate_").split('_').next().unwrap().to_owned();
    let mut section = String::new();
    let mut by_lane = false;
    for (name, help) in &helps {
        if area(name) != section {
            section = area(name);
            by_lane = helps.keys().filter(|other| area(other) == section).all(|other| has_lane(other));
            let _ = write!(page, "\n## {section}\n\n");
            if by_lane {
                page.push_str("All have the label `lane`.\n\n");
            }
        }
        let of_label = |(label, values): (&&str, &BTreeSet<&str>)| match *label {
            "silo" => None,
            "lane" if by_lane => None,
            // Values that a site names.
            "lane" | "volume" | "site" => Some(format!("`{label}`")),
            _ => Some(format!("`{label}`: {}", values.iter().copied().collect::<Vec<_>>().join(", "))),
        };
        let gauge = (kinds[name] != "counter").then(|| kinds[name].to_owned());
        let labels = labels.get(name).into_iter().flatten().filter_map(of_label);
        let of: Vec<_> = gauge.into_iter().chain(labels).collect();
        let of = if of.is_empty() { String::new() } else { format!(" ({})", of.join("; ")) };
        push_item(&mut page, &format!("`{name}`{of}: {help}"));
    }
    page
}

/// Appends an item of a list, in lines that end at a word.
fn push_item(page: &mut String, item: &str) {
    let mut length = 1;
    page.push('-');
    for word in item.split_whitespace() {
        if length + 1 + word.len() > LINE_MAX - 10 {
            page.push_str("\n ");
            length = 1;
        }
        page.push(' ');
        page.push_str(word);
        length += 1 + word.len();
    }
    page.push('\n');
}

#[test]
fn links_of_documents_lead_somewhere() {
    let all = documents();
    let anchors: BTreeMap<_, _> = all.iter().map(|(path, text)| (path.clone(), anchors(text))).collect();
    let leads = |from: &Path, target: &str| {
        let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
        let path = if file.is_empty() { from.to_owned() } else { from.parent().unwrap().join(file) };
        let path = path.canonicalize().ok();
        path.is_some_and(|path| {
            anchor.is_empty() || anchors.get(&path).is_none_or(|anchors| anchors.contains(anchor))
        })
    };
    let mut wrong = Vec::new();
    for (path, text) in &all {
        let links = text.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0));
        let local = links.filter(|link| !link.contains("://") && !link.contains(char::is_whitespace));
        wrong.extend(
            local.filter(|link| !leads(path, link)).map(|link| format!("{}: {link}", path.display())),
        );
    }
    // Comments name documents by their path from the root.
    for (path, text) in sources() {
        let named = text.split("docs/").skip(1).filter_map(|rest| {
            let is_part = |char: char| char.is_ascii_alphanumeric() || "/-_.#".contains(char);
            let name = rest.split(|char| !is_part(char)).next()?.trim_end_matches('.');
            name.contains(".md").then(|| format!("docs/{name}"))
        });
        let lost = named.filter(|name| !leads(&root().join("README.md"), name));
        wrong.extend(lost.map(|name| format!("{}: {name}", path.display())));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn sources_that_documents_name_exist() {
    let mut wrong = Vec::new();
    for (path, text) in documents().into_iter().filter(|(path, _)| !path.ends_with("CHANGELOG.md")) {
        for name in text.split('`').skip(1).step_by(2) {
            let is_part = |char: char| char.is_ascii_alphanumeric() || "/-_.".contains(char);
            // Of a crate; `NAME` stands for any.
            let is_source = (name.contains("/src/") || name.contains("/tests/")) && !name.contains("NAME");
            if is_source && name.chars().all(is_part) {
                let lies = |of: &str| root().join(of).join(name).exists();
                if !["", "crates"].into_iter().any(lies) {
                    wrong.push(format!("{}: {name}", path.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn metrics_and_keys_that_documents_name_exist() {
    let read = |path: &str| std::fs::read_to_string(root().join(path)).unwrap();
    let begun = |line: &str| Some(line.strip_prefix("- `")?.split_once('`')?.0.to_owned());
    let metrics: BTreeSet<_> = read(METRICS).lines().filter_map(begun).collect();
    assert!(metrics.len() > 300, "{metrics:?}");
    let families: BTreeSet<_> =
        metrics.iter().filter_map(|name| name.split('_').nth(1)).map(str::to_owned).collect();
    let (mut keys, mut tables, mut now) = (BTreeSet::new(), BTreeSet::new(), Vec::<String>::new());
    for line in read(CONFIGURATION).lines() {
        if line.starts_with("## `") {
            let named = line.split('`').skip(1).step_by(2).map(|name| name.trim_matches(['[', ']']));
            now = named.map(str::to_owned).collect();
            tables.extend(now.iter().cloned());
        }
        let cell =
            line.strip_prefix("| ").and_then(|rest| rest.split_once(" | ")).map_or("", |(cell, _)| cell);
        let named = cell.split('`').skip(1).step_by(2);
        keys.extend(named.flat_map(|key| match key.contains('.') {
            true => vec![key.to_owned()],
            false => now.iter().map(|table| format!("{table}.{key}")).collect(),
        }));
    }
    assert!(keys.len() > 80, "{keys:?}");
    let is_key = |word: &str| keys.iter().any(|key| key.split_once('.').is_some_and(|(_, key)| key == word));
    let mut wrong = Vec::new();
    for (path, text) in documents() {
        // What has changed is named by the names of its time.
        if path.ends_with("CHANGELOG.md") {
            continue;
        }
        for word in text.split('`').skip(1).step_by(2) {
            let name = word.split(['{', ' ', '=', '[']).next().unwrap_or_default();
            let is_name =
                |char: char| char.is_ascii_lowercase() || char.is_ascii_digit() || "_.".contains(char);
            let is_file = FILES.iter().any(|kind| name.ends_with(kind));
            if name.is_empty() || is_file || FOREIGN.contains(&name) || !name.chars().all(is_name) {
                continue;
            }
            if let Some((table, _)) = name.split_once('.').filter(|(table, _)| tables.contains(*table)) {
                if !keys.contains(name) {
                    wrong.push(format!("{}: {word}: no key of [{table}]", path.display()));
                }
                continue;
            }
            let full = format!("linerate_{}", name.trim_start_matches("linerate_"));
            let family = full.split('_').nth(1).unwrap_or_default();
            let is_named = name.starts_with("linerate_") || name.contains('_') && families.contains(family);
            let metric = full.strip_suffix("_total").unwrap_or(&full);
            if is_named && !metrics.contains(metric) && !metrics.contains(&full) && !is_key(name) {
                wrong.push(format!("{}: {word}: no metric, nor a key", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn commands_and_options_that_documents_name_exist() {
    let mut helps = BTreeMap::new();
    let mut help = |words: &[&str]| {
        let of = |words: &[&str]| {
            let help = linerate(words).arg("--help").output().unwrap();
            help.status.success().then(|| String::from_utf8(help.stdout).unwrap())
        };
        helps.entry(words.join(" ")).or_insert_with(|| of(words)).clone()
    };
    let mut wrong = Vec::new();
    for (path, text) in documents() {
        if path.ends_with("CHANGELOG.md") {
            continue;
        }
        for line in commands(&text) {
            let words: Vec<_> = line.split_whitespace().collect();
            let is_word = |word: &&&str| {
                word.starts_with(|char: char| char.is_ascii_lowercase())
                    && word.chars().all(|char| char.is_ascii_lowercase() || char == '-')
            };
            let Some(first) = words.first().filter(|word| is_word(word)) else { continue };
            let Some(mut told) = help(&[first]) else {
                wrong.push(format!("{}: linerate {line}: no such command", path.display()));
                continue;
            };
            if told.contains("\nCommands:\n") {
                let Some(second) = words.get(1).filter(|word| is_word(word)) else { continue };
                match help(&[first, second]) {
                    Some(of_second) => told = of_second,
                    None => wrong.push(format!("{}: linerate {line}: no such command", path.display())),
                }
            }
            let options = words.iter().map(|word| word.split(['=', '[', ']', ',']).next().unwrap());
            for option in options.filter(|word| word.starts_with("--") && word.len() > 2) {
                if !told.contains(option) && option != "--help" {
                    wrong.push(format!("{}: linerate {line}: no option {option}", path.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn documents_fit_a_screen() {
    let mut wrong = Vec::new();
    for (path, text) in with_text(every_document()) {
        let mut is_code = false;
        for (number, line) in (1..).zip(text.lines()) {
            is_code ^= line.trim_start().starts_with("```");
            let place = format!("{}:{number}", path.display());
            let length = line.chars().count();
            if length > LINE_MAX {
                wrong.push(format!("{place}: a line of {length} characters"));
            }
            if !is_code && line.starts_with('|') {
                let long = cells(line)
                    .into_iter()
                    .map(|cell| cell.chars().count())
                    .find(|&length| length > CELL_MAX);
                wrong.extend(long.map(|length| format!("{place}: a cell of {length} characters")));
            }
        }
    }
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    for text in paragraphs(&readme).into_iter().filter(|text| lines(text) > README_LINES_MAX) {
        let begin: String = text.chars().take(60).collect();
        wrong.push(format!("README.md: a paragraph of {} lines: {begin}", lines(&text)));
    }
    assert!(wrong.is_empty(), "{} faults: {wrong:#?}", wrong.len());
}

#[test]
fn cells_and_paragraphs_are_counted_as_they_are_shown() {
    assert_eq!(cells("| a | `b \\| c` |  |"), ["a", "`b \\| c`", ""]);
    let text = "# A\n\none\ntwo\n\n- three\n  four\n- five\n\n```sh\nsix\n\nseven\n```\n| eight |\n";
    assert_eq!(paragraphs(text), ["one two", "three four", "five"]);
    let (four, five) = ("word ".repeat(4 * 28), "word ".repeat(4 * 28 + 1));
    assert_eq!([lines(four.trim()), lines(five.trim())], [4, 5]);
}

/// Contents of a table row's cells.
fn cells(row: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let inner = row.trim().trim_start_matches('|');
    let (mut begin, mut before) = (0, ' ');
    for (at, char) in inner.char_indices() {
        if char == '|' && before != '\\' {
            found.push(inner[begin..at].trim());
            begin = at + 1;
        }
        before = char;
    }
    found
}

/// Paragraphs and items of lists, each joined to one line. Headings, tables and code are none.
fn paragraphs(text: &str) -> Vec<String> {
    let (mut found, mut is_code, mut is_open) = (Vec::<String>::new(), false, false);
    for line in text.lines().map(str::trim) {
        let is_fence = line.starts_with("```");
        is_code ^= is_fence;
        if is_code || is_fence || line.is_empty() || line.starts_with(['#', '|', '!']) {
            is_open = false;
            continue;
        }
        let item = line.strip_prefix("- ");
        match found.last_mut().filter(|_| is_open && item.is_none()) {
            Some(last) => {
                last.push(' ');
                last.push_str(line);
            }
            None => found.push(item.unwrap_or(line).to_owned()),
        }
        is_open = true;
    }
    found
}

/// Lines of [`LINE_MAX`] characters that a paragraph takes.
fn lines(text: &str) -> usize {
    let mut taken = (1, 0);
    for word in text.split_whitespace().map(|word| word.chars().count()) {
        taken = match taken {
            (lines, 0) => (lines, word),
            (lines, length) if length + 1 + word <= LINE_MAX => (lines, length + 1 + word),
            (lines, _) => (lines + 1, word),
        };
    }
    taken.0
}

/// Every document of the repository, those of single crates included.
fn every_document() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root()).unwrap().map(Result::unwrap) {
        let (path, name) = (entry.path(), entry.file_name().into_string().unwrap());
        let is_ours = !name.starts_with('.') && !IGNORED.contains(&&name[..]);
        if is_ours && path.is_dir() {
            found.extend(files(&path, "md"));
        } else if is_ours && name.ends_with(".md") {
            found.push(path);
        }
    }
    found
}

/// The command lines of our program in a document, from behind its name on, to where another command begins.
fn commands(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut is_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
            continue;
        }
        let pieces: Vec<&str> =
            if is_code { vec![line.trim_start()] } else { line.split('`').skip(1).step_by(2).collect() };
        for piece in pieces {
            let piece = piece.trim_start_matches("sudo ").trim_start_matches("# ").trim_start_matches("$ ");
            let begins =
                ["linerate ", "cargo run --release -- "].iter().find_map(|name| piece.strip_prefix(name));
            let Some(behind) = begins else { continue };
            let end = [" | ", " && ", "; ", " #", " >", " 2>", " <"]
                .iter()
                .filter_map(|end| behind.find(end))
                .min();
            found.push(behind[..end.unwrap_or(behind.len())].to_owned());
        }
    }
    found
}

/// The anchors of a document's headings, as forges make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let (mut found, mut is_code) = (BTreeSet::new(), false);
    for line in text.lines() {
        is_code ^= line.trim_start().starts_with("```");
        let Some(heading) = line.strip_prefix('#').filter(|_| !is_code) else { continue };
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter(|char| char.is_alphanumeric() || " -_".contains(*char));
        found.insert(kept.map(|char| if char == ' ' { '-' } else { char }).collect());
    }
    found
}

/// Every document that is not made for one crate alone, and its text.
fn documents() -> Vec<(PathBuf, String)> {
    let mut found = files(&root().join("docs"), "md");
    for name in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"] {
        found.push(root().join(name));
    }
    with_text(found)
}

/// Every source of the product and its tools.
fn sources() -> Vec<(PathBuf, String)> {
    let mut found = files(&root().join("crates"), "rs");
    found.extend(files(&root().join("tools"), "rs"));
    with_text(found)
}

fn with_text(paths: Vec<PathBuf>) -> Vec<(PathBuf, String)> {
    let read = |path: PathBuf| {
        let text =
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        (path, text)
    };
    paths.into_iter().map(read).collect()
}

fn files(dir: &Path, kind: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&path, kind));
        } else if path.extension().is_some_and(|extension| extension == kind) {
            found.push(path);
        }
    }
    found
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// What lies beside the repository's own (`.gitignore`).
const IGNORED: [&str; 2] = ["target", "shared"];
/// Most characters of a line of a document.
const LINE_MAX: usize = 140;
/// Most characters of a cell of a table.
const CELL_MAX: usize = 200;
/// Most lines of a paragraph of README.
const README_LINES_MAX: usize = 4;
/// Endings of files' names.
const FILES: [&str; 6] = [".md", ".rs", ".toml", ".left", ".xg", ".key"];
/// Names of other software that look like metrics of ours.
const FOREIGN: [&str; 4] = ["linerate_", "vfs_acl_xattr", "afs_validate", "afs_writepages"];
const METRICS: &str = "docs/reference/metrics.md";
const CONFIGURATION: &str = "docs/reference/configuration.md";
