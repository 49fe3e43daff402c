//! Checks that files of a crate use each other downwards only: where some use each other in a circle, none of
//! them can be read, tested or changed alone. The files in circles so far are counted here, and may only
//! become fewer.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::dependencies::crates;

/// Crates whose files are not all free of circles, with the number of files in each circle.
const CIRCLES: [(&str, &[usize]); 5] = [
    ("lane", &[41, 4, 3, 2, 2]),
    ("smb", &[23, 3, 2]),
    ("smb-client", &[2]),
    ("smb-tree", &[25]),
    ("vfs", &[59, 3, 3]),
];

#[test]
fn files_of_a_crate_use_each_other_downwards_only() {
    let known: BTreeMap<_, _> =
        CIRCLES.into_iter().map(|(name, sizes)| (name.to_owned(), sizes.to_vec())).collect();
    let mut found = BTreeMap::new();
    for path in crates() {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let circles = Crate::read(&path.join("src")).circles();
        if !circles.is_empty() {
            for circle in &circles {
                println!("{name}: {}", circle.join(" "));
            }
            found.insert(name, circles.iter().map(Vec::len).collect::<Vec<_>>());
        }
    }
    assert_eq!(found, known, "more than there were are refused; fewer are to be written down here");
}

/// Modules of a crate that are files of their own.
struct Crate {
    modules: BTreeMap<Vec<String>, Module>,
}

#[derive(Default)]
struct Module {
    /// Paths of the crate that the module uses, from the crate's root.
    uses: Vec<Vec<String>>,
    /// Names that the module re-exports, with the paths of what they stand for.
    gives: BTreeMap<String, Vec<String>>,
}

impl Crate {
    fn read(src: &Path) -> Self {
        let mut of = Self { modules: BTreeMap::new() };
        of.read_dir(src, &[]);
        of
    }

    fn read_dir(&mut self, dir: &Path, at: &[String]) {
        for entry in std::fs::read_dir(dir).into_iter().flatten().map(Result::unwrap) {
            let (path, mut module) = (entry.path(), at.to_vec());
            let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let is_test = |name: &str| name == "tests" || name.ends_with("_tests");
            if path.is_dir() {
                if !is_test(&stem) && stem != "bin" {
                    module.push(stem);
                    self.read_dir(&path, &module);
                }
            } else if path.extension().is_some_and(|kind| kind == "rs") && !is_test(&stem) {
                if !["lib", "main", "mod"].contains(&stem.as_str()) {
                    module.push(stem);
                }
                let read = Module::read(&std::fs::read_to_string(&path).unwrap(), &module);
                let kept = self.modules.entry(module).or_default();
                kept.uses.extend(read.uses);
                kept.gives.extend(read.gives);
            }
        }
    }

    /// Returns the file that has what a path names, seen through re-exports.
    fn file_of(&self, path: &[String]) -> Option<Vec<String>> {
        let mut path = path.to_vec();
        // A name may be given on by several one after the other.
        for _ in 0..8 {
            let len = (0..=path.len()).rev().find(|len| self.modules.contains_key(&path[..*len]))?;
            let Some(name) = path.get(len) else { break };
            let Some(given) = self.modules[&path[..len]].gives.get(name) else { break };
            if *given == path[..=len] {
                break;
            }
            path = [given, &path[len + 1..]].concat();
        }
        let len = (0..=path.len()).rev().find(|len| self.modules.contains_key(&path[..*len]))?;
        Some(path[..len].to_vec())
    }

    /// Returns the files that use each other in a circle, a list for each circle.
    fn circles(&self) -> Vec<Vec<String>> {
        let used = |(module, of): (&Vec<String>, &Module)| {
            let used = of.uses.iter().filter_map(|path| self.file_of(path)).filter(|used| used != module);
            (module.clone(), used.collect::<BTreeSet<_>>())
        };
        let uses: BTreeMap<_, _> = self.modules.iter().map(used).collect();
        let reached = |from: &Vec<String>| {
            let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
            while let Some(at) = next.pop() {
                for used in &uses[at] {
                    if seen.insert(used.clone()) {
                        next.push(used);
                    }
                }
            }
            seen
        };
        let reach: BTreeMap<_, _> =
            self.modules.keys().map(|module| (module.clone(), reached(module))).collect();
        let (mut circles, mut done) = (Vec::new(), BTreeSet::new());
        for (module, reached) in &reach {
            if !reached.contains(module) || done.contains(module) {
                continue;
            }
            let circle: Vec<_> =
                reached.iter().filter(|other| reach[*other].contains(module)).cloned().collect();
            done.extend(circle.iter().cloned());
            circles.push(circle.iter().map(|module| format!("crate::{}", module.join("::"))).collect());
        }
        circles.sort_by_key(|circle: &Vec<String>| std::cmp::Reverse(circle.len()));
        circles
    }
}

