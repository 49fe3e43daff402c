//! What a client that caches is told of a symbolic link: as of a file, but that it is named by its number alone, since a path that
//! leads to a link is followed.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use identity::{Principal, Rights};
use index::Number;
use lane::offload::offload;

use super::standing::Standing;
use super::{Client, Confirmed, OnItsWay};
use crate::cache::WatchedDir;
use crate::caller::Caller;
use crate::change::SymbolicLink;
use crate::error::Error;
use crate::name::Name;
use crate::volume::Volume;

/// A look at a symbolic link under a promise to a client, as [`Promised`](crate::Promised) is at a file.
pub struct PromisedLink {
    link: SymbolicLink,
    standing: Standing,
}

impl Volume {
    /// The symbolic link of this number, with the promise to tell `client` before it is gone or moved, if that is before `until`. Takes
    /// [`Rights::LOOKUP`] in its directory.
    ///
    /// # Errors
    /// [`Error::Stale`] for a number that no link has; else as [`Volume::promised_by_number`].
    pub async fn promised_link(
        &self,
        caller: &Caller,
        client: &Arc<Client>,
        number: Number,
        until: Instant,
    ) -> Result<PromisedLink, Error> {
        let joined = self.joined_promises()?;
        let mut known = self.shared().and_then(|shared| shared.in_use_as(number));
        for _ in 0..ATTEMPTS_MAX {
            // The promise first, then the look: of what is not in use, a look before that, to know whose promise it is.
            let promise = match &known {
                Some(object) => {
                    let ticket = self.counted(joined.give(client, object, until).map_err(|_| Error::Busy))?;
                    self.rest(object).await?;
                    Some((ticket, object.version()))
                }
                None => None,
            };
            let (link, directory) = self.link_of(caller, number).await?;
            let Some((ticket, version)) = promise else {
                known = Some(link.object);
                continue;
            };
            let standing = Standing { volume: self.clone(), version, ticket, directory, until };
            if standing.holds(&link.object, joined) {
                return Ok(PromisedLink { link, standing });
            }
        }
        self.counted(Err(Error::Busy))
    }

    async fn link_of(
        &self,
        caller: &Caller,
        number: Number,
    ) -> Result<(SymbolicLink, Rc<WatchedDir>), Error> {
        let identity = self.counted(self.identity_of(number).await)?;
        let shared = Arc::clone(self.shared().ok_or(Error::ReadOnly)?);
        let in_use = shared.in_use_as(number).and_then(|object| object.place());
        let (above, name) = match in_use {
            Some(place) => (place.directory.identity().clone(), place.name),
            None => {
                let file = identity.clone();
                let recorded = offload(None, move || shared.recorded_place(&file)).await;
                let recorded = recorded.map_err(|_| Error::Overloaded)??.ok_or(Error::Stale)?;
                (recorded.directory, recorded.name)
            }
        };
        let directory = self.reopen(caller, &above, Rights::NONE).await?.into_directory()?.0;
        let name = Name::parse(&name).map_err(|_| Error::Stale)?;
        match directory.symbolic_link_seen(caller, name).await {
            Ok(seen) if seen.0.object.number() == number => Ok(seen),
            Ok(_) | Err(Error::NotFound | Error::NotServable) => self.counted(Err(Error::Stale)),
            Err(error) => Err(error),
        }
    }
}

impl PromisedLink {
    /// The link.
    pub fn link(&self) -> &SymbolicLink {
        &self.link
    }

    /// What somebody may do with it.
    pub fn rights(&self, who: &Principal) -> Rights {
        let Standing { volume, directory, .. } = &self.standing;
        let policy = volume.root().policy();
        policy.map_or(Rights::NONE, |policy| directory.rights_of(who, policy, &self.link.attributes))
    }

    /// As [`Promised::confirm`](crate::Promised::confirm).
    pub fn confirm(&self) -> Option<Confirmed<'_>> {
        self.standing.confirm(&self.link.object, &self.link.attributes)
    }

    /// As [`Promised::on_its_way`](crate::Promised::on_its_way).
    pub fn on_its_way(&self) -> Option<OnItsWay> {
        self.standing.on_its_way()
    }
}

impl std::fmt::Debug for PromisedLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PromisedLink").field("link", &self.link).finish_non_exhaustive()
    }
}

/// Looks at something that changes all the time; the first may only find out which it is.
const ATTEMPTS_MAX: u32 = 16;
