//! Changes that somebody else makes behind the server's back: found when notification or a look tells, they get a version like any other
//! change, and who relies on what was changed hears.

use std::rc::Rc;
use std::sync::Arc;

use lane::fs::Stat;

use super::here::Unmade;
use super::settle::Settling;
use crate::cache::Node;
use crate::caller::Caller;
use crate::error::Error;
use crate::name::RelPath;
use crate::object::{Object, Place};
use crate::promise::What;
use crate::volume::{Resolved, Volume};

impl Volume {
    /// Somebody else has changed this, as a look has shown: it gets its next version, and everybody who relies on it hears, unless
    /// another look has seen to that meanwhile. While a client keeps the permit for its writes, a change is taken for one of those.
    ///
    /// # Errors
    /// [`Error::Busy`]; those of the file system.
    pub(crate) async fn changed_behind(&self, what: &Resolved) -> Result<(), Error> {
        let object = what.object().ok_or(Error::ReadOnly)?;
        let joined = self.cache().joined().ok_or(Error::ReadOnly)?;
        let is_so = || Ok(joined.promises.is_foreign(object, object.version(), &what.attributes_now()?));
        self.raise_behind(object, is_so).await
    }

    /// A file that somebody else has taken away from where it was, or replaced there: who relies on it alone hears, if it is still
    /// recorded there.
    ///
    /// # Errors
    /// As [`Volume::changed_behind`].
    pub(crate) async fn displaced_behind(&self, object: &Arc<Object>, from: &Place) -> Result<(), Error> {
        self.raise_behind(object, || Ok(object.is_placed_at(from))).await
    }

    /// Somebody else may have changed the names of a directory while nobody watched: who relies on them hears.
    ///
    /// # Errors
    /// As [`Volume::changed_behind`].
    pub(crate) async fn changed_unseen(&self, directory: &Arc<Object>) -> Result<(), Error> {
        self.raise_behind(directory, || Ok(true)).await
    }

    /// Gives an object its next version, everybody who relies on it having been told, if that is due under its permit.
    async fn raise_behind(
        &self,
        object: &Arc<Object>,
        is_due: impl Fn() -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let mut settling = Settling::default();
        let way = loop {
            let permits = self.permits_behind(object).await?;
            if !is_due()? {
                return Ok(());
            }
            match self.tell(&Caller::anonymous(), permits, vec![(object, What::Unknown)]).await {
                Ok(way) => break way,
                Err(Unmade::Refused(error)) => return Err(error),
                Err(Unmade::Held(asking)) => settling.wait(self, asking).await?,
                Err(Unmade::Again(_)) => {}
            }
        };
        way.rise();
        self.counters().changes_behind.increment();
        way.end(self);
        Ok(())
    }

    /// Looks whether somebody else has changed what has this name, if clients rely on it. Gives what has the name now, and in which
    /// directory.
    pub(crate) async fn look_behind(&self, path: RelPath<'_>) -> Option<Looked> {
        let vantage = self.cache().vantage_above(self.root(), self.key(path)).await;
        let at = vantage.object().cloned().zip(path.file_name());
        let at = at.map(|(directory, name)| Place { directory, name: name.as_bytes().into() });
        let now = match self.open_seen(path, vantage).await {
            Ok((node, stat, _)) => {
                // What cannot be told is found out at the next look of somebody.
                let _ = self.look_at(&node, &stat).await;
                node.object().cloned()
            }
            Err(Error::NotFound | Error::SymlinkRefused | Error::NotServable) => None,
            Err(_) => return None,
        };
        at.map(|at| Looked { at, now })
    }

    async fn look_at(&self, node: &Node, stat: &Stat) -> Result<(), Error> {
        let Some(joined) = self.cache().joined() else { return Ok(()) };
        let what = self.resolved(node, (*stat).into());
        let Some(object) = what.object() else { return Ok(()) };
        if !joined.promises.is_given(object) || object.is_busy() {
            return Ok(());
        }
        if joined.promises.is_foreign(object, object.version(), &what.attributes_now()?) {
            self.changed_behind(&what).await?;
        }
        Ok(())
    }
}

/// What a look at a name has shown.
pub(crate) struct Looked {
    pub(crate) at: Place,
    pub(crate) now: Option<Arc<Object>>,
}

impl Resolved {
    fn attributes_now(&self) -> Result<crate::attributes::Attributes, Error> {
        match self {
            Self::File(file, _) => Rc::as_ref(file).attributes(),
            Self::Directory(directory, _) => directory.attributes(),
        }
    }
}
