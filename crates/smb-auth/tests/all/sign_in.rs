//! Whole sign-ins, and every way in which they must not succeed.

use smb_auth::ntlm::message::{AuthenticateParts, Challenge, MIC, av, pairs, write_negotiate};
use smb_auth::ntlm::{crypto, flags};
use smb_auth::spnego::{self, Resp, Token, oid};
use smb_auth::{
    Acceptor, Accounts, Credentials, Initiator, Policy, Refused, Reply, SignedIn, TOKEN_MAX, Target, Who,
    hint,
};
use smb_wire::Status;
use zeroize::Zeroizing;

const HASH: [u8; 16] =
    [0xa4, 0xf4, 0x9c, 0x40, 0x65, 0x10, 0xbd, 0xca, 0xb6, 0x82, 0x4e, 0xe7, 0xc3, 0x0f, 0xd8, 0x52];
const CHALLENGE: [u8; 8] = [1, 2, 3, 4, 5, 6, 7, 8];
const NOW: u64 = 0x01da_0000_0000_0000;

struct One;

impl Accounts for One {
    fn nt_hash(&self, domain: &str, user: &str) -> Zeroizing<[u8; 16]> {
        Zeroizing::new(if self.is_known(domain, user) { HASH } else { [0xee; 16] })
    }

    fn is_known(&self, _domain: &str, user: &str) -> bool {
        user.eq_ignore_ascii_case("user")
    }
}

fn target() -> Target {
    Target {
        netbios_name: "SERVER".to_owned(),
        netbios_domain: "WORKGROUP".to_owned(),
        dns_name: "server.example".to_owned(),
        dns_domain: "example".to_owned(),
    }
}

fn credentials(user: &str, nt_hash: [u8; 16]) -> Credentials {
    Credentials {
        domain: "WORKGROUP".to_owned(),
        user: user.to_owned(),
        nt_hash: Zeroizing::new(nt_hash),
        workstation: "CLIENT".to_owned(),
    }
}

fn initiator(user: &str, nt_hash: [u8; 16]) -> Initiator {
    Initiator::new(credentials(user, nt_hash), [9; 8], Zeroizing::new([0x55; 16]))
}

fn accept(acceptor: &mut Acceptor, token: &[u8]) -> Result<Reply, Refused> {
    acceptor.accept(token, &target(), NOW, &One)
}

fn more(reply: Result<Reply, Refused>) -> Vec<u8> {
    match reply.unwrap() {
        Reply::More(token) => token,
        Reply::Done(..) => panic!("it ended too early"),
    }
}

fn done(reply: Result<Reply, Refused>) -> (Vec<u8>, SignedIn) {
    match reply.unwrap() {
        Reply::Done(token, signed_in) => (token, signed_in),
        Reply::More(_) => panic!("it goes on"),
    }
}

/// Both sides up to the third token.
fn third(policy: Policy, user: &str, hash: [u8; 16]) -> (Acceptor, Initiator, Vec<u8>) {
    let mut acceptor = Acceptor::new(policy, CHALLENGE);
    let mut initiator = initiator(user, hash);
    let challenge = more(accept(&mut acceptor, &initiator.first()));
    let answer = initiator.answer(&challenge, NOW).unwrap();
    (acceptor, initiator, answer)
}

#[test]
fn a_user_with_the_password_signs_in_and_both_have_one_key() {
    for user in ["user", "USER"] {
        let (mut acceptor, initiator, answer) = third(Policy::default(), user, HASH);
        let (token, signed_in) = done(accept(&mut acceptor, &answer));
        assert_eq!(signed_in.who, Who::User { domain: "WORKGROUP".to_owned(), user: user.to_owned() });
        let Ok(Token::Resp(last)) = Token::parse(&token) else { panic!("an answer") };
        assert!(last.mic.is_some(), "a code of ours for one of theirs");
        assert_eq!(signed_in.session_key.as_deref(), Some(&[0x55; 16]));
        assert_eq!(initiator.finish(&token).unwrap().as_deref(), Some(&[0x55; 16]));
    }
    assert!(matches!(Token::parse(&hint()), Ok(Token::Init(_))));
}

