//! Procedures that take no look at a file: GetTime (153), GetRootVolume (151), CheckToken (152), FlushCPS
//! (162).

use std::time::UNIX_EPOCH;

use afs_wire::code::ENOENT;
use afs_wire::rxafs::{FlushCPS, GetRootVolume, GetTime};

use super::call_context::Reply;
use super::{CallFailure, ServedCall};

impl ServedCall {
    pub(super) fn time(&self) -> Reply<GetTime> {
        let since = lane::time::wall_clock().duration_since(UNIX_EPOCH).unwrap_or_default();
        Reply::<GetTime> { seconds: since.as_secs() as u32, microseconds: since.subsec_micros() }
    }

    /// Returns the volume at which clients begin that make no root of their own.
    pub(super) fn root_volume(&self) -> Result<Reply<GetRootVolume>, CallFailure> {
        let attached = self.server.inner.attached.borrow();
        let (root, _) = attached.located_by_name(b"root.afs").ok_or(ENOENT)?;
        Ok(Reply::<GetRootVolume> { name: root.name.as_bytes().to_vec().into() })
    }

    /// Groups are looked up anew when accounts change: there is nothing to be forgotten.
    pub(super) fn flush_groups(&self) -> Reply<FlushCPS> {
        Reply::<FlushCPS> { spare2: 0, spare3: 0 }
    }
}
