//! Values of a configuration, key by key: to find the differences of two, and the line of a key.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

/// Returns every key with its value as TOML, dotted. Tables of a list are told apart by their `name`s, else
/// by their places.
pub(super) fn flatten(table: &Table) -> BTreeMap<String, String> {
    let mut said = BTreeMap::new();
    table.iter().for_each(|(key, value)| put_flat(key.clone(), value, &mut said));
    said
}

fn put_flat(key: String, value: &Value, out: &mut BTreeMap<String, String>) {
    match value {
        Value::Table(table) => {
            table.iter().for_each(|(below, value)| put_flat(format!("{key}.{below}"), value, out));
        }
        Value::Array(tables) if !tables.is_empty() && tables.iter().all(Value::is_table) => {
            for (at, table) in tables.iter().enumerate() {
                put_flat(format!("{key}[{}]", place(at, table)), table, out);
            }
        }
        value => drop(out.insert(key, value.to_string())),
    }
}

/// Returns the `name` or else the index of a table in a list.
fn place(at: usize, table: &Value) -> String {
    table.get("name").and_then(Value::as_str).map_or_else(|| at.to_string(), str::to_owned)
}

/// Gives a [flat](flatten) key of `into` the value that `from` has, or removes it where `from` lacks it.
/// `None` for a key in a table of a list that one of the two lacks.
pub(super) fn take(into: &mut Table, key: &str, from: &Table) -> Option<()> {
    take_below("", into, key, from)
}

fn take_below(above: &str, into: &mut Table, key: &str, from: &Table) -> Option<()> {
    let names: Vec<String> = into.keys().chain(from.keys()).cloned().collect();
    for name in names {
        let full = format!("{above}{name}");
        if full == key {
            match from.get(&name) {
                Some(value) => drop(into.insert(name, value.clone())),
                None => drop(into.remove(&name)),
            }
            return Some(());
        }
        match key.strip_prefix(&full).and_then(|rest| rest.bytes().next()) {
            Some(b'.') => {
                let nothing = Table::new();
                let there = from.get(&name).map_or(Some(&nothing), Value::as_table)?;
                let here = into.entry(name.clone()).or_insert_with(|| Value::Table(Table::new()));
                let here = here.as_table_mut()?;
                take_below(&format!("{full}."), here, key, there)?;
                // Some tables mean something by being there.
                if here.is_empty() && !from.contains_key(&name) {
                    into.remove(&name);
                }
                return Some(());
            }
            Some(b'[') => {
                let there = from.get(&name).and_then(Value::as_array)?;
                let here = into.get_mut(&name).and_then(Value::as_array_mut)?;
                for (at, table) in here.iter_mut().enumerate() {
                    let place = place(at, table);
                    let full = format!("{full}[{place}].");
                    if key.starts_with(&full) {
                        let mut others = there.iter().enumerate();
                        let (_, other) = others.find(|(at, other)| self::place(*at, other) == place)?;
                        return take_below(&full, table.as_table_mut()?, key, other.as_table()?);
                    }
                }
                return None;
            }
            _ => {}
        }
    }
    None
}

/// Returns the line of a key in `text`, such as `volume[0].mount`, or of the table that it belongs to.
pub(super) fn line_of(text: &str, key: &str) -> Option<usize> {
    let whole = DeTable::parse(text).ok()?;
    let (mut table, mut found) = (whole.get_ref(), None);
    for part in key.split('.') {
        let (name, at) = match part.split_once('[') {
            Some((name, at)) => (name, Some(at.strip_suffix(']')?.parse::<usize>().ok()?)),
            None => (part, None),
        };
        let Some((key, value)) = table.iter().find(|(key, _)| key.get_ref() == name) else { break };
        let value = match (value.get_ref(), at) {
            (DeValue::Array(all), Some(at)) => {
                let one = all.get(at)?;
                found = Some(one.span().start);
                one.get_ref()
            }
            (DeValue::Array(all), None) if all.iter().any(|one| one.get_ref().is_table()) => return None,
            (value, _) => {
                found = Some(key.span().start);
                value
            }
        };
        match value {
            DeValue::Table(below) => table = below,
            _ => break,
        }
    }
    Some(text.get(..found?)?.matches('\n').count() + 1)
}