#[test]
fn a_wrong_password_and_an_unknown_name_are_refused_alike() {
    for (user, hash) in [("user", [0; 16]), ("nobody", HASH), ("nobody", [0; 16])] {
        let (mut acceptor, _, answer) = third(Policy::default(), user, hash);
        let refused = accept(&mut acceptor, &answer).unwrap_err();
        assert_eq!((refused, refused.status()), (Refused::Wrong, Status::LOGON_FAILURE));
        // It is over: the right answer comes too late.
        let (_, _, right) = third(Policy::default(), "user", HASH);
        assert_eq!(accept(&mut acceptor, &right).unwrap_err(), Refused::Order);
    }
}

/// Holds every client off.
struct Tired;

impl Accounts for Tired {
    fn nt_hash(&self, domain: &str, user: &str) -> Zeroizing<[u8; 16]> {
        One.nt_hash(domain, user)
    }

    fn is_known(&self, domain: &str, user: &str) -> bool {
        One.is_known(domain, user)
    }

    fn is_held_off(&self, _domain: &str, _user: &str) -> bool {
        true
    }
}

#[test]
fn who_is_held_off_is_not_let_in_by_the_right_password_and_his_name_is_known() {
    for (user, hash) in [("user", HASH), ("user", [0; 16]), ("nobody", HASH)] {
        let (mut acceptor, _, answer) = third(Policy::default(), user, hash);
        assert_eq!(acceptor.claimed(), None);
        let refused = acceptor.accept(&answer, &target(), NOW, &Tired).unwrap_err();
        assert_eq!((refused, refused.status()), (Refused::HeldOff, Status::ACCOUNT_LOCKED_OUT));
        assert_eq!(acceptor.claimed(), Some(user));
    }
}

#[test]
fn guests_and_nobody_come_in_only_where_they_are_let_in() {
    let guests = Policy { guest: true, ..Policy::default() };
    let (mut acceptor, _, answer) = third(guests, "nobody", [0; 16]);
    let (_, signed_in) = done(accept(&mut acceptor, &answer));
    assert_eq!((signed_in.who, signed_in.session_key.is_none()), (Who::Guest, true));
    let (mut acceptor, _, answer) = third(guests, "user", [0; 16]);
    assert_eq!(accept(&mut acceptor, &answer).unwrap_err(), Refused::Wrong, "a known name is never a guest");

    let (mut acceptor, _, answer) = third(Policy::default(), "", [0; 16]);
    let refused = accept(&mut acceptor, &answer).unwrap_err();
    assert_eq!((refused, refused.status()), (Refused::Anonymous, Status::ACCESS_DENIED));
    let (mut acceptor, initiator, answer) =
        third(Policy { anonymous: true, ..Policy::default() }, "", [0; 16]);
    let (token, signed_in) = done(accept(&mut acceptor, &answer));
    assert_eq!((signed_in.who, signed_in.session_key.map(|key| *key)), (Who::Anonymous, Some([0; 16])));
    assert!(initiator.finish(&token).unwrap().is_none());
}

#[test]
fn an_answer_to_another_challenge_is_worth_nothing() {
    let (_, _, answer) = third(Policy::default(), "user", HASH);
    let mut other = Acceptor::new(Policy::default(), [0xab; 8]);
    more(accept(&mut other, &initiator("user", HASH).first()));
    assert_eq!(accept(&mut other, &answer).unwrap_err(), Refused::Wrong);
}

#[test]
fn no_byte_of_an_exchange_can_be_changed() {
    let (_, _, answer) = third(Policy::default(), "user", HASH);
    let Ok(Token::Resp(resp)) = Token::parse(&answer) else { panic!("an answer") };
    let message = resp.token.unwrap();
    let at = answer.windows(message.len()).position(|window| window == message).unwrap();
    for byte in at..answer.len() {
        let mut bent = answer.clone();
        bent[byte] ^= 1;
        // A user's name loses its case; everything else is covered by the code at the latest.
        let (mut acceptor, _, _) = third(Policy::default(), "user", HASH);
        let result = accept(&mut acceptor, &bent);
        assert!(result.is_err(), "byte {} of the message", byte - at);
    }
    for end in 0..answer.len() {
        let (mut acceptor, _, _) = third(Policy::default(), "user", HASH);
        assert!(accept(&mut acceptor, &answer[..end]).is_err(), "{end}");
    }
}

