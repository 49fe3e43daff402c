//! Keys of the configuration: old names are refused by new ones, sizes have one notation.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use server::config::{Config, Document};
use service::config::RENAMED;

use super::services;

/// Every key as it was called before those of [`RENAMED`] got their names, dotted, each with a value that was good.
const KEYS: &[(&str, &str)] = &[
    ("server.lanes", "2"),
    ("server.cpus", "'0'"),
    ("server.silos", "false"),
    ("server.drained_nodes", "[1]"),
    ("server.nodes_without_nic", "'help'"),
    ("server.nodes_without_nic", "'idle'"),
    ("server.egress_marks", "{ eth0 = 1 }"),
    ("server.share_cores", "true"),
    ("server.state_dir", "'state'"),
    ("server.drain_seconds", "7"),
    ("volume.name", "'a'"),
    ("volume.path", "'p'"),
    ("volume.mount", "'/a'"),
    ("volume.symlinks", "false"),
    ("volume.hidden", "true"),
    ("volume.writable", "'listed'"),
    ("volume.quota", "'10G'"),
    ("volume.max_files", "10"),
    ("volume.count", "true"),
    ("volume.local_locks", "false"),
    ("volume.auth", "'off'"),
    ("volume.auth", "'needed'"),
    ("volume.auth", "'always'"),
    ("volume.listings", "false"),
    ("volume.precompressed", "false"),
    ("volume.content_security_policy", "'off'"),
    ("volume.afs", "'readonly'"),
    ("volume.smb", "'off'"),
    ("volume.smb_share", "'s'"),
    ("volume.smb_short_names", "true"),
    ("volume.smb_hide_unreadable", "true"),
    ("volume.smb_keep_inherited", "true"),
    ("volume.smb_write_time_delay_ms", "1"),
    ("volume.smb_hide", "['x']"),
    ("volume.smb_hide_attributes", "['user.x']"),
    ("volume.smb_test_delay_ms", "1"),
    ("volume.afs_name", "'n'"),
    ("http.listen", "'off'"),
    ("http.redirect_to_https", "true"),
    ("http.upload_max", "68719476736"),
    ("http.uploads_synced", "false"),
    ("https.listen", "'off'"),
    ("https.public_port", "443"),
    ("https.tls12_only", "true"),
    ("https.http2", "false"),
    ("https.kernel_tls", "false"),
    ("https.certificate.names", "['a.example']"),
    ("https.certificate.cert", "'c'"),
    ("https.certificate.key", "'k'"),
    ("afs.listen", "'127.0.0.1:7000'"),
    ("afs.cell", "'a.example'"),
    ("afs.root_volumes", "false"),
    ("afs.dscp", "1"),
    ("afs.protection_port", "1"),
    ("afs.location_port", "1"),
    ("afs.volume_port", "1"),
    ("afs.oob", "false"),
    ("afs.oob_port", "1"),
    ("afs.oob_idle_seconds", "1"),
    ("afs.oob_connections_per_lane", "1"),
    ("afs.oob_transfers_per_lane", "1"),
    ("smb.listen", "'127.0.0.1:445'"),
    ("smb.server_name", "'A'"),
    ("smb.workgroup", "'A'"),
    ("smb.signing", "'allowed'"),
    ("smb.encryption", "'off'"),
    ("smb.multichannel", "false"),
    ("smb.gmac_over_channels", "true"),
    ("smb.guest", "true"),
    ("smb.anonymous", "true"),
    ("smb.share.name", "'s'"),
    ("smb.share.volume", "'a'"),
    ("smb.share.directory", "'d'"),
    ("smb.share.create", "true"),
    ("smb.interface.address", "'127.0.0.1'"),
    ("smb.interface.speed", "1"),
    ("smb.interface.rss", "true"),
    ("smb.test_switches", "true"),
    ("smb.connections_per_lane", "1"),
    ("smb.sessions", "1"),
    ("smb.credits", "16"),
    ("smb.transfer_max", "'64K'"),
    ("smb.memory_per_lane", "'1G'"),
    ("limits.connections_per_lane", "1"),
    ("limits.header_bytes", "1024"),
    ("limits.headers", "8"),
    ("limits.body_bytes", "1"),
    ("limits.header_seconds", "1"),
    ("limits.body_seconds", "1"),
    ("limits.idle_seconds", "1"),
    ("limits.handshake_seconds", "1"),
    ("limits.stall_seconds", "1"),
    ("limits.send_rate_min", "1"),
    ("limits.upload_rate_min", "1"),
    ("limits.uploads_per_connection", "1"),
    ("limits.uploads_per_address", "1"),
    ("limits.uploads_per_lane", "1"),
    ("limits.requests_per_connection", "1"),
    ("limits.ranges", "1"),
    ("limits.listing_sorted", "1"),
    ("limits.listing_entries", "1"),
    ("limits.pacing_bytes_per_second", "1"),
    ("limits.total_bytes_per_second", "1"),
    ("identity.accounts", "'accounts.toml'"),
    ("log.access", "'access.log'"),
    ("log.format", "'json'"),
    ("log.audit", "'audit.log'"),
    ("log.audit_format", "'openafs'"),
    ("admin.listen", "'off'"),
    ("admin.names", "['a']"),
];

