//! Effect of changed keys: after a reload, or only at the next start.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Config, Document};

/// Keys that take effect at the next start. All others are in use after a reload.
/// `docs/reference/configuration.md` marks these with *start*.
pub const AT_START: [&str; 11] = [
    "server.lanes",
    "server.cpus",
    "server.silos",
    "server.share_cores",
    "server.state_dir",
    "log.access",
    "log.format",
    "log.audit",
    "log.audit_format",
    "admin.listen",
    "admin.names",
];

/// Keys whose values differ from before, each once.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// Keys that take effect now.
    pub(crate) taken: Vec<String>,
    /// Keys that differ from the start's and take effect at the next.
    pub(crate) at_start: Vec<String>,
}

impl Changes {
    /// Compares `before`, which is in use, with `now`; `started` is the configuration of the start.
    pub(crate) fn between(started: &Config, before: &Config, now: &Config) -> Self {
        let mut taken = changed(before, now);
        taken.retain(|key| !AT_START.contains(&key.as_str()));
        let mut at_start = changed(started, now);
        at_start.retain(|key| AT_START.contains(&key.as_str()));
        Self { taken, at_start }
    }
}

impl Config {
    /// Returns whether the configuration would differ if this key had its value in `other`.
    fn differs_in(&self, key: &str, other: &Self) -> bool {
        let services: Vec<_> = self.wishes.iter().map(|wish| Arc::clone(&wish.service)).collect();
        let read = |document: &Document| Self::read(document, &services).ok().map(|config| config.meaning());
        let Some(document) = self.document.with(key, &other.document) else { return true };
        match (read(&self.document), read(&document)) {
            (Some(one), Some(other)) => one != other,
            // Not without others that have changed too.
            _ => true,
        }
    }

    /// Returns a text of all settings, equal for configurations that mean the same.
    pub fn meaning(&self) -> String {
        let Self { server, file: _, volumes, log, admin, identity, wishes, said: _, document: _ } = self;
        format!("{:?}", (server, volumes, log, admin, identity, wishes))
    }

    /// Keeps the settings that only a start changes as they were at the last one.
    pub(crate) fn keep_of_start(&mut self, started: &Self) {
        let (server, first) = (&mut self.server, &started.server);
        (server.lanes, server.cpus) = (first.lanes, first.cpus.clone());
        (server.silos, server.share_cores) = (first.silos, first.share_cores);
        server.state_dir.clone_from(&first.state_dir);
        self.log.clone_from(&started.log);
        self.admin.clone_from(&started.admin);
    }
}

/// Returns the keys whose meaning has changed. One with its default is equal to a missing one.
fn changed(before: &Config, now: &Config) -> Vec<String> {
    let mut keys = differing(&before.said, &now.said);
    if keys.len() <= READ_ANEW_MAX {
        keys.retain(|key| before.differs_in(key, now));
    }
    keys
}

/// Most keys that are compared by meaning, as each takes a parse of the whole; beyond, all with other text
/// are reported.
const READ_ANEW_MAX: usize = 16;

