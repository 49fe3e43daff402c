//! Verifiers of passwords.

mod nt;
mod password;

pub use self::nt::NtHash;
pub(crate) use self::password::fill_random;
pub use self::password::{PasswordHash, Strength};

/// Error of a text that is not a verifier. The error does not repeat the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadVerifier {
    /// The text is not `$argon2id$v=19$m=…,t=…,p=…$SALT$HASH`.
    #[error("it is no argon2id hash of the form $argon2id$v=19$m=19456,t=2,p=1$SALT$HASH")]
    NotArgon2id,
    /// The verifier would take too much memory or time.
    #[error(
        "its costs are out of bounds: m from 8 to {} KiB and at least 8 times p, t from 1 to {}, p from 1 to {}",
        password::MEMORY_KIB_MAX,
        password::PASSES_MAX,
        password::LANES_MAX
    )]
    Costs,
    /// The text is not 32 hexadecimal digits.
    #[error("it is no NT hash: 32 hexadecimal digits")]
    NotNt,
}
