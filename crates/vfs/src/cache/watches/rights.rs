//! Rights of users by way of a watched directory, and whether another way lets the same users through.

use std::rc::Rc;
use std::sync::Arc;

use identity::{Nearest, Principal, Rights, VolumePolicy};
use smb_sid::Sids;

use super::WatchedDir;
use crate::access::Access;
use crate::attributes::Attributes;
use crate::descriptor::Own;
use crate::error::Error;
use crate::root::Root;

impl WatchedDir {
    /// Returns the principal's rights here: none where the principal may not pass through a directory above.
    pub(crate) fn rights(&self, principal: &Principal, policy: &VolumePolicy) -> Rights {
        let Some(access) = self.access.get() else { return Rights::NONE };
        if self.withholds(None) {
            return Rights::NONE;
        }
        if let Some(rights) = access.known(principal) {
            return rights;
        }
        let passes = |upper: &Rc<Self>| upper.rights(principal, policy).contains(Rights::TRAVERSE);
        let rights = match self.upper.as_ref().is_none_or(passes) {
            true => access.own_rights(principal, policy, || self.sids()),
            false => Rights::NONE,
        };
        access.keep(principal, rights)
    }

    /// Returns the principal's rights over a file in the directory that has this descriptor of its own.
    pub(crate) fn rights_of(
        &self,
        principal: &Principal,
        policy: &VolumePolicy,
        of: &Attributes,
        own: Option<&Own>,
    ) -> Rights {
        let here = self.rights(principal, policy);
        match (self.access.get(), here.contains(Rights::TRAVERSE), own) {
            (Some(access), true, None) => access.rights_of(principal, policy, of),
            (Some(access), true, Some(own)) => {
                let given = own.rights(principal, &self.sids(), false);
                access.rights_of_own(principal, policy, of, given, here)
            }
            _ => Rights::NONE,
        }
    }

    /// Returns what the principal is granted by the directory's own descriptor, as an access mask of SMB;
    /// `None` without one.
    pub(crate) fn granted_here(&self, principal: &Principal, policy: &VolumePolicy) -> Option<u32> {
        let own = self.access.get()?.own()?;
        let passes = |upper: &Rc<Self>| upper.rights(principal, policy).contains(Rights::TRAVERSE);
        Some(match self.upper.as_ref().is_none_or(passes) {
            true => own.granted(principal, &self.sids()),
            false => 0,
        })
    }

    /// Returns what the principal is granted by the descriptor of a file in the directory
    /// ([`WatchedDir::granted_here`]).
    pub(crate) fn granted_of(&self, principal: &Principal, policy: &VolumePolicy, own: &Own) -> u32 {
        match self.rights(principal, policy).contains(Rights::TRAVERSE) {
            true => own.granted(principal, &self.sids()),
            false => 0,
        }
    }

    /// Looks whether others have changed its mode, owner, list or descriptor, while no watch reports that.
    ///
    /// # Errors
    /// Those of the file system.
    pub(in crate::cache) async fn has_other_rights(&self, root: &Root) -> Result<bool, Error> {
        let Some((object, access)) = self.object().zip(self.access.get()) else { return Ok(false) };
        let dir = root.open_real_directory(self.key().path).await?;
        let stat = dir.stat()?;
        let list = root.access_list(&dir, object, self.key().path).await?;
        let above = self.upper.as_ref().and_then(|upper| upper.access.get());
        Ok(!Access::new(&stat, list.as_deref(), object, above).is_as(access))
    }

    /// Returns the SIDs that users have in descriptors.
    fn sids(&self) -> Arc<Sids> {
        let object = self.object().expect("only what is promised has rights");
        object.volume().objects().sids()
    }

    /// Returns the directory and all above it, upwards: a path to it passes through each.
    pub(crate) fn and_above(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |at| at.upper.as_deref())
    }

    /// Returns whether it lets the same through as another.
    pub(crate) fn passes_as(&self, other: &Self, policy: &VolumePolicy) -> bool {
        let both = self.access.get().zip(other.access.get());
        std::ptr::eq(self, other) || both.is_some_and(|(one, other)| one.passes_as(other, policy))
    }

    /// Returns the access list that counts in this directory.
    pub(crate) fn nearest(&self) -> Nearest {
        self.access.get().map_or(Nearest::Unreadable, |access| access.nearest().clone())
    }
}
