//! Keys of the configuration: old names are refused by new ones, sizes have one notation.

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

/// A configuration in which the key has the value, on its second line; with a volume.
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

/// The row of [`RENAMED`] that a key or one of its tables has.
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
