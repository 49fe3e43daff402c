//! Lexer, from files to tokens: handles comments, preprocessor lines, `%` lines and includes.

use std::collections::HashSet;
use std::sync::Arc;

use crate::ast::Name;
use crate::expr::{self, Scope};
use crate::{Error, Loader, Location, Result};

/// Depth to which includes may nest.
const MAX_INCLUDE_DEPTH: usize = 32;

/// Token with the location of its start.
#[derive(Debug, Clone)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) at: Location,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Keyword or name.
    Word(String),
    /// Integer literal.
    Number {
        value: i64,
        hex: bool,
    },
    /// String literal without its quotes.
    Text(String),
    Punctuation(char),
    /// End of a file that the caller named. Includes leave no such mark.
    End,
}

/// Definition by `#define` or `%#define` of a name without parameters.
#[derive(Debug, Clone)]
pub(crate) struct Define {
    pub(crate) name: Name,
    pub(crate) body: String,
}

/// Tokens and defines of all files.
#[derive(Debug, Default)]
pub(crate) struct Source {
    pub(crate) tokens: Vec<Token>,
    pub(crate) defines: Vec<Define>,
}

/// Reads `files` and their includes. `defines` count as defined for conditionals.
pub(crate) fn read(files: &[&str], defines: &[String], loader: &mut dyn Loader) -> Result<Source> {
    let mut lexer = Lexer { source: Source::default(), command_line: defines, seen: HashSet::new(), loader };
    for file in files {
        let read = |source| Error::Read { included_at: None, path: (*file).to_owned(), source };
        let (path, text) = lexer.loader.load(file, None).map_err(read)?;
        if lexer.seen.insert(path.clone()) {
            let end = lexer.file(&path, &text, 0)?;
            lexer.source.tokens.push(Token { kind: Kind::End, at: end });
        }
    }
    Ok(lexer.source)
}

struct Lexer<'l> {
    source: Source,
    command_line: &'l [String],
    seen: HashSet<String>,
    loader: &'l mut dyn Loader,
}

/// State of the lexer, carried from line to line of one file.
#[derive(Default)]
struct State {
    /// Start of the `/* … */` comment that the lexer is in.
    comment: Option<Location>,
    /// Start of the `@{ … @}` section that the lexer is in: C that rxgen copies to its output.
    verbatim: Option<Location>,
    conditionals: Vec<Conditional>,
}

struct Conditional {
    at: Location,
    active: bool,
    /// True when an earlier group of this conditional was active, or an outer conditional makes all groups
    /// inactive.
    decided: bool,
}

impl State {
    fn active(&self) -> bool {
        self.conditionals.iter().all(|conditional| conditional.active)
    }
}

impl Scope for Lexer<'_> {
    fn value(&self, name: &str, depth: u32) -> Option<i64> {
        if self.command_line.iter().any(|define| define == name) {
            return Some(1);
        }
        let define = self.source.defines.iter().rev().find(|define| define.name.text == name);
        // In `#if`, C takes a name that is not defined as 0.
        define.map_or(Some(0), |define| expr::evaluate(&define.body, self, depth))
    }

    fn defined(&self, name: &str) -> Option<bool> {
        let command_line = self.command_line.iter().any(|define| define == name);
        Some(command_line || self.source.defines.iter().any(|define| define.name.text == name))
    }
}

