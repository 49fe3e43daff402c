//! Keys of a session and of its channels (MS-SMB2 3.1.4.2, 3.3.5.5.3), by SP 800-108 in counter mode.

use aws_lc_rs::hmac;
use smb_wire::{Dialect, Role};
use zeroize::Zeroizing;

use crate::preauth::PreauthHash;
use crate::sealing::{Cipher, SealingKey};
use crate::signing::{SigningAlgorithm, SigningKey};

/// Session key that a sign-in leaves: 16 bytes as a rule, more from Kerberos.
#[derive(Clone)]
pub struct SessionKey(Zeroizing<Vec<u8>>);

impl SessionKey {
    /// Longest key that is kept, bytes.
    pub const LEN_MAX: usize = 64;

    /// Creates a key of these bytes, of which no more than [`Self::LEN_MAX`] count.
    pub fn new(bytes: &[u8]) -> Self {
        Self(Zeroizing::new(bytes[..bytes.len().min(Self::LEN_MAX)].to_vec()))
    }

    /// Returns `Session.SessionKey`: the first 16 bytes, filled up with zeros.
    fn short(&self) -> Zeroizing<[u8; 16]> {
        //= MS-SMB2 3.3.5.5.3
        //# The session key is the first 16 bytes, right-padded with zero.
        let mut key = Zeroizing::new([0; 16]);
        let len = self.0.len().min(16);
        key[..len].copy_from_slice(&self.0[..len]);
        key
    }
}

impl std::fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SessionKey")
    }
}

/// Parameters that a session's keys depend on beside its key.
#[derive(Clone, Copy, Debug)]
pub struct Agreed {
    /// The connection's dialect.
    pub dialect: Dialect,
    /// Signing algorithm that 3.1.1 agreed on; other dialects have one.
    pub signing: SigningAlgorithm,
    /// Cipher of the session, if one was agreed on.
    pub cipher: Option<Cipher>,
}

/// Makes the key that a session (or one more channel of it) signs with. `preauth` is that of the sign-in on this
/// connection.
pub fn signing_key(session: &SessionKey, agreed: &Agreed, preauth: &PreauthHash) -> SigningKey {
    let short = session.short();
    match agreed.dialect {
        //= MS-SMB2 3.1.4.1
        //# 2.0.2 and 2.1 sign with HMAC-SHA256, 3.x with AES-CMAC unless 3.1.1 agreed on something else.
        Dialect::Smb202 | Dialect::Smb210 => SigningKey::new(SigningAlgorithm::HmacSha256, &short),
        Dialect::Smb300 | Dialect::Smb302 => {
            let key = derive::<16>(&*short, b"SMB2AESCMAC\0", b"SmbSign\0");
            SigningKey::new(SigningAlgorithm::AesCmac, &key)
        }
        Dialect::Smb311 => {
            let key = derive::<16>(&*short, b"SMBSigningKey\0", preauth.value());
            SigningKey::new(agreed.signing, &key)
        }
    }
}

/// Derives the keys that a session seals and opens with, for this side; `None` where nothing can be sealed.
pub fn sealing_keys(
    session: &SessionKey,
    agreed: &Agreed,
    preauth: &PreauthHash,
    role: Role,
) -> Option<(SealingKey, SealingKey)> {
    let (cipher, to_client, to_server) = match agreed.dialect {
        Dialect::Smb202 | Dialect::Smb210 => return None,
        Dialect::Smb300 | Dialect::Smb302 => {
            let label: &[u8] = b"SMB2AESCCM\0";
            (Cipher::Aes128Ccm, (label, &b"ServerOut\0"[..]), (label, &b"ServerIn \0"[..]))
        }
        Dialect::Smb311 => {
            let preauth: &[u8] = preauth.value();
            let (s2c, c2s): (&[u8], &[u8]) = (b"SMBS2CCipherKey\0", b"SMBC2SCipherKey\0");
            (agreed.cipher?, (s2c, preauth), (c2s, preauth))
        }
    };
    let make = |(label, context): (&[u8], &[u8])| {
        if cipher.key_len() == 32 {
            //= MS-SMB2 3.3.5.5.3
            //# AES-256 takes the whole session key, and 256 bits of derivation.
            SealingKey::new(cipher, &*derive::<32>(&session.0, label, context))
        } else {
            SealingKey::new(cipher, &*derive::<16>(&*session.short(), label, context))
        }
    };
    match role {
        Role::Server => Some((make(to_client), make(to_server))),
        Role::Client => Some((make(to_server), make(to_client))),
    }
}