#[test]
fn the_first_token_is_covered_too() {
    let mut first = initiator("user", HASH).first();
    let at = first.len() - 28 + 2;
    first[at] ^= 0x04;
    let mut acceptor = Acceptor::new(Policy::default(), CHALLENGE);
    let mut initiator = initiator("user", HASH);
    let challenge = more(accept(&mut acceptor, &first));
    let answer = initiator.answer(&challenge, NOW).unwrap();
    let refused = accept(&mut acceptor, &answer).unwrap_err();
    assert_eq!((refused, refused.status()), (Refused::Changed, Status::ACCESS_DENIED));
}

/// Messages that a client of ours never sends: its parts by hand.
struct ByHand {
    flags: u32,
    pairs: Vec<u8>,
    mic: bool,
    nt: Option<Vec<u8>>,
    key_len: usize,
}

impl Default for ByHand {
    fn default() -> Self {
        let pairs = pairs(&[(av::FLAGS, &av::FLAG_MIC.to_le_bytes())]);
        Self { flags: 0xe288_8235, pairs, mic: true, nt: None, key_len: 16 }
    }
}

impl ByHand {
    /// NTLM without SPNEGO, as Linux's client speaks it.
    fn sign_in(self) -> Result<SignedIn, Refused> {
        let mut acceptor = Acceptor::new(Policy::default(), CHALLENGE);
        let negotiate = write_negotiate(self.flags);
        let challenge = more(accept(&mut acceptor, &negotiate));
        let read = Challenge::parse(&challenge).unwrap();
        assert_eq!(read.flags & (flags::KEY_128 | flags::KEY_56), flags::KEY_128 | flags::KEY_56);
        let key = crypto::ntowf_v2(&HASH, "user".encode_utf16(), "".encode_utf16());
        let mut said = vec![1, 1, 0, 0, 0, 0, 0, 0];
        said.extend([0; 20]);
        said.extend(&self.pairs);
        let proof = crypto::proof(&key, &read.challenge, &said);
        let base = crypto::base_key(&key, &proof);
        let mut session_key = vec![7; self.key_len];
        crypto::rc4(&*base, &mut session_key);
        let nt = self.nt.unwrap_or_else(|| [&proof[..], &said].concat());
        let mut message = AuthenticateParts {
            flags: self.flags & read.flags,
            lm: &[0; 24],
            nt: &nt,
            domain: "",
            user: "user",
            workstation: "",
            session_key: &session_key,
        }
        .write();
        if self.mic {
            let mic = crypto::mic(&Zeroizing::new([7; 16]), &negotiate, &challenge, &message);
            message[MIC].copy_from_slice(&mic);
        }
        let reply = accept(&mut acceptor, &message)?;
        let (token, signed_in) = done(Ok(reply));
        assert!(token.is_empty(), "no SPNEGO for who does not speak it");
        Ok(signed_in)
    }
}

#[test]
fn ntlm_without_spnego_signs_in() {
    assert_eq!(ByHand::default().sign_in().unwrap().session_key.as_deref(), Some(&[7; 16]));
}

#[test]
fn names_in_unicode_or_in_a_code_page_sign_in_and_names_in_neither_do_not() {
    let of = |text: u32| ByHand {
        flags: ByHand::default().flags & !(flags::UNICODE | flags::OEM) | text,
        ..ByHand::default()
    };
    for text in [flags::UNICODE, flags::OEM, flags::UNICODE | flags::OEM] {
        let signed_in = of(text).sign_in().unwrap();
        assert_eq!(signed_in.session_key.as_deref(), Some(&[7; 16]), "{text}");
        let Who::User { user, .. } = signed_in.who else { panic!("{text}") };
        assert_eq!(user, "user");
    }
    let negotiate = write_negotiate(of(0).flags);
    let refused = accept(&mut Acceptor::new(Policy::default(), CHALLENGE), &negotiate).unwrap_err();
    assert_eq!(refused, Refused::Weak);
}

/// Linux's client announces none. A client that has announced a code under the proof cannot be robbed of it.
#[test]
fn who_announces_no_code_signs_in_without() {
    let without = ByHand { pairs: pairs(&[]), mic: false, ..ByHand::default() };
    assert_eq!(without.sign_in().unwrap().session_key.as_deref(), Some(&[7; 16]));
    assert_eq!(ByHand { mic: false, ..ByHand::default() }.sign_in().unwrap_err(), Refused::Changed);
}

