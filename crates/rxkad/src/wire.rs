//! CHALLENGE and RESPONSE, version 2, as they are on the wire: 32-bit words, highest byte first.

use rx::security::ConnectionContext;
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use crate::fcrypt::Fcrypt;
use crate::{Code, DesKey, INDEX};

/// The version of both messages.
pub const VERSION: u32 = 2;
/// The kvno field that says that the ticket is a whole one of Kerberos 5.
pub const KVNO_TICKET: u32 = 256;
/// The kvno field that says that the ticket is the encrypted part alone of one of Kerberos 5.
pub const KVNO_ENCRYPTED_PART: u32 = 213;
/// Shortest ticket, bytes.
pub const TICKET_LEN_MIN: usize = 32;
/// Longest ticket, bytes.
pub const TICKET_LEN_MAX: usize = 12_000;
/// Bytes before the ticket in a response.
const HEAD_LEN: usize = 16 + Proof::LEN;

/// A server's question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// A random number: the client shows that it has the session key by sending one more.
    pub nonce: u32,
    /// The least level that the server takes. It is not protected; stock servers send 0.
    pub min_level: u32,
}

impl Challenge {
    /// Length on the wire, bytes.
    pub const LEN: usize = 16;

    /// Reads a CHALLENGE. The last word, and what follows, are not looked at.
    pub fn parse(bytes: &[u8]) -> Result<Self, Code> {
        let words = bytes.first_chunk::<{ Self::LEN }>().ok_or(Code::PacketShort)?;
        let [version, nonce, min_level, _spare] = words_of(words);
        if version == VERSION { Ok(Self { nonce, min_level }) } else { Err(Code::Inconsistency) }
    }

    /// Appends the CHALLENGE to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        for word in [VERSION, self.nonce, self.min_level, 0] {
            out.extend(word.to_be_bytes());
        }
    }
}

/// A client's answer, with the proof still sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response<'a> {
    /// A word without a meaning; the checksum covers it.
    pub spare: u32,
    /// The sealed [`Proof`].
    pub sealed: [u8; Proof::LEN],
    /// Kind of the ticket: [`KVNO_TICKET`] or [`KVNO_ENCRYPTED_PART`]; other numbers are of Kerberos 4.
    pub kvno: u32,
    /// The ticket.
    pub ticket: &'a [u8],
}

impl<'a> Response<'a> {
    /// Reads a RESPONSE. Bytes after the ticket are not looked at.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Code> {
        let (head, rest) = bytes.split_first_chunk::<HEAD_LEN>().ok_or(Code::PacketShort)?;
        let [version, spare, sealed @ .., kvno, len] = words_of::<14, HEAD_LEN>(head);
        if version != VERSION {
            return Err(Code::Inconsistency);
        }
        let len = usize::try_from(len).map_err(|_| Code::TicketLength)?;
        if !(TICKET_LEN_MIN..=TICKET_LEN_MAX).contains(&len) {
            return Err(Code::TicketLength);
        }
        let ticket = rest.get(..len).ok_or(Code::PacketShort)?;
        Ok(Self { spare, sealed: bytes_of(&sealed), kvno, ticket })
    }

    /// Appends a RESPONSE to `out`: the ticket, and the proof sealed with the ticket's key.
    pub fn encode(proof: &Proof, key: &DesKey, kvno: u32, ticket: &[u8], out: &mut Vec<u8>) {
        let mut plain = Zeroizing::new(proof.encode(0));
        let sum = checksum(0, &plain, kvno, ticket.len());
        *plain = proof.encode(sum);
        Fcrypt::new(key).encrypt(key.number(), &mut *plain);
        for word in [VERSION, 0] {
            out.extend(word.to_be_bytes());
        }
        out.extend(&plain[..]);
        for word in [kvno, ticket.len() as u32] {
            out.extend(word.to_be_bytes());
        }
        out.extend(ticket);
    }

    /// Opens the proof and checks its checksum and connection. A proof of another connection is refused.
    pub fn open(&self, key: &DesKey, connection: &ConnectionContext) -> Result<Proof, Code> {
        let mut plain = Zeroizing::new(self.sealed);
        Fcrypt::new(key).decrypt(key.number(), &mut *plain);
        let words = words_of::<10, { Proof::LEN }>(&plain);
        let [_epoch, _cid, _sum, _index, calls @ .., nonce, level] = words;
        let proof = Proof { epoch: connection.epoch, cid: connection.cid & !3, calls, nonce, level };
        let unsummed = Zeroizing::new(proof.encode(0));
        // With our own connection in it: what is of another one, of another class, or was changed, differs from this.
        let expected = proof.encode(checksum(self.spare, &unsummed, self.kvno, self.ticket.len()));
        if !bool::from(plain.ct_eq(&expected[..])) {
            return Err(Code::SealedInconsistency);
        }
        if calls.iter().any(|&call| i32::try_from(call).is_err()) {
            return Err(Code::Inconsistency);
        }
        Ok(proof)
    }
}