/// Derives a key by SP 800-108 5.1 in counter mode with HMAC-SHA256: one block is enough, so the counter is 1.
fn derive<const LEN: usize>(key: &[u8], label: &[u8], context: &[u8]) -> Zeroizing<[u8; LEN]> {
    const { assert!(LEN <= 32, "one block of SHA-256") };
    let mut hmac = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, key));
    hmac.update(&1u32.to_be_bytes());
    hmac.update(label);
    hmac.update(&[0]);
    hmac.update(context);
    hmac.update(&(8 * LEN as u32).to_be_bytes());
    let mut derived = Zeroizing::new([0; LEN]);
    derived.copy_from_slice(&hmac.sign().as_ref()[..LEN]);
    derived
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
    }

    /// "Encryption in SMB 3.0: A protocol perspective", Microsoft, 2012.
    #[test]
    fn published_keys_of_3_0_come_out() {
        let key = hex("B4546771B515F766A86735532DD6C4F0");
        let to_server = derive::<16>(&key, b"SMB2AESCCM\0", b"ServerIn \0");
        let to_client = derive::<16>(&key, b"SMB2AESCCM\0", b"ServerOut\0");
        assert_eq!(to_server[..], hex("261B72350558F2E9DCF613070383EDBF"));
        assert_eq!(to_client[..], hex("8FE2B57EC34D2DB5B1A9727F526BBDB5"));
    }

    /// "SMB 3.1.1 Encryption in Windows 10", Microsoft, 2015.
    #[test]
    fn published_keys_of_3_1_1_come_out() {
        let key = hex("419FDDF34C1E001909D362AE7FB6AF79");
        let preauth = hex(concat!(
            "B23F3CBFD69487D9832B79B1594A367CDD950909B774C3A4C412B4FCEA9EDDDB",
            "A7DB256BA2EA30E977F11F9B113247578E0E915C6D2A513B8F2FCA5707DC8770",
        ));
        let to_server = derive::<16>(&key, b"SMBC2SCipherKey\0", &preauth);
        let to_client = derive::<16>(&key, b"SMBS2CCipherKey\0", &preauth);
        assert_eq!(to_server[..], hex("A2F5E80E5D59103034F32E52F698E5EC"));
        assert_eq!(to_client[..], hex("748C50868C90F302962A5C35F5F9A8BF"));
    }

    /// "SMB 3.1.1 Pre-authentication integrity in Windows 10", Microsoft, 2015; the last of its hashes.
    #[test]
    fn the_published_signing_key_of_3_1_1_comes_out() {
        let preauth = hex(concat!(
            "0DD13628CC3ED218EF9DF9772D436D0887AB9814BFAE63A80AA845F36909DB79",
            "28622DDDAD522D9751640A459762C5A9D6BB084CBB3CE6BDADEF5D5BCE3C6C01",
        ));
        let key = derive::<16>(&hex("270E1BA896585EEB7AF3472D3B4C75A7"), b"SMBSigningKey\0", &preauth);
        assert_eq!(key[..], hex("73FE7A9A77BEF0BDE49C650D8CCB5F76"));
    }

    #[test]
    fn a_short_session_key_is_filled_up_and_a_long_one_cut() {
        assert_eq!(*SessionKey::new(&[1; 3]).short(), [1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(*SessionKey::new(&[1; 100]).short(), [1; 16]);
        assert_eq!(SessionKey::new(&[1; 100]).0.len(), SessionKey::LEN_MAX);
        assert_eq!(format!("{:?}", SessionKey::new(b"secret")), "SessionKey");
    }
}