#[test]
fn what_is_weaker_than_ntlm_v2_or_lacks_its_code_is_refused() {
    let weak = |by_hand: ByHand| by_hand.sign_in().unwrap_err();
    assert_eq!(weak(ByHand { nt: Some(vec![5; 24]), ..ByHand::default() }), Refused::Weak, "NTLMv1");
    assert_eq!(weak(ByHand { nt: Some(Vec::new()), ..ByHand::default() }), Refused::Weak, "LM");
    assert_eq!(weak(ByHand { nt: Some(vec![1; 47]), ..ByHand::default() }), Refused::Weak);
    assert_eq!(weak(ByHand { mic: false, ..ByHand::default() }), Refused::Changed);
    assert_eq!(weak(ByHand { pairs: vec![0; 3], ..ByHand::default() }), Refused::Weak);
    assert_eq!(weak(ByHand { pairs: vec![6, 0, 4, 0, 2, 0, 0, 0], ..ByHand::default() }), Refused::Malformed);
    assert_eq!(weak(ByHand { pairs: [6, 0, 0, 0].repeat(65), ..ByHand::default() }), Refused::Malformed);
    // Also from a client that proves nothing.
    let unproved = [vec![0xab; 16], vec![1, 1], vec![0; 26], vec![0x11, 0xa2, 0x08, 0x81, 0]].concat();
    assert_eq!(weak(ByHand { nt: Some(unproved), ..ByHand::default() }), Refused::Malformed);
    assert_eq!(weak(ByHand { key_len: 8, ..ByHand::default() }), Refused::Malformed);
    assert_eq!(weak(ByHand { key_len: 17, ..ByHand::default() }), Refused::Malformed);
    assert_eq!(Refused::Weak.status(), Status::LOGON_FAILURE);
}

#[test]
fn tokens_out_of_order_too_long_or_of_others_are_refused() {
    let refused = |token: &[u8]| accept(&mut Acceptor::new(Policy::default(), CHALLENGE), token).unwrap_err();
    assert_eq!(refused(&[]), Refused::Malformed);
    assert_eq!(refused(&vec![0; TOKEN_MAX + 1]), Refused::TooLong);
    assert_eq!(refused(b"NTLMSSP\0\x03\0\0\0\0\0\0\0"), Refused::Order);
    assert_eq!(refused(&write_negotiate(0)), Refused::Weak, "no Unicode");
    assert_eq!(refused(&spnego::write_resp(&Resp::default())), Refused::Order);
    let kerberos = spnego::mechanism_list(&[oid::KERBEROS]);
    assert_eq!(refused(&spnego::write_init(&kerberos, b"ticket")), Refused::NoMechanism);
    let (mut acceptor, initiator, _) = third(Policy::default(), "user", HASH);
    assert_eq!(accept(&mut acceptor, &initiator.first()).unwrap_err(), Refused::Order);
}

/// A client that prefers Kerberos is asked for NTLM, and must prove that its list was not changed.
#[test]
fn who_prefers_another_mechanism_has_to_sign_the_list() {
    let list = spnego::mechanism_list(&[oid::KERBEROS, oid::NTLM]);
    for with_mic in [true, false] {
        let mut acceptor = Acceptor::new(Policy::default(), CHALLENGE);
        let asked = more(accept(&mut acceptor, &spnego::write_init(&list, b"ticket")));
        let Ok(Token::Resp(resp)) = Token::parse(&asked) else { panic!("an answer") };
        assert_eq!((resp.state, resp.mechanism), (Some(spnego::State::RequestMic), Some(oid::NTLM)));
        let mut initiator = initiator("user", HASH);
        let first = initiator.first();
        let Ok(Token::Init(init)) = Token::parse(&first) else { panic!("an offer") };
        let second = spnego::write_resp(&Resp { token: init.token, ..Resp::default() });
        let challenge = more(accept(&mut acceptor, &second));
        let answer = initiator.answer(&challenge, NOW).unwrap();
        let Ok(Token::Resp(resp)) = Token::parse(&answer) else { panic!("an answer") };
        let signature =
            crypto::first_signature(&Zeroizing::new([0x55; 16]), 0xe288_8235, smb_wire::Role::Client, &list);
        let answer = spnego::write_resp(&Resp { mic: with_mic.then_some(&signature[..]), ..resp });
        let result = accept(&mut acceptor, &answer);
        assert_eq!(result.err(), (!with_mic).then_some(Refused::NoMic));
        // The code that the initiator made is over its own list, which is not the one that was offered.
        if with_mic {
            let mut again = Acceptor::new(Policy::default(), CHALLENGE);
            more(accept(&mut again, &spnego::write_init(&list, b"ticket")));
            more(accept(&mut again, &second));
            assert!(resp.mic.is_some());
            let other_list = spnego::write_resp(&resp);
            assert_eq!(accept(&mut again, &other_list).unwrap_err(), Refused::Changed);
        }
    }
}

