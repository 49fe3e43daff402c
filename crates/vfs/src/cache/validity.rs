//! Validity of what a lane has learnt from the file system.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use coherence::PresenceToken;
use lane::time;

use super::watches::WatchedDir;
use crate::object::Object;

/// Time when and under which watch something was learnt from the file system. It is taken before the look, so
/// that a change during the look counts as one after it.
#[derive(Clone)]
pub(crate) struct Validity {
    at: Instant,
    watched: Option<Rc<WatchedDir>>,
    changes: u64,
    /// Changes of names that came or went alone; part of `changes`.
    renames: u64,
    /// Validities that it also rests on: of symbolic links on the way, and of the place that they lead to.
    depends_on: Option<Rc<[Validity]>>,
    /// Set if a change was under way: what was seen is not kept.
    is_doubtful: bool,
    /// Object whose change keeps a watch from vouching before it is over.
    blocking_change: Option<Arc<Object>>,
    /// A change of the name that is looked at, where its directory is watched, asks this lane; without it
    /// nothing is kept.
    presence: Option<PresenceToken>,
}

impl Validity {
    /// Makes the validity of a look in a watched directory, at one name if there is a `presence`, which was made
    /// before.
    pub(super) fn of(watched: Rc<WatchedDir>, presence: Option<PresenceToken>) -> Self {
        let (changes, renames) = (watched.changes(), watched.renames());
        let is_doubtful = watched.is_changing();
        let (at, watched) = (time::now(), Some(watched));
        Self { at, watched, changes, renames, depends_on: None, is_doubtful, blocking_change: None, presence }
    }

    /// Makes a validity without a watch: what is learnt under it is valid for the time to live only.
    pub(crate) fn unwatched() -> Self {
        Self::blocked_by(None)
    }

    /// Makes a validity without a watch, because no watch can vouch before `blocking_change` is over.
    pub(super) fn blocked_by(blocking_change: Option<Arc<Object>>) -> Self {
        Self {
            at: time::now(),
            watched: None,
            changes: 0,
            renames: 0,
            depends_on: None,
            is_doubtful: false,
            blocking_change,
            presence: None,
        }
    }

    /// Makes the validity depend also, as far as the answer rests on what was seen from these; without a
    /// watch where one of them has none.
    pub(crate) fn depending_on(self, all: &[Validity]) -> Self {
        if !self.is_watched() {
            return self;
        }
        let at = self.at;
        let before = self.depends_on.iter().flat_map(|before| before.iter());
        let depends_on = before.chain(all).cloned().collect::<Vec<_>>();
        match Self::of_all(&depends_on).depends_on {
            Some(depends_on) => Self { depends_on: Some(depends_on), ..self },
            None => Self { at, ..Self::unwatched() },
        }
    }

    /// Makes a validity that rests on these alone: it holds for as long as no name comes or goes where they look.
    pub(crate) fn of_all(all: &[Validity]) -> Self {
        let here = Self::unwatched();
        let at = all.iter().map(|one| one.at).min().unwrap_or(here.at);
        let depends_on = all.iter().all(Self::is_watched).then(|| all.into());
        Self { at, depends_on, ..here }
    }

    /// Returns whether an answer about one name is still good: events drop such answers by name, so only its
    /// age and upper directories that moved speak against it.
    pub(crate) fn holds_for_name(&self, ttl: Duration) -> bool {
        self.is_current() && self.age() < ttl && self.links_hold()
    }

    /// Returns whether no name came or went where the symbolic links on the way and their targets were seen.
    fn links_hold(&self) -> bool {
        self.depends_on.as_ref().is_none_or(|all| all.iter().all(Self::names_hold))
    }

    fn names_hold(&self) -> bool {
        let is_same = |watched: &Rc<WatchedDir>| watched.renames() == self.renames;
        !self.is_doubtful
            && self.is_current()
            && self.watched.as_ref().is_none_or(is_same)
            && self.links_hold()
    }

    /// Returns whether what was seen of the name that it looks at may be kept.
    pub(crate) fn keeps(&self, ttl: Duration) -> bool {
        (self.presence.is_some() || !self.is_coherent()) && self.holds_for_all(ttl)
    }

    /// Adds the presence of the lane for the name that is looked at; the lane was counted in before the look.
    pub(crate) fn with_presence(self, presence: Option<PresenceToken>) -> Self {
        Self { presence, ..self }
    }

    /// Makes the validity of what this lane has put there itself, for which it was counted in before. Any later holder
    /// of the change lock asks this lane, so a change that is under way by then makes nothing doubtful. In a directory
    /// that many change, some change is always under way.
    pub(crate) fn of_own_change(self, presence: Option<PresenceToken>) -> Self {
        Self { is_doubtful: false, ..self.with_presence(presence) }
    }

    /// Counts the lane in for one name in the directory.
    pub(crate) fn count_in(&self, name: &[u8]) -> Option<PresenceToken> {
        self.watched.as_ref()?.count_in(name)
    }

    /// Returns whether nothing at all has changed in the directory since, as far as this lane was notified.
    pub(crate) fn holds_for_all(&self, ttl: Duration) -> bool {
        !self.is_doubtful
            && self.holds_for_name(ttl)
            && self.watched.as_ref().is_none_or(|watched| watched.changes() == self.changes)
    }

    /// Returns the time since the look.
    pub(crate) fn age(&self) -> Duration {
        time::now().saturating_duration_since(self.at)
    }

    /// Returns whether all changes are reported, rather than found when the time to live is over.
    pub(crate) fn is_watched(&self) -> bool {
        match (&self.watched, &self.depends_on) {
            (Some(watched), _) => watched.is_watched(),
            (None, Some(all)) => all.iter().all(Self::is_watched),
            (None, None) => false,
        }
    }

    /// Returns whether the lane is a sharer of the directory: what is seen shows the changes that this server
    /// makes.
    pub(crate) fn is_coherent(&self) -> bool {
        self.object().is_some()
    }

    /// Returns the object of the directory that was looked into, if the lane is a sharer of it.
    pub(crate) fn object(&self) -> Option<&Arc<Object>> {
        self.watched.as_ref()?.object()
    }

    /// Returns the change that has to end before the lane can be a sharer.
    pub(crate) fn blocking_change(&self) -> Option<&Arc<Object>> {
        self.blocking_change.as_ref()
    }

    /// Returns the directory that it looks into.
    pub(crate) fn watched(&self) -> Option<&Rc<WatchedDir>> {
        self.watched.as_ref()
    }

    /// Returns whether that is still where it was.
    pub(crate) fn is_current(&self) -> bool {
        self.watched.as_ref().is_none_or(|watched| watched.is_current())
    }
}
