//! Look-ups for clients that cache: a reply goes out only with a callback that is still valid.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use coherence::{CallbackRef, InFlightReply};
use futures_util::future::LocalBoxFuture;
use identity::{Principal, Rights};
use index::{Number, Version};

use super::Client;
use super::basis::CallbackBasis;
use super::observation::judge;
use crate::attributes::Attributes;
use crate::by_number::rights_there;
use crate::cache::{CoherencePeer, Node, WatchedDir};
use crate::caller::Caller;
use crate::error::Error;
use crate::guarded::LookupResult;
use crate::name::RelPath;
use crate::object::{LookMark, Object};
use crate::volume::{Resolved, Volume};

/// A file or directory looked up under a callback of a client. What is read now may be sent to the client if
/// [`LookupWithCallback::confirm`] says so when the reply is encoded; else the look-up is to be repeated.
pub struct LookupWithCallback {
    /// Result of the look-up; it has an object.
    resolved: Resolved,
    basis: CallbackBasis,
}

/// A look that the client may cache: its callback was valid when the reply was encoded.
#[derive(Debug)]
pub struct Confirmed<'a> {
    /// Version of the content, or of the names.
    pub version: Version,
    /// The attributes as they were at the look, and still are.
    pub attributes: &'a Attributes,
    /// End of the time in which the client is notified of every change. Give the client an earlier one: this one is
    /// the server's to keep.
    pub until: Instant,
}

impl Volume {
    /// Looks `path` up as [`Volume::lookup_as`] does, and gives `client` a callback on it until `until`. Waits until a
    /// change that is under way is over.
    ///
    /// # Errors
    /// As [`Volume::lookup_as`]; [`Error::ReadOnly`] on a volume [without objects](crate::VolumeSpec::with_objects);
    /// [`Error::Unsettled`] when it changes again and again; [`Error::Busy`] where there is no room for a callback.
    pub fn lookup_with_callback<'a>(
        &'a self,
        caller: &'a Caller,
        client: &'a Arc<Client>,
        path: RelPath<'a>,
        need: Rights,
        until: Instant,
    ) -> LocalBoxFuture<'a, Result<LookupWithCallback, Error>> {
        Box::pin(async move {
            let peer = self.coherence_peer()?;
            let mut known = self.cache().peek(self.key(path));
            for _ in 0..ATTEMPTS_MAX {
                // The promise first, then the look.
                let callback = match known.as_ref().and_then(Node::object) {
                    Some(object) => {
                        let callback_ref =
                            self.counted(peer.give(client, object, until).map_err(|_| Error::Busy))?;
                        self.wait_until_unchanging(object).await?;
                        Some(CallbackBeforeLook {
                            volume: self,
                            object,
                            callback_ref,
                            mark: object.look_mark(),
                            until,
                        })
                    }
                    None => None,
                };
                let LookupResult { resolved, directory, .. } = self.look_as(caller, path, need).await?;
                let now = resolved.to_node();
                if let Some(before) = callback
                    && before.is_of(&resolved)
                {
                    self.watch_by_all_names(&resolved);
                    let promised = before.into_lookup(resolved, directory);
                    let is_it = promised.stands(peer);
                    if is_it && !self.looked(&promised.resolved, promised.basis.mark).await? {
                        return Ok(promised);
                    }
                }
                known = Some(now);
            }
            self.counted(Err(self.unsettled(path, "looking up a name for a client that caches it")))
        })
    }

    /// Looks up a path with a callback where nothing has to be waited for, else `None`
    /// ([`Volume::lookup_with_callback`]). It is for objects that a client did not ask for but gets with
    /// another reply.
    pub fn try_lookup_with_callback(
        &self,
        caller: &Caller,
        client: &Arc<Client>,
        path: RelPath<'_>,
        need: Rights,
        until: Instant,
    ) -> Option<Result<LookupWithCallback, Error>> {
        let peer = self.coherence_peer().ok()?;
        let node = self.cache().peek(self.key(path))?;
        let object = node.object()?;
        let callback_ref = peer.give(client, object, until).ok()?;
        if object.is_changing() && !object.change_lock().reclaim() {
            return None;
        }
        let before =
            CallbackBeforeLook { volume: self, object, callback_ref, mark: object.look_mark(), until };
        let mut seen = self.try_seen(caller, path, need)?;
        if seen.as_ref().is_ok_and(|(resolved, _)| self.watch_by_all_names(resolved)) {
            seen = self.try_seen(caller, path, need)?;
        }
        let (resolved, directory) = match seen {
            Ok(seen) => seen,
            Err(error) => return Some(self.counted(Err(error))),
        };
        if !before.is_of(&resolved) {
            return None;
        }
        let promised = before.into_lookup(resolved, directory);
        let judged = || judge(&peer.callbacks, promised.object(), promised.basis.mark, promised.attributes());
        (promised.stands(peer) && !judged().is_foreign()).then_some(Ok(promised))
    }

    /// Waits until no change of the object is under way, and reclaims a change lock that is only kept for further
    /// writes.
    pub(crate) async fn wait_until_unchanging(&self, object: &Arc<Object>) -> Result<(), Error> {
        if object.is_changing() && !object.change_lock().reclaim() {
            self.counters().replies_waited.increment();
            self.wait_for(object).await?;
        }
        Ok(())
    }

    pub(super) fn coherence_peer(&self) -> Result<&Rc<CoherencePeer>, Error> {
        self.cache().peer_rc().filter(|_| self.has_objects()).ok_or(Error::ReadOnly)
    }
}

