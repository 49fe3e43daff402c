//! Name and password of HTTP's Basic authentication (RFC 7617).

use base64ct::{Base64, Encoding};
use identity::Secret;
use zeroize::Zeroizing;

use crate::request::Credentials;

/// Credentials of Basic authentication: a name and a password.
#[derive(Debug)]
pub struct Basic {
    /// The user.
    pub name: String,
    /// The password that was sent.
    pub password: Secret,
}

/// Returns what an Authorization field says; `None` where it is no well-formed one of this scheme. It takes
/// as long for any password of one length.
pub fn parse(credentials: Credentials<'_>) -> Option<Basic> {
    let (scheme, rest) = credentials.0.split_at_checked(SCHEME.len())?;
    if !scheme.eq_ignore_ascii_case(SCHEME) {
        return None;
    }
    let encoded = std::str::from_utf8(rest.trim_ascii()).ok()?;
    let decoded = Zeroizing::new(Base64::decode_vec(encoded).ok()?);
    let colon = decoded.iter().position(|byte| *byte == b':')?;
    let name = std::str::from_utf8(&decoded[..colon]).ok()?;
    Some(Basic { name: name.to_owned(), password: Secret::from(decoded[colon + 1..].to_vec()) })
}

/// The scheme's name is in letters of any case (RFC 9110 11.1).
const SCHEME: &[u8] = b"Basic ";

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<(String, Vec<u8>)> {
        let basic = parse(Credentials(text.as_bytes()))?;
        Some((basic.name, basic.password.expose().to_vec()))
    }

    #[test]
    fn name_ends_at_the_first_colon() {
        let is = |name: &str, password: &str| Some((name.to_owned(), password.as_bytes().to_vec()));
        // The example of RFC 7617 2.
        assert_eq!(read("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="), is("Aladdin", "open sesame"));
        assert_eq!(read("basic   YTpiOmM="), is("a", "b:c"));
        assert_eq!(read("BASIC Og=="), is("", ""));
        assert_eq!(read("Basic dGVzdDoxMjPCow=="), is("test", "123\u{a3}"));
    }

    #[test]
    fn what_is_malformed_names_nobody() {
        for text in
            ["", "Basic", "Basic ", "Basic QQ==", "Basic QWxh!GRpbjpv", "Bearer YTpi", "Basic YTpi YTpi"]
        {
            assert!(read(text).is_none(), "{text:?}");
        }
        assert!(read("Basic /zpi").is_none(), "a name that is no UTF-8");
    }
}
