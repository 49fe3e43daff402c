//! Maker of a file or directory, where a server of root could not give the file to it: anonymous, or a user
//! without a uid. It belongs to the server's user then, and mode bits alone would keep the maker out. The
//! record lies in an attribute that takes a privilege to write.
//!
//! ```text
//!  byte  0     1           2               6              10
//!       +-----+-----------+---------------+--------------+
//!       | 'M' | version 1 | uid, 32 bits  | AFS number   |   big-endian
//!       +-----+-----------+---------------+--------------+
//! ```
//!
//! It counts for as long as the file has the uid that it had then: giving the file to another user takes the
//! record away.

use std::ffi::{CStr, CString};
use std::io;
use std::sync::atomic::Ordering;

use identity::{Id, Principal};
use lane::fs::{File, XattrHow};

use crate::object::Object;
use crate::rights_storage::remove;

/// Attribute that holds the record.
pub(crate) const ATTRIBUTE: &CStr = c"trusted.linerate.maker";

/// The recorded maker of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Maker {
    /// The file's owner at that time.
    uid: u32,
    id: Id,
}

impl Maker {
    /// Length of a record.
    pub(crate) const BYTES: usize = 10;

    /// Makes the record of what this user makes; `None` for the operator of this machine, whose files are the server's
    /// own.
    pub(crate) fn of(principal: &Principal, server: u32) -> Option<Self> {
        (!principal.is_local_administrator()).then(|| Self { uid: server, id: principal.id() })
    }

    /// Reads a record; `None` for one that is damaged or of a later version.
    pub(crate) fn parse(record: &[u8]) -> Option<Self> {
        let (head, rest) = record.split_first_chunk()?;
        let (uid, id) = rest.split_first_chunk()?;
        let id = i32::from_be_bytes(id.try_into().ok()?);
        (*head == HEAD && id > 0).then(|| Self { uid: u32::from_be_bytes(*uid), id: Id(id) })
    }

    fn encode(self) -> Vec<u8> {
        [&HEAD[..], &self.uid.to_be_bytes(), &self.id.0.to_be_bytes()].concat()
    }

    /// Records it with an open file or directory.
    ///
    /// # Errors
    /// Those of the file system: it counts as having no maker then.
    pub(crate) async fn record(self, file: &File) -> io::Result<()> {
        file.set_xattr(&CString::from(ATTRIBUTE), self.encode(), XattrHow::Any).await
    }
}

impl Object {
    /// Returns the maker's AFS number, if that is recorded, and it is still the server's that has this `uid`.
    pub(crate) fn maker(&self, uid: u32) -> Option<Id> {
        let id = self.maker.load(Ordering::Acquire);
        (id != 0 && uid == self.servers_uid()).then_some(Id(id))
    }

    fn servers_uid(&self) -> u32 {
        self.volume().objects().options().user
    }

    /// Sets the maker; `None` where it is not recorded.
    pub(crate) fn set_maker(&self, maker: Option<Maker>) {
        let _side = self.lock_state();
        self.own_changes.fetch_add(1, Ordering::AcqRel);
        self.put_maker(maker);
    }

    /// Removes the record of the maker.
    ///
    /// # Errors
    /// Those of the file system: it counts still then.
    pub(crate) async fn forget_maker(&self, file: &File) -> io::Result<()> {
        if self.maker.load(Ordering::Acquire) != 0 {
            remove(file, ATTRIBUTE).await?;
            self.set_maker(None);
        }
        Ok(())
    }

    /// Sets the maker that was read while nothing of the file changed.
    pub(crate) fn put_maker(&self, maker: Option<Maker>) {
        let counts = maker.filter(|maker| maker.uid == self.servers_uid());
        self.maker.store(counts.map_or(0, |maker| maker.id.0), Ordering::Release);
    }
}

const HEAD: [u8; 2] = *b"M\x01";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written_and_no_other() {
        let maker = Maker { uid: 7, id: Id::ANONYMOUS };
        let record = maker.encode();
        assert_eq!(Maker::parse(&record), Some(maker));
        assert_eq!(Maker::parse(&record[..9]), None);
        assert_eq!(Maker::parse(&[&record[..], b"x"].concat()), None);
        for (at, byte) in [(0, b'L'), (1, 2), (6, 0xff)] {
            let mut other = record.clone();
            other[at] = byte;
            assert_eq!(Maker::parse(&other), None, "byte {at}");
        }
        let nobody = Maker { uid: 7, id: Id(0) };
        assert_eq!(Maker::parse(&nobody.encode()), None);
    }
}
