//! Look-ups of symbolic links with a callback: as of a file, but that it is named by its number alone, since
//! a path that leads to a link is followed.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use coherence::InFlightReply;
use futures_util::future::LocalBoxFuture;
use identity::{Principal, Rights};
use index::{Number, Version};
use lane::offload::offload;

use super::basis::CallbackBasis;
use super::{Client, Confirmed};
use crate::cache::WatchedDir;
use crate::caller::Caller;
use crate::change::SymbolicLink;
use crate::error::Error;
use crate::name::{Name, RelPath};
use crate::object::{Identity, Object, Recorded, SharedVolume};
use crate::volume::Volume;

/// A symbolic link looked up under a callback, as [`LookupWithCallback`](crate::LookupWithCallback) is for a file.
pub struct LinkWithCallback {
    link: SymbolicLink,
    basis: CallbackBasis,
}

impl Volume {
    /// Finds the symbolic link of this number and gives `client` a callback on it until `until`. Takes
    /// [`Rights::LOOKUP`] in its directory.
    ///
    /// # Errors
    /// [`Error::Stale`] for a number that no link has; else as [`Volume::find_with_callback`].
    pub fn find_link_with_callback<'a>(
        &'a self,
        caller: &'a Caller,
        client: &'a Arc<Client>,
        number: Number,
        until: Instant,
    ) -> LocalBoxFuture<'a, Result<LinkWithCallback, Error>> {
        Box::pin(async move {
            let peer = self.coherence_peer()?;
            let mut known = self.shared().and_then(|shared| shared.in_use_as(number));
            for _ in 0..ATTEMPTS_MAX {
                // The promise first, then the look: of what is not in use, a look before that, to know whose promise it is.
                let callback = match &known {
                    Some(object) => {
                        let callback_ref =
                            self.counted(peer.give(client, object, until).map_err(|_| Error::Busy))?;
                        self.wait_until_unchanging(object).await?;
                        Some((callback_ref, object.look_mark()))
                    }
                    None => None,
                };
                let (link, directory) = self.link_of(caller, number).await?;
                let Some((callback_ref, mark)) = callback else {
                    known = Some(link.object);
                    continue;
                };
                let basis = CallbackBasis { volume: self.clone(), mark, callback_ref, directory, until };
                if basis.holds(&link.object, peer) {
                    return Ok(LinkWithCallback { link, basis });
                }
            }
            self.counted(Err(self.unsettled(RelPath::ROOT, "looking at a symbolic link")))
        })
    }

    async fn link_of(
        &self,
        caller: &Caller,
        number: Number,
    ) -> Result<(SymbolicLink, Rc<WatchedDir>), Error> {
        let identity = self.counted(self.identity_of(number).await)?;
        let shared = self.shared().ok_or(Error::ReadOnly)?;
        for _ in 0..LOOKS_MAX {
            // While it moves it may be found under neither name.
            if let Some(object) = shared.in_use_as(number) {
                self.wait_until_unchanging(&object).await?;
            }
            let lies = self.counted(self.place_of_link(shared, &identity, number).await)?;
            if let Some(seen) = self.link_at(caller, number, &lies).await? {
                return Ok(seen);
            }
            // Else a rename may have overtaken the look, and there and back another.
            if lies.are_names_unchanged() {
                return self.counted(Err(Error::Stale));
            }
        }
        self.counted(Err(self.unsettled(RelPath::ROOT, "looking at a symbolic link")))
    }

    /// Returns where the link of this number lies.
    async fn place_of_link(
        &self,
        shared: &Arc<SharedVolume>,
        identity: &Identity,
        number: Number,
    ) -> Result<Lies, Error> {
        if let Some(place) = shared.in_use_as(number).and_then(|object| object.place()) {
            let directory = place.directory.identity().clone();
            return Ok(Lies { directory, name: place.name, names: DirectoryNames::of(place.directory) });
        }
        let recorded = async || {
            let (shared, file) = (Arc::clone(shared), identity.clone());
            let recorded = offload(None, move || shared.recorded_place(&file)).await;
            recorded.map_err(|_| Error::Overloaded)??.ok_or(Error::Stale)
        };
        let first = recorded().await?;
        let names = shared.objects().in_use_in(shared, &first.directory).and_then(DirectoryNames::of);
        // Again, as its names may have changed before that look at them.
        let Recorded { directory, name } = recorded().await?;
        let names = names.filter(|_| directory == first.directory && name == first.name);
        Ok(Lies { directory, name, names })
    }

    /// Looks at the link; `None` if it is not there.
    async fn link_at(
        &self,
        caller: &Caller,
        number: Number,
        lies: &Lies,
    ) -> Result<Option<(SymbolicLink, Rc<WatchedDir>)>, Error> {
        let Ok(name) = Name::parse(&lies.name) else { return Ok(None) };
        let directory = self.reopen(caller, &lies.directory, Rights::NONE).await?.into_directory()?.0;
        match directory.symbolic_link_seen(caller, name).await {
            Ok(seen) if seen.0.object.number() == number => Ok(Some(seen)),
            Ok(_) | Err(Error::NotFound | Error::NotServable) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Place of a link, as it was known before a look.
struct Lies {
    directory: Identity,
    name: Box<[u8]>,
    /// Names of the directory; `None` where it is not in use, or just being changed.
    names: Option<DirectoryNames>,
}

/// The names of a directory at one moment.
struct DirectoryNames {
    directory: Arc<Object>,
    version: Version,
}

impl DirectoryNames {
    fn of(directory: Arc<Object>) -> Option<Self> {
        let version = directory.version();
        (!directory.is_busy()).then_some(Self { directory, version })
    }
}

impl Lies {
    /// Returns whether what was looked for since then was where it lay, if it was anywhere.
    fn are_names_unchanged(&self) -> bool {
        self.names.as_ref().is_some_and(|names| names.directory.version() == names.version)
    }
}

impl LinkWithCallback {
    /// Returns the link.
    pub fn link(&self) -> &SymbolicLink {
        &self.link
    }

    /// Returns the principal's rights over the link.
    pub fn rights(&self, principal: &Principal) -> Rights {
        let CallbackBasis { volume, directory, .. } = &self.basis;
        let policy = volume.root().policy();
        policy.map_or(Rights::NONE, |policy| {
            directory.rights_of(principal, policy, &self.link.attributes, None)
        })
    }

    /// Returns the number of the directory that it was found in.
    pub fn above(&self) -> Option<Number> {
        self.basis.directory.number_above(&self.link.object)
    }

    /// Confirms the callback ([`LookupWithCallback::confirm`](crate::LookupWithCallback::confirm)).
    pub fn confirm(&self) -> Option<Confirmed<'_>> {
        self.basis.confirm(&self.link.object, &self.link.attributes)
    }

    /// Returns the callback's guard for an in-flight reply
    /// ([`LookupWithCallback::in_flight_reply`](crate::LookupWithCallback::in_flight_reply)).
    pub fn in_flight_reply(&self) -> Option<InFlightReply> {
        self.basis.in_flight_reply()
    }
}

impl std::fmt::Debug for LinkWithCallback {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PromisedLink").field("link", &self.link).finish_non_exhaustive()
    }
}

/// Number of looks at a link that changes all the time; the first may only find which it is.
const ATTEMPTS_MAX: u32 = 16;
/// Number of looks for a link that is renamed all the time.
const LOOKS_MAX: u32 = 16;
