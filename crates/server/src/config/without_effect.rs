//! Keys without effect: their service has no address, or another key switches them off.

use std::collections::BTreeMap;

use super::Config;

/// Keys that count only while the server listens at one of the addresses of `needs`.
struct Rule {
    /// Names of single keys, or of all that begin so: tables end with a dot.
    keys: &'static [&'static str],
    needs: &'static [&'static str],
    /// Reason why the keys have no effect without one of the addresses.
    otherwise: &'static str,
}

/// Rules by key, of which the first that fits decides.
const RULES: &[Rule] = &[
    Rule {
        keys: &["http.redirect_to_https"],
        needs: &["http.listen"],
        otherwise: "HTTP is not served (http.listen is off)",
    },
    Rule {
        keys: &["https."],
        needs: &["https.listen"],
        otherwise: "HTTPS is not served (https.listen is off)",
    },
    Rule {
        keys: &[
            "http.",
            "volume.mount",
            "volume.listings",
            "volume.precompressed",
            "volume.auth",
            "volume.content_security_policy",
            "log.access",
            "log.format",
        ],
        needs: &["http.listen", "https.listen"],
        otherwise: "neither HTTP nor HTTPS is served (http.listen and https.listen are off)",
    },
    Rule {
        keys: &["log.audit", "log.audit_format"],
        needs: &["afs.listen", "smb.listen"],
        otherwise: "neither AFS nor SMB is served, whose requests the audit log is of",
    },
    Rule {
        keys: &["volume.posix_locks"],
        needs: &["afs.listen", "smb.listen"],
        otherwise: "neither AFS nor SMB is served, whose clients lock files",
    },
    Rule {
        keys: &["afs.", "volume.afs"],
        needs: &["afs.listen"],
        otherwise: "AFS is not served (there is no [afs], or afs.listen is off)",
    },
    Rule {
        keys: &["smb.", "volume.smb"],
        needs: &["smb.listen"],
        otherwise: "SMB is not served (there is no [smb], or smb.listen is off)",
    },
    Rule {
        keys: &["admin.names"],
        needs: &["admin.listen"],
        otherwise: "there is no admin address (admin.listen is off)",
    },
];

/// Keys that another key switches off by a value.
struct Switch {
    keys: &'static [&'static str],
    /// Key of the switch, and the value that switches off; a key of volumes is that of the same volume.
    switch: &'static str,
    value: &'static str,
}

const SWITCHES: &[Switch] = &[
    Switch { keys: &["afs.oob_"], switch: "afs.oob", value: "false" },
    Switch { keys: &["smb.gmac_over_channels"], switch: "smb.multichannel", value: "false" },
    Switch { keys: &["volume.afs_name"], switch: "volume.afs", value: "\"off\"" },
    Switch { keys: &["volume.smb_"], switch: "volume.smb", value: "\"off\"" },
];

/// Keys that need another key beside them.
const NEEDED: &[(&str, &str)] = &[
    ("log.format", "log.access"),
    ("log.audit_format", "log.audit"),
    // What it is for: the port that redirects name.
    ("https.public_port", "http.redirect_to_https"),
];

impl Config {
    /// Returns a line for each reason why keys of the file have no effect.
    pub fn without_effect(&self) -> Vec<String> {
        let mut by_reason: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (key, value) in &self.said {
            if let Some(reason) = self.idle(key, value) {
                let keys = by_reason.entry(reason).or_default();
                let shown = shown(key);
                if !keys.contains(&shown) {
                    keys.push(shown);
                }
            }
        }
        let told = by_reason.into_iter().map(|(reason, keys)| {
            let (has, them) = if keys.len() == 1 { ("has", "it") } else { ("have", "them") };
            //@ level: WARN
            //@ cause: The configuration gives keys a value that nothing uses: the service that they are about is not served, or another key
            //@ switches off what they are about.
            //@ remedy: Switch on what the line names, or take the keys out of the configuration.
            format!(
                "configuration: {} {has} no effect, as {reason}; take {them} out, or change that [keys-without-effect]",
                keys.join(", ")
            )
        });
        told.collect()
    }

