//! `cargo xtask spec`: which sections of the specifications the code says it obeys, and where.
//!
//! A citation is two comments at the line that obeys: `//= MS-SMB2 3.3.5.9` names the section, `//# …` says in a
//! sentence what it asks for. The report goes to `docs/reference/spec.md`; a citation of a section that there is not, or without
//! its sentence, is refused. Lists of sections are in `tools/xtask/spec/`; of a specification without a list only the form
//! is looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};

use crate::page::push_lines;

/// Parts of specifications that servers have to obey: the report tells how many of their sections are cited.
const OBEYED: [(&str, &str); 2] = [("MS-SMB2", "3.1"), ("MS-SMB2", "3.3")];

/// Flags of `cargo xtask spec`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write nothing; fail where the report is not that of the code
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let root = root();
    let report = report(&root)?;
    let path = root.join("docs/reference/spec.md");
    if args.check {
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        ensure!(kept == report, "docs/reference/spec.md is not that of the code: run `cargo xtask spec`");
        return Ok(());
    }
    std::fs::write(&path, report).with_context(|| format!("cannot write {}", path.display()))
}

/// Returns the root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A section of a specification, in the order of its number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Section {
    spec: String,
    number: Vec<u32>,
}

impl Section {
    fn parse(spec: &str, number: &str) -> Option<Self> {
        let number = number.split('.').map(str::parse).collect::<Result<_, _>>().ok()?;
        Some(Self { spec: spec.to_owned(), number })
    }

    fn number(&self) -> String {
        self.number.iter().map(u32::to_string).collect::<Vec<_>>().join(".")
    }

    fn is_within(&self, spec: &str, part: &str) -> bool {
        self.spec == spec && format!("{}.", self.number()).starts_with(&format!("{part}."))
    }
}

/// Citation at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Citation {
    section: Section,
    file: String,
    sentence: String,
}

/// The sections of each specification that has a list, with their titles.
type Titles = BTreeMap<Section, String>;

fn report(root: &Path) -> anyhow::Result<String> {
    let titles = titles(&root.join("tools/xtask/spec"))?;
    let files = all_sources(root)?;
    let mut citations = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file)?;
        let name = file.strip_prefix(root)?.to_str().context("a path that is not UTF-8")?.to_owned();
        citations.extend(cited(&name, &text, &titles)?);
    }
    Ok(write(&citations, &titles))
}

fn titles(lists: &Path) -> anyhow::Result<Titles> {
    let mut titles = Titles::new();
    for list in std::fs::read_dir(lists)? {
        let list = list?.path();
        let spec = list.file_stem().and_then(|stem| stem.to_str()).context("a list without a name")?;
        for line in std::fs::read_to_string(&list)?.lines() {
            let (number, title) = line.split_once(' ').with_context(|| format!("{spec}: {line:?}"))?;
            let section = Section::parse(spec, number).with_context(|| format!("{spec}: {line:?}"))?;
            titles.insert(section, title.to_owned());
        }
    }
    Ok(titles)
}

/// Returns the Rust sources of the server and of its tools but for this one, in order.
pub(crate) fn all_sources(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for directory in ["crates", "tools"] {
        sources(&root.join(directory), &mut files)?;
    }
    files.retain(|file| !file.starts_with(root.join("tools/xtask")));
    files.sort();
    Ok(files)
}

