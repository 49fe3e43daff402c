//! Redirects: from HTTP to HTTPS, and from a directory's name to the name with a slash.

use std::net::Ipv6Addr;

use crate::path;
use crate::request::{Head, Target};
use crate::request_error::RequestError;

/// Returns the `Location` on the HTTPS port for a plain HTTP request, path and query kept (308, RFC 9110 15.4.9).
///
/// The host is what the client asked for, so a request without one cannot be redirected.
pub fn to_https(head: &Head<'_>, https_port: u16) -> Result<Vec<u8>, RequestError> {
    let host = host_without_port(head.host).ok_or(RequestError::Host)?;
    let mut location = b"https://".to_vec();
    location.extend_from_slice(host);
    if https_port != 443 {
        location.extend_from_slice(format!(":{https_port}").as_bytes());
    }
    match head.target {
        Target::Asterisk => location.push(b'/'),
        Target::Path { path, query } => put_path_and_query(path, query, &mut location),
    }
    Ok(location)
}

/// Returns the `Location` of a directory asked for without its slash, so that relative links in it work (301).
///
/// It is built from the decoded path: the raw one could begin with `//` and lead to another host.
pub fn to_directory(relative: &[u8], query: Option<&[u8]>) -> Vec<u8> {
    let mut location = format!("/{}/", path::encode(relative)).into_bytes();
    if let Some(query) = query {
        location.push(b'?');
        put_visible(query, &mut location);
    }
    location
}

fn put_path_and_query(path: &[u8], query: Option<&[u8]>, out: &mut Vec<u8>) {
    put_visible(path, out);
    if let Some(query) = query {
        out.push(b'?');
        put_visible(query, out);
    }
}

/// Copies what may stand in a URL and escapes the rest, so that no field value is ever broken.
fn put_visible(text: &[u8], out: &mut Vec<u8>) {
    for byte in text {
        if byte.is_ascii_graphic() && !b"\"<>\\^`{|}#".contains(byte) {
            out.push(*byte);
        } else {
            out.extend_from_slice(format!("%{byte:02X}").as_bytes());
        }
    }
}

/// Returns the host of `host[:port]`; `None` when there is none or it is no host.
fn host_without_port(host: &[u8]) -> Option<&[u8]> {
    if host.first() == Some(&b'[') {
        let end = host.iter().position(|byte| *byte == b']')?;
        let literal = std::str::from_utf8(&host[1..end]).ok()?;
        literal.parse::<Ipv6Addr>().ok()?;
        return Some(&host[..=end]);
    }
    let name = host.split(|byte| *byte == b':').next()?;
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::request;

    fn https(request: &str, port: u16) -> Result<String, RequestError> {
        let (head, _) = request::parse(request.as_bytes(), &Limits::default()).unwrap().unwrap();
        to_https(&head, port).map(|location| String::from_utf8(location).unwrap())
    }

    #[test]
    fn https_redirect_keeps_path_and_query() {
        let request = "GET /a%20b?x=1&y=/ HTTP/1.1\r\nHost: example.org:8080\r\n\r\n";
        assert_eq!(https(request, 443).unwrap(), "https://example.org/a%20b?x=1&y=/");
        assert_eq!(https(request, 8443).unwrap(), "https://example.org:8443/a%20b?x=1&y=/");
    }

    #[test]
    fn ipv6_hosts_keep_their_brackets() {
        let request = "GET / HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n";
        assert_eq!(https(request, 8443).unwrap(), "https://[::1]:8443/");
        let bad = "GET / HTTP/1.1\r\nHost: [v1.x]\r\n\r\n";
        assert_eq!(https(bad, 443), Err(RequestError::Host));
    }

    #[test]
    fn request_without_host_cannot_be_redirected() {
        assert_eq!(https("GET / HTTP/1.0\r\n\r\n", 443), Err(RequestError::Host));
    }

    #[test]
    fn directory_redirect_never_leaves_the_host() {
        let path = path::decode(b"//evil.example/%0d%0aX:y").unwrap();
        assert_eq!(to_directory(&path.bytes, None), b"/evil.example/%0D%0AX%3Ay/");
        assert_eq!(to_directory(b"a b", Some(b"q=\"\xff")), b"/a%20b/?q=%22%FF");
    }
}