/// Tables of which there may be several, with what they cannot do without.
const LISTS: &[(&str, &[&str])] = &[
    ("volume", &["name = 'a'", "path = 'p'", "writable = 'anyone'"]),
    ("https.certificate", &["cert = 'c'", "key = 'k'"]),
    ("smb.share", &["name = 's'", "volume = 'a'", "directory = 'd'"]),
    ("smb.interface", &["address = '127.0.0.1'", "speed = 1"]),
];

/// Returns a configuration in which the key has the value, on its second line; with a volume.
fn with(key: &str, value: &str) -> String {
    let (table, name) = key.rsplit_once('.').unwrap();
    let list = LISTS.iter().find(|(list, _)| *list == table);
    let others: Vec<_> = list.map_or(&[][..], |(_, lines)| lines).to_vec();
    let others = others.into_iter().filter(|line| line.split(' ').next() != Some(name));
    let head = if list.is_some() { format!("[[{table}]]") } else { format!("[{table}]") };
    let mut lines = vec![head, format!("{name} = {value}")];
    lines.extend(others.map(str::to_owned));
    if table != "volume" {
        lines.push("[[volume]]\nname = 'a'\npath = 'p'\nwritable = 'anyone'".to_owned());
    }
    lines.join("\n") + "\n"
}

fn refused(text: &str) -> Option<String> {
    let document = Document::of_text(Path::new("/etc/linerate.toml"), text);
    Config::read(&document, &services()).err().map(|error| error.to_string())
}

/// Returns the row of [`RENAMED`] that a key or one of its tables has.
fn renamed(key: &str, value: &str) -> Option<usize> {
    let is_it = |name: &str| key == name || key.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
    RENAMED
        .iter()
        .position(|row| is_it(row.key) && row.value.is_none_or(|old| value.trim_matches('\'') == old))
}

#[test]
fn each_key_is_read_or_is_refused_with_file_line_and_new_name() {
    let mut seen = vec![false; RENAMED.len()];
    for (key, value) in KEYS {
        let problem = refused(&with(key, value));
        let Some(row) = renamed(key, value) else {
            // Only tests want it; what they need beside it is not there.
            assert!(problem.is_none() || *key == "volume.smb_test_delay_ms", "{key} = {value}: {problem:?}");
            continue;
        };
        seen[row] = true;
        let (row, problem) = (RENAMED[row], problem.unwrap_or_default());
        let place = row.key.replace("volume.", "volume[0].");
        let (name, line) = if row.key.contains('.') { (row.now, 2) } else { (row.now, 1) };
        let quoted = if row.value.is_some() { format!("\"{name}\"") } else { name.to_owned() };
        assert!(problem.starts_with(&format!("{place}: ")), "{problem}");
        assert!(problem.contains(&format!("is called {quoted} now")), "{problem}");
        assert!(problem.ends_with(&format!(" (/etc/linerate.toml, line {line})")), "{problem}");
        let (now, value) = new(key, value);
        assert_eq!(refused(&with(&now, &value)), None, "{key} is called {now}");
    }
    assert_eq!(seen, vec![true; RENAMED.len()], "a row of the table that no key has");
}

/// Returns what a renamed key of [`KEYS`] is to be written as.
fn new(key: &str, value: &str) -> (String, String) {
    let row = RENAMED[renamed(key, value).unwrap()];
    let (table, name) = key.rsplit_once('.').unwrap();
    let word = row.now.split(',').next().unwrap();
    match row.value {
        Some(_) => (key.to_owned(), format!("'{word}'")),
        None if row.key != key => (format!("{word}.{name}"), value.to_owned()),
        None if word.contains('.') => (word.to_owned(), value.to_owned()),
        None => (format!("{table}.{word}"), value.to_owned()),
    }
}

/// Keys that count whatever is served, by their beginnings.
const ALWAYS: &[&str] = &[
    "server.",
    "identity.",
    "http.listen",
    "https.listen",
    "afs.listen",
    "smb.listen",
    "admin.listen",
    "volume.name",
    "volume.path",
    "volume.symlinks",
    "volume.serve_dotfiles",
    "volume.writable",
    "volume.quota",
    "volume.max_files",
    "volume.track_usage",
];