/// Collects the Rust sources in a directory and those below it.
fn sources(directory: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            sources(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// Reads the citations of one file.
fn cited(file: &str, text: &str, titles: &Titles) -> anyhow::Result<Vec<Citation>> {
    let mut citations: Vec<Citation> = Vec::new();
    // The citation whose sentence the next line may begin or go on with.
    let mut open = false;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if let Some(cited) = line.strip_prefix("//= ") {
            ensure!(
                !open || citations.last().is_some_and(|last| !last.sentence.is_empty()),
                lacks(file, number)
            );
            let (spec, section) =
                cited.rsplit_once(' ').with_context(|| format!("{file}:{number}: {cited:?}"))?;
            let section =
                Section::parse(spec, section).with_context(|| format!("{file}:{number}: {cited:?}"))?;
            let has_list = titles.keys().any(|known| known.spec == section.spec);
            if has_list && !titles.contains_key(&section) {
                bail!("{file}:{number}: {spec} has no section {}", section.number());
            }
            citations.push(Citation { section, file: file.to_owned(), sentence: String::new() });
            open = true;
        } else if let Some(sentence) = line.strip_prefix("//# ").filter(|_| open) {
            let kept = &mut citations.last_mut().expect("one is open").sentence;
            if !kept.is_empty() {
                kept.push(' ');
            }
            kept.push_str(sentence);
        } else if open {
            ensure!(citations.last().is_some_and(|last| !last.sentence.is_empty()), lacks(file, number));
            open = false;
        }
    }
    ensure!(
        citations.iter().all(|citation| !citation.sentence.is_empty()),
        lacks(file, text.lines().count())
    );
    Ok(citations)
}

fn lacks(file: &str, line: usize) -> String {
    format!("{file}:{line}: a citation without its sentence (`//# …`)")
}

fn write(citations: &[Citation], titles: &Titles) -> String {
    let mut by_section: BTreeMap<&Section, Vec<&Citation>> = BTreeMap::new();
    for citation in citations {
        by_section.entry(&citation.section).or_default().push(citation);
    }
    let mut out = String::from(
        "# What the code says it obeys\n\nMade by `cargo xtask spec` of the citations in the code (`//= MS-SMB2 3.3.5.9`); not to be edited.\n",
    );
    for (spec, part) in OBEYED {
        let all: Vec<_> = titles.keys().filter(|section| section.is_within(spec, part)).collect();
        let cited = all.iter().filter(|section| by_section.contains_key(*section)).count();
        let _ = writeln!(out, "\n{spec} {part}: {cited} of {} sections are cited.", all.len());
    }
    let specs: BTreeSet<_> = by_section.keys().map(|section| &section.spec).collect();
    for spec in specs {
        let _ = writeln!(out, "\n## {spec}");
        for (section, citations) in by_section.iter().filter(|(section, _)| section.spec == *spec) {
            let title = titles.get(*section).map_or(String::new(), |title| format!(" {title}"));
            let _ = writeln!(out, "\n### {}{title}\n", section.number());
            let mut asked: Vec<(&str, Vec<String>)> = Vec::new();
            for Citation { sentence, file, .. } in citations {
                let file = format!("`{file}`");
                match asked.iter_mut().find(|(asked, _)| asked == sentence) {
                    Some((_, files)) if files.contains(&file) => {}
                    Some((_, files)) => files.push(file),
                    None => asked.push((sentence, vec![file])),
                }
            }
            for (sentence, files) in asked {
                push_lines(&mut out, "- ", "  ", &format!("{sentence} {}", files.join(", ")));
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_is_that_of_the_code() {
        run(&Args { check: true }).unwrap();
    }

    fn known() -> Titles {
        let section = Section::parse("MS-X", "1.2").unwrap();
        Titles::from([(section, "Title".to_owned())])
    }

    #[test]
    fn a_citation_is_found_with_its_sentence() {
        let text = "fn f() {\n    //= MS-X 1.2\n    //# First half,\n    //# second half.\n    g();\n}\n";
        let citations = cited("a.rs", text, &known()).unwrap();
        let [citation] = &citations[..] else { panic!("one") };
        assert_eq!(citation.sentence, "First half, second half.");
        let report = write(&citations, &known());
        assert!(report.ends_with("### 1.2 Title\n\n- First half, second half. `a.rs`\n"), "{report}");
        let twice = write(&[&citations[..], &citations[..]].concat(), &known());
        assert_eq!(twice, report, "what is said twice in a file is one line");
    }

    #[test]
    fn citations_that_cannot_be_are_refused() {
        for (text, why) in [
            ("//= MS-X 1.3\n//# A sentence.", "no section 1.3"),
            ("//= MS-X 1.2\nlet x = 1;", "without its sentence"),
            ("//= MS-X 1.2", "without its sentence"),
            ("//= MS-X one\n//# A sentence.", "MS-X one"),
        ] {
            let error = cited("a.rs", text, &known()).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        assert!(cited("a.rs", "//= RFC 4178 5\n//# A sentence.", &known()).is_ok(), "there is no list of it");
    }

    #[test]
    fn parts_are_told_by_their_whole_number() {
        let section = |number| Section::parse("MS-X", number).unwrap();
        assert!(section("3.1").is_within("MS-X", "3.1") && section("3.1.4").is_within("MS-X", "3.1"));
        assert!(!section("3.10").is_within("MS-X", "3.1"));
        assert!(section("2.10") > section("2.9"));
    }
}
