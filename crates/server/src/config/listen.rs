//! Addresses as the configuration and the command line write them: `ADDRESS:PORT`, `*:PORT` for every address of
//! either family, `off` for none.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use serde::de::{self, Deserializer, SeqAccess, Visitor};

/// The addresses that one word stands for. IPv6 addresses take IPv6 alone, so that `0.0.0.0:80` and `[::]:80` may
/// stand side by side; `*:80` is both, or the former where the kernel has no IPv6.
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
    if Path::new("/proc/net/if_inet6").exists() {
        addresses.push((Ipv6Addr::UNSPECIFIED, port).into());
    }
    Ok(addresses)
}

/// One word or a list of them.
pub(super) fn addresses<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<SocketAddr>, D::Error> {
    from.deserialize_any(Addresses)
}

/// One address or none.
pub(super) fn address<'de, D: Deserializer<'de>>(from: D) -> Result<Option<SocketAddr>, D::Error> {
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
    use crate::config::Config;

    fn parse(text: &str) -> Result<Config, String> {
        toml::from_str(text).map_err(|error: toml::de::Error| error.to_string())
    }

    #[test]
    fn one_word_may_be_both_families_and_off_is_none() {
        let config =
            parse("[http]\nlisten = [\"*:80\", \"127.0.0.1:8080\"]\n[https]\nlisten = \"off\"").unwrap();
        let http: Vec<String> = config.http.listen.iter().map(ToString::to_string).collect();
        assert_eq!(http.first().unwrap(), "0.0.0.0:80");
        assert_eq!(http.last().unwrap(), "127.0.0.1:8080");
        assert_eq!(http.contains(&"[::]:80".to_owned()), std::path::Path::new("/proc/net/if_inet6").exists());
        assert!(config.https.listen.is_empty());
        let both = parse("[http]\nlisten = [\"0.0.0.0:80\", \"[::]:80\"]").unwrap();
        assert_eq!(both.http.listen.len(), 2);
    }

    #[test]
    fn the_admin_address_can_be_switched_off() {
        assert_eq!(parse("[admin]\nlisten = \"off\"").unwrap().admin.listen, None);
        assert!(parse("").unwrap().admin.listen.is_some());
        assert!(parse("[admin]\nlisten = \"127.0.0.1:9\"").unwrap().admin.listen.is_some());
        let wrong =
            ["[admin]\nlisten = \"\"", "[admin]\nlisten = \"localhost:1\"", "[admin]\nlisten = false"];
        for wrong in wrong {
            let problem = parse(wrong).unwrap_err();
            assert!(problem.contains("off"), "it says what would do: {problem}");
        }
    }
}