fn differing(before: &BTreeMap<String, String>, now: &BTreeMap<String, String>) -> Vec<String> {
    let mut keys: Vec<_> =
        before.keys().chain(now.keys()).filter(|key| before.get(*key) != now.get(*key)).cloned().collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn config(text: &str) -> Config {
        let services: [Arc<dyn service::Service>; 1] = [Arc::new(http::Http::default())];
        let text = format!("{text}\n[[volume]]\nname = 'root'\npath = '/'\n");
        Config::read(&Document::of_text(Path::new("/linerate.toml"), &text), &services).unwrap()
    }

    #[test]
    fn each_key_that_counts_from_a_start_on_is_named_alone_and_stays_as_it_was() {
        let first = config("");
        for (key, value) in [
            ("server.lanes", "3"),
            ("server.cpus", "'0'"),
            ("server.silos", "false"),
            ("server.share_cores", "true"),
            ("server.state_dir", "'/tmp/other'"),
            ("log.access", "'/tmp/access'"),
            ("log.format", "'json'"),
            ("log.audit", "'/tmp/audit'"),
            ("log.audit_format", "'openafs'"),
            ("admin.listen", "'off'"),
            ("admin.names", "['a.example']"),
        ] {
            assert!(AT_START.contains(&key));
            let (table, name) = key.split_once('.').unwrap();
            let mut now = config(&format!("[{table}]\n{name} = {value}\n[http]\nupload_max = 7\n"));
            let changes = Changes::between(&first, &first, &now);
            assert_eq!(changes.at_start, [key]);
            assert_eq!(changes.taken, ["http.upload_max"]);
            // At each reload until the restart.
            assert_eq!(
                Changes::between(&first, &now, &now),
                Changes { taken: Vec::new(), at_start: changes.at_start }
            );
            now.keep_of_start(&first);
            assert_eq!(
                (&now.server, &now.log, &now.admin),
                (&first.server, &first.log, &first.admin),
                "{key}"
            );
        }
    }

    #[test]
    fn what_is_written_otherwise_and_means_the_same_is_no_change() {
        let same = [
            "[http.limits]\nheaders = 100\n",
            "[log]\nformat = 'combined'\naudit_format = 'json'\n",
            "[server]\nsilos = true\ndrain_seconds = 30\n",
            "[admin]\nlisten = '127.0.0.1:8090'\nnames = []\n",
            "[http]\nlisten = '127.0.0.1:8080'\n",
            "[http]\nlisten = ['127.0.0.1:8080']\nuploads_synced = true\n",
        ];
        for one in same {
            for other in [&[""], &same[..]].concat() {
                let (one, other) = (config(one), config(other));
                assert_eq!(Changes::between(&one, &one, &other), Changes::default());
            }
        }
        let volume = |keys: &str| {
            let services: [Arc<dyn service::Service>; 1] = [Arc::new(http::Http::default())];
            let text = format!("[[volume]]\nname = 'root'\npath = '/'\n{keys}");
            Config::read(&Document::of_text(Path::new("/linerate.toml"), &text), &services).unwrap()
        };
        let (plain, said) = (volume(""), volume("mount = '/'\nserve_dotfiles = false\n"));
        assert_eq!(Changes::between(&plain, &plain, &said), Changes::default());
        for (table, key) in [
            ("server", "egress_rate"),
            ("http", "upload_max"),
            ("http.limits", "header_bytes"),
            ("http.limits", "body_bytes"),
            ("http.limits", "send_rate_min"),
            ("http.limits", "upload_rate_min"),
            ("http.limits", "pacing_bytes_per_second"),
        ] {
            let [text, bytes] =
                ["'8K'", "8192"].map(|value| config(&format!("[{table}]\n{key} = {value}\n")));
            assert_eq!(Changes::between(&text, &text, &bytes), Changes::default(), "{table}.{key}");
        }
        // What is other beside it is named alone.
        let now = volume("mount = '/'\nserve_dotfiles = true\n[http.limits]\nheaders = 100\nranges = 7\n");
        assert_eq!(
            Changes::between(&said, &said, &now).taken,
            ["http.limits.ranges", "volume[root].serve_dotfiles"]
        );
        assert_eq!(
            Changes::between(&now, &now, &plain).taken,
            ["http.limits.ranges", "volume[root].serve_dotfiles"]
        );
    }

    #[test]
    fn the_documentation_marks_what_counts_from_a_start_on() {
        let text = std::fs::read_to_string(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../docs/reference/configuration.md"
        ))
        .unwrap();
        let (mut table, mut marked) = (String::new(), Vec::new());
        for line in text.lines() {
            if let Some(name) = line.strip_prefix("## `[").and_then(|rest| rest.split_once(']')) {
                table = name.0.to_owned();
            }
            let key = line.strip_prefix("| `").and_then(|rest| rest.split_once('`'));
            if let Some((key, _)) = key.filter(|_| line.contains("(*start*)")) {
                marked.push(format!("{table}.{key}"));
            }
        }
        assert_eq!(marked, AT_START);
    }
}