/// The sealed part of a [`Response`]. It shows that the client has the session key, for one connection alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof {
    /// Epoch of the connection.
    pub epoch: u32,
    /// Id of the connection, without channel.
    pub cid: u32,
    /// The last call of each channel, one under way too.
    pub calls: [u32; 4],
    /// The challenge's nonce and one.
    pub nonce: u32,
    /// The level that the client wants.
    pub level: u32,
}

impl Proof {
    /// Length on the wire, bytes.
    pub const LEN: usize = 40;

    fn encode(&self, checksum: u32) -> [u8; Self::LEN] {
        let [a, b, c, d] = self.calls;
        let index = u32::from(INDEX);
        bytes_of(&[self.epoch, self.cid, checksum, index, a, b, c, d, self.nonce, self.level])
    }
}

/// Computes the checksum over all of a response but the ticket's bytes, with a proof that has 0 in its place.
fn checksum(spare: u32, proof: &[u8; Proof::LEN], kvno: u32, ticket_len: usize) -> u32 {
    let (head, tail) = ([VERSION, spare], [kvno, ticket_len as u32]);
    let (head, tail): ([u8; 8], [u8; 8]) = (bytes_of(&head), bytes_of(&tail));
    let all = head.iter().chain(proof).chain(&tail);
    all.fold(1_000_003, |sum: u32, &byte| sum.wrapping_mul(0x1020_4081).wrapping_add(byte.into()))
}

/// Returns the big-endian words of four times as many bytes.
fn words_of<const WORDS: usize, const BYTES: usize>(bytes: &[u8; BYTES]) -> [u32; WORDS] {
    const { assert!(BYTES == 4 * WORDS) };
    let chunks = bytes.as_chunks::<4>().0;
    std::array::from_fn(|at| u32::from_be_bytes(chunks[at]))
}

