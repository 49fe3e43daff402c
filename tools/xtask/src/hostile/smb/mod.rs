//! Attacks by clients of SMB.

pub(crate) mod begun;
pub(crate) mod cut;
pub(crate) mod hoards;
pub(crate) mod killed;
pub(crate) mod lies;
pub(crate) mod padded;
pub(crate) mod patterns;
pub(crate) mod pools;
pub(crate) mod raw;
pub(crate) mod sign_ins;
pub(crate) mod silent;
pub(crate) mod trees;
pub(crate) mod unread;
pub(crate) mod unread_audit;

/// The attacker's user, and the good client's; either has the same password.
pub(crate) const USERS: [&str; 2] = [ATTACKER, GOOD];
pub(crate) const ATTACKER: &str = "mallory";
pub(crate) const GOOD: &str = "alice";
pub(crate) const PASSWORD: &str = "open sesame";
