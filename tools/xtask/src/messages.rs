//! `cargo xtask messages`: every WARN and ERROR of the server's log, with its cause and what to do, as `docs/reference/messages.md`.
//!
//! A message is written once, where it is logged. Its text ends with its name in brackets, `[volume-moved]`, and comments above it
//! say why it comes (`//@ cause: ...`) and what to do (`//@ remedy: ...`). A text that is made in one place and logged in another has
//! `//@ level: WARN` besides. What is logged without all that is refused, and so is a text that does not begin with its subject.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, bail, ensure};

use crate::page::push_lines;
use crate::spec;

/// File where texts are logged that are made, and looked at, elsewhere: it refuses those without a name.
const PASSED_ON: &str = "crates/server/src/logs/passed_on.rs";

/// Words that a message may begin with, before its first colon or space.
const SUBJECTS: [&str; 19] = [
    "AFS",
    "HTTP/2",
    "SMB",
    "admin",
    "certificate",
    "configuration",
    "connections",
    "console",
    "disk",
    "file",
    "index",
    "lane",
    "listeners",
    "log",
    "memory",
    "open",
    "packets",
    "thread",
    "volume",
];

/// Words of this project's own, which say nothing to a reader of a log.
const UNCOMMON: [&str; 11] = [
    "anew",
    " bear ",
    " bears ",
    "count on",
    "earlier run",
    "in order",
    "kept to",
    "let go",
    "somebody",
    "taken over",
    "turned away",
];

/// A sentence of more words is two.
const WORDS_MAX: usize = 30;

/// Flags of `cargo xtask messages`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write nothing; fail where the page is not that of the code
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let root = spec::root();
    let page = page(&root)?;
    let path = root.join("docs/reference/messages.md");
    if args.check {
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        ensure!(
            kept == page,
            "docs/reference/messages.md is not that of the code: run `cargo xtask messages`"
        );
        return Ok(());
    }
    std::fs::write(&path, page).with_context(|| format!("cannot write {}", path.display()))
}

/// One message: what its place in the code says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Message {
    level: String,
    text: String,
    cause: String,
    remedy: String,
    file: String,
}

fn page(root: &Path) -> anyhow::Result<String> {
    let files = spec::all_sources(root)?;
    let (mut messages, mut faults) = (BTreeMap::new(), Vec::new());
    for file in files {
        let name = file.strip_prefix(root)?.to_str().context("a path that is not UTF-8")?.to_owned();
        if !name.contains("/src/") || name.contains("/tests/") {
            continue;
        }
        let text = std::fs::read_to_string(&file)?;
        // Tests are last in a file, and log nothing.
        let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        if !["//@ ", "warn!(", "error!("].iter().any(|sign| text.contains(sign)) {
            continue;
        }
        match said(&name, text) {
            Ok(said) => {
                for (id, message) in said {
                    if let Some(other) = messages.insert(id.clone(), message) {
                        faults.push(format!("{name}: the message {id} is in {} too", other.file));
                    }
                }
            }
            Err(error) => faults.push(format!("{error:#}")),
        }
    }
    ensure!(faults.is_empty(), "{}", faults.join("\n"));
    Ok(write(&messages))
}

