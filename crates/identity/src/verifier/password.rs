//! Password hashes: argon2id (RFC 9106), in the text form of the Password Hashing Competition.

use std::fmt;
use std::str::FromStr;

use argon2::{Algorithm, Argon2, Params, Version};
use base64ct::{Base64Unpadded, Encoding};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use super::BadVerifier;
use crate::secret::Secret;

/// Cost of a guess: memory, and the passes over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Strength {
    /// Memory of one verification, in KiB.
    pub memory_kib: u32,
    /// Number of passes over the memory.
    pub passes: u32,
    /// Number of independent lanes, computed one after the other.
    pub lanes: u32,
}

/// Hash of a password by argon2id, with salt and cost.
#[derive(Clone)]
pub struct PasswordHash {
    strength: Strength,
    salt: Vec<u8>,
    hash: Zeroizing<Vec<u8>>,
}

impl PasswordHash {
    /// Hashes a new password with a fresh salt. Takes as long as a verification: tens of milliseconds and 19
    /// MiB at [`Strength::default`].
    ///
    /// # Panics
    /// If the machine has no randomness, or `strength` is out of its bounds.
    pub fn new(password: &Secret, strength: Strength) -> Self {
        let mut salt = vec![0; SALT];
        fill_random(&mut salt);
        let mut hash = Zeroizing::new(vec![0; HASH]);
        strength.hash(password.expose(), &salt, &mut hash).expect("the strength is within its bounds");
        Self { strength, salt, hash }
    }

    /// Returns a verifier that no password fits, and that takes as long to check.
    pub(crate) fn decoy(strength: Strength) -> Self {
        let mut random = Zeroizing::new(vec![0; SALT + HASH]);
        fill_random(&mut random);
        let hash = Zeroizing::new(random[SALT..].to_vec());
        Self { strength, salt: random[..SALT].to_vec(), hash }
    }

    /// Returns whether `password` is the hashed one. Takes tens of milliseconds and [`Strength::memory_kib`]
    /// of memory: a lane runs it on a helper, and the caller bounds how many run at once.
    pub fn verify(&self, password: &Secret) -> bool {
        let mut hash = Zeroizing::new(vec![0; self.hash.len()]);
        let done = self.strength.hash(password.expose(), &self.salt, &mut hash);
        done.is_ok() && bool::from(hash.ct_eq(&self.hash))
    }

    /// Returns the cost of a verification.
    pub fn strength(&self) -> Strength {
        self.strength
    }

    /// Returns the text form, for the accounts file.
    pub fn to_text(&self) -> Zeroizing<String> {
        let Strength { memory_kib, passes, lanes } = self.strength;
        let [salt, hash] = [&self.salt, &*self.hash].map(|bytes| Base64Unpadded::encode_string(bytes));
        Zeroizing::new(format!("$argon2id$v=19$m={memory_kib},t={passes},p={lanes}${salt}${hash}"))
    }
}

impl FromStr for PasswordHash {
    type Err = BadVerifier;

    fn from_str(text: &str) -> Result<Self, BadVerifier> {
        let parts: Vec<&str> = text.split('$').collect();
        let ["", "argon2id", "v=19", costs, salt, hash] = parts[..] else {
            return Err(BadVerifier::NotArgon2id);
        };
        let number = |part: Option<&str>, name: &str| {
            part.and_then(|part| part.strip_prefix(name)?.parse().ok()).ok_or(BadVerifier::NotArgon2id)
        };
        let mut costs = costs.split(',');
        let strength = Strength {
            memory_kib: number(costs.next(), "m=")?,
            passes: number(costs.next(), "t=")?,
            lanes: number(costs.next(), "p=")?,
        };
        if costs.next().is_some() {
            return Err(BadVerifier::NotArgon2id);
        }
        let decode = |text: &str| Base64Unpadded::decode_vec(text).map_err(|_| BadVerifier::NotArgon2id);
        let (salt, hash) = (decode(salt)?, Zeroizing::new(decode(hash)?));
        if !(8..=64).contains(&salt.len()) || !(16..=64).contains(&hash.len()) {
            return Err(BadVerifier::NotArgon2id);
        }
        strength.check()?;
        Ok(Self { strength, salt, hash })
    }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PasswordHash").field("strength", &self.strength).finish_non_exhaustive()
    }
}

impl Strength {
    fn check(self) -> Result<(), BadVerifier> {
        let Self { memory_kib, passes, lanes } = self;
        let good = (1..=LANES_MAX).contains(&lanes)
            && (8 * lanes..=MEMORY_KIB_MAX).contains(&memory_kib)
            && (1..=PASSES_MAX).contains(&passes);
        if good { Ok(()) } else { Err(BadVerifier::Costs) }
    }

