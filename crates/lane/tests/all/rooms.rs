//! Test that the rooms of this crate use each other in one direction. A circle means that two of them are
//! one, or that an idea they share wants a place below both.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Parts of a room that stand above it. The test bench runs lanes, which the rest of the backends must not
/// know of. So does the look at trees that are to be served, which the rest of the probes are no part of.
const UPSTAIRS: [&[&str]; 4] = [
    &["backend", "sim", "world"],
    &["backend", "sim", "host"],
    &["backend", "sim", "net", "control"],
    &["probe", "tree"],
];

#[test]
fn no_room_uses_one_that_uses_it() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let names = names_at_the_top(&std::fs::read_to_string(src.join("lib.rs")).unwrap());
    let mut arrows = Arrows::new();
    visit(&src, &mut Vec::new(), &mut |module, source| {
        let from = room(module);
        for target in paths(module, source) {
            let target = match names.get(&target[0]) {
                Some(room) => room.clone(),
                None => room(&target),
            };
            if target != from {
                let place = module.join("::");
                arrows.entry(from.clone()).or_default().entry(target).or_insert(place);
            }
        }
    });
    assert!(arrows["net"].contains_key("backend") && arrows.len() > 10, "the sources were not understood");
    if let Some(circle) = circle(&arrows) {
        let steps = circle
            .windows(2)
            .map(|step| format!("{} uses {} (in {})", step[0], step[1], arrows[&step[0]][&step[1]]));
        panic!("a circle among the rooms of lane:\n  {}", steps.collect::<Vec<_>>().join("\n  "));
    }
}

#[test]
fn a_circle_is_found_and_a_line_is_none() {
    let arrows = |list: &[(&str, &str)]| {
        let mut arrows = Arrows::new();
        for (from, to) in list {
            arrows.entry(from.to_string()).or_default().insert(to.to_string(), String::new());
        }
        arrows
    };
    assert_eq!(circle(&arrows(&[("a", "b"), ("b", "c"), ("a", "c")])), None);
    assert_eq!(circle(&arrows(&[("a", "b"), ("b", "c"), ("c", "b")])).unwrap(), ["b", "c", "b"]);
    let module = ["backend".to_string(), "sim".to_string(), "ops".to_string()];
    let source = "use crate::{buffer::Buf, time}; // crate::net\nuse super::super::file; use super::core;\n\
                  #[cfg(test)]\nmod tests { use crate::runtime; }";
    let found: Vec<_> = paths(&module, source).iter().map(|path| path.join("::")).collect();
    assert_eq!(found, ["buffer", "time", "backend::file", "backend::sim::core"]);
}

/// Rooms used by each room, with a module of the latter that does so.
type Arrows = BTreeMap<String, BTreeMap<String, String>>;

fn room(path: &[String]) -> String {
    let upstairs =
        UPSTAIRS.iter().any(|part| path.len() >= part.len() && path.iter().zip(*part).all(|(a, b)| a == b));
    if upstairs { "what stands upstairs".to_owned() } else { path[0].clone() }
}

/// Calls `each` with the path and the text of every module but the root.
fn visit(dir: &Path, module: &mut Vec<String>, each: &mut impl FnMut(&[String], &str)) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            module.push(name);
            visit(&path, module, each);
            module.pop();
        } else if name != "lib" && name != "tests" {
            let is_parent = name == "mod";
            if !is_parent {
                module.push(name);
            }
            each(module, &std::fs::read_to_string(&path).unwrap());
            if !is_parent {
                module.pop();
            }
        }
    }
}

/// Returns the names that `lib.rs` takes out of its rooms, each with its room.
fn names_at_the_top(lib: &str) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    for line in lib.lines().filter_map(|line| line.strip_prefix("pub use ")) {
        let (room, list) = line.split_once("::").expect("a path");
        let list = list.trim_matches(['{', '}', ';']);
        names.extend(list.split(',').map(|name| (name.trim().to_owned(), room.to_owned())));
    }
    names
}

/// Returns the paths that a module's text begins with `crate::` or climbs to with `super::`, without tests
/// and comments.
fn paths(module: &[String], source: &str) -> Vec<Vec<String>> {
    let source = source.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let code = source.lines().map(|line| line.split("//").next().unwrap()).collect::<Vec<_>>().join("\n");
    let mut found = Vec::new();
    for (at, _) in code.match_indices("crate::").filter(|(at, _)| !code[..*at].ends_with('$')) {
        follow(&[], &code[at + "crate::".len()..], &mut found);
    }
    for (at, _) in code.match_indices("super::").filter(|(at, _)| !code[..*at].ends_with("super::")) {
        let mut base = module.to_vec();
        let mut rest = &code[at..];
        while let Some(above) = rest.strip_prefix("super::") {
            base.pop();
            rest = above;
        }
        follow(&base, rest, &mut found);
    }
    found
}

/// Follows a path, or each of those in braces, as far as modules are named.
fn follow(base: &[String], rest: &str, found: &mut Vec<Vec<String>>) {
    if let Some(list) = rest.strip_prefix('{') {
        let mut depth = 0;
        let end = list.find(|c| {
            depth += i32::from(c == '{') - i32::from(c == '}');
            depth < 0
        });
        let mut depth = 0;
        let parts = list[..end.expect("braces that close")].split(|c| {
            depth += i32::from(c == '{') - i32::from(c == '}');
            c == ',' && depth == 0
        });
        parts.filter(|part| !part.trim().is_empty()).for_each(|part| follow(base, part.trim(), found));
        return;
    }
    let mut path = base.to_vec();
    for name in rest.split("::") {
        let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
        if !name.starts_with(|c: char| c.is_lowercase() || c == '_') && !path.is_empty() {
            break;
        }
        path.push(name[..end].to_owned());
        if end < name.len() {
            break;
        }
    }
    if !path.is_empty() {
        found.push(path);
    }
}

/// Returns a way from some room back to the same room.
fn circle(arrows: &Arrows) -> Option<Vec<String>> {
    fn walk(arrows: &Arrows, way: &mut Vec<String>, done: &mut BTreeSet<String>) -> Option<Vec<String>> {
        let here = way.last().expect("a way has a start").clone();
        for next in arrows.get(&here).into_iter().flat_map(|targets| targets.keys()) {
            if let Some(start) = way.iter().position(|room| room == next) {
                return Some([&way[start..], std::slice::from_ref(next)].concat());
            }
            if !done.contains(next) {
                way.push(next.clone());
                if let Some(circle) = walk(arrows, way, done) {
                    return Some(circle);
                }
                way.pop();
            }
        }
        done.insert(here);
        None
    }
    let mut done = BTreeSet::new();
    arrows.keys().find_map(|room| walk(arrows, &mut vec![room.clone()], &mut done))
}