impl Lexer<'_> {
    /// Reads one file and returns the location of its end.
    fn file(&mut self, path: &str, text: &str, depth: usize) -> Result<Location> {
        let mut state = State::default();
        let mut at = Location { file: path.into(), line: 0, column: 1 };
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            at.line += 1;
            let free = state.comment.is_none() && state.verbatim.is_none();
            if !free || !line.trim_start().starts_with(['#', '%']) {
                self.line(line, &at, &mut state)?;
                continue;
            }
            let start = at.clone();
            let mut whole = line.to_owned();
            while whole.ends_with('\\') {
                whole.pop();
                whole.push_str(lines.next().unwrap_or_default());
                at.line += 1;
            }
            let (directive, open) = without_comments(&whole);
            if open {
                state.comment = Some(start.clone());
            }
            match directive.trim_start().strip_prefix('#') {
                Some(directive) => match line_marker(directive) {
                    Some((line, file)) => {
                        at.line = line.saturating_sub(1);
                        at.file = file.map_or(at.file, Arc::from);
                    }
                    None => self.directive(directive.trim(), &start, path, &mut state, depth)?,
                },
                None if state.active() => self.copied(directive.trim_start_matches([' ', '%']), &start),
                None => {}
            }
        }
        let open = state.conditionals.pop().map(|conditional| (conditional.at, "#endif"));
        let open = open.or(state.comment.map(|at| (at, "*/"))).or(state.verbatim.map(|at| (at, "@}")));
        match open {
            Some((at, end)) => Err(Error::meaning(&at, format!("no {end} ends what starts here"))),
            None => Ok(Location { line: at.line + 1, ..at }),
        }
    }

    /// Reads the tokens of one line.
    fn line(&mut self, line: &str, start: &Location, state: &mut State) -> Result<()> {
        let mut rest = line;
        loop {
            let column = line[..line.len() - rest.len()].chars().count() as u32 + 1;
            let at = Location { column, ..start.clone() };
            let closing =
                if state.comment.is_some() { Some("*/") } else { state.verbatim.as_ref().map(|_| "@}") };
            if let Some(closing) = closing {
                let Some(end) = rest.find(closing) else { return Ok(()) };
                rest = &rest[end + closing.len()..];
                (state.comment, state.verbatim) = (None, None);
                continue;
            }
            let Some(first) = rest.chars().next() else { return Ok(()) };
            if first.is_whitespace() {
                rest = rest.trim_start();
            } else if rest.starts_with("//") {
                return Ok(());
            } else if let Some(after) = rest.strip_prefix("/*") {
                state.comment = Some(at);
                rest = after;
            } else if let Some(after) = rest.strip_prefix("@{") {
                state.verbatim = Some(at);
                rest = after;
            } else if !state.active() {
                rest = &rest[first.len_utf8()..];
            } else {
                let (kind, len) = token(rest, &at)?;
                self.source.tokens.push(Token { kind, at });
                rest = &rest[len..];
            }
        }
    }

    /// Obeys a preprocessor line, given without its `#`.
    fn directive(
        &mut self,
        text: &str,
        at: &Location,
        path: &str,
        state: &mut State,
        depth: usize,
    ) -> Result<()> {
        let (word, argument) = split_word(text);
        match word {
            "if" | "ifdef" | "ifndef" => {
                let outer = state.active();
                let active = outer && self.condition(word, argument, at)?;
                state.conditionals.push(Conditional { at: at.clone(), active, decided: active || !outer });
                return Ok(());
            }
            "elif" | "else" | "endif" => return self.next_group(word, argument, at, state),
            _ if !state.active() => return Ok(()),
            "define" => self.define(argument, at, false),
            "undef" => self.source.defines.retain(|define| define.name.text != argument),
            "include" => return self.include(argument, at, path, depth),
            "" | "pragma" | "ident" => {}
            "error" => return Err(Error::meaning(at, format!("#error {argument}"))),
            _ => {
                let expected = "a preprocessor directive".to_owned();
                return Err(Error::Syntax { at: at.clone(), expected, found: format!("`#{word}`") });
            }
        }
        Ok(())
    }

    fn next_group(&mut self, word: &str, argument: &str, at: &Location, state: &mut State) -> Result<()> {
        let without_if = || Error::meaning(at, format!("#{word} without #if"));
        let mut conditional = state.conditionals.pop().ok_or_else(without_if)?;
        if word == "endif" {
            return Ok(());
        }
        conditional.active =
            !conditional.decided && (word == "else" || self.condition("if", argument, at)?);
        conditional.decided |= conditional.active;
        state.conditionals.push(conditional);
        Ok(())
    }

    fn condition(&self, word: &str, argument: &str, at: &Location) -> Result<bool> {
        let no_value =
            || Error::meaning(at, format!("`{argument}` is no condition that can be decided here"));
        match word {
            "if" => expr::evaluate(argument, self, 0).map(|value| value != 0).ok_or_else(no_value),
            _ => Ok(self.defined(argument) == Some(word == "ifdef")),
        }
    }

    /// Handles a `%` line, without the `%`: C that matters only if it defines a constant.
    fn copied(&mut self, text: &str, at: &Location) {
        if let Some(directive) = text.strip_prefix('#')
            && let ("define", argument) = split_word(directive.trim())
        {
            self.define(argument, at, true);
        }
    }

    /// Keeps an object-like macro. Of those in `%` lines the first counts, since which of C's conditionals hold is
    /// not known; of the others the last.
    fn define(&mut self, argument: &str, at: &Location, keep_first: bool) {
        let (name, body) = split_word(argument);
        if name.is_empty() || argument[name.len()..].starts_with('(') {
            return;
        }
        if let Some(index) = self.source.defines.iter().position(|define| define.name.text == name) {
            if keep_first {
                return;
            }
            self.source.defines.remove(index);
        }
        let name = Name { text: name.to_owned(), at: at.clone() };
        self.source.defines.push(Define { name, body: body.to_owned() });
    }

    fn include(&mut self, argument: &str, at: &Location, path: &str, depth: usize) -> Result<()> {
        if argument.starts_with('<') {
            return Ok(());
        }
        let Some(name) = argument.strip_prefix('"').and_then(|name| name.strip_suffix('"')) else {
            let found = format!("`{argument}`");
            return Err(Error::Syntax {
                at: at.clone(),
                expected: "a file name in quotes".to_owned(),
                found,
            });
        };
        if depth == MAX_INCLUDE_DEPTH {
            return Err(Error::meaning(
                at,
                format!("more than {MAX_INCLUDE_DEPTH} includes inside each other"),
            ));
        }
        let read = |source| Error::Read { included_at: Some(at.clone()), path: name.to_owned(), source };
        let (included, text) = self.loader.load(name, Some(path)).map_err(read)?;
        if self.seen.insert(included.clone()) {
            self.file(&included, &text, depth + 1)?;
        }
        Ok(())
    }
}

