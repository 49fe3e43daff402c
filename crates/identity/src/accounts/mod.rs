//! Users and groups: an immutable snapshot of the accounts file.

mod edit;
mod error;
mod format;
mod limits;
mod membership;
mod posix;
mod smbpasswd;
mod store;

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};

pub use self::edit::{Edit, NewUser};
pub use self::error::AccountsError;
pub use self::format::check_posix_id;
use self::format::{GroupTable, UserTable};
use self::membership::Memberships;
use self::posix::Posix;
pub use self::smbpasswd::{BadLine, LeftOut, SambaUser, parse_smbpasswd};
pub use self::store::AccountsStore;
use crate::name::{Id, Who};
use crate::principal::{Inner, Kind, Names, Principal};
use crate::secret::Secret;
use crate::verifier::{NtHash, PasswordHash, Strength};

/// All users and groups at one moment. It never changes; a changed file gives another one, with a greater
/// [`generation`](Self::generation).
pub struct Accounts {
    generation: u64,
    names: Arc<Names>,
    users: HashMap<String, User>,
    groups: HashMap<String, GroupTable>,
    memberships: Memberships,
    posix: Posix,
    next_ids: [Option<Id>; 2],
    anonymous: Principal,
    administrator: Principal,
    /// Hash that is verified for a user without one, so that the answer takes as long.
    decoy: PasswordHash,
    nt_decoy: NtHash,
}

struct User {
    table: UserTable,
    /// Principal of the user, made at first use, then shared.
    principal: OnceLock<Principal>,
}

impl Accounts {
    /// Largest accounts file that is read, in bytes.
    pub const FILE_MAX: usize = limits::FILE_MAX;
    /// Most users of an accounts file.
    pub const USERS_MAX: usize = limits::USERS_MAX;
    /// Most groups of an accounts file.
    pub const GROUPS_MAX: usize = limits::GROUPS_MAX;
    /// Depth to which groups may nest.
    pub const NESTING_MAX: usize = limits::NESTING_MAX;

    /// Returns accounts without users: every client is anonymous. The same snapshot each time.
    pub fn none() -> Arc<Self> {
        static NONE: LazyLock<Arc<Accounts>> =
            LazyLock::new(|| Accounts::parse("version = 1").expect("it has nothing that could be wrong"));
        Arc::clone(&NONE)
    }

    /// Reads the text of an accounts file (docs/users/access.md).
    ///
    /// # Errors
    /// [`AccountsError::Syntax`] with the line, or [`AccountsError::Invalid`] with the key.
    pub fn parse(text: &str) -> Result<Arc<Self>, AccountsError> {
        let file = format::parse(text)?;
        let names = Arc::new(file.names()?);
        let memberships = Memberships::new(&file.group, &names)?;
        let posix = Posix::new(&file.user, &file.group);
        let generation = GENERATIONS.fetch_add(1, Ordering::Relaxed);
        let somebody = |kind, name: &str, id, groups: &[Id]| {
            Principal::new(Inner {
                kind,
                name: name.into(),
                id,
                subdomain: [&[id], groups].concat().into(),
                uid: None,
                gids: [].into(),
                generation,
                names: Arc::clone(&names),
            })
        };
        let all_system = [Id::ADMINISTRATORS, Id::ANYUSER, Id::AUTHUSER];
        Ok(Arc::new(Self {
            generation,
            anonymous: somebody(Kind::Anonymous, "anonymous", Id::ANONYMOUS, &[Id::ANYUSER]),
            administrator: somebody(Kind::Administrator, "administrator", Id(0), &all_system),
            memberships,
            posix,
            next_ids: file.next_ids(),
            decoy: PasswordHash::decoy(usual_strength(file.user.values())),
            nt_decoy: NtHash::decoy(),
            users: file.user.into_iter().map(|(name, table)| (name, User::new(table))).collect(),
            groups: file.group.into_iter().collect(),
            names,
        }))
    }

    /// Returns the generation of the snapshot, greater than that of every one made before in this process.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the realm in which users of this file are known by their names alone; empty for none.
    pub fn realm(&self) -> &str {
        &self.names.realm
    }

    /// Returns the principal of unauthenticated clients.
    pub fn anonymous(&self) -> Principal {
        self.anonymous.clone()
    }

    /// Returns the principal of this machine's operator, who may read and change all files anyway.
    pub fn local_administrator(&self) -> Principal {
        self.administrator.clone()
    }

