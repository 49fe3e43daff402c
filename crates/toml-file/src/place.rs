//! Places in a text: the line of a key, the key at a place.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Returns the line of a key in `text`, such as `volume[0].mount`, or of the table that it belongs to. Names may have dots.
pub fn line_of(text: &str, key: &str) -> Option<usize> {
    let whole = DeTable::parse(text).ok()?;
    let (mut table, mut rest, mut found) = (whole.get_ref(), key, None);
    loop {
        let fits = |name: &str| {
            let behind = rest.strip_prefix(name)?;
            (behind.is_empty() || behind.starts_with(['.', '['])).then_some(behind)
        };
        // Of `a` and `a.b` it is the longer that is meant.
        let fitting = table.iter().filter_map(|(key, value)| Some((key, value, fits(key.get_ref())?)));
        let Some((key, value, behind)) = fitting.min_by_key(|(.., behind)| behind.len()) else { break };
        let (at, behind) = match behind.strip_prefix('[') {
            Some(behind) => {
                let (at, behind) = behind.split_once(']')?;
                (Some(at.parse::<usize>().ok()?), behind)
            }
            None => (None, behind),
        };
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
        match (value, behind.strip_prefix('.')) {
            (DeValue::Table(below), Some(behind)) => (table, rest) = (below, behind),
            _ => break,
        }
    }
    Some(text.get(..found?)?.matches('\n').count() + 1)
}

/// Returns the key whose name or value is at a place of `text`, or whose table begins there. `None` for what is not TOML.
pub(crate) fn key_at(text: &str, at: usize) -> Option<String> {
    let whole = DeTable::parse(text).ok()?;
    let mut best: Option<(usize, String)> = None;
    let mut note = |span: Range<usize>, key: &str| {
        let is_in = span.contains(&at) || span.start == at;
        if is_in && best.as_ref().is_none_or(|(len, _)| span.len() <= *len) {
            best = Some((span.len(), key.to_owned()));
        }
    };
    let mut to_see = Vec::new();
    put_below("", whole.get_ref(), &mut to_see);
    while let Some((key, name, value)) = to_see.pop() {
        note(value.span(), &key);
        note(name, &key);
        match value.get_ref() {
            DeValue::Table(below) => put_below(&format!("{key}."), below, &mut to_see),
            DeValue::Array(all) => {
                for (at, one) in all.iter().enumerate() {
                    let DeValue::Table(below) = one.get_ref() else { continue };
                    let key = format!("{key}[{at}]");
                    note(one.span(), &key);
                    put_below(&format!("{key}."), below, &mut to_see);
                }
            }
            _ => {}
        }
    }
    best.map(|(_, key)| key)
}

type Entry<'a, 'i> = (String, Range<usize>, &'a Spanned<DeValue<'i>>);

fn put_below<'a, 'i>(above: &str, table: &'a DeTable<'i>, out: &mut Vec<Entry<'a, 'i>>) {
    out.extend(table.iter().map(|(key, value)| (format!("{above}{}", key.get_ref()), key.span(), value)));
}

/// Returns the places of lists that are written between brackets, the first of each key: what is wanted there is the same in all tables of a
/// list. `None` for what is not TOML.
pub(crate) fn inline_lists(text: &str) -> Option<Vec<(String, Range<usize>)>> {
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
    let mut found: Vec<_> = found.into_iter().collect();
    found.sort_by_key(|(_, span)| span.start);
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_on_its_line_or_that_of_its_table() {
        let text = "# first\n[http]\nlisten = [\n  'a',\n]\n\n[[volume]]\nname = 'a'\n[[volume]]\nname = 'b'\npath = 'p'\n\
                    [server]\nmarks = { eth0 = 1 }\n[[https.certificate]]\ncert = 'c'\n[user.a]\n[user.'a.b']\nid = 1\n";
        for (key, line) in [
            ("http.listen", Some(3)),
            ("http.other", Some(2)),
            ("volume[0].name", Some(8)),
            ("volume[1].path", Some(11)),
            ("volume[1].mount", Some(9)),
            ("server.marks", Some(13)),
            ("https.certificate[0].cert", Some(15)),
            ("user.a.id", Some(16)),
            ("user.a.b.id", Some(18)),
            ("user.a.b", Some(17)),
            ("volume.path", None),
            ("volume[2].path", None),
            ("limits.ranges", None),
        ] {
            assert_eq!(line_of(text, key), line, "{key}");
        }
        assert_eq!(line_of("no = = toml", "no"), None);
    }

    #[test]
    fn a_place_in_a_text_is_that_of_the_innermost_key() {
        let text = "a = 1\n[b]\nc = [1, 2]\n[[d]]\ne = { f = 'g' }\n[h.i]\nj = true\n";
        for (at, key) in [
            ("a = 1", "a"),
            ("1\n", "a"),
            ("[b]", "b"),
            ("c =", "b.c"),
            ("2]", "b.c"),
            ("[[d]]", "d[0]"),
            ("e = {", "d[0].e"),
            ("'g'", "d[0].e.f"),
            ("[h.i]", "h.i"),
            ("true", "h.i.j"),
        ] {
            assert_eq!(key_at(text, text.find(at).unwrap()).as_deref(), Some(key), "{at}");
        }
        assert_eq!(key_at("no = = toml", 0), None);
    }
}
