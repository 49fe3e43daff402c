use proptest::prelude::*;

use super::*;

const LEVELS: [Level; 3] = [Level::Clear, Level::Auth, Level::Crypt];

fn key() -> PacketKey {
    let key = DesKey::from_bytes(0xbc46_103d_7cae_94d0u64.to_be_bytes());
    PacketKey::new(&key, 0xa460_d1fe, 0x616d_1040)
}

fn at(call: u32, seq: u32) -> PacketContext {
    PacketContext { epoch: 0xa460_d1fe, cid: 0x616d_1040, call, seq, from_client: true }
}

/// A packet's payload as it goes out, and the header's checksum.
fn sealed(level: Level, at: &PacketContext, data: &[u8]) -> (Vec<u8>, u16) {
    let mut payload = vec![0xee; level.header_len()];
    payload.extend(data);
    payload.resize(payload.len() + level.padding_max(), 0xee);
    let sealed = key().seal(level, at, &mut payload, data.len()).unwrap();
    payload.truncate(sealed.len);
    (payload, sealed.checksum)
}

#[test]
fn header_checksums_are_those_of_stock_traffic() {
    assert_eq!(key().place, 0x2289_353e_43f7_a166);
    for (call, checksum) in [(1, 0xbf00), (2, 0x09e6), (3, 0xa59c)] {
        assert_eq!(key().header_checksum(&at(call, 1)), checksum, "call {call}");
    }
    let other_channel = PacketContext { cid: at(1, 1).cid | 1, ..at(1, 1) };
    assert_ne!(key().header_checksum(&other_channel), 0xbf00);
    // Both ways alike, and the channel is no part of the connection.
    assert_eq!(key().header_checksum(&PacketContext { from_client: false, ..at(1, 1) }), 0xbf00);
    let by_channel = PacketKey::new(&key().key, 0xa460_d1fe, 0x616d_1043);
    assert_eq!(by_channel.place, key().place);
}

#[test]
fn a_checksum_is_never_0() {
    let found = (0..400_000).map(|seq| key().header_checksum(&at(1, seq))).min();
    assert_eq!(found, Some(1));
}

#[test]
fn levels_lay_data_out_as_they_must() {
    let (clear, _) = sealed(Level::Clear, &at(1, 1), b"abc");
    assert_eq!(clear, b"abc");
    let (auth, _) = sealed(Level::Auth, &at(1, 3), b"abcdefgh");
    assert_eq!((auth.len(), &auth[8..]), (12, &b"efgh"[..]));
    let first = key().cipher.decrypt_block(u64::from_be_bytes(*auth.first_chunk().unwrap()));
    assert_eq!(first.to_be_bytes(), [0, 2, 0, 8, b'a', b'b', b'c', b'd']);
    let (crypt, _) = sealed(Level::Crypt, &at(0x1_0001, 0x3), b"abcdefghi");
    let mut plain = crypt.clone();
    key().cipher.decrypt(key().key.number(), &mut plain);
    assert_eq!(plain, *b"\0\x02\0\x09\0\0\0\0abcdefghi\0\0\0\0\0\0\0");
    for (level, len) in [(Level::Clear, 0), (Level::Auth, 8), (Level::Crypt, 8)] {
        assert_eq!(sealed(level, &at(1, 1), b"").0.len(), len, "{level}");
    }
}

#[test]
fn header_checksums_are_checked_at_every_level() {
    for level in LEVELS {
        let (payload, checksum) = sealed(level, &at(7, 9), &[5; 100]);
        for wrong in (0..16).map(|bit| checksum ^ 1 << bit).chain([0]) {
            let found = key().open(level, &at(7, 9), wrong, &mut payload.clone());
            assert_eq!(found, Err(Code::SealedInconsistency), "{level}");
        }
    }
}

#[test]
fn trap_9_packets_of_another_place_are_refused() {
    let here = at(7, 9);
    for level in LEVELS {
        let (payload, checksum) = sealed(level, &here, &[5; 100]);
        assert_eq!(key().open(level, &here, checksum, &mut payload.clone()).map(|data| data.len()), Ok(100));
        for there in [
            PacketContext { call: 8, ..here },
            PacketContext { seq: 10, ..here },
            PacketContext { cid: here.cid | 1, ..here },
        ] {
            let found = key().open(level, &there, checksum, &mut payload.clone());
            assert_eq!(found, Err(Code::SealedInconsistency), "{level} {there:?}");
        }
        let other = PacketKey::new(&key().key, here.epoch, here.cid + 4);
        assert_eq!(other.open(level, &here, checksum, &mut payload.clone()), Err(Code::SealedInconsistency));
    }
}

