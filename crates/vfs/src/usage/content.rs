//! Files whose content is being changed: how long each was when the first of its writers began, and how long they may make it.
//!
//! Several writers of one client may be at a file at once. Each takes room for what it may add to what others may already;
//! the last to finish looks how long the file is, and gives back what is too much. Until then all that they took is in use.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard};

use super::{CountedFile, LaneAccount};
use crate::error::Error;
use crate::file::OpenFile;
use crate::volume::Volume;

/// Length that a change leaves of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// The file is extended to this length, if it was shorter.
    To(u64),
    /// The file is extended by this length beyond its end, with no other change of it under way.
    Beyond(u64),
    /// The file is extended to at most this length, if it was shorter.
    Within(u64),
    /// The file has exactly this length.
    Exactly(u64),
    /// The file stays as it was.
    AsItWas,
}

/// The files of one volume whose content is being changed, in shards that no two lanes often meet at.
#[derive(Default)]
pub(super) struct Contents([Mutex<HashMap<u64, Content>>; SHARDS]);

/// A counted change of one file's content.
struct Content {
    /// The file as it is counted.
    known: CountedFile,
    /// Length for which room is taken.
    reach: u64,
    writers: u32,
    /// Set if more than one writer was at it.
    was_shared: bool,
}

/// One change of a content under way.
pub(crate) struct ContentChange {
    of: Rc<LaneAccount>,
    file: Rc<OpenFile>,
    inode: u64,
    reach: Reach,
}

impl ContentChange {
    /// Takes room for what a change of `file`, which only the sharers of its change lock change, may add;
    /// `None` where usage is not counted.
    ///
    /// # Errors
    /// [`Error::Quota`]; those of looking at the file.
    pub(crate) fn begin(volume: &Volume, file: &Rc<OpenFile>, reach: Reach) -> Result<Option<Self>, Error> {
        let Some(of) = volume.account() else { return Ok(None) };
        let inode = file.id().ino;
        {
            let mut contents = of.account.contents.shard(inode);
            if let Some(content) = contents.get_mut(&inode) {
                let end = reach.from(content.reach);
                if !of.take_to(content.reach, end) {
                    return Err(Error::Quota);
                }
                content.reach = content.reach.max(end);
                content.writers += 1;
                content.was_shared = true;
            } else {
                let known = CountedFile::from(file.attributes()?);
                let end = reach.from(known.size);
                if !of.take_to(known.size, end) {
                    return Err(Error::Quota);
                }
                of.account.unless_counted((), |count| count.begin_content(known));
                let reach = known.size.max(end);
                contents.insert(inode, Content { known, reach, writers: 1, was_shared: false });
            }
        }
        Ok(Some(Self { of, file: Rc::clone(file), inode, reach }))
    }

    /// Ends the change. The last of those at the file says what they have come to.
    pub(crate) fn end(self, is_done: bool) {
        let account = &self.of.account;
        let mut contents = account.contents.shard(self.inode);
        let content = contents.get_mut(&self.inode).expect("it is there while it is written to");
        debug_assert!(content.writers > 0, "a writer that ends has begun");
        content.writers -= 1;
        if content.writers > 0 {
            return;
        }
        let content = contents.remove(&self.inode).expect("it was there just now");
        let size = if is_done && !content.was_shared && !matches!(self.reach, Reach::Within(_)) {
            self.reach.from(content.known.size)
        } else {
            match self.file.attributes() {
                Ok(attributes) => attributes.size,
                Err(_) => {
                    account.mark_uncertain();
                    content.known.size
                }
            }
        };
        self.of.settle(&content, size);
    }
}

impl LaneAccount {
    fn settle(&self, content: &Content, size: u64) {
        let Content { known, reach, .. } = *content;
        let is_counted = self.account.unless_counted(known.links > 0, |count| {
            count.end_content(known, size);
            false
        });
        let taken = reach - known.size;
        if !is_counted {
            return self.give_back(0, taken);
        }
        let grown = size.saturating_sub(known.size);
        self.give_back(0, taken.saturating_sub(grown) + known.size.saturating_sub(size));
        // Longer than it was to be: another program writes to it.
        self.account.add(0, grown.saturating_sub(taken));
    }
}

impl Reach {
    /// Returns how long a file of `size` bytes is then, at most.
    fn from(self, size: u64) -> u64 {
        match self {
            Self::To(end) | Self::Within(end) => size.max(end),
            Self::Beyond(len) => size.saturating_add(len),
            Self::Exactly(len) => len,
            Self::AsItWas => size,
        }
    }
}

impl Contents {
    fn shard(&self, inode: u64) -> MutexGuard<'_, HashMap<u64, Content>> {
        let shard = usize::try_from(inode % SHARDS as u64).expect("there are few");
        self.0[shard].lock().expect("nobody panics while holding it")
    }
}

const SHARDS: usize = 32;