    fn hash(self, password: &[u8], salt: &[u8], out: &mut [u8]) -> Result<(), argon2::Error> {
        let params = Params::new(self.memory_kib, self.passes, self.lanes, Some(out.len()))?;
        Argon2::new(Algorithm::Argon2id, Version::V0x13, params).hash_password_into(password, salt, out)
    }
}

/// 19 MiB, two passes, one lane: the first choice of OWASP's Password Storage Cheat Sheet.
impl Default for Strength {
    fn default() -> Self {
        Self { memory_kib: 19 * 1024, passes: 2, lanes: 1 }
    }
}

pub(crate) fn fill_random(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("a Linux machine has randomness");
}

//@ limit: verifying a password
//@ section: Users and access lists
//@ unit: tens of milliseconds and 19 MiB
//@ connection: as its service bounds it
//@ address: as its service bounds it
//@ all: process: the helpers; {} KiB at most of one
//@ empty: as the helpers' queue; no lane verifies itself
//@ counter: lane_helper_jobs, lane_helper_refused
//@ attack: http-passwords
/// Largest memory of a verifier in KiB, above which a verifier would be an attack on the server.
pub(super) const MEMORY_KIB_MAX: u32 = 256 * 1024;
pub(super) const PASSES_MAX: u32 = 16;
pub(super) const LANES_MAX: u32 = 4;
const SALT: usize = 16;
const HASH: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    const CHEAP: Strength = Strength { memory_kib: 8, passes: 1, lanes: 1 };

    #[test]
    fn only_the_password_fits_and_two_hashes_of_it_differ() {
        let hash = PasswordHash::new(&"correct horse".into(), CHEAP);
        assert!(hash.verify(&"correct horse".into()));
        for wrong in ["", "correct hors", "correct horse ", "Correct horse"] {
            assert!(!hash.verify(&wrong.into()), "{wrong:?}");
        }
        let other = PasswordHash::new(&"correct horse".into(), CHEAP);
        assert_ne!(hash.to_text(), other.to_text());
        let read: PasswordHash = hash.to_text().parse().unwrap();
        assert!(read.verify(&"correct horse".into()) && read.to_text() == hash.to_text());
        assert!(!PasswordHash::decoy(CHEAP).verify(&"".into()));
    }

    /// Checks a hash of the reference implementation (`argon2 somesalt -id -t 2 -m 16 -p 1 -l 24 -e`, its
    /// test.c).
    #[test]
    fn hashes_of_the_reference_implementation_are_understood() {
        let text = "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc";
        let hash: PasswordHash = text.parse().unwrap();
        assert!(hash.verify(&"password".into()) && !hash.verify(&"Password".into()));
        assert_eq!(*hash.to_text(), text);
    }

    #[test]
    fn what_is_no_hash_or_costs_too_much_is_refused() {
        let with =
            |costs: &str| format!("$argon2id$v=19${costs}$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8");
        assert!(with("m=8,t=1,p=1").parse::<PasswordHash>().is_ok());
        for (text, problem) in [
            ("", BadVerifier::NotArgon2id),
            ("password", BadVerifier::NotArgon2id),
            (&with("m=8,t=1"), BadVerifier::NotArgon2id),
            (&with("m=8,t=1,p=1,x=1"), BadVerifier::NotArgon2id),
            (&with("m=8,t=1,p=1").replace("2id", "2i"), BadVerifier::NotArgon2id),
            (&with("m=8,t=1,p=1").replace("v=19", "v=16"), BadVerifier::NotArgon2id),
            (&with("m=8,t=1,p=1").replace("c29tZXNhbHQ", "YQ"), BadVerifier::NotArgon2id),
            (&with("m=262145,t=1,p=1"), BadVerifier::Costs),
            (&with("m=8,t=17,p=1"), BadVerifier::Costs),
            (&with("m=8,t=0,p=1"), BadVerifier::Costs),
            (&with("m=8,t=1,p=2"), BadVerifier::Costs),
        ] {
            assert_eq!(text.parse::<PasswordHash>().unwrap_err(), problem, "{text}");
        }
    }

    #[test]
    fn nothing_secret_is_printed() {
        let hash = PasswordHash::new(&"correct horse".into(), CHEAP);
        let shown = format!("{hash:?} {:?}", Secret::from("correct horse"));
        let text = hash.to_text();
        let secret = text.rsplit('$').next().unwrap();
        assert!(!shown.contains(secret) && !shown.contains("correct"), "{shown}");
    }
}