/// Returns the messages of one file, by their names.
fn said(file: &str, text: &str) -> anyhow::Result<Vec<(String, Message)>> {
    let (mut messages, mut faults) = (Vec::new(), Vec::new());
    let Source { literals, calls, mut notes } = Source::read(text);
    for call in &calls {
        let within: Vec<&Literal> =
            literals.iter().filter(|literal| (call.begin..call.end).contains(&literal.at)).collect();
        let named = within.iter().any(|literal| split(&literal.text).is_some());
        if !named && file != PASSED_ON {
            faults.push(format!(
                "{file}:{}: {} {} without a name in brackets",
                call.line,
                call.article(),
                call.level
            ));
        }
    }
    for literal in &literals {
        let Some((text, id)) = split(&literal.text) else { continue };
        let call = calls.iter().find(|call| (call.begin..call.end).contains(&literal.at));
        // The note is above the text, or above the call that has it, with nothing but code between.
        let above = notes.iter().rposition(|note| note.line < literal.line);
        let Some(mut note) = above.map(|above| notes.remove(above)) else {
            faults.push(format!("{file}:{}: {id} has no cause and no remedy", literal.line));
            continue;
        };
        let level = call.map(|call| call.level.to_owned()).or_else(|| note.said.remove("level"));
        let mut part = |key: &str| note.said.remove(key).filter(|said| !said.is_empty());
        let (Some(level), Some(cause), Some(remedy)) = (level, part("cause"), part("remedy")) else {
            faults.push(format!("{file}:{}: {id} lacks its cause, its remedy or its level", literal.line));
            continue;
        };
        let subject = part("subject").map(|subject| format!("{subject} ")).unwrap_or_default();
        if let Some(key) = note.said.keys().next() {
            faults.push(format!("{file}:{}: {id}: what is {key}?", literal.line));
        }
        let message =
            Message { level, text: format!("{subject}{text}"), cause, remedy, file: file.to_owned() };
        if let Err(fault) = check(&message) {
            faults.push(format!("{file}:{}: {id}: {fault:#}", literal.line));
        }
        messages.push((id.to_owned(), message));
    }
    faults.extend(notes.iter().map(|note| format!("{file}:{}: a cause without a message", note.line)));
    if !faults.is_empty() {
        bail!("{}", faults.join("\n"));
    }
    Ok(messages)
}

/// Checks whether it names its subject, uses common words and says what it has to.
fn check(message: &Message) -> anyhow::Result<()> {
    let Message { level, text, cause, remedy, .. } = message;
    ensure!(level == "WARN" || level == "ERROR", "there is no level {level}");
    let first = text.split([' ', ':']).next().unwrap_or_default();
    ensure!(SUBJECTS.contains(&first), "{first:?} is no subject: name first what it is about");
    let subject = text.split(": ").next().unwrap_or_default();
    ensure!(subject.len() < text.len() && subject.len() <= 50, "there is no colon behind the subject");
    ensure!(!text.contains('\n'), "it is longer than a line");
    for said in [text, cause, remedy] {
        for word in UNCOMMON {
            ensure!(!said.contains(word), "{word:?} is not a common word for it");
        }
    }
    for said in [cause, remedy] {
        ensure!(said.ends_with('.'), "{said:?} is no sentence");
        for sentence in said.split(". ") {
            let words = sentence.split_whitespace().count();
            ensure!(words <= WORDS_MAX, "{sentence:?} has {words} words");
        }
    }
    Ok(())
}

/// Returns what a text says, and the name in brackets at its end. Behind that there may be a placeholder, as
/// for a backtrace.
fn split(text: &str) -> Option<(&str, &str)> {
    let (said, rest) = text.rsplit_once(" [")?;
    let (id, behind) = rest.split_once(']')?;
    let is_id = id.contains('-') && id.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
    let is_last = behind.is_empty() || (behind.starts_with('{') && behind.ends_with('}'));
    (is_id && is_last).then_some((said, id))
}

fn write(messages: &BTreeMap<String, Message>) -> String {
    let mut page = String::from(HEAD);
    for (id, Message { level, text, cause, remedy, file }) in messages {
        let text = text.replace("{}", "{...}").replace('`', "'");
        let _ = writeln!(page, "\n## {id}\n");
        push_lines(&mut page, "", "", &format!("{level}: `{text}`"));
        page.push('\n');
        for item in [format!("Cause: {cause}"), format!("Remedy: {remedy}"), format!("`{file}`")] {
            push_lines(&mut page, "- ", "  ", &item);
        }
    }
    page
}

const HEAD: &str = "# Messages\n
Made by `cargo xtask messages` of the code; not to be edited.\n
Every WARN and ERROR of the server's log ends its sentence with the name of its message in brackets, such as `[volume-moved]`; fields such
as `volume=data` may follow. This page has the messages by that name: text with placeholders in braces, cause, remedy, and the source that
logs it. ERROR: something is not served, kept or written as it should be. WARN: all is served, and an administrator should look at it.
";

/// Parts of a source file that matter.
#[derive(Debug, Default)]
struct Source {
    literals: Vec<Literal>,
    calls: Vec<Call>,
    notes: Vec<Note>,
}

/// A string of the code, as the program has it.
#[derive(Debug)]
struct Literal {
    at: usize,
    line: usize,
    text: String,
}

