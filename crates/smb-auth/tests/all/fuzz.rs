//! Any tokens, in any order: none signs in, none makes trouble.

use smb_auth::spnego::Token;
use smb_auth::{Acceptor, Accounts, Credentials, Initiator, Policy, Reply, Target};
use zeroize::Zeroizing;

struct Secret;

impl Accounts for Secret {
    fn nt_hash(&self, _domain: &str, _user: &str) -> Zeroizing<[u8; 16]> {
        Zeroizing::new([0x42; 16])
    }

    fn is_known(&self, _domain: &str, _user: &str) -> bool {
        true
    }
}

/// Script of a client: tokens, each of a kind (one byte), a length (two, little-endian) and bytes:
///
/// | kind % 5 | token |
/// |---|---|
/// | 0 | the bytes as they are |
/// | 1 | an AUTHENTICATE message of NTLM, from behind its first 12 bytes on |
/// | 2 | a NEGOTIATE message, likewise |
/// | 3 | what a client begins with |
/// | 4 | what a client answers to the server's last token with a password that is not right; of each three bytes the first two say where the third is laid over it |
///
/// Most tokens get as far as the messages within.
struct Script<'a>(&'a [u8]);

impl<'a> Iterator for Script<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let ([kind, low, high], rest) = self.0.split_first_chunk()?;
        let len = usize::from(u16::from_le_bytes([*low, *high])).min(rest.len());
        let (bytes, rest) = rest.split_at(len);
        self.0 = rest;
        Some((kind % 5, bytes))
    }
}

#[test]
fn any_tokens_are_refused_or_go_on() {
    let target = Target {
        netbios_name: "S".to_owned(),
        netbios_domain: "W".to_owned(),
        dns_name: "s".to_owned(),
        dns_domain: String::new(),
    };
    bolero::check!().for_each(|input: &[u8]| {
        let mut acceptor = Acceptor::new(Policy::default(), [1; 8]);
        let initiator = || {
            let credentials = Credentials {
                domain: String::new(),
                user: "u".to_owned(),
                nt_hash: Zeroizing::new([0; 16]),
                workstation: String::new(),
            };
            Initiator::new(credentials, [2; 8], Zeroizing::new([3; 16]))
        };
        let (mut client, mut challenge) = (initiator(), Vec::new());
        for (kind, bytes) in Script(input) {
            let token = match kind {
                0 => bytes.to_vec(),
                1 => [&b"NTLMSSP\0\x03\0\0\0"[..], bytes].concat(),
                2 => [&b"NTLMSSP\0\x01\0\0\0"[..], bytes].concat(),
                3 => {
                    client = initiator();
                    client.first()
                }
                _ => {
                    let mut token = client.answer(&challenge, 0).unwrap_or_default();
                    for [low, high, value] in bytes.as_chunks::<3>().0 {
                        let at = usize::from(u16::from_le_bytes([*low, *high])) % token.len().max(1);
                        token.get_mut(at).into_iter().for_each(|byte| *byte ^= value);
                    }
                    token
                }
            };
            let _ = Token::parse(&token);
            match acceptor.accept(&token, &target, 0, &Secret) {
                Ok(Reply::Done(..)) => panic!("somebody without the password signed in"),
                Ok(Reply::More(token)) => challenge = token,
                Err(refused) => assert!(refused.status().is_error()),
            }
            // A client takes no more care of its server's identity.
            let _ = initiator().answer(bytes, 0);
            let mut begun = initiator();
            begun.first();
            let _ = begun.answer(bytes, 0);
        }
    });
}
