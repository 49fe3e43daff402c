//! Integrity codes of messages (RFC 4121 4.2.6.1): SMB's mechListMIC is one.

use crate::crypto::{Key, usage};

/// Side of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The client.
    Initiator,
    /// The service.
    Acceptor,
}

/// Makes and checks the integrity codes of a context, in sequence.
#[derive(Clone, Debug)]
pub struct MessageIntegrity {
    key: Key,
    role: Role,
    /// Set if `key` came with an AP-REP.
    is_acceptor_subkey: bool,
    next_out: u64,
    next_in: u64,
}

impl MessageIntegrity {
    /// Creates the codes of a context from its key and the first sequence numbers of sent and of received messages.
    pub fn new(key: Key, role: Role, is_acceptor_subkey: bool, next_out: u64, next_in: u64) -> Self {
        Self { key, role, is_acceptor_subkey, next_out, next_in }
    }

    /// Computes the integrity code of a message to the other side.
    pub fn sign(&mut self, message: &[u8]) -> Vec<u8> {
        let (by_acceptor, usage) = match self.role {
            Role::Initiator => (0, usage::INITIATOR_SIGN),
            Role::Acceptor => (SENT_BY_ACCEPTOR, usage::ACCEPTOR_SIGN),
        };
        let header = header(by_acceptor | self.subkey_flag(), self.next_out);
        self.next_out = self.next_out.wrapping_add(1);
        let checksum = self.key.checksum(usage, &[message, &header]);
        [&header[..], &checksum].concat()
    }

    /// Checks the integrity code of the other side's next message. A wrong one changes nothing.
    pub fn verify(&mut self, message: &[u8], mic: &[u8]) -> Result<(), MicRefused> {
        let (header, checksum) = mic.split_first_chunk::<16>().ok_or(MicRefused::Malformed)?;
        let (by_acceptor, usage) = match self.role {
            Role::Initiator => (SENT_BY_ACCEPTOR, usage::ACCEPTOR_SIGN),
            Role::Acceptor => (0, usage::INITIATOR_SIGN),
        };
        let [id_high, id_low, flags, filler @ .., _, _, _, _, _, _, _, _] = header;
        if [*id_high, *id_low] != MIC_ID || filler.iter().any(|byte| *byte != 0xff) {
            return Err(MicRefused::Malformed);
        }
        if flags & SENT_BY_ACCEPTOR != by_acceptor {
            return Err(MicRefused::Direction);
        }
        if flags & !SENT_BY_ACCEPTOR != self.subkey_flag() {
            return Err(MicRefused::Flags);
        }
        self.key.verify(usage, &[message, header], checksum).map_err(|_| MicRefused::Wrong)?;
        if header[8..] != self.next_in.to_be_bytes() {
            return Err(MicRefused::Sequence);
        }
        self.next_in = self.next_in.wrapping_add(1);
        Ok(())
    }

    fn subkey_flag(&self) -> u8 {
        if self.is_acceptor_subkey { ACCEPTOR_SUBKEY } else { 0 }
    }
}

fn header(flags: u8, sequence: u64) -> [u8; 16] {
    let mut header = [0xff; 16];
    header[..2].copy_from_slice(&MIC_ID);
    header[2] = flags;
    header[8..].copy_from_slice(&sequence.to_be_bytes());
    header
}

/// Reason why an integrity code is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MicRefused {
    /// No integrity code, or a filler that is not all ones.
    #[error("a malformed message integrity code")]
    Malformed,
    /// Our own, sent back.
    #[error("a message integrity code of the wrong direction")]
    Direction,
    /// Sealed, or by another key.
    #[error("a message integrity code with wrong flags")]
    Flags,
    /// The checksum is wrong.
    #[error("a wrong message integrity code")]
    Wrong,
    /// A replay, or messages are missing.
    #[error("a message integrity code out of sequence")]
    Sequence,
}

const MIC_ID: [u8; 2] = [4, 4];
const SENT_BY_ACCEPTOR: u8 = 1;
const ACCEPTOR_SUBKEY: u8 = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Etype;

    fn pair(etype: Etype, is_acceptor_subkey: bool) -> (MessageIntegrity, MessageIntegrity) {
        let key = Key::new(etype, &vec![7; etype.key_len()]).unwrap();
        let of = |role, next_out, next_in| {
            MessageIntegrity::new(key.clone(), role, is_acceptor_subkey, next_out, next_in)
        };
        (of(Role::Initiator, 5, 900), of(Role::Acceptor, 900, 5))
    }

    #[test]
    fn both_sides_check_each_other_in_sequence() {
        for etype in Etype::ALL {
            for is_acceptor_subkey in [false, true] {
                let (mut client, mut server) = pair(etype, is_acceptor_subkey);
                for message in ["one", "two"] {
                    let mic = client.sign(message.as_bytes());
                    server.verify(message.as_bytes(), &mic).unwrap();
                    assert_eq!(server.verify(message.as_bytes(), &mic), Err(MicRefused::Sequence));
                    let mic = server.sign(message.as_bytes());
                    client.verify(message.as_bytes(), &mic).unwrap();
                }
                let missed = client.sign(b"lost");
                assert_eq!(server.verify(b"next", &client.sign(b"next")), Err(MicRefused::Sequence));
                server.verify(b"lost", &missed).unwrap();
            }
        }
    }

    /// Trap 6: CVE-2024-37370, CVE-2024-37371.
    #[test]
    fn filler_direction_flags_and_every_bit_count() {
        let (mut client, mut server) = pair(Etype::Aes256Sha1, false);
        let mic = client.sign(b"mechTypes");
        for bit in 0..mic.len() * 8 {
            let mut changed = mic.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let expected = match (bit / 8, bit % 8) {
                (2, 0) => MicRefused::Direction,
                (2, _) => MicRefused::Flags,
                (0..=7, _) => MicRefused::Malformed,
                _ => MicRefused::Wrong,
            };
            assert_eq!(server.verify(b"mechTypes", &changed), Err(expected), "bit {bit}");
        }
        for len in 0..mic.len() {
            assert!(server.verify(b"mechTypes", &mic[..len]).is_err());
        }
        assert_eq!(server.verify(b"mechTypez", &mic), Err(MicRefused::Wrong));
        assert_eq!(client.verify(b"mechTypes", &mic), Err(MicRefused::Direction));
        server.verify(b"mechTypes", &mic).unwrap();
    }
}
