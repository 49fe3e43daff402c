//! Changes that somebody else makes behind the server's back: found when notification or a look tells, they get a version like any other
//! change, and who relies on what was changed hears.

use std::rc::Rc;

use super::here::Unmade;
use super::settle::Settling;
use crate::caller::Caller;
use crate::error::Error;
use crate::name::RelPath;
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
        let mut settling = Settling::default();
        let way = loop {
            let permits = self.permits_behind(object).await?;
            if !joined.promises.is_foreign(object, object.version(), &what.attributes_now()?) {
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

    /// Looks whether somebody else has changed what has this name, if clients rely on it.
    pub(crate) async fn look_behind(&self, path: RelPath<'_>) -> Result<(), Error> {
        let Some(joined) = self.cache().joined() else { return Ok(()) };
        let vantage = self.cache().vantage_above(self.root(), self.key(path)).await;
        let (node, stat, _) = self.open_seen(path, vantage).await?;
        let what = self.resolved(&node, stat.into());
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

impl Resolved {
    fn attributes_now(&self) -> Result<crate::attributes::Attributes, Error> {
        match self {
            Self::File(file, _) => Rc::as_ref(file).attributes(),
            Self::Directory(directory, _) => directory.attributes(),
        }
    }
}