/// Returns what is reported of a key with this value where all services are served, or none.
fn without_effect(key: &str, value: &str, is_served: bool) -> Vec<String> {
    let (table, name) = key.rsplit_once('.').unwrap();
    let list = LISTS.iter().find(|(list, _)| *list == table);
    let mut lines: Vec<String> = Vec::new();
    let tables = [("http", 1), ("https", 2), ("afs", 3), ("smb", 4), ("admin", 5), ("log", 0)];
    for (service, port) in tables {
        lines.push(format!("[{service}]"));
        let own = |word: &str| if table == service && name == word { None } else { Some(word.to_owned()) };
        let address = if is_served { format!("'127.0.0.1:{port}'") } else { "'off'".to_owned() };
        let mut others = vec![("listen", address)];
        match service {
            "http" if is_served && key != "https.listen" => {
                others.push(("redirect_to_https", "true".to_owned()))
            }
            "smb" if is_served => others.push(("test_switches", "true".to_owned())),
            "log" if is_served => others = vec![("access", "'a'".to_owned()), ("audit", "'b'".to_owned())],
            "log" => others.clear(),
            _ => {}
        }
        let others = others.into_iter().filter_map(|(word, value)| Some(format!("{} = {value}", own(word)?)));
        lines.extend(others);
        if table == service {
            lines.push(format!("{name} = {value}"));
        }
    }
    let is_volume = table == "volume";
    if let Some((list, others)) = list.filter(|_| !is_volume) {
        lines.push(format!("[[{list}]]\n{name} = {value}"));
        lines.extend(
            others.iter().filter(|line| line.split(' ').next() != Some(name)).map(|line| line.to_string()),
        );
    } else if !tables.iter().any(|(service, _)| *service == table) && !is_volume {
        lines.push(format!("[{table}]\n{name} = {value}"));
    }
    let volume = ["name = 'a'", "path = 'p'", "writable = 'anyone'"];
    lines.push("[[volume]]".to_owned());
    lines.extend(
        volume
            .iter()
            .filter(|line| !is_volume || line.split(' ').next() != Some(name))
            .map(|line| line.to_string()),
    );
    if is_volume {
        lines.push(format!("{name} = {value}"));
    }
    if is_served {
        // A service that is kept out of the first has another.
        lines.push("[[volume]]\nname = 'b'\npath = 'q'\nmount = '/b'".to_owned());
    }
    let document = Document::of_text(Path::new("/etc/linerate.toml"), lines.join("\n"));
    let config =
        Config::read(&document, &services()).unwrap_or_else(|error| panic!("{key} = {value}: {error}"));
    config.without_effect()
}

#[test]
fn each_key_of_a_service_that_is_not_served_is_told_to_have_no_effect_and_none_of_one_that_is() {
    let mut told = 0;
    for (key, value) in KEYS {
        let (key, value) = if renamed(key, value).is_some() {
            new(key, value)
        } else {
            ((*key).to_owned(), (*value).to_owned())
        };
        let is_of = |beginning: &&str| key.starts_with(*beginning);
        // Two that are about a service by keeping a volume from it.
        let keeps_out = value == "'off'" && ["volume.afs", "volume.smb"].contains(&&*key);
        let is_used_always = ALWAYS.iter().any(is_of) || keeps_out;
        let off = without_effect(&key, &value, false);
        let name = key.rsplit_once('.').unwrap().1;
        let is_named = |line: &String| {
            let (keys, _) = line.split_once(" no effect").unwrap();
            let list = LISTS
                .iter()
                .any(|(list, _)| *list != "volume" && key.strip_suffix(name) == Some(&format!("{list}.")));
            let shown = match list {
                true => key.rsplit_once('.').unwrap().0.to_owned() + "[",
                false => key.replace("volume.", "volume[a]."),
            };
            keys.contains(&shown)
        };
        assert_eq!(off.iter().any(is_named), !is_used_always, "{key} = {value}: {off:?}");
        told += usize::from(!is_used_always);
        let on = without_effect(&key, &value, true);
        // An address that is off is what others are about.
        assert!(on.is_empty() || key.ends_with(".listen"), "{key} = {value}: {on:?}");
    }
    assert!(told > 60, "{told} keys");
}

