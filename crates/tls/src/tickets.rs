//! Session tickets that every lane can make and read without a lock, under keys that are rotated.
//!
//! ```text
//! ticket = key name (16) | nonce (12) | AES-256-GCM-SIV(state) | tag (16)
//! ```

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::rand;
use rustls::server::ProducesTickets;

use crate::config_error::ConfigError;

const NAME_LEN: usize = 16;

/// Time for which a key makes tickets. It reads them for as long again, so a stolen key opens at most two
/// periods of TLS 1.2 sessions (RFC 5077 section 5.5).
pub const ROTATION_PERIOD: Duration = Duration::from_secs(6 * 3600);

/// Ticket keys of one server, shared by all its lanes and kept over configuration reloads.
pub struct TicketKeys {
    ring: ArcSwap<KeyRing>,
    started: Instant,
    period: Duration,
    /// Time when the current key is replaced, in milliseconds after `started`.
    rotate_at_ms: AtomicU64,
}

struct KeyRing {
    current: Arc<TicketKey>,
    previous: Option<Arc<TicketKey>>,
}

struct TicketKey {
    name: [u8; NAME_LEN],
    key: RandomizedNonceKey,
}

impl TicketKeys {
    /// Makes random keys that are replaced every [`ROTATION_PERIOD`].
    ///
    /// # Errors
    /// [`ConfigError::Random`] when the system's random source fails.
    pub fn new() -> Result<Self, ConfigError> {
        Self::with_period(ROTATION_PERIOD)
    }

    /// Makes random keys that are replaced every `period`.
    pub fn with_period(period: Duration) -> Result<Self, ConfigError> {
        let current = Arc::new(TicketKey::generate()?);
        Ok(Self {
            ring: ArcSwap::from_pointee(KeyRing { current, previous: None }),
            started: Instant::now(),
            period,
            rotate_at_ms: AtomicU64::new(period.as_millis() as u64),
        })
    }

    /// Replaces the current key, which goes on reading its tickets; those of the key before can no longer be
    /// read.
    pub fn rotate(&self) -> Result<(), ConfigError> {
        let current = Arc::new(TicketKey::generate()?);
        let previous = Some(Arc::clone(&self.ring.load().current));
        self.ring.store(Arc::new(KeyRing { current, previous }));
        Ok(())
    }

    /// Replaces the key when its time has come, on the one thread that moves the deadline. After a pause of
    /// two periods nothing older than the new key may stay, so it is replaced twice.
    fn rotate_if_due(&self) {
        let now_ms = self.started.elapsed().as_millis() as u64;
        let due_ms = self.rotate_at_ms.load(Ordering::Relaxed);
        if now_ms < due_ms {
            return;
        }
        let period_ms = self.period.as_millis() as u64;
        let next_ms = now_ms + period_ms;
        let mine = self.rotate_at_ms.compare_exchange(due_ms, next_ms, Ordering::Relaxed, Ordering::Relaxed);
        if mine.is_err() {
            return;
        }
        // Without randomness the old key goes on until the next deadline; nothing better is possible.
        let _ = self.rotate();
        if now_ms - due_ms >= period_ms {
            let _ = self.rotate();
        }
    }
}

impl ProducesTickets for TicketKeys {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        u32::try_from(self.period.as_secs() * 2).unwrap_or(u32::MAX)
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.rotate_if_due();
        let ring = self.ring.load();
        ring.current.seal(plain)
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        self.rotate_if_due();
        let (name, sealed) = ticket.split_first_chunk::<NAME_LEN>()?;
        let ring = self.ring.load();
        let key = std::iter::once(&ring.current).chain(&ring.previous).find(|key| key.name == *name)?;
        key.open(sealed)
    }
}

impl fmt::Debug for TicketKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TicketKeys").field("period", &self.period).finish_non_exhaustive()
    }
}

impl TicketKey {
    fn generate() -> Result<Self, Unspecified> {
        let (mut name, mut secret) = ([0; NAME_LEN], [0; 32]);
        rand::fill(&mut name)?;
        rand::fill(&mut secret)?;
        // SIV: random nonces may repeat in billions of tickets without harm.
        let key = RandomizedNonceKey::new(&AES_256_GCM_SIV, &secret);
        zeroize::Zeroize::zeroize(&mut secret);
        Ok(Self { name, key: key? })
    }

    fn seal(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let mut sealed = plain.to_vec();
        let nonce = self.key.seal_in_place_append_tag(Aad::from(self.name), &mut sealed).ok()?;
        Some([&self.name[..], nonce.as_ref(), &sealed].concat())
    }

    fn open(&self, sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, text) = sealed.split_first_chunk::<NONCE_LEN>()?;
        let mut text = text.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let plain_len = self.key.open_in_place(nonce, Aad::from(self.name), &mut text).ok()?.len();
        text.truncate(plain_len);
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticket_lives_for_one_rotation_and_not_for_two() {
        let keys = TicketKeys::new().unwrap();
        let ticket = keys.encrypt(b"state").unwrap();
        assert_eq!(keys.decrypt(&ticket).as_deref(), Some(&b"state"[..]));
        keys.rotate().unwrap();
        assert_eq!(keys.decrypt(&ticket).as_deref(), Some(&b"state"[..]));
        keys.rotate().unwrap();
        assert_eq!(keys.decrypt(&ticket), None);
    }

    #[test]
    fn key_is_replaced_when_its_time_has_come() {
        let keys = TicketKeys::with_period(Duration::from_millis(1)).unwrap();
        let name_before = keys.ring.load().current.name;
        std::thread::sleep(Duration::from_millis(5));
        keys.encrypt(b"x").unwrap();
        assert_ne!(keys.ring.load().current.name, name_before);
        assert_ne!(keys.ring.load().previous.as_ref().unwrap().name, name_before);
    }

    #[test]
    fn ticket_with_any_bit_changed_or_any_byte_missing_is_refused() {
        let keys = TicketKeys::new().unwrap();
        let ticket = keys.encrypt(b"some state").unwrap();
        for bit in 0..ticket.len() * 8 {
            let mut forged = ticket.clone();
            forged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(keys.decrypt(&forged), None, "bit {bit}");
        }
        for len in 0..ticket.len() {
            assert_eq!(keys.decrypt(&ticket[..len]), None, "length {len}");
        }
    }
}
