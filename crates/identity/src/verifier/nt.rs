//! NT hashes, which NTLMv2 needs (MS-NLMP 3.3.1 `NTOWFv1`): MD4 of the password in UTF-16LE.

use std::fmt::{self, Write};
use std::str::FromStr;

use md4::{Digest, Md4};
use zeroize::Zeroizing;

use super::BadVerifier;
use super::password::fill_random;
use crate::secret::Secret;

/// NT hash of a password. Its holder needs no password (SMB asks for no more), it has no salt and costs
/// nothing to try: an account has one only on request.
#[derive(Clone)]
pub struct NtHash(Zeroizing<[u8; 16]>);

impl NtHash {
    /// Hashes a password; `None` if it is not UTF-8.
    pub fn new(password: &Secret) -> Option<Self> {
        let text = std::str::from_utf8(password.expose()).ok()?;
        let wide: Zeroizing<Vec<u8>> =
            Zeroizing::new(text.encode_utf16().flat_map(u16::to_le_bytes).collect());
        Some(Self(Zeroizing::new(Md4::digest(&*wide).into())))
    }

    /// Returns a hash that no proof matches.
    pub(crate) fn decoy() -> Self {
        let mut bytes = Zeroizing::new([0; 16]);
        fill_random(&mut *bytes);
        Self(bytes)
    }

    /// Returns the bytes of the hash, the key of NTLMv2's proof.
    pub fn expose(&self) -> &[u8; 16] {
        &self.0
    }

    /// Formats the hash as 32 hexadecimal digits, for the accounts file.
    pub fn to_text(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::with_capacity(32));
        for byte in *self.0 {
            write!(text, "{byte:02x}").expect("a string takes every text");
        }
        text
    }
}

impl FromStr for NtHash {
    type Err = BadVerifier;

    fn from_str(text: &str) -> Result<Self, BadVerifier> {
        let mut bytes = Zeroizing::new([0; 16]);
        if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(BadVerifier::NotNt);
        }
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).map_err(|_| BadVerifier::NotNt)?;
        }
        Ok(Self(bytes))
    }
}

impl fmt::Debug for NtHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NtHash")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the hash of MS-NLMP 4.2.2.1.1.
    #[test]
    fn the_published_hash_comes_out() {
        let hash = NtHash::new(&"Password".into()).unwrap();
        assert_eq!(*hash.to_text(), "a4f49c406510bdcab6824ee7c30fd852");
        assert_eq!(hash.to_text().parse::<NtHash>().unwrap().expose(), hash.expose());
        assert_eq!(format!("{hash:?}"), "NtHash");
    }

    #[test]
    fn letters_beyond_ascii_are_utf_16() {
        let [composed, pair] = ["pässwörd", "🔑"].map(|text| NtHash::new(&text.into()).unwrap());
        assert_ne!(composed.expose(), pair.expose());
        assert!(NtHash::new(&vec![0xff].into()).is_none());
        for text in ["", "a4f4", "g4f49c406510bdcab6824ee7c30fd852", "+4f49c406510bdcab6824ee7c30fd852"] {
            assert!(text.parse::<NtHash>().is_err(), "{text:?}");
        }
    }
}
