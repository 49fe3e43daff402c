//! Principals: the identities on whose behalf requests are made.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::name::{Id, SYSTEM_GROUPS, Who};

/// Identity on whose behalf a request is made: anonymous, a user, or the operator of this machine. Cheap to
/// clone. A principal belongs to one snapshot of the accounts and never changes; what a cache keeps for it,
/// such as rights, depends on that snapshot's [`generation`](Self::generation) too.
#[derive(Clone)]
pub struct Principal(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) kind: Kind,
    pub(crate) name: Box<str>,
    pub(crate) id: Id,
    /// Current protection subdomain: the principal's own number and those of all its groups, ordered.
    pub(crate) subdomain: Box<[Id]>,
    pub(crate) uid: Option<u32>,
    /// POSIX group ids, that of the user first.
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

    /// Returns the name in the accounts; `anonymous`, or `administrator` for the operator of this machine.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the AFS number of the principal.
    pub fn id(&self) -> Id {
        self.0.id
    }

    /// Returns whether the principal is unauthenticated.
    pub fn is_anonymous(&self) -> bool {
        self.0.kind == Kind::Anonymous
    }

    /// Returns whether the principal is an authenticated user.
    pub fn is_user(&self) -> bool {
        self.0.kind == Kind::User
    }

    /// Returns whether the principal is the operator of this machine, with all rights.
    pub fn is_local_administrator(&self) -> bool {
        self.0.kind == Kind::Administrator
    }

    /// Returns whether the principal is a member of `system:administrators`, or the operator of this machine.
    pub fn is_administrator(&self) -> bool {
        self.is_member(Id::ADMINISTRATORS)
    }

    /// Returns whether `id` is the principal's own number or that of one of its groups, direct or nested.
    pub fn is_member(&self, id: Id) -> bool {
        self.0.subdomain.binary_search(&id).is_ok()
    }

    /// Returns the principal's own number and those of all its groups, ascending (AFS: the current protection
    /// subdomain).
    pub fn subdomain(&self) -> &[Id] {
        &self.0.subdomain
    }

    /// Returns the POSIX user that the principal is mapped to.
    pub fn uid(&self) -> Option<u32> {
        self.0.uid
    }

    /// Returns the POSIX groups of the principal: the user's first, then those of its groups.
    pub fn gids(&self) -> &[u32] {
        &self.0.gids
    }

    /// Returns the generation of the principal's snapshot of the accounts, as rights from another snapshot do
    /// not hold.
    pub fn generation(&self) -> u64 {
        self.0.generation
    }

    /// Returns the number of an access list's entry in the accounts of this principal.
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
    /// Realm of the accounts; empty for none.
    pub(crate) realm: Box<str>,
    /// Numbers of the accounts' users and groups.
    pub(crate) local: HashMap<Box<str>, Id>,
    /// Numbers of users by their names in other realms.
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
