//! The server in an address: `HOST[:PORT]`, IPv6 in brackets.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

/// Splits an address into host (IPv6 without its brackets) and port, which defaults to `port`. `None` for a
/// port that is no number or an open bracket.
pub fn split(text: &str, port: u16) -> Option<(&str, u16)> {
    if let Some(rest) = text.strip_prefix('[') {
        let (host, said) = rest.split_once(']')?;
        return Some((host, if said.is_empty() { port } else { said.strip_prefix(':')?.parse().ok()? }));
    }
    match text.split_once(':') {
        Some((host, said)) => Some((host, said.parse().ok()?)),
        None => Some((text, port)),
    }
}

/// Returns an address as it may be shown: without the user and password that it may begin with. Where a
/// password has slashes, the last `@` of all tells where it ends.
pub fn without_user(address: &str) -> String {
    match address.split_once("://").and_then(|(scheme, rest)| Some((scheme, rest.rsplit_once('@')?))) {
        Some((scheme, (_, rest))) => format!("{scheme}://...@{rest}"),
        None => address.to_owned(),
    }
}

/// Resolves a host's name to the first of its addresses.
///
/// # Errors
/// The system's, where the host has none.
pub fn resolve(host: &str, port: u16) -> io::Result<SocketAddr> {
    let found = (host, port).to_socket_addrs()?.next();
    found.ok_or_else(|| io::Error::other(format!("{host} has no address")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports_are_taken_apart_and_found() {
        assert_eq!(split("h", 7), Some(("h", 7)));
        assert_eq!(split("h:80", 7), Some(("h", 80)));
        assert_eq!(split("[::1]", 7), Some(("::1", 7)));
        assert_eq!(split("[::1]:80", 7), Some(("::1", 80)));
        for wrong in ["h:", "h:x", "h:70000", "[::1", "[::1]x", "[::1]:"] {
            assert_eq!(split(wrong, 7), None, "{wrong}");
        }
        for (address, shown) in [
            ("smb://u:p@h/s", "smb://...@h/s"),
            ("http://u:p/w@h", "http://...@h"),
            ("afs://h/v", "afs://h/v"),
            ("u:p@h", "u:p@h"),
        ] {
            assert_eq!(without_user(address), shown);
        }
        assert_eq!(resolve("127.0.0.1", 7).unwrap().to_string(), "127.0.0.1:7");
        assert_eq!(resolve("::1", 7).unwrap().to_string(), "[::1]:7");
        assert!(resolve("no host", 7).is_err());
    }
}