/// Place where something is logged: from its name to the parenthesis that ends it.
#[derive(Debug)]
struct Call {
    begin: usize,
    end: usize,
    line: usize,
    level: &'static str,
}

impl Call {
    fn article(&self) -> &'static str {
        if self.level == "ERROR" { "an" } else { "a" }
    }
}

/// Comments `//@ key: text`, with the lines that go on with them.
#[derive(Debug)]
struct Note {
    /// The last of its lines.
    line: usize,
    said: BTreeMap<&'static str, String>,
    /// Key that its next line goes on with.
    key: &'static str,
}

impl Source {
    /// Reads strings, calls and notes. It knows comments, strings and characters of Rust, and nothing else of it.
    fn read(text: &str) -> Self {
        let mut source = Self::default();
        let bytes = text.as_bytes();
        let (mut at, mut line, mut depth) = (0, 1, 0_usize);
        let mut open: Vec<(Call, usize)> = Vec::new();
        while at < bytes.len() {
            let rest = &text[at..];
            let taken = if rest.starts_with("//") {
                let comment = rest.lines().next().unwrap_or_default();
                if let Some(said) = comment.strip_prefix("//@ ") {
                    source.note(line, said);
                }
                comment.len()
            } else if rest.starts_with("/*") {
                rest.find("*/").map_or(rest.len(), |end| end + 2)
            } else if let Some((begin, end)) = raw(rest).filter(|_| !is_word(bytes, at)) {
                let len = rest[begin..].find(&end).unwrap_or(rest.len() - begin);
                source.literals.push(Literal { at, line, text: rest[begin..begin + len].to_owned() });
                (begin + len + end.len()).min(rest.len())
            } else if rest.starts_with('"') {
                let (text, len) = unquoted(rest);
                source.literals.push(Literal { at, line, text });
                len
            } else if rest.starts_with('\'') {
                character(rest)
            } else {
                for (name, level) in [("warn!(", "WARN"), ("error!(", "ERROR")] {
                    if rest.starts_with(name) && !is_word(bytes, at) {
                        open.push((Call { begin: at, end: at, line, level }, depth));
                    }
                }
                match bytes[at] {
                    b'(' => depth += 1,
                    b')' => {
                        depth = depth.saturating_sub(1);
                        if let Some((call, _)) = open.pop_if(|(_, within)| *within == depth) {
                            source.calls.push(Call { end: at, ..call });
                        }
                    }
                    _ => {}
                }
                rest.chars().next().map_or(1, char::len_utf8)
            };
            line += rest[..taken].matches('\n').count();
            at += taken;
        }
        // Limits are told so too (`cargo xtask limits`).
        source.notes.retain(|note| !note.said.contains_key("limit"));
        source
    }

    fn note(&mut self, line: usize, said: &str) {
        let follows = self.notes.last().is_some_and(|note| note.line + 1 == line);
        if !follows {
            self.notes.push(Note { line, said: BTreeMap::new(), key: "text without a key" });
        }
        let note = self.notes.last_mut().expect("there is one by now");
        note.line = line;
        let begins = |key: &&str| said.strip_prefix(*key).is_some_and(|said| said.starts_with(": "));
        if let Some(key) = KEYS.into_iter().find(begins) {
            note.key = key;
            note.said.insert(key, said[key.len() + 2..].trim().to_owned());
        } else {
            let kept = note.said.entry(note.key).or_default();
            kept.push(' ');
            kept.push_str(said.trim());
        }
    }
}

/// Returns whether the byte before is a part of the same word.
fn is_word(bytes: &[u8], at: usize) -> bool {
    at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_')
}

/// Returns how long the beginning of a raw string is, its quote included, and what ends it.
fn raw(rest: &str) -> Option<(usize, String)> {
    let prefix = ["r", "br", "cr"].into_iter().find(|prefix| rest.starts_with(prefix))?;
    let hashes = rest[prefix.len()..].bytes().take_while(|&byte| byte == b'#').count();
    let quote = prefix.len() + hashes;
    rest[quote..].starts_with('"').then(|| (quote + 1, format!("\"{}", "#".repeat(hashes))))
}

