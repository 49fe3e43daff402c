//! `afs://HOST[:PORT]/VOLUME/PATH`.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use transfer::authority;
use transfer::is_deceptive;

/// Address that a user names: a cell's server, a volume by name or number, and a path from its root. `%` and
/// two hexadecimal digits stand for a byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Host name or address, IPv6 without brackets.
    pub host: String,
    /// Port of its file server, and of every file server of its cell.
    pub port: u16,
    /// The volume: a name such as `root.cell` or `pub.readonly`, or a number. Empty only in an address
    /// [of a cell](Self::of_cell).
    pub volume: String,
    /// Names from the volume's root on, as bytes; none for the root itself.
    pub path: Vec<Vec<u8>>,
    /// Set if the address ends in a slash: what it names is a directory.
    pub directory: bool,
}

/// An address that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}: {what}; an address is afs://HOST[:PORT]/VOLUME/PATH")]
pub struct AddressError {
    text: String,
    what: &'static str,
}

impl Address {
    /// Reads `afs://HOST[:PORT]/`, which names no volume and so the whole cell; `None` where a volume is named, or nothing at all.
    pub fn of_cell(text: &str) -> Option<Self> {
        let (authority, path) = {
            let rest = text.strip_prefix(SCHEME)?;
            rest.split_once('/').unwrap_or((rest, ""))
        };
        let (host, port) = authority::split(authority, FILE_SERVER_PORT)?;
        let names_all = !host.is_empty() && !authority.contains('@') && path.bytes().all(|byte| byte == b'/');
        let (host, volume, path) = (host.to_owned(), String::new(), Vec::new());
        names_all.then_some(Self { host, port, volume, path, directory: true })
    }

    /// Resolves the file server's address.
    ///
    /// # Errors
    /// The system's, where the host has none.
    pub fn resolve(&self) -> std::io::Result<SocketAddr> {
        authority::resolve(&self.host, self.port)
    }

    /// Returns the last name of the path; the volume's where there is none.
    pub fn name(&self) -> &[u8] {
        self.path.last().map_or(self.volume.as_bytes(), Vec::as_slice)
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let error = |what| AddressError { text: text.to_owned(), what };
        let rest = text.strip_prefix(SCHEME).ok_or_else(|| error("it does not begin with afs://"))?;
        let authority = rest.split_once('/').map_or(rest, |(authority, _)| authority);
        let port_is_wrong = authority::split(authority, FILE_SERVER_PORT).is_none();
        // A password may have slashes, and what it says is repeated nowhere.
        if rest.contains('@') && (authority.contains('@') || port_is_wrong) {
            let what = "an AFS address names no user and no password, which everybody on this machine could read in a command line: leave \
                        them out";
            return Err(AddressError { text: authority::without_user(text), what });
        }
        let (authority, path) = rest.split_once('/').ok_or_else(|| error("it names no volume"))?;
        let (host, port) =
            authority::split(authority, FILE_SERVER_PORT).ok_or_else(|| error("its port is no number"))?;
        if host.is_empty() {
            return Err(error("it names no host"));
        }
        let directory = path.ends_with('/');
        let mut names = path.split('/').filter(|name| !name.is_empty()).map(decoded);
        let volume = names.next().ok_or_else(|| error("it names no volume"))?;
        let volume = volume.and_then(|bytes| String::from_utf8(bytes).ok());
        let volume = volume.ok_or_else(|| error("no volume can have this name"))?;
        let path: Option<Vec<Vec<u8>>> = names.collect();
        let path = path.ok_or_else(|| {
            error("% is followed by two hexadecimal digits, which stand for a byte that names have")
        })?;
        Ok(Self { host: host.to_owned(), port, volume, path, directory })
    }
}

/// Returns a name with its escapes undone; `None` for broken ones, and for bytes that no name has.
fn decoded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, behind @ ..] = rest {
        rest = behind;
        let byte = if *first == b'%' {
            let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
            rest = &rest[2..];
            u8::from_str_radix(digits, 16).ok()?
        } else {
            *first
        };
        if matches!(byte, 0 | b'/') {
            return None;
        }
        bytes.push(byte);
    }
    Some(bytes)
}

