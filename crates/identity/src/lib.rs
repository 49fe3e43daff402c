//! Identities of users, and their rights: accounts, access lists, and the one function that decides, for
//! every protocol.
//!
//! Plain and synchronous: nothing here knows lanes, sockets or the exported tree, and the only file it
//! touches is that of the accounts. [`Accounts`] is an immutable snapshot behind an `Arc`; a [`Principal`] is
//! made of one and carries its generation, so that a cache of rights can tell when they are out of date.
//!
//! ```
//! use identity::{Accounts, Acl, Kind, Nearest, Object, Owner, Rights, Side, VolumePolicy, Writable, decide};
//! use std::sync::Arc;
//!
//! let accounts = Accounts::parse("version = 1\n[user.alice]\nid = 1000\n")?;
//! let alice = accounts.user("alice")?;
//! let mut acl = Acl::new();
//! acl.set(Side::Given, "alice".parse()?, Rights::WRITER)?;
//! let volume = VolumePolicy { privileged: false, writable: Writable::AsListed, owner: Owner::default() };
//! let file = Object { kind: Kind::File, mode: 0o644, gid: 0, owner: Owner::default() };
//! let nearest = Nearest::List(Arc::new(acl));
//! assert!(decide(&alice, &file, &nearest, &volume).contains(Rights::WRITE));
//! assert!(decide(&accounts.anonymous(), &file, &nearest, &volume).is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod accounts;
mod acl;
mod decide;
mod name;
mod principal;
mod rights;
mod secret;
mod verified;
mod verifier;

pub use self::accounts::{
    Account, Accounts, AccountsError, AccountsStore, BadLine, Edit, Group, LeftOut, NewUser, Refused,
    SambaUser, check_posix_id, parse_smbpasswd,
};
pub use self::acl::{
    ATTRIBUTE_PREFIXES, ATTRIBUTE_PRIVILEGED, ATTRIBUTE_UNPRIVILEGED, ATTRIBUTE_WITNESS, Acl, AclFull,
    BadAcl, Entry, Nearest, Side,
};
pub use self::decide::{BadWritable, Kind, Object, Owner, VolumePolicy, Writable, decide, decide_described};
pub use self::name::{
    BadName, Id, NAME_MAX, REALM_MAX, SYSTEM_GROUPS, Who, check_group_name, check_user_name,
};
pub use self::principal::Principal;
pub use self::rights::{Rights, UnknownRight};
pub use self::secret::Secret;
pub use self::verified::Verified;
pub use self::verifier::{BadVerifier, NtHash, PasswordHash, Strength};