    /// Returns the principal of a user that was authenticated by other means than a password here.
    ///
    /// # Errors
    /// [`Refused::Unknown`] and [`Refused::Disabled`].
    pub fn user(&self, name: &str) -> Result<Principal, Refused> {
        let (name, user) = self.users.get_key_value(name).ok_or(Refused::Unknown)?;
        if user.table.disabled { Err(Refused::Disabled) } else { Ok(self.principal(name, user)) }
    }

    /// Returns the principal of a user by its name in a realm, such as a Kerberos ticket's
    /// `alice@EXAMPLE.COM`.
    ///
    /// # Errors
    /// As [`user`](Self::user).
    pub fn user_of_realm(&self, who: &Who) -> Result<Principal, Refused> {
        let id = self.names.id(who).ok_or(Refused::Unknown)?;
        self.user_by_id(id)
    }

    /// Returns the principal of a user by number.
    ///
    /// # Errors
    /// As [`user`](Self::user).
    pub fn user_by_id(&self, id: Id) -> Result<Principal, Refused> {
        self.memberships.name(id).map_or(Err(Refused::Unknown), |name| self.user(name))
    }

    /// Returns the name of a user or group, for display.
    pub fn name_of(&self, id: Id) -> Option<&str> {
        let system = crate::name::SYSTEM_GROUPS.iter().find(|(_, known)| *known == id).map(|(name, _)| *name);
        let anonymous = (id == Id::ANONYMOUS).then_some("anonymous");
        system.or(anonymous).or_else(|| self.memberships.name(id))
    }

    /// Returns the number of a user or group, or `None` for an unknown name.
    pub fn id_of(&self, who: &Who) -> Option<Id> {
        self.names.id(who)
    }

    /// Returns the number of a user of the accounts, disabled or not.
    pub fn id_of_user(&self, name: &str) -> Option<Id> {
        self.users.get(name).map(|user| Id(user.table.id))
    }

    /// Returns the principal of the same user in the present accounts; `None` for a user that is gone,
    /// disabled or another by now. Sessions that outlive a reload ask this before they go on.
    pub fn renewed(&self, principal: &Principal) -> Option<Principal> {
        if principal.generation() == self.generation {
            return Some(principal.clone());
        }
        if principal.is_user() {
            return self.user(principal.name()).ok().filter(|user| user.id() == principal.id());
        }
        Some(if principal.is_anonymous() { self.anonymous() } else { self.local_administrator() })
    }

    /// Returns the user that a POSIX user is mapped from; of several the one with the lowest number.
    pub fn user_of_uid(&self, uid: u32) -> Option<Id> {
        self.posix.user(uid)
    }

    /// Returns the group that a POSIX group is mapped from; of several the one with the number nearest to 0.
    pub fn group_of_gid(&self, gid: u32) -> Option<Id> {
        self.posix.group(gid)
    }

    /// Verifies the password of the user `name`, and returns the user's principal. Takes tens of milliseconds
    /// and 19 MiB, as long for an unknown user, for a disabled account and for one without a password as for
    /// a wrong password: a lane has it done by a helper, and bounds how many it has done at once.
    ///
    /// # Errors
    /// Why not: for the log. The client learns no more than that it was refused.
    pub fn verify(&self, name: &str, password: &Secret) -> Result<Principal, Refused> {
        let found = self.users.get_key_value(name);
        let hash = found.and_then(|(_, user)| user.table.password.as_ref());
        let fits = hash.unwrap_or(&self.decoy).verify(password);
        let (name, user) = found.ok_or(Refused::Unknown)?;
        match () {
            () if user.table.disabled => Err(Refused::Disabled),
            () if hash.is_none() => Err(Refused::NoVerifier),
            () if !fits || password.expose().len() > Secret::LENGTH_MAX => Err(Refused::Wrong),
            () => Ok(self.principal(name, user)),
        }
    }

    /// Returns the NT hash that NTLMv2's proof of `name` is checked with. For an unknown user, a disabled
    /// account and one without an NT hash it is one that no proof fits. After the proof, [`user`](Self::user)
    /// gives the principal.
    pub fn nt_hash(&self, name: &str) -> &NtHash {
        let user = self.users.get(name).filter(|user| !user.table.disabled);
        user.and_then(|user| user.table.nt.as_ref()).unwrap_or(&self.nt_decoy)
    }

    /// Returns whether any user may sign in by a password that [`verify`](Self::verify) takes.
    pub fn have_password(&self) -> bool {
        self.users.values().any(|user| user.table.password.is_some() && !user.table.disabled)
    }

