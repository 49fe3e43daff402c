//! Time of the last write, as it is reported: at once, or a while after an open's first write and then at its end. The
//! latter is as from Windows before Server 2019 (MS-FSA 2.1.4.17) and from Samba (`smbd:writetimeupdatedelay`).
//! Programs that rely on it look at the time of the last write by the very open that writes; any other open reports the
//! file's own time.

use std::time::{Duration, Instant};

use crate::attributes::wire_time;
use crate::lane_handle::LaneHandle;
use crate::open::Open;
use crate::share::Share;

/// The last write time that an open reports while its own writes are held back, in 100 ns since 1601.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DelayedWriteTime {
    /// Time of the last write from before the open's first write.
    before: u64,
    /// Time of the open's first write, reported once the delay is over.
    first: u64,
    since: Instant,
}

impl DelayedWriteTime {
    fn told(self, now: Instant, delay: Duration) -> u64 {
        if now.duration_since(self.since) < delay { self.before } else { self.first }
    }
}

impl Share {
    /// Returns the last write time from before an open's first write, where this write is the one that delays it.
    pub(crate) fn before_write(&self, open: &Open, handle: &LaneHandle) -> Option<u64> {
        if self.options().write_time_delay.is_zero() || open.state().late.is_some() {
            return None;
        }
        handle.attributes().ok().map(|now| wire_time(now.mtime))
    }

    /// Notes a write by the open, which tells the time from before its first write.
    pub(crate) fn after_write(&self, open: &Open, handle: &LaneHandle, before: Option<u64>) {
        // Asked of the kernel by those alone that tell it late.
        if let Some(before) = before
            && let Ok(now) = handle.attributes()
        {
            let late = DelayedWriteTime { before, first: wire_time(now.mtime), since: lane::time::now() };
            open.state().late.get_or_insert(late);
        }
    }

    /// Ends the delay, after FLUSH, CLOSE, and whatever sets times or lengths: the open reports the file's own time
    /// until it writes again.
    pub(crate) fn tell_write_time(&self, open: &Open) {
        open.state().late = None;
    }

    /// Returns the time of the last write that this open tells, where it is not the file's.
    pub(crate) fn late_write_time(&self, open: &Open) -> Option<u64> {
        let late = open.state().late?;
        Some(late.told(lane::time::now(), self.options().write_time_delay))
    }
}
