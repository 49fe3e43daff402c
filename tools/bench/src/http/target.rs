//! Target of requests: an `http` or `https` URL, resolved to an address.

use std::net::{SocketAddr, ToSocketAddrs};

use transfer::authority::without_user;

/// Address to connect to, and path to ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Set if the client speaks TLS.
    pub tls: bool,
    /// Host as written, for SNI.
    pub host: String,
    /// Host and port as written, for the Host header.
    pub authority: String,
    /// Path and query, at least `/`.
    pub path: String,
    /// The first address the host resolves to.
    pub address: SocketAddr,
}

/// A URL that cannot be asked for.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// The scheme is another one, or missing.
    #[error("{0:?} is not a URL to measure: begin with http:// or https://")]
    Scheme(String),
    /// No host, or a port that is no number.
    #[error("{0:?} names no host, or a port that is no number")]
    Authority(String),
    /// A user, and a password perhaps.
    #[error("{0:?} names a user, and everybody is anonymous here: leave out what is before the @")]
    User(String),
    /// Spaces or control bytes.
    #[error("{0:?} has a byte that must be percent-encoded in a URL")]
    Encoding(String),
    /// The name does not resolve.
    #[error("{host} has no address: {source}")]
    Resolve {
        /// The host.
        host: String,
        /// The resolver's answer.
        source: std::io::Error,
    },
}

impl Target {
    /// Parses a URL and resolves its host. Blocks while the resolver works.
    ///
    /// # Errors
    /// [`TargetError`].
    pub fn parse(url: &str) -> Result<Self, TargetError> {
        if !url.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(TargetError::Encoding(without_user(url)));
        }
        let (tls, rest) = if let Some(rest) = url.strip_prefix("http://") {
            (false, rest)
        } else if let Some(rest) = url.strip_prefix("https://") {
            (true, rest)
        } else {
            return Err(TargetError::Scheme(without_user(url)));
        };
        let rest = rest.split('#').next().unwrap_or(rest);
        let at = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(at);
        if authority.contains('@') {
            return Err(TargetError::User(without_user(url)));
        }
        let (host, port) = split_port(authority, if tls { 443 } else { 80 })
            .ok_or_else(|| TargetError::Authority(without_user(url)))?;
        let address = (host, port)
            .to_socket_addrs()
            .and_then(|mut found| found.next().ok_or_else(|| std::io::Error::other("no address")))
            .map_err(|source| TargetError::Resolve { host: host.to_owned(), source })?;
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Ok(Self { tls, host: host.to_owned(), authority: authority.to_owned(), path, address })
    }

    /// Returns the request, as it goes over the wire.
    pub(super) fn request(&self) -> Vec<u8> {
        format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: linerate-bench/{}\r\n\r\n",
            self.path,
            self.authority,
            env!("CARGO_PKG_VERSION"),
        )
        .into_bytes()
    }
}

fn split_port(authority: &str, default: u16) -> Option<(&str, u16)> {
    if let Some(rest) = authority.strip_prefix('[') {
        let (host, after) = rest.split_once(']')?;
        return match after.strip_prefix(':') {
            Some(port) => Some((host, port.parse().ok()?)),
            None => after.is_empty().then_some((host, default)),
        };
    }
    let (host, port) = match authority.split_once(':') {
        Some((host, port)) => (host, port.parse().ok()?),
        None => (authority, default),
    };
    (!host.is_empty()).then_some((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_split_as_rfc_3986_says() {
        let target = Target::parse("http://127.0.0.1:8080/a%20b?q=1#part").unwrap();
        assert_eq!((target.tls, target.path.as_str()), (false, "/a%20b?q=1"));
        assert_eq!(target.authority, "127.0.0.1:8080");
        let target = Target::parse("https://[::1]").unwrap();
        assert_eq!((target.tls, target.path.as_str(), target.address.port()), (true, "/", 443));
        assert_eq!(Target::parse("http://127.0.0.1?q").unwrap().path, "/?q");
    }

    #[test]
    fn what_is_no_url_is_refused() {
        for url in [
            "127.0.0.1:8080/",
            "ftp://x/",
            "http://",
            "http://:80/",
            "http://127.0.0.1:x/",
            "http://127.0.0.1/a b",
        ] {
            assert!(Target::parse(url).is_err(), "{url}");
        }
    }

    #[test]
    fn a_password_is_repeated_nowhere() {
        for url in [
            "http://u:Secret007@127.0.0.1/",
            "https://u:Secret007@127.0.0.1:1",
            "http://Secret007@127.0.0.1/",
            "http://u:Secret007/Secret007@127.0.0.1/",
            "http://u:Secret 007@127.0.0.1/",
            "ftp://u:Secret007@127.0.0.1/",
        ] {
            let told = Target::parse(url).unwrap_err().to_string();
            assert!(!told.contains("Secret"), "{told}");
        }
    }
}
