//! Enumerating calls (MS-SRVS 3.1.4, MS-WKST 3.2.4): a level, a container with as many entries as there are,
//! how many in all, and where to go on.

use crate::ndr::{Reader, Writer};
use crate::pdu::Fault;

/// Statuses of these interfaces (MS-ERREF 2.2).
pub(crate) mod error {
    pub(crate) const SUCCESS: u32 = 0;
    pub(crate) const ACCESS_DENIED: u32 = 5;
    pub(crate) const INVALID_LEVEL: u32 = 124;
    /// `NERR_NetNameNotFound`.
    pub(crate) const NO_SUCH_SHARE: u32 = 2310;
}

/// Parameters of an enumerating call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) level: u32,
    /// Entries that the client has; `None` if it does not want to go on later.
    pub(crate) resume: Option<u32>,
}

impl Asked {
    /// Reads it, behind whatever the call has in front.
    pub(crate) fn read(read: &mut Reader<'_>) -> Result<Self, Fault> {
        let mut inner = || {
            let (level, arm) = (read.u32()?, read.u32()?);
            // A container goes in empty.
            let is_empty = !read.pointer()? || (read.u32()? == 0 && !read.pointer()?);
            let _preferred_len = read.u32()?;
            let resume = read.pointer()?.then(|| read.u32()).transpose()?;
            (level == arm && is_empty).then_some(Self { level, resume }).ok_or(crate::ndr::BadStub)
        };
        Ok(inner()?)
    }

    /// Answers with `entries` of `total`: `fixed` writes the fixed part of an entry, `texts` what its pointers point at.
    pub(crate) fn answer<T: Copy>(
        &self,
        out: &mut Writer,
        entries: impl Iterator<Item = T> + Clone,
        fixed: impl Fn(&mut Writer, T),
        texts: impl Fn(&mut Writer, T),
    ) {
        let total = entries.clone().count();
        let entries = entries.skip(self.resume.unwrap_or(0) as usize);
        let count = entries.clone().count();
        out.u32(self.level);
        out.u32(self.level);
        out.pointer();
        out.count(count);
        if count == 0 {
            out.null();
        } else {
            out.pointer();
            out.count(count);
            entries.clone().for_each(|entry| fixed(out, entry));
            entries.for_each(|entry| texts(out, entry));
        }
        self.end(out, total, error::SUCCESS);
    }

    /// Answers that it cannot be.
    pub(crate) fn refuse(&self, out: &mut Writer, error: u32) {
        out.u32(self.level);
        out.u32(self.level);
        out.null();
        self.end(out, 0, error);
    }

    fn end(&self, out: &mut Writer, total: usize, error: u32) {
        out.count(total);
        match self.resume {
            // All entries have been reported.
            Some(_) => {
                out.pointer();
                out.u32(0);
            }
            None => out.null(),
        }
        out.u32(error);
    }
}
