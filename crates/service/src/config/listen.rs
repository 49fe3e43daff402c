//! Addresses of the configuration and the command line: `ADDRESS:PORT`, `*:PORT` for every address of either
//! family, `off` for none.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};

use serde::de::{self, Deserializer, SeqAccess, Visitor};

/// Parses a word to the addresses it stands for. IPv6 addresses take IPv6 alone, so that `0.0.0.0:80` and
/// `[::]:80` may stand side by side; `*:80` is both, or the former where the kernel has no IPv6.
///
/// # Errors
/// What would do instead.
pub fn parse_listen(text: &str) -> Result<Vec<SocketAddr>, String> {
    if text == "off" {
        return Ok(Vec::new());
    }
    if let Ok(address) = text.parse() {
        return Ok(vec![address]);
    }
    let any = text.strip_prefix("*:").and_then(|port| port.parse().ok());
    let port = any.ok_or("give ADDRESS:PORT such as 0.0.0.0:8080 or [::]:8080, *:PORT for both, or off")?;
    let mut addresses = vec![SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))];
    if has_ipv6() {
        addresses.push((Ipv6Addr::UNSPECIFIED, port).into());
    } else {
        NARROWED.store(true, Ordering::Relaxed);
    }
    Ok(addresses)
}

/// Returns whether the kernel gives this process IPv6 sockets.
fn has_ipv6() -> bool {
    match UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)) {
        Err(error) => error.raw_os_error() != Some(EAFNOSUPPORT),
        Ok(_) => true,
    }
}

/// Returns whether a `*:PORT` was read as IPv4 alone, as this machine has no IPv6.
pub fn is_narrowed_to_ipv4() -> bool {
    NARROWED.load(Ordering::Relaxed)
}

static NARROWED: AtomicBool = AtomicBool::new(false);
/// Linux's errno for an address family that the kernel does not have.
const EAFNOSUPPORT: i32 = 97;

/// Deserializes one word or a list of words (`deserialize_with`).
///
/// # Errors
/// What would do instead.
pub fn addresses<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<SocketAddr>, D::Error> {
    from.deserialize_any(Addresses)
}

/// Deserializes at most one address (`deserialize_with`).
///
/// # Errors
/// What would do instead.
pub fn address<'de, D: Deserializer<'de>>(from: D) -> Result<Option<SocketAddr>, D::Error> {
    let addresses = addresses(from)?;
    match addresses[..] {
        [] => Ok(None),
        [address] => Ok(Some(address)),
        _ => Err(de::Error::custom("give one address, such as 127.0.0.1:8090, or \"off\"")),
    }
}

#[derive(Clone, Copy)]
struct Addresses;

impl<'de> Visitor<'de> for Addresses {
    type Value = Vec<SocketAddr>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an address such as \"0.0.0.0:8080\", \"*:8080\" or \"off\", or a list of them")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Vec<SocketAddr>, E> {
        parse_listen(text).map_err(|problem| E::custom(format!("{text:?} is no address: {problem}")))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut words: A) -> Result<Vec<SocketAddr>, A::Error> {
        let mut all = Vec::new();
        while let Some(word) = words.next_element::<String>()? {
            all.extend(self.visit_str::<A::Error>(&word)?);
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    #[serde(default)]
    struct Section {
        #[serde(deserialize_with = "super::addresses")]
        many: Vec<SocketAddr>,
        #[serde(deserialize_with = "super::address")]
        one: Option<SocketAddr>,
    }

    impl Default for Section {
        fn default() -> Self {
            Self { many: Vec::new(), one: Some(SocketAddr::from(([127, 0, 0, 1], 8090))) }
        }
    }

    fn parse(text: &str) -> Result<Section, String> {
        toml::from_str(text).map_err(|error: toml::de::Error| error.to_string())
    }

    #[test]
    fn one_word_may_be_both_families_and_off_is_none() {
        let section = parse("many = [\"*:80\", \"127.0.0.1:8080\"]").unwrap();
        let many: Vec<String> = section.many.iter().map(ToString::to_string).collect();
        assert_eq!(many.first().unwrap(), "0.0.0.0:80");
        assert_eq!(many.last().unwrap(), "127.0.0.1:8080");
        assert_eq!(many.contains(&"[::]:80".to_owned()), !super::is_narrowed_to_ipv4());
        assert!(parse("many = \"off\"").unwrap().many.is_empty());
        assert_eq!(parse("many = [\"0.0.0.0:80\", \"[::]:80\"]").unwrap().many.len(), 2);
    }

    #[test]
    fn one_address_can_be_switched_off() {
        assert_eq!(parse("one = \"off\"").unwrap().one, None);
        assert!(parse("").unwrap().one.is_some());
        assert!(parse("one = \"127.0.0.1:9\"").unwrap().one.is_some());
        for wrong in ["one = \"\"", "one = \"localhost:1\"", "one = false"] {
            let problem = parse(wrong).unwrap_err();
            assert!(problem.contains("off"), "it says what would do: {problem}");
        }
    }
}