#[test]
fn a_key_that_another_one_switches_off_is_told_with_that_one() {
    const ADDRESSES: &str = "[http]\nlisten = '127.0.0.1:1'\n[https]\nlisten = '127.0.0.1:2'\n";
    for (text, key, reason) in [
        ("[afs]\noob = false\noob_port = 1\n", "afs.oob_port has no effect", "afs.oob is false"),
        (
            "[smb]\nmultichannel = false\ngmac_over_channels = true\n",
            "smb.gmac_over_channels",
            "smb.multichannel is false",
        ),
        (
            "[afs]\n[[volume]]\nname = 'b'\npath = 'q'\nmount = '/q'\nafs = 'off'\nafs_name = 'n'\n",
            "volume[b].afs_name",
            "volume[b].afs is off",
        ),
        (
            "[smb]\n[[volume]]\nname = 'b'\npath = 'q'\nmount = '/q'\nsmb = 'off'\nsmb_hide = ['x']\n",
            "volume[b].smb_hide",
            "volume[b].smb is off",
        ),
        ("[log]\nformat = 'json'\n", "log.format has", "log.access is not set"),
        ("[smb]\n[log]\naudit_format = 'openafs'\n", "log.audit_format has", "log.audit is not set"),
    ] {
        let text = format!("{ADDRESSES}{text}[[volume]]\nname = 'a'\npath = 'p'\n");
        let document = Document::of_text(Path::new("/etc/linerate.toml"), text);
        let told = Config::read(&document, &services()).unwrap().without_effect();
        assert!(told.len() == 1 && told[0].contains(key) && told[0].contains(reason), "{key}: {told:?}");
        assert!(told[0].ends_with(" [keys-without-effect]"), "{told:?}");
    }
    // HTTPS alone has no plain requests to redirect, and its port is for those.
    let text = "[http]\nlisten = 'off'\n[https]\npublic_port = 443\n[[https.certificate]]\ncert = 'c'\nkey = 'k'\n\
                [[volume]]\nname = 'a'\npath = 'p'\n";
    let document = Document::of_text(Path::new("/etc/linerate.toml"), text);
    let told = Config::read(&document, &services()).unwrap().without_effect();
    assert!(told.len() == 1 && told[0].contains("https.public_port has no effect"), "{told:?}");
}

#[test]
fn the_changelog_has_each_renamed_key() {
    let changelog = include_str!("../../../../CHANGELOG.md");
    for row in RENAMED {
        let word = row.now.split(',').next().unwrap();
        let (old, new) = match row.value {
            Some(old) => (format!("`{} = \"{old}\"`", row.key), format!("`\"{word}\"`")),
            None => (format!("`{}`", row.key), format!("`{word}`")),
        };
        let is_it = |line: &str| line.starts_with(&format!("| {old}")) && line.contains(&new);
        assert!(changelog.lines().any(is_it), "{old} is {new}");
    }
}

/// Every key that is bytes or bytes a second.
const SIZES: &[&str] = &[
    "server.egress_rate",
    "volume.quota",
    "http.upload_max",
    "smb.transfer_max",
    "smb.memory_per_lane",
    "http.limits.header_bytes",
    "http.limits.body_bytes",
    "http.limits.send_rate_min",
    "http.limits.upload_rate_min",
    "http.limits.pacing_bytes_per_second",
];

#[test]
fn each_size_is_a_number_or_a_text_with_a_letter() {
    for key in SIZES {
        let (text, bytes) = match *key {
            "http.limits.header_bytes" => ("'16K'", "16384"),
            "smb.memory_per_lane" => ("'64M'", "67108864"),
            _ => ("'64K'", "65536"),
        };
        for value in [text, bytes] {
            assert_eq!(refused(&with(key, value)), None, "{key} = {value}");
        }
        for value in ["'64KB'", "-1", "true"] {
            let problem = refused(&with(key, value)).expect(key);
            assert!(problem.contains("K, M, G or T") && problem.contains("line 2"), "{key}: {problem}");
        }
    }
}

#[test]
fn each_key_of_the_documentation_that_is_called_as_a_size_is_one() {
    let text = include_str!("../../../../docs/reference/configuration.md");
    let mut table = String::new();
    let mut found: Vec<String> = Vec::new();
    for line in text.lines() {
        if let Some(heading) = line.strip_prefix("## `[") {
            table = heading.split(']').next().unwrap().trim_start_matches('[').to_owned();
        }
        let Some(cell) = line.strip_prefix("| `").and_then(|rest| rest.split(" |").next()) else { continue };
        for key in cell.split('`').filter(|key| key.starts_with(|first: char| first.is_ascii_lowercase())) {
            let is_size = |word: &str| ["bytes", "rate", "memory", "quota", "max"].contains(&word);
            let key = if key.contains('.') { key.to_owned() } else { format!("{table}.{key}") };
            let is_count = key == "volume.max_files";
            if key.rsplit(['.', '_']).any(is_size) && !is_count {
                found.push(key);
            }
        }
    }
    assert_eq!(found, SIZES);
}

