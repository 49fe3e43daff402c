//! Values of a configuration, key by key: to find the differences of two.

use std::collections::BTreeMap;

use toml::{Table, Value};

/// Returns every key with its value as TOML, dotted. Tables of a list are distinguished by their `name`s, else by their
/// places.
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
}
