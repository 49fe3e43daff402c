//! Bounds of an accounts file.

//@ limit: the accounts file
//@ section: Users and access lists
//@ unit: byte
//@ all: process: {:b}, {USERS_MAX} users, {GROUPS_MAX} groups, {NESTING_MAX} groups in each other
//@ empty: refused with the reason; a running server goes on with what it had
//@ counter: server_reloads{outcome="refused"}
//@ attack: none, an administrator writes it
//@ reach: server
/// Largest accounts file that is read, in bytes.
pub(super) const FILE_MAX: usize = 16 << 20;
/// Most users of an accounts file.
pub(super) const USERS_MAX: usize = 100_000;
/// Most groups of an accounts file.
pub(super) const GROUPS_MAX: usize = 10_000;
/// Depth to which groups may nest.
pub(super) const NESTING_MAX: usize = 16;
