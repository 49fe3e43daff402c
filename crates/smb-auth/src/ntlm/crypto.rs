//! Computations of NTLMv2 (MS-NLMP 3.3.2, 3.4): MD5, HMAC-MD5 and RC4, because the protocol says so.

use hmac::{Hmac, KeyInit as _, Mac as _};
use md5::{Digest as _, Md5};
use rc4::{Rc4, StreamCipher as _};
use smb_wire::Role;
use zeroize::Zeroizing;

use super::flags;
use crate::SessionKey;

/// Computes HMAC-MD5 over parts.
pub fn hmac_md5(key: &[u8], parts: &[&[u8]]) -> [u8; 16] {
    let mut hmac = Hmac::<Md5>::new_from_slice(key).expect("HMAC takes every key");
    parts.iter().for_each(|part| hmac.update(part));
    hmac.finalize().into_bytes().into()
}

/// Computes `NTOWFv2`: a user's key, from the NT hash, the name without case, and the domain as it was sent.
pub fn ntowf_v2(
    nt_hash: &[u8; 16],
    user: impl Iterator<Item = u16>,
    domain: impl Iterator<Item = u16>,
) -> SessionKey {
    let upper = char::decode_utf16(user).flat_map(|unit| {
        let mut out = [0; 2];
        let len = match unit {
            Ok(c) => upper(c).encode_utf16(&mut out).len(),
            Err(half) => {
                out[0] = half.unpaired_surrogate();
                1
            }
        };
        out.into_iter().take(len)
    });
    let bytes: Vec<u8> = upper.chain(domain).flat_map(u16::to_le_bytes).collect();
    Zeroizing::new(hmac_md5(nt_hash, &[&bytes]))
}

/// Converts to upper case, one character for one, as Windows does it.
fn upper(c: char) -> char {
    let mut upper = c.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(one), None) => one,
        _ => c,
    }
}

/// Computes `NTProofStr` of what the client says (`temp`).
pub fn proof(key: &SessionKey, challenge: &[u8; 8], said: &[u8]) -> [u8; 16] {
    hmac_md5(&**key, &[challenge, said])
}

/// Computes `SessionBaseKey`, which with NTLMv2 is the key that keys are exchanged by.
pub fn base_key(key: &SessionKey, proof: &[u8; 16]) -> SessionKey {
    Zeroizing::new(hmac_md5(&**key, &[proof]))
}

/// Encrypts or decrypts by RC4 in place.
pub fn rc4(key: &[u8], bytes: &mut [u8]) {
    Rc4::new_from_slice(key).expect("keys of 1 to 256 bytes").apply_keystream(bytes);
}

/// Computes the code over all three messages; the last has zeros where it goes.
pub fn mic(session_key: &SessionKey, negotiate: &[u8], challenge: &[u8], authenticate: &[u8]) -> [u8; 16] {
    hmac_md5(&**session_key, &[negotiate, challenge, authenticate])
}

/// Computes the signature that `sender` gives the first message of a context (MS-NLMP 3.4.4.2), as SPNEGO's
/// `mechListMIC` has it.
pub fn first_signature(session_key: &SessionKey, agreed: u32, sender: Role, message: &[u8]) -> [u8; 16] {
    let (sign, seal): (&[u8], &[u8]) = match sender {
        Role::Client => (
            b"session key to client-to-server signing key magic constant\0",
            b"session key to client-to-server sealing key magic constant\0",
        ),
        Role::Server => (
            b"session key to server-to-client signing key magic constant\0",
            b"session key to server-to-client sealing key magic constant\0",
        ),
    };
    let sequence = 0u32.to_le_bytes();
    let sign_key = md5(&[&**session_key, sign]);
    let mut checksum = [0; 8];
    checksum.copy_from_slice(&hmac_md5(&*sign_key, &[&sequence, message])[..8]);
    if agreed & flags::KEY_EXCH != 0 {
        let len = match agreed {
            agreed if agreed & flags::KEY_128 != 0 => 16,
            agreed if agreed & flags::KEY_56 != 0 => 7,
            _ => 5,
        };
        rc4(&*md5(&[&session_key[..len], seal]), &mut checksum);
    }
    let mut signature = [0; 16];
    signature[0] = 1;
    signature[4..12].copy_from_slice(&checksum);
    signature[12..].copy_from_slice(&sequence);
    signature
}

fn md5(parts: &[&[u8]]) -> SessionKey {
    let mut md5 = Md5::new();
    parts.iter().for_each(|part| md5.update(part));
    Zeroizing::new(md5.finalize().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NT_HASH: [u8; 16] =
        [0xa4, 0xf4, 0x9c, 0x40, 0x65, 0x10, 0xbd, 0xca, 0xb6, 0x82, 0x4e, 0xe7, 0xc3, 0x0f, 0xd8, 0x52];

    fn hex(text: &str) -> Vec<u8> {
        text.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
    }

    fn key() -> SessionKey {
        ntowf_v2(&NT_HASH, "User".encode_utf16(), "Domain".encode_utf16())
    }

    /// MS-NLMP 4.2.4: key, proof, base key and encrypted session key.
    #[test]
    fn published_values_come_out() {
        assert_eq!(key()[..], hex("0c 86 8a 40 3b fd 7a 93 a3 00 1e f2 2e f0 2e 3f"));
        let said = hex(concat!(
            "01 01 00 00 00 00 00 00 00 00 00 00 00 00 00 00 aa aa aa aa aa aa aa aa 00 00 00 00 ",
            "02 00 0c 00 44 00 6f 00 6d 00 61 00 69 00 6e 00 01 00 0c 00 53 00 65 00 72 00 76 00 65 00 72 00 ",
            "00 00 00 00 00 00 00 00",
        ));
        let challenge = [1, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef];
        let proof = proof(&key(), &challenge, &said);
        assert_eq!(proof[..], hex("68 cd 0a b8 51 e5 1c 96 aa bc 92 7b eb ef 6a 1c"));
        let base = base_key(&key(), &proof);
        assert_eq!(base[..], hex("8d e4 0c ca db c1 4a 82 f1 5c b0 ad 0d e9 5c a3"));
        let mut session_key = [0x55; 16];
        rc4(&*base, &mut session_key);
        assert_eq!(session_key[..], hex("c5 da d2 54 4f c9 79 90 94 ce 1c e9 0b c9 d0 3e"));
        // LMv2, by the same function.
        let lm = super::proof(&key(), &challenge, &[0xaa; 8]);
        assert_eq!(lm[..], hex("86 c3 50 97 ac 9c ec 10 25 54 76 4a 57 cc cc 19"));
    }

    #[test]
    fn names_lose_their_case_one_character_for_one() {
        let key = |user: &str| ntowf_v2(&NT_HASH, user.encode_utf16(), "".encode_utf16());
        assert_eq!(key("üser"), key("ÜSER"));
        assert_ne!(key("straße"), key("STRASSE"));
        assert_ne!(
            ntowf_v2(&NT_HASH, "u".encode_utf16(), "d".encode_utf16()),
            ntowf_v2(&NT_HASH, "u".encode_utf16(), "D".encode_utf16()),
        );
    }
}