#[test]
fn data_under_the_header_of_another_packet_is_refused() {
    let (here, there) = (at(7, 9), at(7, 10));
    for level in [Level::Auth, Level::Crypt] {
        let (mut payload, _) = sealed(level, &there, &[5; 100]);
        let checksum = key().header_checksum(&here);
        assert_eq!(
            key().open(level, &here, checksum, &mut payload),
            Err(Code::SealedInconsistency),
            "{level}"
        );
    }
}

#[test]
fn trap_9_every_flipped_bit_of_the_protected_head_is_refused() {
    for (level, protected) in [(Level::Auth, 8), (Level::Crypt, 8)] {
        let (payload, checksum) = sealed(level, &at(7, 9), &[5; 100]);
        let mut taken = 0;
        for bit in 0..protected * 8 {
            let mut payload = payload.clone();
            payload[bit / 8] ^= 0x80 >> (bit % 8);
            // The place or the length is wrong but for about one in 65,536.
            taken += usize::from(key().open(level, &at(7, 9), checksum, &mut payload).is_ok());
        }
        assert_eq!(taken, 0, "{level}");
    }
}

#[test]
fn lengths_that_cannot_be_are_refused() {
    let here = at(1, 1);
    let checksum = key().header_checksum(&here);
    for len in [0, 1, 7] {
        assert_eq!(key().open(Level::Auth, &here, checksum, &mut vec![0; len]), Err(Code::DataLength));
    }
    for len in [0, 1, 7, 9, 15] {
        assert_eq!(key().open(Level::Crypt, &here, checksum, &mut vec![0; len]), Err(Code::DataLength));
    }
    // One byte more than there is.
    for (level, said, is_right) in
        [(Level::Auth, 12, true), (Level::Auth, 13, false), (Level::Crypt, 8, true), (Level::Crypt, 9, false)]
    {
        let mut payload = [0, 0, 0, said, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        match level {
            Level::Auth => key().cipher.encrypt(0, &mut payload[..8]),
            _ => key().cipher.encrypt(key().key.number(), &mut payload),
        }
        let found = key().open(level, &here, checksum, &mut payload);
        assert_eq!(
            found.map(|data| data.len()),
            if is_right { Ok(said.into()) } else { Err(Code::DataLength) }
        );
    }
    let at_limit = key().seal(Level::Crypt, &here, &mut vec![0; 65_536 + 16], 65_536);
    assert_eq!(at_limit, Err(Code::DataLength));
    assert_eq!(key().seal(Level::Crypt, &here, &mut [0; 15], 2), Err(Code::DataLength));
}

proptest! {
    #[test]
    fn what_is_sealed_opens(call: u32, seq: u32, data in prop::collection::vec(any::<u8>(), 0..300)) {
        for level in LEVELS {
            let (mut payload, checksum) = sealed(level, &at(call, seq), &data);
            let range = key().open(level, &at(call, seq), checksum, &mut payload).unwrap();
            prop_assert_eq!(&payload[range], &data[..]);
        }
    }

    #[test]
    fn any_payload_opens_within_it_or_is_refused(
        call: u32, seq: u32, payload in prop::collection::vec(any::<u8>(), 0..64), place: bool,
    ) {
        let here = at(call, seq);
        let checksum = key().header_checksum(&here);
        for level in LEVELS {
            let mut payload = payload.clone();
            if place && payload.len() >= 8 {
                payload[..2].copy_from_slice(&place_of(&here).to_be_bytes());
                key().cipher.encrypt(if level == Level::Crypt { key().key.number() } else { 0 }, &mut payload[..8]);
            }
            let len = payload.len();
            if let Ok(range) = key().open(level, &here, checksum, &mut payload) {
                prop_assert!(range.start <= range.end && range.end <= len);
            }
        }
    }
}
