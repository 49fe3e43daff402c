//! `smb://[USER@]HOST[:PORT]/SHARE/PATH`.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use percent_encoding::percent_decode_str;
use transfer::authority;

use crate::local::remote_name;

/// Address that a user names: a server, a signed-in user, a share, and a path from its root. `%` and two
/// hexadecimal digits stand for a byte; a name that is no UTF-8 is [spelled](smb_wire::spelling) as SMB's
/// are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Name of the user that signs in; empty is anonymous.
    pub user: String,
    /// Host name or address, IPv6 without brackets.
    pub host: String,
    /// The server's port.
    pub port: u16,
    /// The share.
    pub share: String,
    /// Names from the share's root on; none for the root itself.
    pub path: Vec<String>,
}

/// An address that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}: {what}; an address is smb://[USER@]HOST[:PORT]/SHARE/PATH")]
pub struct AddressError {
    text: String,
    what: &'static str,
}

impl Address {
    /// Resolves the server's address.
    ///
    /// # Errors
    /// The system's, where the host has none.
    pub fn resolve(&self) -> std::io::Result<SocketAddr> {
        authority::resolve(&self.host, self.port)
    }

    /// Returns the share as TREE_CONNECT names it.
    pub fn unc(&self) -> String {
        format!("\\\\{}\\{}", self.host, self.share)
    }

    /// Returns the path as CREATE names it.
    pub fn name(&self) -> String {
        self.path.join("\\")
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let error = |what| AddressError { text: text.to_owned(), what };
        let rest = text.strip_prefix(SCHEME).ok_or_else(|| error("it does not begin with smb://"))?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, server) = authority.rsplit_once('@').unwrap_or(("", authority));
        if let Some((user, _)) = user.split_once(':') {
            // What it says is repeated nowhere.
            let text = format!("{SCHEME}{user}:...@{server}/{path}");
            let what = "everybody on this machine can read a password in a command line: leave it out, and it is asked for, or taken \
                        from LINERATE_PASSWORD or, with --password-stdin, from standard input";
            return Err(AddressError { text, what });
        }
        if authority.len() == rest.len() {
            return Err(error(NO_SHARE));
        }
        let (host, port) = authority::split(server, PORT).ok_or_else(|| error("its port is no number"))?;
        if host.is_empty() {
            return Err(error("it names no host"));
        }
        let decoded = |part| {
            let decoded = percent_decode_str(part).decode_utf8().ok()?;
            let is_name = !decoded.contains(['/', '\\', '\0']);
            is_name.then(|| decoded.into_owned())
        };
        let user = decoded(user).ok_or_else(|| error("no user can have this name"))?;
        let named = |part| {
            let bytes: Vec<u8> = percent_decode_str(part).collect();
            match std::str::from_utf8(&bytes) {
                Ok(_) => decoded(part),
                Err(_) => remote_name(&bytes).ok(),
            }
        };
        let names = path.split('/').filter(|name| !name.is_empty()).map(named);
        let mut names: Vec<String> =
            names.collect::<Option<_>>().ok_or_else(|| error("it has a name that no file can have"))?;
        if names.is_empty() {
            return Err(error(NO_SHARE));
        }
        let share = names.remove(0);
        Ok(Self { user, host: host.to_owned(), port, share, path: names })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(SCHEME)?;
        if !self.user.is_empty() {
            write!(f, "{}@", self.user)?;
        }
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        write!(f, "{host}")?;
        if self.port != PORT {
            write!(f, ":{}", self.port)?;
        }
        write!(f, "/{}", self.share)?;
        self.path.iter().try_for_each(|name| write!(f, "/{name}"))
    }
}

const NO_SHARE: &str =
    "it names no share: `linerate volume list` on the server, or `smbclient -L HOST`, shows which there are";
const SCHEME: &str = "smb://";
const PORT: u16 = 445;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_apart_and_put_together() {
        let address: Address = "smb://alice@files.example:4455/home/a%20b//c".parse().unwrap();
        assert_eq!(
            (address.user.as_str(), address.host.as_str(), address.port),
            ("alice", "files.example", 4455)
        );
        assert_eq!((address.unc().as_str(), address.name().as_str()), ("\\\\files.example\\home", "a b\\c"));
        assert_eq!(address.to_string(), "smb://alice@files.example:4455/home/a b/c");
        for secret in [
            "smb://alice:Secret@007@files/home",
            "smb://alice:Secret@007@files",
            "smb://:Secret@007@[::1]:445/s",
        ] {
            let told = secret.parse::<Address>().unwrap_err().to_string();
            assert!(!told.contains("Secret") && told.contains("--password-stdin"), "{told}");
        }
        let six: Address = "smb://[::1]/s".parse().unwrap();
        assert_eq!((six.host.as_str(), six.port, six.path.len(), six.user.as_str()), ("::1", 445, 0, ""));
        assert_eq!(six.to_string(), "smb://[::1]/s");
        let bytes: Address = "smb://host/share/caf%e9/caf%c3%a9".parse().unwrap();
        assert_eq!(bytes.path, ["caf\u{efe9}", "caf\u{e9}"], "by its bytes, or as text");
    }

    #[test]
    fn what_is_none_says_why() {
        for (text, what) in [
            ("afs://host/share", "it does not begin with smb://"),
            ("smb://host", NO_SHARE),
            ("smb://host/", NO_SHARE),
            ("smb://a@/share", "it names no host"),
            ("smb://host:x/share", "its port is no number"),
            ("smb://host/share/a%5cb", "it has a name that no file can have"),
            ("smb://host/share/%ff%2f", "it has a name that no file can have"),
            ("smb://host/share/%ff%00", "it has a name that no file can have"),
        ] {
            assert_eq!(text.parse::<Address>().unwrap_err().what, what, "{text}");
        }
    }
}
