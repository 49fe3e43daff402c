//! On whose behalf something is done.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::name::{Id, SYSTEM_GROUPS, Who};

/// The identity on whose behalf a request is made: anonymous, a user, or the operator of this machine. Cheap
/// to clone. It is of one snapshot of the accounts and never changes; what a cache keeps for it, such as
/// rights, is of that snapshot's [`generation`](Self::generation) too.
#[derive(Clone)]
pub struct Principal(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) kind: Kind,
    pub(crate) name: Box<str>,
    pub(crate) id: Id,
    /// Current protection subdomain: its own number and those of all groups it is in, ordered.
    pub(crate) subdomain: Box<[Id]>,
    pub(crate) uid: Option<u32>,
    /// Group ids, that of the user first.
    pub(crate) gids: Box<[u32]>,
    pub(crate) generation: u64,
    pub(crate) names: Arc<Names>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Anonymous,
    User,
    Administrator,
}

impl Principal {
    pub(crate) fn new(mut inner: Inner) -> Self {
        inner.subdomain.sort_unstable();
        Self(Arc::new(inner))
    }

    /// The name in the accounts; `anonymous`, or `administrator` for the operator of this machine.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The AFS number.
    pub fn id(&self) -> Id {
        self.0.id
    }

    /// Returns whether it is unauthenticated.
    pub fn is_anonymous(&self) -> bool {
        self.0.kind == Kind::Anonymous
    }

    /// Returns whether it is an authenticated user.
    pub fn is_user(&self) -> bool {
        self.0.kind == Kind::User
    }

    /// Returns whether it is the operator of this machine, with all rights.
    pub fn is_local_administrator(&self) -> bool {
        self.0.kind == Kind::Administrator
    }

    /// Returns whether it is a member of `system:administrators`, or the operator of this machine.
    pub fn is_administrator(&self) -> bool {
        self.is_member(Id::ADMINISTRATORS)
    }

    /// Returns whether `id` is its own number or that of a group it is in, directly or through others.
    pub fn is_member(&self, id: Id) -> bool {
        self.0.subdomain.binary_search(&id).is_ok()
    }

    /// Returns the principal's own number and those of all its groups, ascending (AFS: the current protection
    /// subdomain).
    pub fn subdomain(&self) -> &[Id] {
        &self.0.subdomain
    }

    /// The POSIX user it is mapped to.
    pub fn uid(&self) -> Option<u32> {
        self.0.uid
    }

    /// The POSIX groups it is mapped to: that of the user first, then those of its groups.
    pub fn gids(&self) -> &[u32] {
        &self.0.gids
    }

    /// Of the snapshot it was made of: another one's rights are another's.
    pub fn generation(&self) -> u64 {
        self.0.generation
    }

    /// Returns the number that an entry of an access list means, as the accounts of this principal have it.
    pub(crate) fn meant(&self, who: &Who) -> Option<Id> {
        self.0.names.id(who)
    }
}

impl fmt::Debug for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.name(), self.id())
    }
}

/// Table of the names and numbers of users and groups.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// Empty: none.
    pub(crate) realm: Box<str>,
    /// Users and groups of the accounts.
    pub(crate) local: HashMap<Box<str>, Id>,
    /// Names that users have in other realms.
    pub(crate) foreign: HashMap<Who, Id>,
}

impl Names {
    pub(crate) fn id(&self, who: &Who) -> Option<Id> {
        if let Some((_, id)) = SYSTEM_GROUPS.iter().find(|(name, _)| *name == who.name()) {
            return Some(*id);
        }
        let is_local = who.realm().is_empty() || who.realm() == &*self.realm;
        let local = if is_local { self.local.get(who.name()) } else { None };
        local.or_else(|| self.foreign.get(who)).copied()
    }
}
