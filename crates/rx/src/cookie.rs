//! Cookies: numbers that only we and an address can know, of which nothing is stored.
//!
//! A cookie is a keyed hash of an address, a connection's ids, a purpose and the time in steps. Sent to the address and
//! named by it in an answer, it proves that the answer comes from there, as a SYN cookie does for TCP (RFC 4987 3.6).
//! The key is made at start and never leaves the process.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use rand::Rng;

/// Maker and checker of cookies.
#[derive(Debug)]
pub(crate) struct Cookies {
    keys: [u64; 2],
    started_at: Instant,
}

/// Purpose of a cookie, which proves nothing for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Purpose {
    /// The cookie is the first serial of an accepted connection.
    Serial = 1,
    /// The cookie is the call number of a VERSION question to an address that a connection may move to.
    Move = 2,
}

/// Client that a cookie is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) address: SocketAddr,
    pub(crate) epoch: u32,
    /// Connection id, without channel bits.
    pub(crate) cid: u32,
}

impl Cookies {
    pub(crate) fn new(now: Instant, rng: &mut impl Rng) -> Self {
        Self { keys: [rng.random(), rng.random()], started_at: now }
    }

    /// Returns the serial that the packets of a connection begin after, if it is accepted now.
    ///
    /// An ACK that names one of its first serials is so a proof whether or not the connection still exists.
    /// Below 2^30, so that 32-bit peers never see a negative serial.
    pub(crate) fn serial(&self, now: Instant, holder: &Holder) -> u32 {
        self.serial_at(self.step(now), holder)
    }

    /// Returns whether an ACK that names `serial` answers one of the first packets of an accepted connection
    /// of `holder`, gone or not.
    pub(crate) fn is_early_serial(&self, now: Instant, holder: &Holder, serial: u32) -> bool {
        let step = self.step(now);
        [Some(step), step.checked_sub(1)].into_iter().flatten().any(|step| {
            let sent = serial.wrapping_sub(self.serial_at(step, holder));
            (1..=EARLY_SERIALS).contains(&sent)
        })
    }

    /// Returns the number that a VERSION question to a new address carries, and its answer repeats. Never 0.
    pub(crate) fn nonce(&self, now: Instant, holder: &Holder) -> u32 {
        self.nonce_at(self.step(now), holder)
    }

    /// Returns whether an answer repeats the number of a recent question to the holder's address.
    pub(crate) fn is_nonce(&self, now: Instant, holder: &Holder, nonce: u32) -> bool {
        let step = self.step(now);
        [Some(step), step.checked_sub(1)]
            .into_iter()
            .flatten()
            .any(|step| self.nonce_at(step, holder) == nonce)
    }

    fn serial_at(&self, step: u64, holder: &Holder) -> u32 {
        1 + (self.hash(Purpose::Serial, step, holder) as u32 & SERIAL_MASK)
    }

    fn nonce_at(&self, step: u64, holder: &Holder) -> u32 {
        (self.hash(Purpose::Move, step, holder) as u32).max(1)
    }

    fn step(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.started_at).as_secs() / STEP.as_secs()
    }

    fn hash(&self, purpose: Purpose, step: u64, holder: &Holder) -> u64 {
        let ip = match holder.address.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
            IpAddr::V6(ip) => ip.octets(),
        };
        let mut message = [0; 40];
        message[..16].copy_from_slice(&ip);
        message[16..18].copy_from_slice(&holder.address.port().to_be_bytes());
        message[18] = purpose as u8;
        message[20..24].copy_from_slice(&holder.epoch.to_be_bytes());
        message[24..28].copy_from_slice(&holder.cid.to_be_bytes());
        message[32..].copy_from_slice(&step.to_be_bytes());
        siphash_2_4(self.keys, &message)
    }
}

/// Computes SipHash-2-4 (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012).
fn siphash_2_4(keys: [u64; 2], message: &[u8]) -> u64 {
    let mut v = [
        keys[0] ^ 0x736f_6d65_7073_6575,
        keys[1] ^ 0x646f_7261_6e64_6f6d,
        keys[0] ^ 0x6c79_6765_6e65_7261,
        keys[1] ^ 0x7465_6462_7974_6573,
    ];
    let mut absorb = |word: u64| {
        v[3] ^= word;
        round(&mut v);
        round(&mut v);
        v[0] ^= word;
    };
    let mut words = message.chunks_exact(8);
    for word in &mut words {
        absorb(u64::from_le_bytes(word.try_into().expect("8 bytes")));
    }
    let mut last = [0; 8];
    last[..words.remainder().len()].copy_from_slice(words.remainder());
    last[7] = message.len() as u8;
    absorb(u64::from_le_bytes(last));
    v[2] ^= 0xff;
    (0..4).for_each(|_| round(&mut v));
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

fn round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[2] = v[2].rotate_left(32);
}

/// Time step of cookies: each is good during its own step and the next one.
const STEP: Duration = Duration::from_secs(30);
const SERIAL_MASK: u32 = (1 << 30) - 1;
/// Most packets that an unproved connection has sent by the time of its client's first answer.
const EARLY_SERIALS: u32 = 8;

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;

    fn holder(port: u16, cid: u32) -> Holder {
        Holder { address: SocketAddr::from(([192, 0, 2, 1], port)), epoch: 0x8000_0001, cid }
    }

    #[test]
    fn hash_is_the_published_one() {
        // Appendix A of the paper: key 00 01 .. 0f, message 00 01 .. 0e.
        let keys = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        let message: Vec<u8> = (0..15).collect();
        assert_eq!(siphash_2_4(keys, &message), 0xa129_ca61_49be_45e5);
    }

    #[test]
    fn cookie_is_good_for_its_holder_its_purpose_and_a_minute_at_most() {
        let start = Instant::now();
        let cookies = Cookies::new(start, &mut StdRng::seed_from_u64(7));
        let (serial, nonce) = (cookies.serial(start, &holder(1, 4)), cookies.nonce(start, &holder(1, 4)));
        assert!((1..=1 << 30).contains(&serial) && nonce != 0);
        let later = start + STEP;
        assert!(cookies.is_early_serial(later, &holder(1, 4), serial + 1));
        assert!(cookies.is_nonce(later, &holder(1, 4), nonce));
        for (wrong, number) in [(holder(2, 4), serial + 1), (holder(1, 8), serial + 1), (holder(1, 4), nonce)]
        {
            assert!(!cookies.is_early_serial(later, &wrong, number), "{wrong:?}");
        }
        assert!(!cookies.is_early_serial(start, &holder(1, 4), serial), "that serial was never sent");
        assert!(!cookies.is_early_serial(start, &holder(1, 4), serial + 1 + EARLY_SERIALS));
        assert!(!cookies.is_nonce(start, &holder(2, 4), nonce));
        assert!(!cookies.is_early_serial(start + 2 * STEP, &holder(1, 4), serial + 1), "it has expired");
        assert!(!cookies.is_nonce(start + 2 * STEP, &holder(1, 4), nonce));
    }
}
