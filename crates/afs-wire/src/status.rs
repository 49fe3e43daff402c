//! Numbers of a status whose halves lie in two words.

use crate::Status;

impl Status {
    /// Returns the data version, whose halves lie apart: older servers and clients know the lower one alone.
    pub fn data_version(&self) -> u64 {
        u64::from(self.data_version_high) << 32 | u64::from(self.data_version_low)
    }
}
