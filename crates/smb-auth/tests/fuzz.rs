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

#[test]
fn any_tokens_are_refused_or_go_on() {
    let target = Target {
        netbios_name: "S".to_owned(),
        netbios_domain: "W".to_owned(),
        dns_name: "s".to_owned(),
        dns_domain: String::new(),
    };
    bolero::check!().with_type().for_each(|tokens: &Vec<(u8, Vec<u8>)>| {
        let mut acceptor = Acceptor::new(Policy::default(), [1; 8]);
        let credentials = Credentials {
            domain: String::new(),
            user: "u".to_owned(),
            nt_hash: Zeroizing::new([0; 16]),
            workstation: String::new(),
        };
        let mut initiator = Initiator::new(credentials, [2; 8], Zeroizing::new([3; 16]));
        for (kind, bytes) in tokens {
            // Most tokens get as far as the messages within.
            let token = match kind % 4 {
                0 => bytes.clone(),
                1 => [&b"NTLMSSP\0\x03\0\0\0"[..], bytes].concat(),
                2 => [&b"NTLMSSP\0\x01\0\0\0"[..], bytes].concat(),
                _ => initiator.first(),
            };
            let _ = Token::parse(&token);
            match acceptor.accept(&token, &target, 0, &Secret) {
                Ok(Reply::Done(..)) => panic!("somebody without the password signed in"),
                Ok(Reply::More(token)) => drop(initiator.answer(&token, 0)),
                Err(refused) => assert!(refused.status().is_error()),
            }
            let _ = initiator.answer(bytes, 0);
        }
    });
}
