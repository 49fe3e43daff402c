//! Rights of users in a directory, which a lane caches with its watch of that directory: the list that counts
//! there, and the results for the users that asked lately. It goes with the promise, and that goes before a
//! list, the mode or the place of this directory or one above it changes.

use std::cell::RefCell;
use std::sync::Arc;

use identity::{Id, Kind, Nearest, Principal, Rights, VolumePolicy, decide, decide_described};
use lane::fs::{FileKind, Stat};
use smallvec::SmallVec;
use smb_sid::Sids;

use crate::attributes::Attributes;
use crate::descriptor::Own;
use crate::error::Error;
use crate::object::Object;
use crate::object_attributes::attributes_of;

/// Rights of users in one directory.
pub(crate) struct Access {
    nearest: Nearest,
    directory: identity::Object,
    /// The directory's own descriptor, and the SIDs of users in it and in those of what is in it.
    own: Option<Own>,
    known: RefCell<SmallVec<[JudgedRights; 1]>>,
}

/// Rights that were computed for one principal.
#[derive(Clone, Copy)]
struct JudgedRights {
    principal: (Id, u64, bool),
    rights: Rights,
}

impl Access {
    /// Computes the rights in the directory `of` whose own list is `list`; `above` has those of the directory above
    /// it.
    pub(crate) fn new(stat: &Stat, list: Option<&[u8]>, of: &Arc<Object>, above: Option<&Self>) -> Self {
        let none = Nearest::None;
        let nearest = Nearest::of(list, above.map_or(&none, |above| &above.nearest));
        let directory = judged(&attributes_of(stat, Some(of)));
        Self { nearest, directory, own: of.own(), known: RefCell::default() }
    }

    /// Returns the list that counts: the directory's own, or the nearest one above.
    pub(crate) fn nearest(&self) -> &Nearest {
        &self.nearest
    }

    /// Returns the rights over the directory and what is in it. It takes no account of the directories above.
    pub(crate) fn own_rights(
        &self,
        principal: &Principal,
        policy: &VolumePolicy,
        sids: impl FnOnce() -> Arc<Sids>,
    ) -> Rights {
        match &self.own {
            None => decide(principal, &self.directory, &self.nearest, policy),
            Some(own) => {
                decide_described(principal, &self.directory, own.rights(principal, &sids(), true), policy)
            }
        }
    }

    /// Returns whether both directories let exactly the same users through.
    pub(crate) fn passes_as(&self, other: &Self, policy: &VolumePolicy) -> bool {
        match (&self.own, &other.own) {
            (None, None) if self.nearest == Nearest::None && other.nearest == Nearest::None => {
                !policy.privileged || passes_by_mode_as(&self.directory, &other.directory)
            }
            (None, None) => self.nearest == other.nearest,
            (one, other) => one == other,
        }
    }

    /// Returns whether it gives every user what another look gave.
    pub(crate) fn is_as(&self, other: &Self) -> bool {
        (&self.nearest, self.directory, &self.own) == (&other.nearest, other.directory, &other.own)
    }

    /// Returns the directory's own descriptor.
    pub(crate) fn own(&self) -> Option<&Own> {
        self.own.as_ref()
    }

    /// Returns the rights over something in the directory that is no directory itself.
    pub(crate) fn rights_of(&self, principal: &Principal, policy: &VolumePolicy, of: &Attributes) -> Rights {
        decide(principal, &judged(of), &self.nearest, policy)
    }

    /// Returns the rights over what has a descriptor of its own ([`Access::rights_of`]). A user that may list
    /// the directory sees the attributes of what is in it.
    pub(crate) fn rights_of_own(
        &self,
        principal: &Principal,
        policy: &VolumePolicy,
        of: &Attributes,
        given: Rights,
        here: Rights,
    ) -> Rights {
        decide_described(principal, &judged(of), given | (here & Rights::LOOKUP), policy)
    }

    pub(crate) fn known(&self, principal: &Principal) -> Option<Rights> {
        let principal = key(principal);
        self.known.borrow().iter().find(|known| known.principal == principal).map(|known| known.rights)
    }

    /// Caches the result for the last few users that asked.
    pub(crate) fn keep(&self, principal: &Principal, rights: Rights) -> Rights {
        let mut known = self.known.borrow_mut();
        if known.len() == KNOWN_MAX {
            known.remove(0);
        }
        known.push(JudgedRights { principal: key(principal), rights });
        rights
    }
}

/// Checks whether rights are enough.
///
/// # Errors
/// [`Error::Denied`], with what is lacking.
pub(crate) fn require(rights: Rights, need: Rights) -> Result<(), Error> {
    if rights.contains(need) { Ok(()) } else { Err(Error::Denied(need.without(rights))) }
}

fn key(principal: &Principal) -> (Id, u64, bool) {
    (principal.id(), principal.generation(), principal.is_local_administrator())
}

fn judged(attributes: &Attributes) -> identity::Object {
    let kind = match attributes.kind {
        FileKind::Directory => Kind::Directory,
        FileKind::Symlink => Kind::Symlink,
        FileKind::File | FileKind::Other => Kind::File,
    };
    identity::Object { kind, mode: attributes.bits, gid: attributes.gid, owner: attributes.owner() }
}

/// Returns whether the mode bits of two directories let the same through, and show them the same: whose they
/// are counts where their classes differ.
fn passes_by_mode_as(one: &identity::Object, other: &identity::Object) -> bool {
    let classes = |of: &identity::Object| [6, 3, 0].map(|shift| of.mode >> shift & 0o5);
    let is_for_all = |[owner, group, others]: [u32; 3]| owner == group && group == others;
    let (bits, is_of_same) = (classes(one), (one.owner, one.gid) == (other.owner, other.gid));
    bits == classes(other) && (is_for_all(bits) || is_of_same)
}

const KNOWN_MAX: usize = 8;
