use std::num::NonZeroU32;

use super::*;

pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        text.bytes().filter_map(|byte| char::from(byte).to_digit(16).map(|digit| digit as u8)).collect();
    digits.as_chunks::<2>().0.iter().map(|[high, low]| high << 4 | low).collect()
}

fn key(etype: Etype, text: &str) -> Key {
    Key::new(etype, &hex(text)).unwrap()
}

const RFC_8009: [(Etype, &str); 2] = [
    (Etype::Aes128Sha256, "3705D96080C17728A0E800EAB6E0D23C"),
    (Etype::Aes256Sha384, "6D404D37FAF79F9DF0D33568D320669800EB4836472EA8A026D16B7182460C52"),
];

#[test]
fn passwords_become_the_keys_of_rfc_3962_appendix_b() {
    let clef = "𝄞";
    for (iterations, password, salt, key_128, key_256) in [
        (
            1,
            "password",
            &b"ATHENA.MIT.EDUraeburn"[..],
            "42263c6e89f4fc28b8df68ee09799f15",
            "fe697b52bc0d3ce14432ba036a92e65bbb52280990a2fa27883998d72af30161",
        ),
        (
            2,
            "password",
            b"ATHENA.MIT.EDUraeburn",
            "c651bf29e2300ac27fa469d693bdda13",
            "a2e16d16b36069c135d5e9d2e25f896102685618b95914b467c67622225824ff",
        ),
        (
            1200,
            "password",
            b"ATHENA.MIT.EDUraeburn",
            "4c01cd46d632d01e6dbe230a01ed642a",
            "55a6ac740ad17b4846941051e1e8b0a7548d93b0ab30a8bc3ff16280382b8c2a",
        ),
        (
            5,
            "password",
            &[0x12, 0x34, 0x56, 0x78, 0x78, 0x56, 0x34, 0x12],
            "e9b23d52273747dd5c35cb55be619d8e",
            "97a4e786be20d81a382d5ebc96d5909cabcdadc87ca48f574504159f16c36e31",
        ),
        (
            50,
            clef,
            b"EXAMPLE.COMpianist",
            "f149c1f2e154a73452d43e7fe62a56e5",
            "4b6d9839f84406df1f09cc166db4b83c571848b784a3d6bdc346589a3e393f9e",
        ),
    ] {
        for (etype, expected) in [(Etype::Aes128Sha1, key_128), (Etype::Aes256Sha1, key_256)] {
            let made = Key::from_password(etype, password.as_bytes(), salt, NonZeroU32::new(iterations));
            assert_eq!(made.bytes(), hex(expected), "{etype}, {iterations} iterations");
        }
    }
}

#[test]
fn passwords_become_the_keys_of_rfc_8009_appendix_a() {
    let salt = [&hex("10DF9DD783E5BC8ACEA1730E74355F61")[..], b"ATHENA.MIT.EDUraeburn"].concat();
    for (etype, expected) in [
        (Etype::Aes128Sha256, "089BCA48B105EA6EA77CA5D2F39DC5E7"),
        (Etype::Aes256Sha384, "45BD806DBF6A833A9CFFC1C94589A222367A79BC21C413718906E9F578A78467"),
    ] {
        assert_eq!(Key::from_password(etype, b"password", &salt, None).bytes(), hex(expected));
    }
}

#[test]
fn samples_of_rfc_8009_are_encrypted_and_decrypted() {
    let cases = [
        (
            0,
            0,
            "7E5895EAF2672435BAD817F545A37148",
            "EF85FB890BB8472F4DAB20394DCA781DAD877EDA39D50C870C0D5A0A8E48C718",
        ),
        (
            0,
            6,
            "7BCA285E2FD4130FB55B1A5C83BC5B24",
            "84D7F30754ED987BAB0BF3506BEB09CFB55402CEF7E6877CE99E247E52D16ED4421DFDF8976C",
        ),
        (
            0,
            16,
            "56AB21713FF62C0A1457200F6FA9948F",
            "3517D640F50DDC8AD3628722B3569D2AE07493FA8263254080EA65C1008E8FC295FB4852E7D83E1E7C48C37EEBE6B0D3",
        ),
        (
            1,
            0,
            "F764E9FA15C276478B2C7D0C4E5F58E4",
            "41F53FA5BFE7026D91FAF9BE959195A058707273A96A40F0A01960621AC612748B9BBFBE7EB4CE3C",
        ),
        (
            1,
            6,
            "B80D3251C1F6471494256FFE712D0B9A",
            "4ED7B37C2BCAC8F74F23C1CF07E62BC7B75FB3F637B9F559C7F664F69EAB7B6092237526EA0D1F61CB20D69D10F2",
        ),
        (
            1,
            16,
            "53BF8A0D105265D4E276428624CE5E63",
            "BC47FFEC7998EB91E8115CF8D19DAC4BBBE2E163E87DD37F49BECA92027764F68CF51F14D798C2273F35DF574D1F932E\
             40C4FF255B36A266",
        ),
    ];
    for (which, len, confounder, sealed) in cases {
        let (etype, base) = RFC_8009[which];
        let (key, plain) = (key(etype, base), (0..len).collect::<Vec<u8>>());
        let confounder = hex(confounder).try_into().unwrap();
        assert_eq!(key.encrypt(2, &plain, &confounder), hex(sealed), "{etype}, {len} bytes");
        assert_eq!(*key.decrypt(2, &hex(sealed)).unwrap(), plain);
    }
}