/// Reads the token that `text` starts with; returns the token and its length in bytes.
fn token(text: &str, at: &Location) -> Result<(Kind, usize)> {
    let syntax = |expected: &str, found: &str| {
        Err(Error::Syntax { at: at.clone(), expected: expected.to_owned(), found: format!("`{found}`") })
    };
    let word_len =
        |text: &str| text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    let Some(first) = text.chars().next() else { return Ok((Kind::End, 0)) };
    match first {
        'a'..='z' | 'A'..='Z' | '_' => {
            let len = word_len(text);
            Ok((Kind::Word(text[..len].to_owned()), len))
        }
        '0'..='9' | '-' => {
            let sign = usize::from(first == '-');
            let len = sign + word_len(&text[sign..]);
            let magnitude = expr::integer(&text[sign..len]);
            match magnitude.filter(|_| text[sign..].starts_with(|c: char| c.is_ascii_digit())) {
                Some(value) if sign == 1 => Ok((Kind::Number { value: -value, hex: false }, len)),
                Some(value) => Ok((Kind::Number { value, hex: text.starts_with("0x") }, len)),
                None => syntax("an integer of at most 63 bits", &text[..len]),
            }
        }
        '"' => match text[1..].find('"') {
            Some(len) => Ok((Kind::Text(text[1..=len].to_owned()), len + 2)),
            None => syntax("a closing quote on the same line", text.trim_end()),
        },
        ':' | ';' | ',' | '=' | '*' | '[' | ']' | '{' | '}' | '(' | ')' | '<' | '>' => {
            Ok((Kind::Punctuation(first), 1))
        }
        _ => syntax("a name, number, string or punctuation", &first.to_string()),
    }
}

/// Splits a leading name off; the rest has no leading or trailing space.
fn split_word(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    (&text[..end], text[end..].trim())
}

/// Removes the comments of a line that the preprocessor reads; the second value is true when one stays open
/// at the end.
fn without_comments(line: &str) -> (String, bool) {
    let mut kept = String::new();
    let mut rest = line;
    while let Some(start) = rest.find("/*") {
        kept.push_str(&rest[..start]);
        kept.push(' ');
        match rest[start + 2..].find("*/") {
            Some(len) => rest = &rest[start + 2 + len + 2..],
            None => return (kept, true),
        }
    }
    kept.push_str(rest);
    (kept, false)
}

/// Parses a `# 12 "file"` or `#line 12 "file"` marker, which says where the next line comes from, into line
/// and file.
fn line_marker(directive: &str) -> Option<(u32, Option<&str>)> {
    let directive = directive.trim();
    let directive = directive.strip_prefix("line ").unwrap_or(directive).trim_start();
    let (line, rest) = split_word(directive);
    let file = rest.strip_prefix('"').and_then(|rest| rest.split('"').next());
    Some((line.parse().ok()?, file.filter(|file| !file.is_empty())))
}
