//! Keys as a connection uses them: from what was said to what is signed and sealed, both sides.

use smb_proto::keys::{Agreed, SessionKey, sealing_keys, signing_key};
use smb_proto::preauth::PreauthHash;
use smb_proto::sealing::{Cipher, Nonces};
use smb_proto::signing::{SigningAlgorithm, SigningKey};
use smb_wire::header::{SIGNATURE, flags};
use smb_wire::transform::TRANSFORM_LEN;
use smb_wire::{Command, Dialect, Header, Role};
use zerocopy::IntoBytes;

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

/// "SMB 3.1.1 Pre-authentication integrity in Windows 10", Microsoft, 2015: the negotiation's two messages.
#[test]
fn the_published_hashes_of_a_negotiation_come_out() {
    let request = concat!(
        "FE534D4240000100000000000000800000000000000000000100000000000000FFFE000000000000",
        "00000000000000000000000000000000000000000000000024000500000000003F000000ECD86F32",
        "6276024F9F7752B89BB33F3A70000000020000000202100200030203110300000100260000000000",
        "010020000100FA49E6578F1F3A9F4CD3E9CC14A67AA884B3D05844E0E5A118225C15887F32FF0000",
        "0200060000000000020002000100"
    );
    let response = concat!(
        "FE534D4240000100000000000000010001000000000000000100000000000000FFFE000000000000",
        "000000000000000000000000000000000000000000000000410001001103020039CBCAF329714942",
        "BDCE5D60F09AB3FB2F000000000080000000800000008000D8DAE5ADCBAED00109094AB095AED001",
        "80004001C00100006082013C06062B0601050502A08201303082012CA01A3018060A2B0601040182",
        "3702021E060A2B06010401823702020AA282010C048201084E45474F455854530100000000000000",
        "60000000700000007C7CC0FD06D6362D02DDE1CF343BFE292900F49750B4AA97934D9C4296B26E51",
        "FD370471B235E15A50DAE15BD5489C87000000000000000060000000010000000000000000000000",
        "5C33530DEAF90D4DB2EC4AE3786EC3084E45474F4558545303000000010000004000000098000000",
        "7C7CC0FD06D6362D02DDE1CF343BFE295C33530DEAF90D4DB2EC4AE3786EC3084000000058000000",
        "3056A05430523027802530233121301F06035504031318546F6B656E205369676E696E6720507562",
        "6C6963204B65793027802530233121301F06035504031318546F6B656E205369676E696E67205075",
        "626C6963204B6579010026000000000001002000010060A3C3B95C3C7CCD51EC536648D9B3AC74C4",
        "83CA5B65385A251117BEB30712E50000020004000000000001000200"
    );
    let mut hash = PreauthHash::new();
    hash.update(&hex(request));
    assert_eq!(
        hash.value()[..],
        hex(concat!(
            "DD94EFC5321BB618A2E208BA8920D2F422992526947A409B5037DE1E0FE8C7362B8C47122594CDE0",
            "CE26AA9DFC8BCDBDE0621957672623351A7540F1E54A0426"
        ))
    );
    hash.update(&hex(response));
    assert_eq!(
        hash.value()[..],
        hex(concat!(
            "324BFA92A4F3A190E466EBEA08D9C110DC88BFED758D9846ECC6F541CC1D02AE3C94A79F36011E99",
            "7E13F841B91B50957AD07B19C8E2539C0B23FDAE09D2C513"
        ))
    );
}

fn message(len: usize) -> Vec<u8> {
    let header = Header::request(Command::Write, 77).with(flags::SIGNED);
    [header.as_bytes(), &(0..len).map(|at| at as u8).collect::<Vec<_>>()].concat()
}

/// RFC 4231 and RFC 4493 cover the algorithms in their libraries; here it is that parts, wherever they are cut, and
/// a signature that is there already change nothing.
#[test]
fn a_signature_is_that_of_the_whole_however_it_is_cut() {
    for algorithm in SigningAlgorithm::PREFERRED {
        let key = SigningKey::new(algorithm, &[3; 16]);
        let mut message = message(1500);
        let whole = key.sign(Role::Server, &[&message]).unwrap();
        message[SIGNATURE].fill(0xaa);
        for cut in [64, 65, 80, 700, message.len()] {
            let (head, rest) = message.split_at(cut);
            assert_eq!(key.sign(Role::Server, &[head, rest]).unwrap(), whole, "{algorithm:?} {cut}");
        }
        assert!(key.sign(Role::Server, &[&message[..63], &message[63..]]).is_err());
        assert!(key.sign(Role::Server, &[]).is_err());
        assert_eq!(SigningAlgorithm::from_wire(algorithm as u16), Some(algorithm));
    }
}

