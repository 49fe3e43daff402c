//! Refusal of keys without an owner, with their place.

use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::Keys;

/// Refuses the first key of `text` that no owner knows.
pub(super) fn refuse(text: &str, owners: &[Keys]) -> Result<(), toml::de::Error> {
    let all = |of: fn(&Keys) -> &'static [&'static str]| owners.iter().flat_map(of).copied().collect();
    let (mut tables, volume): (Vec<_>, Vec<_>) = (all(|keys| keys.tables), all(|keys| keys.volume));
    tables.push(VOLUME);
    let known = KnownKeys { tables, volume };
    Level { keys: &known.tables, below: Some(&known) }.deserialize(toml::Deserializer::parse(text)?)
}

struct KnownKeys {
    tables: Vec<&'static str>,
    volume: Vec<&'static str>,
}

/// Table, or several tables with the same known keys.
#[derive(Clone, Copy)]
struct Level<'k> {
    keys: &'k [&'static str],
    /// Keys of the shared table below the top, when this is the top.
    below: Option<&'k KnownKeys>,
}

impl<'de> DeserializeSeed<'de> for Level<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Level<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key_seed(UnknownKey(self.keys))? {
            match self.below {
                Some(known) if key == VOLUME => {
                    map.next_value_seed(Level { keys: &known.volume, below: None })?;
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut tables: A) -> Result<(), A::Error> {
        while tables.next_element_seed(self)?.is_some() {}
        Ok(())
    }

    // What is no table its owner refuses.
    fn visit_bool<E: de::Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: de::Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: de::Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
}

struct UnknownKey<'k>(&'k [&'static str]);

impl<'de> DeserializeSeed<'de> for UnknownKey<'_> {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<String, D::Error> {
        from.deserialize_identifier(self)
    }
}

impl Visitor<'_> for UnknownKey<'_> {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: de::Error>(self, key: &str) -> Result<String, E> {
        if self.0.contains(&key) {
            return Ok(key.to_owned());
        }
        let known: Vec<String> = self.0.iter().map(|key| format!("`{key}`")).collect();
        Err(E::custom(format!("unknown field `{key}`, expected one of {}", known.join(", "))))
    }
}

const VOLUME: &str = "volume";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_nobody_owns_is_refused_where_it_stands() {
        let web = Keys { tables: &["web"], volume: &["mount"] };
        let files = Keys { tables: &["files"], volume: &["name", "path"] };
        let check = |text: &str| refuse(text, &[web, files]).map_err(|error| error.to_string());
        let good = "[web]\nanything = { a = 1 }\n[[volume]]\nname = 'a'\nmount = '/'\n[files]\nx = [1]\n";
        check(good).unwrap();
        // A key of the wrong kind is its owner's to refuse.
        check("web = 3\nvolume = 'no table'\n[files]\nwhen = 2020-01-01\n").unwrap();
        for (text, line, words) in [
            (
                "[web]\n[wbe]\nlisten = 1\n",
                2,
                "unknown field `wbe`, expected one of `web`, `files`, `volume`",
            ),
            (
                "[[volume]]\nname = 'a'\n[[volume]]\npath = 'b'\nmuont = '/'\n",
                5,
                "unknown field `muont`, expected one of `mount`, `name`, `path`",
            ),
        ] {
            let problem = check(text).unwrap_err();
            assert!(problem.contains(words) && problem.contains(&format!("line {line}")), "{problem}");
        }
    }
}
