//! Restore of opens from before a restart: each as it was, or not at all, and without breaks. No holder is
//! asked for anything.

use super::{Object, Request};
use crate::caching_grant::CachingGrant;
use crate::event::Refused;
use crate::grant::{OtherGrants, granted};
use crate::range::{Owner, RangeLock};

impl<L: Clone + Eq> Object<L> {
    /// Restores an open with its holder's caching, which `want` states with the last epoch sent, and its locks.
    ///
    /// # Errors
    /// Why it cannot stand beside what was put back before. The writer of the record may have been wrong, so nothing
    /// of it is restored that the tables would not have granted. Nothing is left of it then.
    pub fn restore(
        &mut self,
        stream: &[u8],
        request: Request<L>,
        locks: &[RangeLock],
    ) -> Result<(), Refused> {
        if self.deletions.has(&request.link) {
            return Err(Refused::DeletePending);
        }
        if let Some(refused) = self.is_full(&request) {
            return Err(refused);
        }
        let at = self.stream_or_new(stream).ok_or(Refused::TooMany)?;
        let restored = self.restore_at(at, request, locks);
        self.tidy();
        restored
    }

    fn restore_at(&mut self, at: usize, request: Request<L>, locks: &[RangeLock]) -> Result<(), Refused> {
        let want = request.want.ok_or(Refused::NotOpen)?;
        let bears = self.shares_deletion(at, &request);
        let stream = &mut self.streams[at];
        if stream.deletes || !bears || !stream.shares_with(request.access, request.share) {
            return Err(Refused::Sharing);
        }
        let caching_grant = CachingGrant::restored(&want);
        // A locked range keeps others from caching, not a caching client from locking.
        let other_grants = OtherGrants { ranges: false, ..stream.other_grants(&want, request.open) };
        let could_be = granted(want.kind, want.caching, request.is_directory, other_grants) == want.caching;
        let fits = match stream.caching_grant(want.holder) {
            Some(known) => known.standing() == caching_grant.standing(),
            None => could_be && !want.caching.is_none(),
        };
        if !fits {
            return Err(Refused::Sharing);
        }
        // As they can have come: an open locks for sharing within what it has locked for itself, and not the other way round.
        let mut in_order = locks.to_vec();
        in_order.sort_by_key(|lock| !lock.exclusive);
        stream.ranges.lock(Owner::Open(request.open), &in_order, None, self.limits)?;
        if stream.caching_grant(want.holder).is_none() {
            stream.caching_grants.push(caching_grant);
        }
        stream.opens.push(request.into_open());
        Ok(())
    }
}
