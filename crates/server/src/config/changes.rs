//! When a key of the configuration takes effect: with a reload, or at the next start alone.

use std::collections::BTreeMap;

use super::Config;

/// Keys that count from the next start on. All others are in use after a reload. `docs/configuration.md` marks these with *start*.
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

/// Which keys have other values than before, each once.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// In use from now on.
    pub(crate) taken: Vec<String>,
    /// Other than at the start: in use from the next one on.
    pub(crate) at_start: Vec<String>,
}

impl Changes {
    /// From `before`, which is in use, to `now`, where `started` is what the server was started with.
    pub(crate) fn between(started: &Config, before: &Config, now: &Config) -> Self {
        let mut taken = differing(&before.said, &now.said);
        taken.retain(|key| !AT_START.contains(&key.as_str()));
        let mut at_start = differing(&started.said, &now.said);
        at_start.retain(|key| AT_START.contains(&key.as_str()));
        Self { taken, at_start }
    }
}

impl Config {
    /// Has what counts from the next start on as it was at the last.
    pub(crate) fn keep_of_start(&mut self, started: &Self) {
        let (server, first) = (&mut self.server, &started.server);
        (server.lanes, server.cpus) = (first.lanes, first.cpus.clone());
        (server.silos, server.share_cores) = (first.silos, first.share_cores);
        server.state_dir.clone_from(&first.state_dir);
        self.log.clone_from(&started.log);
        self.admin.clone_from(&started.admin);
    }
}

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
    use std::sync::Arc;

    use super::*;
    use crate::config::Document;

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
    fn the_documentation_marks_what_counts_from_a_start_on() {
        let text =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md"))
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