/// Page that has each key of the configuration.
fn page() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/configuration.md");
    std::fs::read_to_string(path).unwrap()
}

/// Keys of the page, dotted, each with its default where that is a value.
fn documented() -> BTreeMap<String, Option<String>> {
    let (mut table, mut found) = (String::new(), BTreeMap::new());
    for line in page().lines() {
        if let Some(heading) = line.strip_prefix("## `") {
            table = heading.split('`').next().unwrap().trim_matches(['[', ']']).to_owned();
            if table.contains('.') {
                found.insert(table.clone(), None);
            }
        }
        let mut cells = line.split('|').map(str::trim).skip(1);
        let (Some(names), Some(default)) = (cells.next(), cells.next()) else { continue };
        let names: Vec<_> = names.split('`').skip(1).step_by(2).collect();
        let default = default.split(';').next().unwrap();
        let defaults: Vec<_> = match names.len() {
            1 => vec![default],
            _ => default.split(", ").collect(),
        };
        for (at, name) in names.iter().enumerate() {
            let default = defaults.get(at).filter(|_| defaults.len() == names.len());
            let default = default.map(|default| default.trim().trim_matches('`'));
            let key = match name.trim_matches(['[', ']']) {
                name if name.contains('.') => name.to_owned(),
                name => format!("{table}.{name}"),
            };
            let is_new =
                found.insert(key, default.filter(|text| is_value(text)).map(str::to_owned)).is_none();
            assert!(is_new, "{table}: {name} is there twice");
        }
    }
    found
}

/// Returns whether a text is a value of TOML, and not words about one.
fn is_value(text: &str) -> bool {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_within = |begin, end| text.starts_with(begin) && text.ends_with(end) && !text.contains('`');
    let is_quoted = text.len() > 1 && is_within('"', '"');
    is_number || is_quoted || is_within('[', ']') || is_within('{', '}') || ["true", "false"].contains(&text)
}

/// Keys that the configuration's types have in a table, by what its reader says of one that they do not have.
fn known(table: &str) -> BTreeSet<String> {
    let text = match table {
        "" => "no_such_key = 1\n".to_owned(),
        table => with(&format!("{table}.no_such_key"), "1"),
    };
    let problem = refused(&text).expect(table);
    let (_, named) = problem.split_once("the keys here are ").unwrap_or_else(|| panic!("{table}: {problem}"));
    named.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn the_page_of_keys_has_those_of_the_configurations_types_and_no_other() {
    let documented = documented();
    let mut tables = known("");
    tables.insert("http.limits".to_owned());
    for table in &tables {
        let of_table = |key: &String| match key.rsplit_once('.') {
            Some((of, name)) if of == table => Some(name.to_owned()),
            _ => None,
        };
        let named: BTreeSet<_> = documented.keys().filter_map(of_table).collect();
        assert_eq!(named, known(table), "[{table}]: keys of configuration.md, and of the types");
    }
    let strange =
        documented.keys().find(|key| !tables.iter().any(|table| key.starts_with(&format!("{table}."))));
    assert_eq!(strange, None, "configuration.md has a table that there is not");
    for (table, _) in LISTS.iter().filter(|(table, _)| *table != "volume") {
        // Rows of a table, or paragraphs.
        let page = page();
        let about = page.split("\n\n").flat_map(|part| match part.starts_with('|') {
            true => part.lines().collect(),
            false => vec![part],
        });
        let about: String = about.filter(|part| part.contains(&format!("`[[{table}]]`"))).collect();
        for key in known(table) {
            assert!(about.contains(&format!("`{key}`")), "[[{table}]]: configuration.md lacks {key}");
        }
    }
}

#[test]
fn the_page_of_keys_has_the_defaults_of_the_configurations_types() {
    let meaning = |text: &str| {
        let document = Document::of_text(Path::new("/etc/linerate.toml"), text);
        Config::read(&document, &services()).unwrap_or_else(|error| panic!("{text}: {error}")).meaning()
    };
    let mut compared = 0;
    for (key, default) in documented() {
        let Some(default) = default else { continue };
        let given = with(&key, &default);
        let mut lines: Vec<_> = given.lines().collect();
        lines.remove(1);
        assert_eq!(meaning(&given), meaning(&lines.join("\n")), "{key} is not {default} by default");
        compared += 1;
    }
    assert!(compared > 60, "{compared}");
}
