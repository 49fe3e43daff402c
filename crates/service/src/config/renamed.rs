//! Renamed keys and values, which are refused with their new names.

use toml::{Table, Value};

use super::ConfigError;

/// Key, or one value of a key, with its new name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renamed {
    /// Key, dotted, such as `volume.hidden` for one of each `[[volume]]`.
    pub key: &'static str,
    /// Value that was renamed; `None` where the key was.
    pub value: Option<&'static str>,
    /// New name, as the refusal gives it: of a key in the same table, or dotted; of a table; or the value.
    pub now: &'static str,
}

/// Renamed keys and values. The first that fits counts, so that single keys of a table stand before the
/// table.
pub const RENAMED: &[Renamed] = &[
    Renamed::key("volume.hidden", "serve_dotfiles"),
    Renamed::key("volume.count", "track_usage"),
    Renamed::key("volume.local_locks", "posix_locks"),
    Renamed::value("volume.auth", "needed", "when_required"),
    Renamed::key("volume.smb_hide_unreadable", "smb_access_based_enumeration"),
    Renamed::key(
        "volume.smb_keep_inherited",
        "smb_acl_flag_inherited_canonicalization, with the opposite value",
    ),
    Renamed::value("server.nodes_without_nic", "help", "assist"),
    Renamed::key("limits.total_bytes_per_second", "server.egress_rate"),
    Renamed::key("limits", "http.limits"),
];

impl Renamed {
    const fn key(key: &'static str, now: &'static str) -> Self {
        Self { key, value: None, now }
    }

    const fn value(key: &'static str, value: &'static str, now: &'static str) -> Self {
        Self { key, value: Some(value), now }
    }

    /// Returns every place of `table` with the key, such as `volume[1].hidden`.
    fn places(&self, table: &Table) -> Vec<String> {
        let mut found: Vec<(String, &Value)> = Vec::new();
        let (first, rest) = self.key.split_once('.').unwrap_or((self.key, ""));
        match table.get(first) {
            Some(Value::Array(all)) => {
                let below = all.iter().enumerate().filter_map(|(at, one)| Some((at, one.get(rest)?)));
                found.extend(below.map(|(at, value)| (format!("{first}[{at}].{rest}"), value)));
            }
            Some(value) if rest.is_empty() => found.push((first.to_owned(), value)),
            Some(value) => found.extend(value.get(rest).map(|value| (self.key.to_owned(), value))),
            None => {}
        }
        found.retain(|(_, value)| self.value.is_none_or(|old| value.as_str() == Some(old)));
        found.into_iter().map(|(place, _)| place).collect()
    }

    fn told(&self) -> String {
        match self.value {
            Some(old) => format!("\"{old}\" is called \"{}\" now", self.now),
            None => format!("is called {} now", self.now),
        }
    }
}

/// Refuses the first renamed key of `text`, and names the other ones.
pub(super) fn refuse(text: &str) -> Result<(), ConfigError> {
    // What is no TOML is refused by the reader.
    let Ok(table) = text.parse::<Table>() else { return Ok(()) };
    let of = |renamed: &'static Renamed| {
        renamed.places(&table).into_iter().map(|place| (place, renamed.told())).collect::<Vec<_>>()
    };
    let mut all = RENAMED.iter().flat_map(of);
    let Some((key, mut problem)) = all.next() else { return Ok(()) };
    // A table of which a key is named already need not be.
    let others: Vec<_> = all.filter(|(other, _)| !key.starts_with(&format!("{other}."))).collect();
    for (other, told) in others {
        problem.push_str(&format!("; {other} {told}"));
    }
    Err(ConfigError::invalid(key, problem))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::Document;
    use super::*;

    /// Returns the message that refuses a document of this text, with its place.
    fn refused(text: &str) -> Option<String> {
        let document = Document::of_text(Path::new("/etc/linerate.toml"), text);
        refuse(text).err().map(|error| document.placed(error).to_string())
    }

    #[test]
    fn an_old_key_is_refused_where_it_stands_by_its_new_name_and_others_are_named_with_it() {
        let text = "[server]\nnodes_without_nic = 'help'\n[[volume]]\nname = 'a'\n[[volume]]\nname = 'b'\nhidden = false\n\
                    auth = 'needed'\n";
        assert_eq!(
            refused(text).unwrap(),
            "volume[1].hidden: is called serve_dotfiles now; volume[1].auth \"needed\" is called \"when_required\" now; \
             server.nodes_without_nic \"help\" is called \"assist\" now (/etc/linerate.toml, line 7)"
        );
        for good in [
            "[server]\nnodes_without_nic = 'idle'\n[[volume]]\nauth = 'always'\nserve_dotfiles = true\n[http.limits]\nranges = 1\n",
            "hidden = 1\n[other]\nlimits = 1\nhidden = 2\n",
            "limits = = 1",
            "volume = 3\nserver = 4\n",
        ] {
            assert_eq!(refused(good), None, "{good}");
        }
    }
}