/// A callback on an object and the mark of a look at it, both from before the look.
struct CallbackBeforeLook<'a> {
    volume: &'a Volume,
    object: &'a Arc<Object>,
    callback_ref: CallbackRef,
    mark: LookMark,
    until: Instant,
}

impl CallbackBeforeLook<'_> {
    /// Returns whether that is what the look has found.
    fn is_of(&self, resolved: &Resolved) -> bool {
        resolved.object().is_some_and(|now| Arc::ptr_eq(now, self.object))
    }

    fn into_lookup(self, resolved: Resolved, directory: Rc<WatchedDir>) -> LookupWithCallback {
        let Self { volume, callback_ref, mark, until, .. } = self;
        let basis = CallbackBasis { volume: volume.clone(), mark, callback_ref, directory, until };
        LookupWithCallback { resolved, basis }
    }
}

impl LookupWithCallback {
    /// Returns what is looked at, to read what else the reply needs.
    pub fn resolved(&self) -> &Resolved {
        &self.resolved
    }

    /// Returns the principal's rights over the file, or in it if it is a directory: as it was at the look,
    /// and is if that is confirmed.
    pub fn rights(&self, principal: &Principal) -> Rights {
        let CallbackBasis { volume, directory, .. } = &self.basis;
        rights_there(volume, directory, &self.resolved, principal)
    }

    /// Returns the number of the directory that it was found in; `None` for a volume's own.
    pub fn above(&self) -> Option<Number> {
        self.basis.directory.number_above(self.object())
    }

    /// Confirms that all that was read since the look is of one version, on which the client may rely; to be asked
    /// when the reply is encoded. Returns `None` if it was changed, or rights were, and has to be looked at anew. From
    /// here on the client counts as having the callback.
    pub fn confirm(&self) -> Option<Confirmed<'_>> {
        self.basis.confirm(self.object(), self.resolved.attributes())
    }

    /// Holds the break of this callback back until a confirmed reply is delivered. A client that gets replies and
    /// breaks by different ways would else keep a callback that is over.
    pub fn in_flight_reply(&self) -> Option<InFlightReply> {
        self.basis.in_flight_reply()
    }

    fn object(&self) -> &Arc<Object> {
        self.resolved.object().expect("what is promised has one")
    }

    fn attributes(&self) -> &Attributes {
        self.resolved.attributes()
    }

    fn stands(&self, peer: &CoherencePeer) -> bool {
        self.basis.holds(self.object(), peer)
    }
}

impl std::fmt::Debug for LookupWithCallback {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Promised").field("object", self.object()).finish_non_exhaustive()
    }
}

/// Number of looks at an object that changes all the time.
const ATTEMPTS_MAX: u32 = 64;