impl Module {
    fn read(text: &str, module: &[String]) -> Self {
        let mut of = Self::default();
        let code = without_comments_and_tests(text);
        let mut rest = code.as_str();
        while let Some(at) =
            ["crate::", "super::", "self::", "use "].iter().filter_map(|word| rest.find(word)).min()
        {
            let before = &rest[..at];
            let is_word = before
                .chars()
                .next_back()
                .is_some_and(|char| char.is_alphanumeric() || char == '_' || char == ':');
            let tail = &rest[at..];
            if is_word {
                rest = &tail[1..];
                continue;
            }
            let visibility = before.rsplit('\n').next().unwrap_or_default().trim();
            let is_statement = visibility.is_empty() || visibility.starts_with("pub");
            if let Some(tree) = tail.strip_prefix("use ").filter(|_| is_statement) {
                let end = tree.find(';').unwrap_or(tree.len());
                let is_given = !visibility.is_empty();
                of.take(&tree[..end], module, is_given);
                rest = &tree[end..];
            } else {
                let end = tail
                    .find(|char: char| !char.is_alphanumeric() && char != '_' && char != ':')
                    .unwrap_or(tail.len());
                let path = tail[..end].trim_end_matches(':');
                of.uses.extend(absolute(&path.split("::").map(str::to_owned).collect::<Vec<_>>(), module));
                rest = &tail[end.max(1)..];
            }
        }
        of
    }

    /// Adds the names of a `use`.
    fn take(&mut self, tree: &str, module: &[String], is_given: bool) {
        let mut paths = Vec::new();
        leaves(tree.trim(), &[], &mut paths);
        for (path, name) in paths {
            // A child is named without more.
            let is_child = !["crate", "super", "self"].contains(&path[0].as_str());
            let full =
                if is_child && is_given { Some([module, &path].concat()) } else { absolute(&path, module) };
            let Some(full) = full else { continue };
            if is_given {
                self.gives.insert(name, full);
            } else {
                self.uses.push(full);
            }
        }
    }
}

/// Collects the paths of a tree of `use`, each with the name that it has here.
fn leaves(tree: &str, before: &[String], found: &mut Vec<(Vec<String>, String)>) {
    if let Some(open) = tree.find('{') {
        let prefix: Vec<_> = tree[..open]
            .split("::")
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .map(str::to_owned)
            .collect();
        let before = [before, &prefix].concat();
        let inner = &tree[open + 1..tree.rfind('}').unwrap_or(tree.len())];
        let (mut depth, mut start) = (0, 0);
        for (at, char) in inner.char_indices() {
            match char {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    leaves(inner[start..at].trim(), &before, found);
                    start = at + 1;
                }
                _ => {}
            }
        }
        leaves(inner[start..].trim(), &before, found);
        return;
    }
    let (path, alias) = tree.split_once(" as ").unwrap_or((tree, ""));
    let mut path: Vec<_> = path
        .split("::")
        .map(str::trim)
        .filter(|part| !part.is_empty() && *part != "*")
        .map(str::to_owned)
        .collect();
    if path.last().is_some_and(|last| last == "self") && !before.is_empty() {
        path.pop();
    }
    let path = [before, &path].concat();
    if let Some(name) = path.last().cloned() {
        found.push((path, if alias.is_empty() { name } else { alias.trim().to_owned() }));
    }
}

/// Returns a path of `module` from the crate's root; `None` for one in another crate.
fn absolute(path: &[String], module: &[String]) -> Option<Vec<String>> {
    let (first, mut rest) = path.split_first()?;
    let mut base = match first.as_str() {
        "crate" => Vec::new(),
        "self" => module.to_vec(),
        "super" => module.get(..module.len().checked_sub(1)?)?.to_vec(),
        _ => return None,
    };
    while rest.first().is_some_and(|word| word == "super") {
        base.pop()?;
        rest = &rest[1..];
    }
    Some([base, rest.to_vec()].concat())
}

fn without_comments_and_tests(text: &str) -> String {
    let (mut code, mut depth) = (String::new(), None::<i32>);
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let line = line.split("//").next().unwrap();
        if let Some(open) = &mut depth {
            *open += braces(line);
            if *open <= 0 {
                depth = None;
            }
            continue;
        }
        if line.trim() == "#[cfg(test)]" {
            // What stands behind it, up to the end of its line or block.
            let next = lines.next().unwrap_or_default().split("//").next().unwrap();
            let open = braces(next);
            depth = (open > 0).then_some(open);
            continue;
        }
        code += line;
        code.push('\n');
    }
    code
}

fn braces(line: &str) -> i32 {
    line.chars().map(|char| i32::from(char == '{') - i32::from(char == '}')).sum()
}