    /// Returns all users, ordered by name.
    pub fn users(&self) -> Vec<Account> {
        let of = |(name, user): (&String, &User)| {
            let UserTable { id, password, nt, uid, gid, principals, disabled } = &user.table;
            Account {
                name: name.clone(),
                id: Id(*id),
                uid: *uid,
                gid: *gid,
                principals: principals.clone(),
                disabled: *disabled,
                strength: password.as_ref().map(PasswordHash::strength),
                has_nt: nt.is_some(),
                groups: self.groups_of(Id(*id)),
            }
        };
        let mut users: Vec<_> = self.users.iter().map(of).collect();
        users.sort_by(|a, b| a.name.cmp(&b.name));
        users
    }

    /// Returns all groups, ordered by name.
    pub fn groups(&self) -> Vec<Group> {
        let of = |(name, table): (&String, &GroupTable)| Group {
            name: name.clone(),
            id: table.id(name),
            gid: table.gid,
            members: table.members.clone(),
        };
        let mut groups: Vec<_> = self.groups.iter().map(of).collect();
        groups.sort_by(|a, b| a.name.cmp(&b.name));
        groups
    }

    /// Returns the numbers that the next user and the next group get, never given before; `None` when all
    /// have been given.
    pub fn next_ids(&self) -> [Option<Id>; 2] {
        self.next_ids
    }

    fn groups_of(&self, id: Id) -> Vec<String> {
        let ids = self.memberships.of(id);
        let mut names: Vec<_> = ids.iter().filter_map(|id| self.name_of(*id)).map(str::to_owned).collect();
        names.sort();
        names
    }

    fn principal(&self, name: &str, user: &User) -> Principal {
        let make = || {
            let id = Id(user.table.id);
            let groups = self.memberships.of(id);
            let gids = groups.iter().filter_map(|group| self.memberships.gid(*group));
            Principal::new(Inner {
                kind: Kind::User,
                name: name.into(),
                id,
                gids: user.table.gid.into_iter().chain(gids).collect(),
                subdomain: [&[id, Id::ANYUSER, Id::AUTHUSER], &groups[..]].concat().into(),
                uid: user.table.uid,
                generation: self.generation,
                names: Arc::clone(&self.names),
            })
        };
        user.principal.get_or_init(make).clone()
    }
}

/// Writes counts alone, as a user's data may hold a verifier.
impl fmt::Debug for Accounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Accounts");
        out.field("generation", &self.generation);
        out.field("users", &self.users.len()).field("groups", &self.groups.len()).finish_non_exhaustive()
    }
}

impl User {
    fn new(table: UserTable) -> Self {
        Self { table, principal: OnceLock::new() }
    }
}

/// Data of a user that may be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Name of the user.
    pub name: String,
    /// The user's AFS number.
    pub id: Id,
    /// The POSIX user that the user is mapped to.
    pub uid: Option<u32>,
    /// The user's first POSIX group.
    pub gid: Option<u32>,
    /// The user's names in other realms.
    pub principals: Vec<Who>,
    /// True when the user may not sign in.
    pub disabled: bool,
    /// Cost of the password's verifier; `None` for a user without one.
    pub strength: Option<Strength>,
    /// True when the user has an NT hash, which SMB needs.
    pub has_nt: bool,
    /// All groups of the user, through others too, by name.
    pub groups: Vec<String>,
}

/// Data of a group that may be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Name of the group.
    pub name: String,
    /// The group's AFS number.
    pub id: Id,
    /// POSIX group that the group is mapped to.
    pub gid: Option<u32>,
    /// Users and groups that are members, as written in the file.
    pub members: Vec<String>,
}

/// Reason why authentication failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refused {
    /// The user does not exist.
    #[error("there is no such user")]
    Unknown,
    /// The password is not the user's.
    #[error("wrong password")]
    Wrong,
    /// The user has no verifier.
    #[error("the user has no password")]
    NoVerifier,
    /// The user is disabled.
    #[error("the user is disabled")]
    Disabled,
}

/// Returns the cost of most users' verifiers, which an unknown user's check takes as well.
fn usual_strength<'a>(users: impl Iterator<Item = &'a UserTable>) -> Strength {
    let mut counts = HashMap::new();
    for user in users {
        if let Some(password) = &user.password {
            *counts.entry(password.strength()).or_insert(0usize) += 1;
        }
    }
    let usual =
        counts.into_iter().max_by_key(|(strength, count)| (*count, strength.memory_kib, strength.passes));
    usual.map(|(strength, _)| strength).unwrap_or_default()
}

static GENERATIONS: AtomicU64 = AtomicU64::new(1);

#[cfg(test)]
mod tests;
