//! Principals: components and a realm.

use std::fmt;
use std::str::FromStr;

use crate::der::{Malformed, Reader, field, integer, sequence, string};

/// A principal: `alice@REALM`, `cifs/host@REALM`. Two are the same where components and realm are, byte by byte.
#[derive(Clone)]
pub struct Principal {
    /// Type of the name (RFC 4120 6.2), which is a hint alone: 1 a user, 2 a service, 3 a service with a host.
    pub name_type: i32,
    /// Components of the name.
    pub components: Vec<String>,
    /// Realm of the principal.
    pub realm: String,
}

impl Principal {
    /// Creates a principal of type 1 (NT-PRINCIPAL) from components and a realm.
    pub fn new(components: &[&str], realm: &str) -> Self {
        let components = components.iter().map(|&part| part.to_owned()).collect();
        Self { name_type: 1, components, realm: realm.to_owned() }
    }

    /// Returns the components without the realm, as `klist` shows them.
    pub fn name(&self) -> String {
        let mut out = String::new();
        for (at, component) in self.components.iter().enumerate() {
            out.extend((at > 0).then_some('/'));
            escape(component, &mut out);
        }
        out
    }

    /// Returns true if the principal can be a client that signs in: names that read as another one, or as none,
    /// cannot.
    ///
    /// Refused are: an empty realm, no component, an empty one, `@`, `/` or `\` within one, and control characters.
    pub fn is_unambiguous(&self) -> bool {
        let is_plain = |part: &String| {
            let is_odd = |char: char| char.is_control() || matches!(char, '@' | '/' | '\\');
            !part.is_empty() && part.len() <= PART_BYTES_MAX && !part.contains(is_odd)
        };
        !self.components.is_empty() && self.components.iter().all(is_plain) && is_plain(&self.realm)
    }

    /// Reads a PrincipalName; the realm comes from beside it.
    pub(crate) fn read(name: Reader<'_>, realm: &str) -> Result<Self, Malformed> {
        let mut fields = name.sequence()?;
        let name_type = fields.field(0)?.int32()?;
        let mut parts = fields.field(1)?.sequence()?;
        let mut components = Vec::new();
        while !parts.is_empty() {
            let (tag, content) = parts.next()?;
            let text = std::str::from_utf8(content).map_err(|_| parts.malformed())?;
            if tag != crate::der::GENERAL_STRING || components.len() == COMPONENTS_MAX {
                return Err(parts.malformed());
            }
            components.push(text.to_owned());
        }
        Ok(Self { name_type, components, realm: realm.to_owned() })
    }

    /// Writes its PrincipalName.
    pub(crate) fn write_name(&self) -> Vec<u8> {
        let parts: Vec<_> = self.components.iter().map(|part| string(part)).collect();
        sequence(&[field(0, integer(self.name_type.into())), field(1, sequence(&parts))])
    }
}

impl PartialEq for Principal {
    fn eq(&self, other: &Self) -> bool {
        self.components == other.components && self.realm == other.realm
    }
}

impl Eq for Principal {}

impl fmt::Display for Principal {
    /// Writes `a/b@REALM`; separators within a component are escaped, as MIT does.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut realm = String::new();
        escape(&self.realm, &mut realm);
        write!(f, "{}@{realm}", self.name())
    }
}

impl fmt::Debug for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Principal({self})")
    }
}

impl FromStr for Principal {
    type Err = PrincipalSyntax;

    /// Parses what `Display` writes. The realm must be there.
    fn from_str(text: &str) -> Result<Self, PrincipalSyntax> {
        let (mut parts, mut realm) = (vec![String::new()], None::<String>);
        let mut chars = text.chars();
        while let Some(char) = chars.next() {
            let char = match char {
                '/' if realm.is_none() => {
                    parts.push(String::new());
                    continue;
                }
                '@' if realm.is_none() => {
                    realm = Some(String::new());
                    continue;
                }
                '@' | '/' => return Err(PrincipalSyntax),
                '\\' => match chars.next().ok_or(PrincipalSyntax)? {
                    'n' => '\n',
                    't' => '\t',
                    'b' => '\u{8}',
                    '0' => '\0',
                    escaped => escaped,
                },
                char => char,
            };
            match (&mut realm, parts.last_mut()) {
                (Some(realm), _) => realm.push(char),
                (None, Some(part)) => part.push(char),
                (None, None) => return Err(PrincipalSyntax),
            }
        }
        let realm = realm.filter(|realm| !realm.is_empty()).ok_or(PrincipalSyntax)?;
        if parts.iter().any(String::is_empty) || parts.len() > COMPONENTS_MAX {
            return Err(PrincipalSyntax);
        }
        let name_type = if parts.len() > 1 { 3 } else { 1 };
        Ok(Self { name_type, components: parts, realm })
    }
}

/// A principal is written `name@REALM` or `service/host@REALM`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a principal is written name@REALM or service/host@REALM")]
pub struct PrincipalSyntax;

fn escape(part: &str, out: &mut String) {
    for char in part.chars() {
        match char {
            '/' | '@' | '\\' => out.extend(['\\', char]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\0' => out.push_str("\\0"),
            char => out.push(char),
        }
    }
}

/// Most components of a name.
const COMPONENTS_MAX: usize = 32;
/// Longest component or realm of a client, bytes.
const PART_BYTES_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn principals_are_written_as_mit_writes_them() {
        for (text, components) in [
            ("alice@R", &["alice"][..]),
            ("cifs/h.x@R", &["cifs", "h.x"]),
            (r"a\/b\@c\\d\0\n@R", &["a/b@c\\d\0\n"]),
        ] {
            let principal = Principal::new(components, "R");
            assert_eq!(principal.to_string(), text);
            assert_eq!(text.parse(), Ok(principal));
        }
        for text in ["alice", "alice@", "@R", "a//b@R", "a@R/x", "a@R@S", "a@R\\", ""] {
            assert_eq!(text.parse::<Principal>(), Err(PrincipalSyntax), "{text}");
        }
    }

    #[test]
    fn names_that_read_as_another_are_ambiguous() {
        for (components, realm) in [
            (&["alice"][..], ""),
            (&[], "R"),
            (&[""], "R"),
            (&["alice", ""], "R"),
            (&["a@b"], "R"),
            (&["AD\\root"], "R"),
            (&["root/admin"], "R"),
            (&["root\0x"], "R"),
            (&["alice"], "R@S"),
            (&["alice"], "R\0"),
        ] {
            assert!(!Principal::new(components, realm).is_unambiguous(), "{components:?} of {realm:?}");
        }
        for components in [&["alice"][..], &["root", "admin"], &["fs1$"], &["dot.ted"], &["Jürgen"]] {
            assert!(Principal::new(components, "TEST.LOCAL").is_unambiguous());
        }
    }
}