#[test]
fn checksums_and_pseudo_random_bytes_are_those_of_rfc_8009() {
    let plain: Vec<u8> = (0..21).collect();
    for ((etype, base), checksum, random) in [
        (
            RFC_8009[0],
            "D78367186643D67B411CBA9139FC1DEE",
            "9D188616F63852FE86915BB840B4A886FF3E6BB0F819B49B893393D393854295",
        ),
        (
            RFC_8009[1],
            "45EE791567EEFCA37F4AC1E0222DE80D43C3BFA06699672A",
            "9801F69A368C2BF675E59521E177D9A07F67EFE1CFDE8D3C8D6F6A0256E3B17DB3C1B62AD1B8553360D17367EB1514D2",
        ),
    ] {
        let key = key(etype, base);
        assert_eq!(*key.checksum(2, &[&plain[..7], &plain[7..]]), hex(checksum));
        key.verify(2, &[&plain], &hex(checksum)).unwrap();
        assert_eq!(*key.pseudo_random(b"test"), hex(random));
    }
}

/// RFC 3962 has no vectors of either: these are of libk5crypto of MIT 1.20.1.
#[test]
fn checksums_and_pseudo_random_bytes_of_the_sha_1_types_are_those_of_mit() {
    for (etype, checksum, random) in [
        (Etype::Aes128Sha1, "4883b8c00c24f2c49bb44f42", "400d20b2feaaf2d8014d1bbcf418d769"),
        (Etype::Aes256Sha1, "6a7a9d35c9ff876fd0298f69", "e7c2c4f5abe1c901363ebbb30485a8f8"),
    ] {
        let key = Key::new(etype, &(1..=etype.key_len() as u8).collect::<Vec<_>>()).unwrap();
        assert_eq!(*key.checksum(7, &[b"test"]), hex(checksum));
        assert_eq!(*key.pseudo_random(b"test"), hex(random));
    }
}

#[test]
fn every_changed_bit_usage_and_length_is_noticed() {
    for etype in Etype::ALL {
        let key = Key::new(etype, &vec![9; etype.key_len()]).unwrap();
        let sealed = key.encrypt(2, b"twenty bytes and two!!", &[5; 16]);
        assert_eq!(**key.decrypt(2, &sealed).unwrap(), *b"twenty bytes and two!!");
        assert_eq!(key.decrypt(3, &sealed), Err(Integrity));
        for bit in 0..sealed.len() * 8 {
            let mut changed = sealed.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(key.decrypt(2, &changed), Err(Integrity), "{etype}, bit {bit}");
        }
        for len in 0..sealed.len() {
            assert_eq!(key.decrypt(2, &sealed[..len]), Err(Integrity), "{etype}, {len} bytes");
        }
        let sum = key.checksum(7, &[b"text"]);
        assert_eq!(sum.len(), etype.checksum_len());
        key.verify(7, &[b"te", b"xt"], &sum).unwrap();
        assert_eq!(key.verify(8, &[b"text"], &sum), Err(Integrity));
        assert_eq!(key.verify(7, &[b"text"], &sum[1..]), Err(Integrity));
        assert_eq!(key.verify(7, &[b"text"], &[]), Err(Integrity));
    }
}

#[test]
fn keys_have_the_length_of_their_type_and_are_told_to_nobody() {
    for etype in Etype::ALL {
        let shown = format!("{:?}", Key::new(etype, &vec![0xcd; etype.key_len()]).unwrap());
        assert_eq!(shown, format!("Key({})", etype.name()));
        for len in [0, etype.key_len() - 1, etype.key_len() + 1, 48 - etype.key_len()] {
            assert_eq!(Key::new(etype, &vec![0; len]), Err(KeyLength { etype: etype.number(), len }));
        }
    }
}

#[test]
fn weak_types_are_refused_with_what_to_do() {
    let text = |number| Etype::from_number(number).unwrap_err().to_string();
    assert!(text(23).contains("msDS-SupportedEncryptionTypes"), "{}", text(23));
    for des in [1, 2, 3, 16] {
        assert!(text(des).contains("ktadd"), "{}", text(des));
        assert!(EtypeRefused { number: des }.is_weak());
    }
    assert!(text(26).contains("17 to 20"), "{}", text(26));
    for etype in Etype::ALL {
        assert_eq!(Etype::from_number(etype.number()), Ok(etype));
    }
}