/// Returns a name as an address has it. `%` and two hexadecimal digits stand for each byte that is no UTF-8, acts on a
/// terminal or is a `%`: no two names look alike.
pub fn addressed(name: &[u8]) -> String {
    let mut text = String::with_capacity(name.len());
    let escape =
        |text: &mut String, bytes: &[u8]| bytes.iter().for_each(|byte| *text += &format!("%{byte:02x}"));
    for chunk in name.utf8_chunks() {
        for char in chunk.valid().chars() {
            match char {
                char if char == '%' || is_deceptive(char) => {
                    escape(&mut text, char.encode_utf8(&mut [0; 4]).as_bytes());
                }
                char => text.push(char),
            }
        }
        escape(&mut text, chunk.invalid());
    }
    text
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        write!(f, "{SCHEME}{host}")?;
        if self.port != FILE_SERVER_PORT {
            write!(f, ":{}", self.port)?;
        }
        write!(f, "/{}", self.volume)?;
        for name in &self.path {
            write!(f, "/{}", addressed(name))?;
        }
        Ok(())
    }
}

const SCHEME: &str = "afs://";
/// Default port of file servers; the location service has a port 3 higher.
pub(crate) const FILE_SERVER_PORT: u16 = 7000;
/// Distance of the location service's port from that of its cell's file servers.
pub(crate) const TO_LOCATION_PORT: u16 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_name_host_port_volume_and_path() {
        let address: Address = "afs://srv.example:17000/pub/a%20b/c".parse().unwrap();
        assert_eq!(
            (address.host.as_str(), address.port, address.volume.as_str()),
            ("srv.example", 17_000, "pub")
        );
        assert_eq!(address.path, [b"a b".to_vec(), b"c".to_vec()]);
        assert_eq!((address.name(), address.directory), (&b"c"[..], false));
        let root: Address = "afs://[::1]/536870915/".parse().unwrap();
        assert_eq!((root.host.as_str(), root.port, root.volume.as_str()), ("::1", 7000, "536870915"));
        assert_eq!((root.name(), root.directory), (&b"536870915"[..], true));
        assert_eq!(address.to_string(), "afs://srv.example:17000/pub/a b/c");
    }

    #[test]
    fn a_password_is_refused_and_repeated_nowhere() {
        for text in [
            "afs://alice:Secret007@h/v",
            "afs://alice:Secret007@h",
            "afs://:Secret007@h/",
            "afs://alice:Sec@Secret007@h:7000/v/a",
            "afs://alice:Secret007/Secret007@h/v",
            "afs://Secret007@h/v",
            "afs://alice:7000@h/",
        ] {
            assert_eq!(Address::of_cell(text), None, "{text}");
            let told = text.parse::<Address>().unwrap_err().to_string();
            assert!(!told.contains("Secret007") && told.contains("no user and no password"), "{told}");
        }
        let address: Address = "afs://h/v/a@b".parse().unwrap();
        assert_eq!(address.path, [b"a@b".to_vec()]);
    }

    #[test]
    fn every_name_has_a_text_of_its_own_that_names_it_again() {
        let names: [&[u8]; 10] = [
            b"plain name",
            "gr\u{f6}\u{df}e \u{202e}x".as_bytes(),
            b"caf\xe9",
            b"caf\xe8",
            b"caf%e9",
            b"100%",
            b"\x1b[31m\n",
            "\u{fffd}".as_bytes(),
            b"\xff\xfe",
            b"\xf0\x9f\x98",
        ];
        let mut texts = std::collections::BTreeSet::new();
        for name in names {
            let text = addressed(name);
            let address: Address = format!("afs://h/v/{text}").parse().unwrap();
            assert_eq!(address.path, [name.to_vec()], "{text}");
            assert_eq!(address.to_string(), format!("afs://h/v/{text}"));
            assert!(!text.contains(is_deceptive), "{text}");
            assert!(texts.insert(text));
        }
        assert_eq!(addressed(b"caf\xe9 100%"), "caf%e9 100%25");
    }

    #[test]
    fn an_address_without_a_volume_is_its_cell() {
        for (text, told) in [
            ("afs://h", "afs://h/"),
            ("afs://h/", "afs://h/"),
            ("afs://h:17000//", "afs://h:17000/"),
            ("afs://[::1]/", "afs://[::1]/"),
        ] {
            assert_eq!(Address::of_cell(text).expect(text).to_string(), told);
        }
        for other in ["afs://h/v", "afs:///", "afs://", "afs://h:x/", "smb://h/"] {
            assert_eq!(Address::of_cell(other), None, "{other}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused_with_a_reason() {
        for (text, reason) in [
            ("http://h/v", "afs://"),
            ("afs://h", "no volume"),
            ("afs://h/", "no volume"),
            ("afs:///v", "no host"),
            ("afs://h:70000/v", "no number"),
            ("afs://h/v/%2f", "%"),
            ("afs://h/v/%zz", "%"),
            ("afs://h/v/%0", "%"),
            ("afs://h/%ff", "no volume can"),
        ] {
            let error = text.parse::<Address>().unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
