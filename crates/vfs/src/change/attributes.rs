//! Mode, times and owner.

use identity::Rights;
use lane::fs::AttributeChange;

use super::Writer;
use super::here::Unmade;
use super::way::to_the_end;
use crate::caller::Caller;
use crate::directory::Directory;
use crate::error::Error;
use crate::promise::What;

impl Writer {
    /// Sets mode and times, and for administrators owner and group. Set-user-id and set-group-id bits are nobody's to set.
    ///
    /// # Errors
    /// [`Error::Denied`]; [`Error::Busy`]; those of the file system.
    pub async fn set_attributes(&self, caller: &Caller, change: AttributeChange) -> Result<(), Error> {
        let change = self.volume().counted(permitted(caller, change))?;
        self.change(caller, What::Attributes, None, async move |file| {
            file.lane_file().set_attributes(change).await.map_err(Error::of_write)
        })
        .await
    }
}

impl Directory {
    /// As [`Writer::set_attributes`], of the directory: with its mode rights change. Takes [`Rights::ADMINISTER`].
    ///
    /// # Errors
    /// As [`Directory::create`].
    pub async fn set_attributes(&self, caller: &Caller, change: AttributeChange) -> Result<(), Error> {
        self.attempts(async || self.try_set_attributes(caller, change).await).await
    }

    async fn try_set_attributes(&self, caller: &Caller, change: AttributeChange) -> Result<(), Unmade> {
        let change = permitted(caller, change)?;
        let here = self.here().await?;
        here.require(caller, Rights::ADMINISTER)?;
        let permits = here.permit().await?;
        here.still()?;
        let way = self.volume().tell(caller, permits, vec![(here.object()?, What::Rights)]).await?;
        let directory = self.clone();
        to_the_end(way.held(), async move {
            directory.dir().as_file().set_attributes(change).await.map_err(Error::of_write)?;
            way.end(directory.volume());
            Ok(())
        })
        .await
    }
}

fn permitted(caller: &Caller, change: AttributeChange) -> Result<AttributeChange, Error> {
    if (change.uid.is_some() || change.gid.is_some()) && !caller.principal.is_administrator() {
        return Err(Error::Denied(Rights::ADMINISTER));
    }
    Ok(AttributeChange { mode: change.mode.map(|mode| mode & MODE_SETTABLE), ..change })
}

/// Permissions and the sticky bit.
const MODE_SETTABLE: u32 = 0o1777;
