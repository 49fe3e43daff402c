//! Files in TOML that people write: what is refused is reported in their words, with its line and key.

mod place;
mod words;

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, de};

pub use self::place::line_of;

/// Reason why a text is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Line, from 1 on; `None` where the reader knows none.
    pub line: Option<usize>,
    /// Dotted key whose value is refused, such as `volume[0].path`, or that of its table; empty for none.
    pub key: String,
    /// Description of what is there, and of what may be.
    pub problem: String,
    /// Place and problem on several lines, with the line of the text.
    pub shown: String,
}

/// Deserializes a text.
///
/// # Errors
/// [`Refusal`].
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, Refusal> {
    read_hiding(text, |_| false)
}

/// Deserializes a text, and tells no value of the keys that `is_secret`.
///
/// # Errors
/// As [`read`].
pub fn read_hiding<T: DeserializeOwned>(text: &str, is_secret: impl Fn(&str) -> bool) -> Result<T, Refusal> {
    toml::from_str(text).map_err(|error| refusal(text, &error, words_instead::<T>(text, &error), is_secret))
}

/// Deserializes a text, and refuses lists where tables are wanted, which serde would read as the values of the table's keys
/// in their order. It reads the text once more for each list with another key; [`tables`] is for files with many.
///
/// # Errors
/// As [`read`].
pub fn read_tables<T: DeserializeOwned>(text: &str) -> Result<T, Refusal> {
    // What is no TOML is reported by the caller that reads it.
    for (key, span) in place::inline_lists(text).into_iter().flatten() {
        let (before, after) = (&text[..span.start], &text[span.end..]);
        let Err(wrong) = toml::from_str::<T>(&format!("{before}true{after}")) else { continue };
        if words::is_no_table(wrong.message()) && wrong.span().is_some_and(|at| at.start == span.start) {
            let line = before.matches('\n').count() + 1;
            let problem = "this is a list, where a table is wanted".to_owned();
            let shown = format!("line {line}: {key}: {problem}");
            return Err(Refusal { line: Some(line), key, problem, shown });
        }
    }
    read(text)
}

/// Returns the refusal that an error of the reader is.
pub fn refused(text: &str, error: &toml::de::Error) -> Refusal {
    refusal(text, error, None, |_| false)
}

/// Deserializes a table whose values are tables, each of which is refused if it is a list (`deserialize_with`).
///
/// # Errors
/// The reader's.
pub fn tables<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<BTreeMap<String, T>, D::Error> {
    let tables = BTreeMap::<String, TableOnly<T>>::deserialize(from)?;
    Ok(tables.into_iter().map(|(name, TableOnly(table))| (name, table)).collect())
}

/// Value that is deserialized from a table alone.
struct TableOnly<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for TableOnly<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(TableVisitor(PhantomData))
    }
}

struct TableVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for TableVisitor<T> {
    type Value = TableOnly<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(TableOnly)
    }

    // Named, so that the reader tells what is there instead.
    fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
        Err(E::invalid_type(de::Unexpected::Unit, &self))
    }
}

/// Makes the refusal of an error; `known` are the words that may stand in its place.
fn refusal(
    text: &str,
    error: &toml::de::Error,
    known: Option<String>,
    is_secret: impl Fn(&str) -> bool,
) -> Refusal {
    let span = error.span();
    let line =
        span.clone().and_then(|span| text.get(..span.start)).map(|text| text.matches('\n').count() + 1);
    let mut key = span.clone().and_then(|span| place::key_at(text, span.start)).unwrap_or_default();
    let written = span.and_then(|span| text.get(span)).unwrap_or_default();
    let problem = words::of_users(error.message(), written, known.as_deref(), is_secret(&key));
    if words::is_list_found(error.message()) && key.ends_with(']') {
        // A list of `[[tables]]` begins where the first of them does.
        key.truncate(key.rfind('[').unwrap_or(key.len()));
    }
    let mut shown = error.to_string();
    // Last, below the line of the file, which may have the same words.
    if let Some(at) = shown.rfind(error.message()) {
        let named = if key.is_empty() { problem.clone() } else { format!("{key}: {problem}") };
        shown.replace_range(at..at + error.message().len(), &named);
    }
    let problem = problem.lines().collect::<Vec<_>>().join(", ");
    Refusal { line, key, problem, shown }
}

/// Returns the words that may stand where something else does: those that the error names where an empty one stands in
/// its place.
fn words_instead<T: DeserializeOwned>(text: &str, error: &toml::de::Error) -> Option<String> {
    let span = error.span().filter(|_| words::is_no_word(error.message()))?;
    let (before, after) = (text.get(..span.start)?, text.get(span.end..)?);
    let again = toml::from_str::<T>(&format!("{before}\"\"{after}")).err()?;
    let is_there = again.span().is_some_and(|again| again.start == span.start);
    words::words_of(again.message()).filter(|_| is_there).map(str::to_owned)
}

impl fmt::Display for Refusal {
    /// Writes line, key and problem on one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.problem)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct User {
        #[serde(rename = "id")]
        _id: i32,
        #[serde(rename = "password", default)]
        _password: String,
        #[serde(rename = "names", default)]
        _names: Vec<String>,
    }

    #[derive(Debug, Deserialize)]
    struct File {
        #[serde(rename = "user", default, deserialize_with = "tables")]
        _user: BTreeMap<String, User>,
    }

    fn told(text: &str) -> String {
        let refusal = read_hiding::<File>(text, |key| key.ends_with(".password")).unwrap_err();
        refusal.to_string()
    }

    #[test]
    fn a_refusal_has_line_key_and_what_may_be_there() {
        let number = "a number from -2147483648 to 2147483647 is wanted";
        for (user, expected) in [
            ("[user.a]\nid = 'x'", format!("line 2: user.a.id: this is the text \"x\", where {number}")),
            ("[user.a]\nid = {}", format!("line 2: user.a.id: this is a table, where {number}")),
            (
                "[user.'a.b']\n\nid = 1.5",
                format!("line 3: user.a.b.id: this is the number 1.5, where {number}"),
            ),
            ("user = { a = { id = true } }", format!("line 1: user.a.id: this is true, where {number}")),
            (
                "[user.a]\nid = 1\nnames = [1]",
                "line 3: user.a.names: this is the number 1, where a text is wanted".to_owned(),
            ),
            ("user = 3", "line 1: user: this is the number 3, where a table is wanted".to_owned()),
            ("[user]\na = 3", "line 2: user.a: this is the number 3, where a table is wanted".to_owned()),
            ("[user]\na = [1]", "line 2: user.a: this is a list, where a table is wanted".to_owned()),
            ("[[user.a]]\nid = 1", "line 1: user.a: this is a list, where a table is wanted".to_owned()),
            ("[user.a]\nnames = []", "line 1: user.a: the key `id` is missing here".to_owned()),
        ] {
            assert_eq!(told(user), expected, "{user}");
        }
        assert!(
            told("[user.a]\nidd = 1").starts_with("line 2: user.a.idd: unknown key `idd`: the keys here are")
        );
    }

    #[test]
    fn the_value_of_a_secret_is_told_in_no_refusal() {
        for (value, kind) in [
            ("12345678", "a number"),
            ("123456789012345678901234567890", "a number"),
            ("1.5", "a number"),
            ("['12345678']", "a list"),
            ("{ a = '12345678' }", "a table"),
        ] {
            let told = told(&format!("[user.a]\nid = 1\npassword = {value}"));
            assert_eq!(told, format!("line 3: user.a.password: this is {kind}, where a text is wanted"));
        }
    }
}
