//! Checks the dependency rule of ARCHITECTURE.md: arrows point down only, and the server knows services by
//! their interface alone.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn manifest(path: &Path) -> toml::Table {
    let text = std::fs::read_to_string(path).unwrap();
    text.parse().unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the directories of our own crates: the server's, and the tools'.
pub(crate) fn crates() -> Vec<PathBuf> {
    let entries = ["crates", "tools"].map(|dir| std::fs::read_dir(root().join(dir)).unwrap());
    entries.into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
}

/// Returns our own crates from bottom to top, as the workspace lists them.
fn own() -> Vec<String> {
    let text = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let in_crates = |line: &&str| line.contains("path = \"crates/") || line.contains("path = \"tools/");
    text.lines().filter(in_crates).map(|line| line.split(' ').next().unwrap().to_owned()).collect()
}

/// Returns the crates of ours that each of our crates is built from, without those that only tests use.
fn uses(own: &[String]) -> BTreeMap<String, Vec<String>> {
    let of = |directory: PathBuf| {
        let manifest = manifest(&directory.join("Cargo.toml"));
        let mut used = Vec::new();
        for table in ["dependencies", "build-dependencies"] {
            let names = manifest.get(table).and_then(|table| table.as_table());
            used.extend(
                names.into_iter().flat_map(|table| table.keys()).filter(|name| own.contains(name)).cloned(),
            );
        }
        (directory.file_name().unwrap().to_str().unwrap().to_owned(), used)
    };
    crates().into_iter().map(of).collect()
}

#[test]
fn a_crate_uses_only_what_stands_below_it() {
    let own = own();
    let height = |name: &str| own.iter().position(|known| known == name);
    for (name, used) in uses(&own) {
        // The command line is above all.
        let here = height(&name).unwrap_or(own.len());
        for other in used.iter().filter(|other| *other != "testkit") {
            assert!(height(other).unwrap() < here, "{name} uses {other}, which the workspace lists above it");
        }
    }
}

#[test]
fn the_server_is_built_from_no_tool() {
    let is_tool = |name: &str| root().join("tools").join(name).is_dir();
    for (name, used) in uses(&own()) {
        let used: Vec<_> = used.iter().filter(|other| is_tool(other)).collect();
        assert!(is_tool(&name) || used.is_empty(), "{name} uses {used:?}");
    }
}

#[test]
fn the_server_knows_no_protocol_and_protocols_do_not_know_each_other() {
    let uses = uses(&own());
    let uses = |name: &str| uses[name].iter().map(String::as_str).collect::<Vec<_>>();
    assert_eq!(uses("server"), ["identity", "index", "lane", "service", "vfs"]);
    assert_eq!(uses("service"), ["budget", "identity", "lane", "toml-file", "vfs"]);
    assert_eq!(
        uses("vfs"),
        ["budget", "coherence", "grants", "identity", "index", "lane", "smb-sid", "smb-wire", "transfer"]
    );
    assert_eq!(uses("index"), [""; 0]);
    assert_eq!(uses("budget"), [""; 0]);
    assert_eq!(uses("lane"), ["budget"]);
    assert_eq!(uses("identity"), ["toml-file"]);
    assert_eq!(uses("toml-file"), [""; 0]);
    assert_eq!(uses("krb"), [""; 0]);
    assert_eq!(uses("rxkad"), ["krb", "rx"]);
    assert_eq!(uses("grants"), ["budget"]);
    assert_eq!(uses("coherence"), ["lane"]);
    assert_eq!(uses("smb-wire"), [""; 0]);
    assert_eq!(uses("smb-proto"), ["smb-wire"]);
    assert_eq!(uses("smb-auth"), ["smb-wire"]);
    assert_eq!(uses("smb-sid"), ["identity", "smb-wire"]);
    assert_eq!(uses("smb-rpc"), ["identity", "smb-sid", "smb-wire"]);
    assert_eq!(uses("transfer"), ["lane"]);
    assert_eq!(uses("smb-client"), ["lane", "smb-auth", "smb-proto", "smb-wire", "transfer"]);
    assert_eq!(
        uses("smb-tree"),
        ["budget", "grants", "identity", "lane", "smb-proto", "smb-sid", "smb-wire", "vfs"]
    );
    assert!(!uses("http").iter().any(|other| other.starts_with("rx")), "{:?}", uses("http"));
    assert_eq!(uses("oob"), [""; 0]);
    assert_eq!(uses("oob-lane"), ["lane", "oob"]);
    assert_eq!(uses("afs-wire"), ["xdr", "rxgen"]);
    assert_eq!(
        uses("afs-client"),
        ["afs-wire", "lane", "oob", "oob-lane", "rx", "rx-lane", "transfer", "xdr"]
    );
    assert!(!uses("smb").iter().any(|other| ["http", "tls", "rx", "afs", "server"].contains(other)));
    for other in ["http", "tls", "server"] {
        assert!(!uses("afs").contains(&other), "{:?}", uses("afs"));
    }
    for rx in ["rx", "rx-lane"] {
        assert!(!uses(rx).contains(&"http"), "{rx} uses {:?}", uses(rx));
    }
}

#[test]
fn what_is_optimised_less_in_release_is_optimised_in_dist() {
    let manifest = manifest(&root().join("Cargo.toml"));
    let levels = |profile: &str| -> BTreeMap<String, i64> {
        let packages = manifest["profile"][profile]["package"].as_table().unwrap();
        let level = |options: &toml::Value| options.get("opt-level").and_then(toml::Value::as_integer);
        packages.iter().filter_map(|(name, options)| Some((name.clone(), level(options)?))).collect()
    };
    let (release, dist) = (levels("release"), levels("dist"));
    assert!(!release.is_empty());
    for name in release.keys() {
        // An override of `release` holds in what inherits from it, whatever level the profile itself has.
        assert!(dist.get(name).is_some_and(|level| *level >= 2), "{name} in the profile `dist`");
    }
}

#[test]
fn what_a_server_is_built_from_is_used() {
    for directory in crates() {
        let manifest = manifest(&directory.join("Cargo.toml"));
        let Some(dependencies) = manifest.get("dependencies").and_then(|table| table.as_table()) else {
            continue;
        };
        let mut source = String::new();
        read_all(&directory.join("src"), &mut source);
        for name in dependencies.keys() {
            let known_as = match name.as_str() {
                "md-5" => "md5".to_owned(),
                "linerate-http" => "linerate_http".to_owned(),
                other => other.replace('-', "_"),
            };
            let used = [format!("{known_as}::"), format!("use {known_as} "), format!("use {known_as};")];
            // What derives or generated code names only is in no text of the crate.
            let is_generated = directory.ends_with("afs-wire") && name == "xdr";
            assert!(
                is_generated || used.iter().any(|used| source.contains(used)),
                "{} does not use {name}",
                directory.display()
            );
        }
    }
}

/// Adds the text of all Rust files in a directory.
fn read_all(directory: &Path, text: &mut String) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read_all(&path, text);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&std::fs::read_to_string(&path).unwrap());
        }
    }
}