    /// Returns the reason why a key of the file has no effect, if so.
    fn idle(&self, key: &str, value: &str) -> Option<String> {
        let plain = plain(key);
        if plain.ends_with(".listen") || (OFF_SWITCHES.contains(&&*plain) && value == OFF) {
            return None;
        }
        let is_of = |keys: &[&str]| keys.iter().any(|known| is_one_of(known, &plain));
        let rule = RULES.iter().find(|rule| is_of(rule.keys));
        if let Some(rule) = rule.filter(|rule| !rule.needs.iter().any(|listen| self.listens_by(listen))) {
            return Some(rule.otherwise.to_owned());
        }
        let said = |name: &str| {
            let of_volume = name
                .strip_prefix("volume.")
                .zip(key.rsplit_once("]."))
                .map(|(name, (volume, _))| format!("{volume}].{name}"));
            let name = of_volume.unwrap_or_else(|| name.to_owned());
            self.said.get(&name).map(|value| (name, value))
        };
        let mut off = SWITCHES.iter().filter(|switch| is_of(switch.keys) && switch.switch != plain);
        let off = off.find_map(|switch| said(switch.switch).filter(|(_, value)| *value == switch.value));
        if let Some((name, value)) = off {
            return Some(format!("{name} is {}", value.trim_matches('"')));
        }
        let (_, needed) = NEEDED.iter().find(|(known, _)| *known == plain)?;
        let is_there = match *needed {
            "log.access" => self.log.access.is_some(),
            "log.audit" => self.log.audit.is_some(),
            other => said(other).is_some_and(|(_, value)| value == "true"),
        };
        (!is_there).then(|| format!("{needed} is not set"))
    }

    /// Returns whether anything listens at an address of this key.
    fn listens_by(&self, key: &str) -> bool {
        match key {
            "admin.listen" => self.admin.listen.is_some(),
            _ => self.sockets().iter().any(|(_, wanted)| wanted.key == key),
        }
    }
}

/// Returns whether a key is named by a rule: equal, in a named table, or continued after an underscore or a
/// dot.
fn is_one_of(known: &str, key: &str) -> bool {
    let Some(rest) = key.strip_prefix(known) else { return false };
    rest.is_empty() || known.ends_with(['.', '_']) || rest.starts_with(['.', '_'])
}

/// Returns the key without the names of the tables that it is in.
fn plain(key: &str) -> String {
    let mut plain = String::new();
    let mut rest = key;
    while let Some((before, behind)) = rest.split_once('[') {
        plain.push_str(before);
        rest = behind.split_once(']').map_or("", |(_, rest)| rest);
    }
    plain + rest
}

/// Returns a key as users know it: all keys of a table without effect appear as one.
fn shown(key: &str) -> String {
    match key.rfind(']') {
        Some(end) if !key.starts_with("volume[") => key[..=end].to_owned(),
        _ => key.to_owned(),
    }
}

/// Keys by which a volume is kept from a service; without the service they have no wrong effect to report.
const OFF_SWITCHES: [&str; 2] = ["volume.afs", "volume.smb"];
const OFF: &str = "\"off\"";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_known_by_its_table_or_its_name() {
        for (known, key, is_it) in [
            ("https.", "https.certificate.cert", true),
            ("http.", "https.http2", false),
            ("volume.smb", "volume.smb", true),
            ("volume.smb", "volume.smb_hide", true),
            ("volume.smb_", "volume.smb", false),
            ("log.audit", "log.audit_format", true),
            ("log.access", "log.access", true),
            ("afs.oob_", "afs.oob", false),
        ] {
            assert_eq!(is_one_of(known, key), is_it, "{known} {key}");
        }
        assert_eq!(plain("volume[a.b].smb_hide"), "volume.smb_hide");
        assert_eq!(plain("https.certificate[0].cert"), "https.certificate.cert");
        assert_eq!(shown("https.certificate[0].cert"), "https.certificate[0]");
        assert_eq!(shown("volume[a].smb"), "volume[a].smb");
    }
}
