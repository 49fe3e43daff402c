//! Hosts that hold callbacks, as the index records them.

use redb::{ReadableDatabase, ReadableTable};

use super::Index;
use crate::tables::HOSTS;
use crate::{Error, HostRecord};

impl Index {
    /// Records a host, to be flushed ([`Index::flush`]) before the host's first callback.
    ///
    /// # Errors
    /// [`Error::TooLong`] beyond 32 addresses.
    pub fn record_host(&self, uuid: [u8; 16], record: HostRecord) -> Result<(), Error> {
        record.encode()?;
        let mut state = self.shared().state();
        state.pending.hosts.insert(uuid, Some(record));
        state.tell();
        Ok(())
    }

    /// Removes a host that holds no callbacks any more.
    pub fn forget_host(&self, uuid: [u8; 16]) {
        let mut state = self.shared().state();
        state.pending.hosts.insert(uuid, None);
        state.tell();
    }

    /// Returns all hosts. After an unclean stop each is to be reset, or found down, before the first change.
    /// Waits for the disk.
    ///
    /// # Errors
    /// When the file can't be read.
    pub fn hosts(&self) -> Result<Vec<([u8; 16], HostRecord)>, Error> {
        self.flush()?;
        self.shared().with_database(|database| {
            let read = database.begin_read()?;
            let hosts = read.open_table(HOSTS)?;
            let mut all = Vec::new();
            for host in hosts.iter()? {
                let (uuid, record) = host?;
                all.push((*uuid.value(), HostRecord::decode(record.value())?));
            }
            Ok(all)
        })
    }
}
