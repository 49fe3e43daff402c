//! What a client that caches is told of a file: never without a promise, and never with one that was broken meanwhile.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use futures_util::future::LocalBoxFuture;
use identity::{Principal, Rights};
use index::{Number, Version};

use super::standing::Standing;
use super::{Client, OnItsWay, Ticket};
use crate::attributes::Attributes;
use crate::by_number::rights_there;
use crate::cache::{Joined, Node, WatchedDir};
use crate::caller::Caller;
use crate::error::Error;
use crate::guarded::Looked;
use crate::name::RelPath;
use crate::object::{LookMark, Object};
use crate::volume::{Resolved, Volume};

/// A look at a file or directory under a promise to a client. What is read now may be told to the client if
/// [`Promised::confirm`] says so when the reply is encoded; else the look is to be made anew.
pub struct Promised {
    /// It has an object.
    resolved: Resolved,
    standing: Standing,
}

/// A look that the client may rely on.
#[derive(Debug)]
pub struct Confirmed<'a> {
    /// What the content, or the names, have come to.
    pub version: Version,
    /// As they were at the look, and are.
    pub attributes: &'a Attributes,
    /// The client is told of every change before this moment. It is the server's to keep: tell the client less.
    pub until: Instant,
}

impl Volume {
    /// What `path` names, as [`Volume::lookup_as`], with the promise to tell `client` before it changes, if that is before `until`. Waits
    /// until a change that is under way is over.
    ///
    /// # Errors
    /// As [`Volume::lookup_as`]; [`Error::ReadOnly`] on a volume [without objects](crate::VolumeSpec::with_objects);
    /// [`Error::Busy`] when it changes again and again, or there is no room for a promise.
    pub fn promised<'a>(
        &'a self,
        caller: &'a Caller,
        client: &'a Arc<Client>,
        path: RelPath<'a>,
        need: Rights,
        until: Instant,
    ) -> LocalBoxFuture<'a, Result<Promised, Error>> {
        Box::pin(async move {
            let joined = self.joined_promises()?;
            let mut known = self.cache().peek(self.key(path));
            for _ in 0..ATTEMPTS_MAX {
                // The promise first, then the look.
                let promise = match known.as_ref().and_then(Node::object) {
                    Some(object) => {
                        let ticket =
                            self.counted(joined.give(client, object, until).map_err(|_| Error::Busy))?;
                        self.rest(object).await?;
                        Some(Before { volume: self, object, ticket, mark: object.look_mark(), until })
                    }
                    None => None,
                };
                let Looked { resolved, directory, .. } = self.look_as(caller, path, need).await?;
                let now = resolved.to_node();
                if let Some(before) = promise
                    && before.is_of(&resolved)
                {
                    self.watch_by_all_names(&resolved);
                    let promised = before.promised(resolved, directory);
                    let is_it = promised.stands(joined);
                    if is_it && !self.looked(&promised.resolved, promised.standing.mark).await? {
                        return Ok(promised);
                    }
                }
                known = Some(now);
            }
            self.counted(Err(Error::Busy))
        })
    }

    /// As [`Volume::promised`] if all is at hand and nothing changes: never waits. For what a client did not ask for by itself, but
    /// gets along with something else; where it is `None`, it gets that without a promise or not at all.
    pub fn try_promised(
        &self,
        caller: &Caller,
        client: &Arc<Client>,
        path: RelPath<'_>,
        need: Rights,
        until: Instant,
    ) -> Option<Result<Promised, Error>> {
        let joined = self.joined_promises().ok()?;
        let node = self.cache().peek(self.key(path))?;
        let object = node.object()?;
        let ticket = joined.give(client, object, until).ok()?;
        if object.is_changing() && !object.line().take_back() {
            return None;
        }
        let before = Before { volume: self, object, ticket, mark: object.look_mark(), until };
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
        let promised = before.promised(resolved, directory);
        let judged =
            || joined.promises.judge(promised.object(), promised.standing.mark, promised.attributes());
        (promised.stands(joined) && !judged().is_foreign()).then_some(Ok(promised))
    }

    /// Waits until nobody changes an object, and has who keeps its permit for his next write ask for it anew.
    pub(crate) async fn rest(&self, object: &Arc<Object>) -> Result<(), Error> {
        if object.is_changing() && !object.line().take_back() {
            self.counters().replies_waited.increment();
            self.wait_for(object).await?;
        }
        Ok(())
    }

    pub(super) fn joined_promises(&self) -> Result<&Rc<Joined>, Error> {
        self.cache().joined_rc().filter(|_| self.has_objects()).ok_or(Error::ReadOnly)
    }
}

/// A promise of an object, and the mark of a look at it, from before the look.
struct Before<'a> {
    volume: &'a Volume,
    object: &'a Arc<Object>,
    ticket: Ticket,
    mark: LookMark,
    until: Instant,
}

impl Before<'_> {
    /// Whether that is what the look has found.
    fn is_of(&self, resolved: &Resolved) -> bool {
        resolved.object().is_some_and(|now| Arc::ptr_eq(now, self.object))
    }

    fn promised(self, resolved: Resolved, directory: Rc<WatchedDir>) -> Promised {
        let Self { volume, ticket, mark, until, .. } = self;
        let standing = Standing { volume: volume.clone(), mark, ticket, directory, until };
        Promised { resolved, standing }
    }
}

impl Promised {
    /// What is looked at, to read what else the reply needs.
    pub fn resolved(&self) -> &Resolved {
        &self.resolved
    }

    /// What somebody may do with it, or in it if it is a directory: as it was at the look, and is if that is confirmed.
    pub fn rights(&self, who: &Principal) -> Rights {
        let Standing { volume, directory, .. } = &self.standing;
        rights_there(volume, directory, &self.resolved, who)
    }

    /// The number of the directory that it was found in; `None` for a volume's own.
    pub fn above(&self) -> Option<Number> {
        self.standing.directory.number_above(self.object())
    }

    /// Says whether all that was read since the look is of one version, which the client may rely on; to be asked when the reply is
    /// encoded. `None`: it was changed, or rights were, and has to be looked at anew. From here on the client counts as having the promise.
    pub fn confirm(&self) -> Option<Confirmed<'_>> {
        self.standing.confirm(self.object(), self.resolved.attributes())
    }

    /// For a confirmed reply: keeps back what the client would have to hear of the end of this promise until it has the reply. A
    /// client that takes replies and breaks on different ways would else keep a promise that is over.
    pub fn on_its_way(&self) -> Option<OnItsWay> {
        self.standing.on_its_way()
    }

    fn object(&self) -> &Arc<Object> {
        self.resolved.object().expect("what is promised has one")
    }

    fn attributes(&self) -> &Attributes {
        self.resolved.attributes()
    }

    fn stands(&self, joined: &Joined) -> bool {
        self.standing.holds(self.object(), joined)
    }
}

impl std::fmt::Debug for Promised {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Promised").field("object", self.object()).finish_non_exhaustive()
    }
}

/// Looks at something that changes all the time.
const ATTEMPTS_MAX: u32 = 64;