/// Returns the string that begins here, and its length in the code.
fn unquoted(rest: &str) -> (String, usize) {
    let (mut text, mut characters) = (String::new(), rest.char_indices().skip(1).peekable());
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (text, at + 1),
            '\\' => match characters.next() {
                Some((_, '\n')) => while characters.next_if(|(_, next)| next.is_whitespace()).is_some() {},
                Some((_, 'n')) => text.push('\n'),
                Some((_, other)) => text.push(other),
                None => {}
            },
            other => text.push(other),
        }
    }
    (text, rest.len())
}

/// Returns how long a character or the name of a lifetime is that begins here; of the latter the quote alone
/// is taken.
fn character(rest: &str) -> usize {
    let mut characters = rest.char_indices().skip(1);
    match characters.next() {
        Some((_, '\\')) => rest[3..].find('\'').map_or(rest.len(), |end| 3 + end + 1),
        Some((at, character)) if rest[at + character.len_utf8()..].starts_with('\'') => {
            at + character.len_utf8() + 1
        }
        _ => 1,
    }
}

const KEYS: [&str; 5] = ["level", "subject", "cause", "remedy", "limit"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_that_of_the_code() {
        run(&Args { check: true }).unwrap();
    }

    const GOOD: &str = r#"
        //@ cause: It was moved,
        //@ or so.
        //@ remedy: Move it back.
        tracing::warn!(volume = name.unwrap_or("none"), "volume {name}: it \
            was moved (\"{}\") [volume-moved]", path.find('"'));
    "#;

    #[test]
    fn a_message_is_read_with_its_cause_and_remedy() {
        let said = said("crates/a/src/a.rs", GOOD).unwrap();
        let [(id, message)] = &said[..] else { panic!("one: {said:?}") };
        let expected = Message {
            level: "WARN".to_owned(),
            text: "volume {name}: it was moved (\"{}\")".to_owned(),
            cause: "It was moved, or so.".to_owned(),
            remedy: "Move it back.".to_owned(),
            file: "crates/a/src/a.rs".to_owned(),
        };
        assert_eq!((id.as_str(), message), ("volume-moved", &expected));
        let page = write(&said.into_iter().collect());
        assert!(
            page.contains("## volume-moved\n\nWARN: `volume {name}: it was moved (\"{...}\")`\n"),
            "{page}"
        );
    }

    #[test]
    fn what_is_logged_without_name_cause_or_subject_is_refused() {
        let made_elsewhere = GOOD.replace("tracing::warn!(", "let text = format!(");
        let long = format!("cause: {}.", "word ".repeat(31));
        for (text, why) in [
            (GOOD.replace(" [volume-moved]", ""), "a WARN without a name in brackets"),
            ("error!(\"volume {}: {why}\");".to_owned(), "an ERROR without a name"),
            ("tracing::warn!(\"{warning}\");".to_owned(), "a WARN without a name"),
            (GOOD.replace("remedy:", "or"), "lacks its cause, its remedy"),
            (GOOD.replace("//@ ", "// "), "has no cause"),
            (made_elsewhere.clone(), "or its level"),
            (GOOD.replace("volume {name}: it", "it"), "no subject"),
            (GOOD.replace("{name}: it", "{name} it"), "no colon"),
            (GOOD.replace("cause: It was moved,", "cause: It was taken over,"), "not a common word"),
            (GOOD.replace("back.", "back"), "no sentence"),
            (GOOD.replace("cause: It was moved,", &long), "has 31 words"),
            (format!("{GOOD}\n//@ cause: Nothing."), "a cause without a message"),
        ] {
            let error = said("crates/a/src/a.rs", &text).unwrap_err().to_string();
            assert!(error.contains(why), "{why}: {error}");
        }
        let with_level = made_elsewhere.replace("//@ cause", "//@ level: ERROR\n        //@ cause");
        let said = said("crates/a/src/a.rs", &with_level).unwrap();
        assert_eq!(said[0].1.level, "ERROR");
    }

    #[test]
    fn strings_in_comments_and_quotes_in_characters_are_no_strings() {
        let source =
            Source::read("// \"a\"\n/* \"b\" */ f::<'a>('\"', '\\'', r#\"c\"d\"#, \"e\\\"\", b\"f\")");
        let texts: Vec<&str> = source.literals.iter().map(|literal| literal.text.as_str()).collect();
        assert_eq!(texts, ["c\"d", "e\"", "f"]);
    }
}
