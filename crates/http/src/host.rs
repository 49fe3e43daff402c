//! Host and authority: `uri-host [":" port]` (RFC 9110 7.2, RFC 3986 3.2.2 and 3.2.3).

use std::net::Ipv6Addr;

/// Returns whether this is the host and perhaps the port of an http URL: a bracketed address, or a name that
/// is not empty; no user name, no zone of an address, no blank.
pub(crate) fn is_host(value: &[u8]) -> bool {
    if value.len() > HOST_BYTES_MAX {
        return false;
    }
    let (host_is_valid, rest) = match value {
        [b'[', inside @ ..] => {
            let Some(end) = inside.iter().position(|byte| *byte == b']') else { return false };
            (is_ip_literal(&inside[..end]), &inside[end + 1..])
        }
        _ => {
            let end = value.iter().position(|byte| *byte == b':').unwrap_or(value.len());
            (end > 0 && is_reg_name(&value[..end]), &value[end..])
        }
    };
    host_is_valid && (rest.is_empty() || rest.strip_prefix(b":").is_some_and(is_port))
}

/// Checks for `IPv6address / "v" 1*HEXDIG "." 1*( unreserved / sub-delims / ":" )`
fn is_ip_literal(text: &[u8]) -> bool {
    if let [b'v' | b'V', future @ ..] = text {
        let Some(dot) = future.iter().position(|byte| *byte == b'.') else { return false };
        let (version, address) = (&future[..dot], &future[dot + 1..]);
        return !version.is_empty()
            && version.iter().all(u8::is_ascii_hexdigit)
            && !address.is_empty()
            && address.iter().all(|byte| *byte == b':' || is_name_byte(*byte));
    }
    std::str::from_utf8(text).is_ok_and(|text| text.parse::<Ipv6Addr>().is_ok())
}

/// Checks for `*( unreserved / pct-encoded / sub-delims )`, which IPv4 addresses are too.
fn is_reg_name(name: &[u8]) -> bool {
    let mut rest = name;
    while let [byte, tail @ ..] = rest {
        rest = match (byte, tail) {
            (b'%', [high, low, tail @ ..]) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => tail,
            (byte, tail) if is_name_byte(*byte) => tail,
            _ => return false,
        };
    }
    true
}

/// Checks for `*DIGIT`, and a port that there is.
fn is_port(digits: &[u8]) -> bool {
    let value = digits.iter().try_fold(0u32, |value, byte| {
        let digit = byte.is_ascii_digit().then(|| u32::from(byte - b'0'))?;
        Some(value * 10 + digit).filter(|value| *value <= u32::from(u16::MAX))
    });
    value.is_some()
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(&byte)
}

/// A DNS name's 255 bytes, a colon and a port.
const HOST_BYTES_MAX: usize = 255 + 6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_addresses_and_ports_are_hosts() {
        for host in [
            "a",
            "example.org",
            "example.org:8080",
            "example.org:",
            "xn--bcher-kva.example:65535",
            "a_b.local",
            "b%C3%BCcher.example",
            "192.0.2.1:80",
            "[::1]",
            "[2001:db8::7]:8443",
            "[::ffff:192.0.2.1]:",
            "[v1.fe:80]",
        ] {
            assert!(is_host(host.as_bytes()), "{host}");
        }
    }

    #[test]
    fn what_the_grammar_does_not_know_is_no_host() {
        for host in [
            "",
            ":80",
            "a b",
            "user@a",
            "a/b",
            "a\"b",
            "<a>",
            "a:b",
            "a:80:80",
            "a:65536",
            "a:-1",
            "a:+1",
            "a%",
            "a%4",
            "a%zz",
            "[",
            "[]",
            "[::1",
            "::1",
            "[::1]80",
            "[::1]:x",
            "[1.2.3.4]",
            "[fe80::1%25eth0]",
            "[g::]",
            "[v.a]",
            "[v1.]",
            "[vg.a]",
            "a[::1]",
            "a]",
            "[a]",
            "a\\b",
            "a?b",
            "a#b",
            "\u{fc}.example",
        ] {
            assert!(!is_host(host.as_bytes()), "{host}");
        }
        assert!(is_host(&[b'a'; 255]) && !is_host(&[b'a'; 262]));
    }
}