/// Returns the bytes of a quarter as many words, big-endian.
fn bytes_of<const WORDS: usize, const BYTES: usize>(words: &[u32; WORDS]) -> [u8; BYTES] {
    const { assert!(BYTES == 4 * WORDS) };
    std::array::from_fn(|at| words[at / 4].to_be_bytes()[at % 4])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn connection() -> ConnectionContext {
        ConnectionContext { epoch: 0xa460_d1fe, cid: 0x616d_1040, security: INDEX, calls: [1, 0, 0, 0] }
    }

    fn proof() -> Proof {
        let ConnectionContext { epoch, cid, calls, .. } = connection();
        Proof { epoch, cid, calls, nonce: 77, level: 2 }
    }

    fn encoded(proof: &Proof, key: &DesKey) -> Vec<u8> {
        let mut out = Vec::new();
        Response::encode(proof, key, KVNO_TICKET, &[0x61; 100], &mut out);
        out
    }

    fn key() -> DesKey {
        DesKey::from_bytes(0xbc46_103d_7cae_94d0u64.to_be_bytes())
    }

    #[test]
    fn challenge_is_four_words() {
        let mut out = Vec::new();
        Challenge { nonce: 0x0102_0304, min_level: 1 }.encode(&mut out);
        assert_eq!(out, [0, 0, 0, 2, 1, 2, 3, 4, 0, 0, 0, 1, 0, 0, 0, 0]);
        assert_eq!(Challenge::parse(&out), Ok(Challenge { nonce: 0x0102_0304, min_level: 1 }));
        assert_eq!(Challenge::parse(&out[..15]), Err(Code::PacketShort));
        out[3] = 1;
        assert_eq!(Challenge::parse(&out), Err(Code::Inconsistency));
    }

    #[test]
    fn response_lies_where_the_layout_says() {
        let out = encoded(&proof(), &key());
        assert_eq!(out.len(), 56 + 100);
        assert_eq!(out[..8], [0, 0, 0, 2, 0, 0, 0, 0]);
        assert_eq!(out[48..56], [0, 0, 1, 0, 0, 0, 0, 100]);
        let mut plain: [u8; 40] = *out[8..].first_chunk().unwrap();
        Fcrypt::new(&key()).decrypt(key().number(), &mut plain);
        let words: [u32; 10] = words_of(&plain);
        assert_eq!(words[..2], [0xa460_d1fe, 0x616d_1040]);
        assert_eq!(words[3..], [2, 1, 0, 0, 0, 77, 2]);
        // By the words of the layout: all bytes from the version to the ticket's length, with 0 for the sum.
        let mut bytes = out[..56].to_vec();
        bytes[8..48].copy_from_slice(&plain);
        bytes[16..20].fill(0);
        let sum =
            bytes.iter().fold(1_000_003u64, |sum, &byte| (sum * 0x1020_4081 + u64::from(byte)) & 0xffff_ffff);
        assert_eq!(u64::from(words[2]), sum);
        assert_eq!(Response::parse(&out).unwrap().open(&key(), &connection()), Ok(proof()));
    }

    #[test]
    fn trap_9_every_flipped_bit_of_a_response_is_refused() {
        let good = encoded(&proof(), &key());
        for bit in 0..56 * 8 {
            let mut bytes = good.clone();
            bytes[bit / 8] ^= 0x80 >> (bit % 8);
            let found = Response::parse(&bytes).and_then(|response| response.open(&key(), &connection()));
            let expected = match bit / 32 {
                0 => vec![Code::Inconsistency],
                13 => vec![Code::TicketLength, Code::PacketShort, Code::SealedInconsistency],
                _ => vec![Code::SealedInconsistency],
            };
            assert!(found.is_err_and(|code| expected.contains(&code)), "bit {bit}: {found:?}");
        }
    }

    #[test]
    fn trap_9_responses_of_other_connections_are_refused() {
        let bytes = encoded(&proof(), &key());
        let response = Response::parse(&bytes).unwrap();
        let here = connection();
        for other in [
            ConnectionContext { epoch: here.epoch ^ 1, ..here },
            ConnectionContext { cid: here.cid + 4, ..here },
        ] {
            assert_eq!(response.open(&key(), &other), Err(Code::SealedInconsistency));
        }
        let other_key = DesKey::from_bytes([0x22; 8]);
        assert_eq!(response.open(&other_key, &here), Err(Code::SealedInconsistency));
        // Channels are no part of it.
        assert!(response.open(&key(), &ConnectionContext { cid: here.cid | 3, ..here }).is_ok());
    }

    #[test]
    fn trap_9_a_sealed_security_index_of_another_class_is_refused() {
        let mut words: [u32; 10] = words_of(&proof().encode(0));
        for (index, is_right) in [(2, true), (0, false), (3, false), (4, false)] {
            words[2..4].copy_from_slice(&[0, index]);
            words[2] = checksum(0, &bytes_of(&words), KVNO_TICKET, 100);
            let mut bytes = encoded(&proof(), &key());
            let mut plain: [u8; 40] = bytes_of(&words);
            Fcrypt::new(&key()).encrypt(key().number(), &mut plain);
            bytes[8..48].copy_from_slice(&plain);
            let found = Response::parse(&bytes).unwrap().open(&key(), &connection());
            assert_eq!(found.is_ok(), is_right, "{index}");
        }
    }

    #[test]
    fn negative_call_numbers_are_refused() {
        for at in 0..4 {
            let mut proof = proof();
            proof.calls[at] = 1 << 31;
            let bytes = encoded(&proof, &key());
            let found = Response::parse(&bytes).unwrap().open(&key(), &connection());
            assert_eq!(found, Err(Code::Inconsistency));
        }
    }

    #[test]
    fn tickets_have_32_to_12000_bytes() {
        for (len, is_right) in [(0, false), (31, false), (32, true), (12_000, true), (12_001, false)] {
            let mut bytes = Vec::new();
            Response::encode(&proof(), &key(), KVNO_TICKET, &vec![1; len], &mut bytes);
            let found = Response::parse(&bytes).map(|response| response.ticket.len());
            assert_eq!(found, if is_right { Ok(len) } else { Err(Code::TicketLength) });
            if is_right {
                assert_eq!(Response::parse(&bytes[..bytes.len() - 1]), Err(Code::PacketShort));
            }
        }
        assert_eq!(Response::parse(&[0; 55]), Err(Code::PacketShort));
        let mut huge = vec![0; 64];
        (huge[3], huge[52]) = (2, 0xff);
        assert_eq!(Response::parse(&huge), Err(Code::TicketLength));
    }

    proptest! {
        #[test]
        fn any_bytes_parse_or_are_refused(
            mut bytes in prop::collection::vec(any::<u8>(), 0..200), version: bool, len in 0u8..200, key: [u8; 8],
        ) {
            if version && bytes.len() >= 56 {
                bytes[..4].copy_from_slice(&[0, 0, 0, 2]);
                bytes[52..56].copy_from_slice(&[0, 0, 0, len]);
            }
            let _ = Challenge::parse(&bytes);
            if let Ok(response) = Response::parse(&bytes) {
                prop_assert!(response.open(&DesKey::from_bytes(key), &connection()).is_err());
            }
        }

        #[test]
        fn what_is_made_is_read(calls: [u32; 4], nonce: u32, level: u32, key: [u8; 8], len in 32usize..300) {
            let calls = calls.map(|call| call & 0x7fff_ffff);
            let (proof, key) = (Proof { calls, nonce, level, ..proof() }, DesKey::from_bytes(key));
            let ticket = vec![5; len];
            let mut bytes = Vec::new();
            Response::encode(&proof, &key, KVNO_ENCRYPTED_PART, &ticket, &mut bytes);
            let response = Response::parse(&bytes).unwrap();
            prop_assert_eq!((response.kvno, response.ticket), (KVNO_ENCRYPTED_PART, &ticket[..]));
            prop_assert_eq!(response.open(&key, &connection()), Ok(proof));
        }
    }
}