/// Returns the places of lists that are written between brackets, the first of each key: what is wanted there is the same in all tables of a
/// list. `None` for what is not TOML.
pub(super) fn inline_lists(text: &str) -> Option<Vec<Range<usize>>> {
    let mut found = BTreeMap::new();
    let whole = DeTable::parse(text).ok()?.into_inner();
    let mut to_see: Vec<_> =
        whole.into_iter().map(|(key, value)| (key.into_inner().into_owned(), value)).collect();
    while let Some((key, value)) = to_see.pop() {
        let span = value.span();
        match value.into_inner() {
            DeValue::Table(table) => {
                to_see.extend(
                    table.into_iter().map(|(below, value)| (format!("{key}.{}", below.get_ref()), value)),
                );
            }
            DeValue::Array(all) => {
                // A list of `[[tables]]` begins with the first of their heads.
                if !all.iter().any(|one| one.get_ref().is_table() && text[one.span()].starts_with("[[")) {
                    let first: &mut Range<usize> = found.entry(key.clone()).or_insert_with(|| span.clone());
                    if span.start < first.start {
                        *first = span;
                    }
                }
                to_see.extend(all.into_iter().map(|one| (format!("{key}[]"), one)));
            }
            _ => {}
        }
    }
    let mut found: Vec<_> = found.into_values().collect();
    found.sort_by_key(|span| span.start);
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Table {
        text.parse().unwrap()
    }

    #[test]
    fn a_key_is_taken_from_another_text_alone() {
        let text = "[http]\nlisten = 'a'\nmax = 1\n[[volume]]\nname = 'p.x'\npath = 'p'\n[[c]]\nk = 1\n[only]\nk = 1\n";
        let other = "[http]\nlisten = 'b'\nnew = 2\n[limits]\nr = 3\n[[volume]]\nname = 'q'\n[[volume]]\nname = 'p.x'\n\
                     mount = '/'\n[[c]]\nk = 2\n";
        for (key, expected) in [
            ("http.listen", Some(text.replace("'a'", "'b'"))),
            ("http.max", Some(text.replace("max = 1\n", ""))),
            ("http.new", Some(text.replace("max = 1\n", "max = 1\nnew = 2\n"))),
            ("limits.r", Some(format!("{text}[limits]\nr = 3\n"))),
            ("volume[p.x].path", Some(text.replace("path = 'p'\n", ""))),
            ("volume[p.x].mount", Some(text.replace("path = 'p'\n", "path = 'p'\nmount = '/'\n"))),
            ("c[0].k", Some(text.replace("[[c]]\nk = 1", "[[c]]\nk = 2"))),
            ("only.k", Some(text.replace("[only]\nk = 1\n", ""))),
            ("volume[q].name", None),
        ] {
            let mut into = table(text);
            let done = take(&mut into, key, &table(other));
            assert_eq!(done.map(|()| into), expected.map(|text| table(&text)), "{key}");
        }
    }

    #[test]
    fn a_key_is_on_its_line_or_that_of_its_table() {
        let text = "# first\n[http]\nlisten = [\n  'a',\n]\n\n[[volume]]\nname = 'a'\n[[volume]]\nname = 'b'\npath = 'p'\n\
                    [server]\nmarks = { eth0 = 1 }\n[[https.certificate]]\ncert = 'c'\n";
        for (key, line) in [
            ("http.listen", Some(3)),
            ("http.other", Some(2)),
            ("volume[0].name", Some(8)),
            ("volume[1].path", Some(11)),
            ("volume[1].mount", Some(9)),
            ("server.marks", Some(13)),
            ("https.certificate[0].cert", Some(15)),
            ("volume.path", None),
            ("volume[2].path", None),
            ("limits.ranges", None),
        ] {
            assert_eq!(line_of(text, key), line, "{key}");
        }
        assert_eq!(line_of("no = = toml", "no"), None);
    }
}