#[test]
fn a_first_message_longer_than_any_clients_is_malformed() {
    let negotiate = |len: usize| {
        let mut message = write_negotiate(0xe288_8235);
        message.resize(len, 0);
        message
    };
    for wraps in [false, true] {
        for (len, is_taken) in [(512, true), (513, false), (16_000, false)] {
            let message = negotiate(len);
            let list = spnego::mechanism_list(&[oid::NTLM]);
            let token = if wraps { spnego::write_init(&list, &message) } else { message };
            let result = accept(&mut Acceptor::new(Policy::default(), CHALLENGE), &token);
            assert_eq!(result.err(), (!is_taken).then_some(Refused::Malformed), "{len} {wraps}");
        }
    }
    // Nor are there so many mechanisms.
    let list = spnego::mechanism_list(&[oid::NTLM; 100]);
    let token = spnego::write_init(&list, &negotiate(40));
    let result = accept(&mut Acceptor::new(Policy::default(), CHALLENGE), &token);
    assert_eq!(result.err(), Some(Refused::Malformed));
}

/// MS-NLMP 4.2.4.4: the checksum before it is encrypted.
#[test]
fn the_published_checksum_comes_out() {
    let text: Vec<u8> = "Plaintext".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let signature =
        crypto::first_signature(&Zeroizing::new([0x55; 16]), flags::KEY_128, smb_wire::Role::Client, &text);
    assert_eq!(signature, [1, 0, 0, 0, 0x70, 0x35, 0x28, 0x51, 0xf2, 0x56, 0x43, 0x09, 0, 0, 0, 0]);
}

/// MS-NLMP 4.2.4.3: the published AUTHENTICATE, which announces no code.
#[test]
fn the_published_exchange_proves_its_password() {
    let hex = |text: &str| -> Vec<u8> {
        text.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
    };
    let message = hex(concat!(
        "4e 54 4c 4d 53 53 50 00 03 00 00 00 18 00 18 00 6c 00 00 00 54 00 54 00 84 00 00 00 0c 00 0c 00 ",
        "48 00 00 00 08 00 08 00 54 00 00 00 10 00 10 00 5c 00 00 00 10 00 10 00 d8 00 00 00 35 82 88 e2 ",
        "05 01 28 0a 00 00 00 0f 44 00 6f 00 6d 00 61 00 69 00 6e 00 55 00 73 00 65 00 72 00 43 00 4f 00 ",
        "4d 00 50 00 55 00 54 00 45 00 52 00 86 c3 50 97 ac 9c ec 10 25 54 76 4a 57 cc cc 19 aa aa aa aa ",
        "aa aa aa aa 68 cd 0a b8 51 e5 1c 96 aa bc 92 7b eb ef 6a 1c 01 01 00 00 00 00 00 00 00 00 00 00 ",
        "00 00 00 00 aa aa aa aa aa aa aa aa 00 00 00 00 02 00 0c 00 44 00 6f 00 6d 00 61 00 69 00 6e 00 ",
        "01 00 0c 00 53 00 65 00 72 00 76 00 65 00 72 00 00 00 00 00 00 00 00 00 c5 da d2 54 4f c9 79 90 ",
        "94 ce 1c e9 0b c9 d0 3e",
    ));
    let challenge = [1, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef];
    let mut acceptor = Acceptor::new(Policy::default(), challenge);
    more(accept(&mut acceptor, &write_negotiate(0xe288_8235)));
    let (_, signed_in) = done(accept(&mut acceptor, &message));
    assert_eq!(signed_in.session_key.as_deref(), Some(&[0x55; 16]));
    let mut wrong = Acceptor::new(Policy::default(), CHALLENGE);
    more(accept(&mut wrong, &write_negotiate(0xe288_8235)));
    assert_eq!(accept(&mut wrong, &message).unwrap_err(), Refused::Wrong);
}
