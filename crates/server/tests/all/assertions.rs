//! Checks that what holds state asserts what must hold at its borders: counts, versions, windows, locks.

use std::path::{Path, PathBuf};

use crate::dependencies::root;

/// Sources that hold state, beneath `crates/`.
const STATEFUL: [&str; 7] =
    ["coherence/src", "grants/src", "index/src", "lane/src/mesh", "rx/src", "smb-proto/src", "vfs/src"];

/// Assertions that there are at least in a thousand lines of code.
const LEAST: f64 = 2.0;

#[test]
fn what_holds_state_asserts_what_must_hold() {
    let mut missing = Vec::new();
    for sources in STATEFUL {
        let (mut lines, mut assertions) = (0, 0);
        for file in files(&root().join("crates").join(sources)) {
            for line in production(&std::fs::read_to_string(file).unwrap()) {
                lines += 1;
                assertions += usize::from(line.contains("assert!(") || line.contains("assert_eq!("));
            }
        }
        assert!(lines > 500, "{sources} holds state");
        let density = assertions as f64 * 1000.0 / lines as f64;
        println!("{sources}: {assertions} in {lines} lines, {density:.1} in a thousand");
        if density < LEAST {
            missing.push((sources, density));
        }
    }
    assert!(missing.is_empty(), "fewer than {LEAST} in a thousand lines: {missing:?}");
}

/// Returns the lines of code that are no tests and no comments.
fn production(text: &str) -> Vec<&str> {
    let (mut code, mut lines) = (Vec::new(), text.lines());
    while let Some(line) = lines.next() {
        let trimmed = line.trim();
        if trimmed == "#[cfg(test)]" {
            let mut depth = 0;
            for line in lines.by_ref() {
                depth += line.matches('{').count() as i64 - line.matches('}').count() as i64;
                if depth <= 0 {
                    break;
                }
            }
        } else if !trimmed.is_empty() && !trimmed.starts_with("//") {
            code.push(line);
        }
    }
    code
}

/// Returns the sources beneath a directory, but for tests and the simulator.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
        let stem = entry.file_stem().unwrap().to_str().unwrap();
        if stem == "tests" || stem.ends_with("_tests") || stem == "sim" {
            continue;
        }
        match entry.is_dir() {
            true => found.extend(files(&entry)),
            false if entry.extension().is_some_and(|kind| kind == "rs") => found.push(entry),
            false => {}
        }
    }
    found
}

#[test]
fn assertions_of_tests_do_not_count() {
    let text = "fn a() {\n    assert!(true);\n}\n\n// assert!(\n#[cfg(test)]\nmod tests {\n    fn b() {\n        assert!(true);\n    }\n}\n";
    assert_eq!(production(text).len(), 3);
}