#[test]
fn a_message_that_was_changed_is_noticed_and_one_of_ours_sent_back_too() {
    for algorithm in SigningAlgorithm::PREFERRED {
        let key = SigningKey::new(algorithm, &[3; 16]);
        let mut message = message(40);
        key.sign_in_place(Role::Client, &mut message).unwrap();
        assert!(key.verify(Role::Client, &[&message]));
        for at in 0..message.len() {
            let mut bent = message.clone();
            bent[at] ^= 0x10;
            assert!(!key.verify(Role::Client, &[&bent]), "{algorithm:?} {at}");
        }
        assert!(!SigningKey::new(algorithm, &[4; 16]).verify(Role::Client, &[&message]));
        // Only GMAC knows the sender's role.
        assert_eq!(key.verify(Role::Server, &[&message]), algorithm != SigningAlgorithm::AesGmac);
    }
}

/// NIST SP 800-38B, example 1 to 4 are the library's; this is a message of ours by `openssl mac -cipher AES-128-CBC CMAC`
/// and `openssl mac -digest SHA256 HMAC`, and by AES-128-GCM with all of it as associated data.
#[test]
fn each_algorithm_is_what_its_name_says() {
    let message = message(13);
    let key = &[3u8; 16];
    let blank = {
        let mut blank = message.clone();
        blank[SIGNATURE].fill(0);
        blank
    };
    let hmac = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, key);
    let expected = aws_lc_rs::hmac::sign(&hmac, &blank);
    let signed = SigningKey::new(SigningAlgorithm::HmacSha256, key).sign(Role::Client, &[&message]).unwrap();
    assert_eq!(signed, expected.as_ref()[..16]);
    let cmac = aws_lc_rs::cmac::Key::new(aws_lc_rs::cmac::AES_128, key).unwrap();
    let expected = aws_lc_rs::cmac::sign(&cmac, &blank).unwrap();
    let signed = SigningKey::new(SigningAlgorithm::AesCmac, key).sign(Role::Client, &[&message]).unwrap();
    assert_eq!(signed, expected.as_ref());
    let gcm = aws_lc_rs::aead::UnboundKey::new(&aws_lc_rs::aead::AES_128_GCM, key).unwrap();
    let gcm = aws_lc_rs::aead::LessSafeKey::new(gcm);
    for (role, last) in [(Role::Client, 0), (Role::Server, 1)] {
        let nonce = [77, 0, 0, 0, 0, 0, 0, 0, last, 0, 0, 0];
        let nonce = aws_lc_rs::aead::Nonce::assume_unique_for_key(nonce);
        let aad = aws_lc_rs::aead::Aad::from(&blank);
        let expected = gcm.seal_in_place_separate_tag(nonce, aad, &mut []).unwrap();
        let signed = SigningKey::new(SigningAlgorithm::AesGmac, key).sign(role, &[&message]).unwrap();
        assert_eq!(signed, expected.as_ref());
    }
}

#[test]
fn both_sides_of_every_dialect_make_the_same_keys() {
    let session = SessionKey::new(&[9; 16]);
    let mut preauth = PreauthHash::new();
    preauth.update(b"what was said");
    for dialect in Dialect::ALL {
        for cipher in Cipher::PREFERRED {
            let agreed = Agreed { dialect, signing: SigningAlgorithm::AesGmac, cipher: Some(cipher) };
            let mut signed = message(20);
            signing_key(&session, &agreed, &preauth).sign_in_place(Role::Server, &mut signed).unwrap();
            assert!(signing_key(&session, &agreed, &preauth).verify(Role::Server, &[&signed]), "{dialect}");
            let keys = |role| sealing_keys(&session, &agreed, &preauth, role);
            let (Some((ours, _)), Some((theirs, opens))) = (keys(Role::Server), keys(Role::Client)) else {
                assert!(!dialect.is_smb3(), "{dialect}");
                continue;
            };
            let mut nonces = Nonces::new(0).unwrap();
            let mut frame = [vec![0; TRANSFORM_LEN], message(20)].concat();
            ours.seal(4, &mut nonces, &mut frame).unwrap();
            // Each direction has a key of its own.
            assert!(theirs.open(&mut frame.clone()).is_err(), "{dialect}");
            assert_eq!(opens.open(&mut frame).unwrap(), message(20), "{dialect}");
        }
    }
    let none = Agreed { dialect: Dialect::Smb311, signing: SigningAlgorithm::AesCmac, cipher: None };
    assert!(sealing_keys(&session, &none, &preauth, Role::Server).is_none());
}

#[test]
fn what_was_said_before_makes_other_keys_in_3_1_1_alone() {
    let session = SessionKey::new(&[9; 16]);
    let mut other = PreauthHash::new();
    other.update(b"somebody in the middle");
    for dialect in Dialect::ALL {
        let agreed = Agreed { dialect, signing: SigningAlgorithm::AesCmac, cipher: None };
        let sign =
            |preauth| signing_key(&session, &agreed, preauth).sign(Role::Client, &[&message(9)]).unwrap();
        assert_eq!(sign(&PreauthHash::new()) == sign(&other), dialect != Dialect::Smb311, "{dialect}");
    }
}
