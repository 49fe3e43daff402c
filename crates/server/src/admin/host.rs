//! Check of a request's host name. A page of another site can have a browser ask the admin address by that
//! site's name, which its owner lets lead here (DNS rebinding): only names that are the server's own are
//! answered.

use std::net::IpAddr;

use axum::http::{HeaderMap, StatusCode, Version, header};

/// Checks whether a request that came in at `local` may be answered; `names` are those of the configuration.
pub(super) fn check(
    version: Version,
    headers: &HeaderMap,
    local: Option<IpAddr>,
    names: &[String],
) -> Result<(), (StatusCode, &'static str)> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let (host, other) = (hosts.next(), hosts.next());
    match host {
        // Load balancers that ask by HTTP/1.0 name no host, and no browser does.
        None if version < Version::HTTP_11 => Ok(()),
        Some(host) if other.is_none() => match host.to_str() {
            Ok(host) if is_own(host, local, names) => Ok(()),
            _ => Err((StatusCode::MISDIRECTED_REQUEST, MISDIRECTED)),
        },
        _ => Err((StatusCode::BAD_REQUEST, "a request has one Host field\n")),
    }
}

fn is_own(host: &str, local: Option<IpAddr>, names: &[String]) -> bool {
    let Some(name) = without_port(host) else { return false };
    if let Ok(address) = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        let address = address.to_canonical();
        return address.is_loopback()
            || Some(address) == local
            || names.iter().any(|name| name.parse() == Ok(address));
    }
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    // RFC 6761 6.3: names below localhost are loopback addresses for every client.
    name == "localhost"
        || name.ends_with(".localhost")
        || names.iter().any(|known| known.trim_end_matches('.').eq_ignore_ascii_case(&name))
}

/// Returns the host of a `Host` field without its port (RFC 9110 7.2).
fn without_port(host: &str) -> Option<&str> {
    let end = host.rfind(']').map_or(0, |end| end + 1);
    let Some(colon) = host[end..].find(':') else { return (!host.is_empty()).then_some(host) };
    let (name, port) = (&host[..end + colon], &host[end + colon + 1..]);
    (!name.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())).then_some(name)
}

const MISDIRECTED: &str = "the admin address is not asked by this name: use its address or localhost, or add the name to \
                           admin.names in the configuration\n";

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(version: Version, hosts: &[&str]) -> u16 {
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(header::HOST, host.parse().unwrap());
        }
        let names = ["Files.Example.".to_owned(), "192.0.2.9".to_owned()];
        let checked = check(version, &headers, Some("192.0.2.1".parse().unwrap()), &names);
        checked.map_or_else(|(status, _)| status.as_u16(), |()| 200)
    }

    #[test]
    fn the_names_of_the_server_are_answered_and_no_others() {
        for own in [
            "localhost",
            "LOCALHOST.:8090",
            "stat.localhost:1",
            "127.0.0.1",
            "127.8.9.1:8090",
            "[::1]",
            "[::1]:8090",
            "[::ffff:127.0.0.1]:80",
            "192.0.2.1:8090",
            "192.0.2.9",
            "files.example:8090",
            "FILES.EXAMPLE.",
        ] {
            assert_eq!(answers(Version::HTTP_11, &[own]), 200, "{own}");
        }
        for other in [
            "evil.example",
            "evil.example:8090",
            "localhost.evil.example",
            "notlocalhost",
            "192.0.2.2",
            "192.0.2.1.evil.example",
            "127.0.0.1.evil.example:8090",
            "0.0.0.0:8090",
            "[2001:db8::1]",
            "evil.example@127.0.0.1",
            "127.0.0.1:evil",
            ":8090",
            "",
        ] {
            assert_eq!(answers(Version::HTTP_11, &[other]), 421, "{other}");
        }
    }

    #[test]
    fn a_request_names_one_host_unless_its_version_knows_none() {
        assert_eq!(answers(Version::HTTP_11, &[]), 400);
        assert_eq!(answers(Version::HTTP_11, &["localhost", "evil.example"]), 400);
        assert_eq!(answers(Version::HTTP_10, &[]), 200);
        assert_eq!(answers(Version::HTTP_10, &["evil.example"]), 421);
    }
}
