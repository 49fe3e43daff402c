//! Kernel operations under way for a task that does not wait for it any more.

use super::Open;
use crate::error::Error;
use crate::volume::Volume;

impl Open {
    /// Waits until no change of the file is under way that was begun before. Changes of a request that was given up go
    /// on to their end under its change lock, which this takes for a moment.
    ///
    /// # Errors
    /// As those of a change that is not begun: the volume is closed or read-only, or too many wait for the file.
    pub async fn settled(&self, volume: &Volume) -> Result<(), Error> {
        volume.wait_for_change_lock(&self.object).await
    }
}
