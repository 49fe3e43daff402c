//! Charge of a change to a volume's room, taken before it is made and settled when it is over.

use std::rc::Rc;
use std::sync::Arc;

use lane::fs::FileKind;

use super::{CountedFile, LaneAccount, MovedUsage};
use crate::attributes::Attributes;
use crate::error::Error;
use crate::file::OpenFile;
use crate::object::Object;
use crate::volume::Volume;

/// Room that is taken, and given back unless it is kept.
#[must_use]
pub(crate) struct Charge {
    /// Account of the charge; `None` where usage is not counted.
    of: Option<Rc<LaneAccount>>,
    files: u64,
    bytes: u64,
}

impl Volume {
    /// Returns the account of the volume's usage, where one is kept. It stays the same as long as a change is inside
    /// the gate.
    pub(crate) fn account(&self) -> Option<Rc<LaneAccount>> {
        self.root().account(|| Some(self.cache().peer()?.member().index()))
    }

    /// Returns whether what a change does has to be known.
    pub(crate) fn is_accounted(&self) -> bool {
        self.account().is_some()
    }

    /// Takes room for what a change adds.
    ///
    /// # Errors
    /// [`Error::Quota`].
    pub(crate) fn charge(&self, files: u64, bytes: u64) -> Result<Charge, Error> {
        let of = self.account();
        if of.as_ref().is_some_and(|of| !of.take(files, bytes)) {
            return Err(Error::Quota);
        }
        Ok(Charge { of, files, bytes })
    }

    /// Checks whether there is room for one more file of so many bytes beside all that is there, as far as is
    /// known; nothing is taken. For a service that would refuse an upload before it comes.
    ///
    /// # Errors
    /// [`Error::Quota`].
    pub fn fits(&self, bytes: u64) -> Result<(), Error> {
        // The room is gone again at once: a client that announces much takes nothing from others.
        self.counted(self.charge(1, bytes).map(drop))
    }

    /// Checks whether there is room for `file` to become `len` bytes long, as far as is known; nothing is
    /// taken.
    ///
    /// # Errors
    /// [`Error::Quota`]; those of looking at the file.
    pub(crate) fn has_room(&self, file: &OpenFile, len: u64) -> Result<(), Error> {
        let Some(of) = self.account() else { return Ok(()) };
        let size = file.attributes()?.size;
        if !of.take_to(size, len) {
            return Err(Error::Quota);
        }
        of.give_back(0, len.saturating_sub(size));
        Ok(())
    }

    /// Notes that a name of something that is no directory is gone.
    pub(crate) fn note_removed(&self, directory: &Arc<Object>, file: Option<CountedFile>) {
        let (Some(of), Some(file)) = (self.account(), file) else { return };
        let counted = (file.links <= 1).then_some(file.size + file.attributes);
        if let Some(bytes) = of.account.unless_counted(counted, |count| count.removed(directory, file)) {
            of.give_back(1, bytes);
        }
    }

    /// Notes that an empty directory is gone, which was `known` to have attributes.
    pub(crate) fn note_removed_directory(
        &self,
        above: &Arc<Object>,
        directory: &Arc<Object>,
        known: Option<CountedFile>,
    ) {
        let Some(of) = self.account() else { return };
        let attributes = known.map_or(0, |known| known.attributes);
        let (is_counted, has_counted) =
            of.account.unless_counted((true, true), |count| count.removed_directory(above, directory));
        of.give_back(is_counted.into(), if has_counted { attributes } else { 0 });
    }

    /// Notes that a file has moved from one directory to another.
    pub(crate) fn note_moved(&self, from: &Arc<Object>, to: &Arc<Object>, file: Option<CountedFile>) {
        let (Some(of), Some(file)) = (self.account(), file) else { return };
        let moved = of.account.unless_counted(MovedUsage::Nothing, |count| count.moved(from, to, file));
        of.apply(moved);
    }

    /// Notes that a directory is about to move out of `from`.
    pub(crate) fn begin_move(&self, directory: &Arc<Object>, from: &Arc<Object>) {
        if let Some(of) = self.account() {
            of.account.unless_counted((), |count| count.begin_move(directory, from));
        }
    }

    /// Ends a move, which was made or not.
    pub(crate) fn end_move(
        &self,
        directory: &Arc<Object>,
        from: &Arc<Object>,
        to: Option<&Arc<Object>>,
        place: impl FnOnce(),
    ) {
        let Some(of) = self.account() else { return place() };
        // Its place and its mark change in one step for readers.
        let mut place = Some(place);
        let moved = of.account.unless_counted(MovedUsage::Nothing, |count| {
            let Some(to) = to else {
                count.end_unmoved(directory);
                return MovedUsage::Nothing;
            };
            let moved = count.moved_directory(directory, from, to);
            place.take().into_iter().for_each(|place| place());
            moved
        });
        place.into_iter().for_each(|place| place());
        of.apply(moved);
    }
}

impl LaneAccount {
    fn apply(&self, moved: MovedUsage) {
        match moved {
            MovedUsage::Nothing => {}
            MovedUsage::In { bytes } => self.account.add(1, bytes),
            MovedUsage::Out { bytes } => self.give_back(1, bytes),
        }
    }
}

impl Charge {
    /// Takes more bytes.
    ///
    /// # Errors
    /// [`Error::Quota`].
    pub(crate) fn add(&mut self, bytes: u64) -> Result<(), Error> {
        let Some(of) = &self.of else { return Ok(()) };
        if !of.take(0, bytes) {
            return Err(Error::Quota);
        }
        self.bytes += bytes;
        Ok(())
    }

    /// Returns whether usage is counted.
    pub(crate) fn is_counted(&self) -> bool {
        self.of.is_some()
    }

    /// Gives back what is more than so many bytes.
    pub(crate) fn keep(&mut self, bytes: u64) {
        let more = self.bytes.saturating_sub(bytes);
        if let Some(of) = &self.of {
            of.give_back(0, more);
        }
        debug_assert!(more <= self.bytes, "at most what was charged is given back");
        self.bytes -= more;
    }

    /// Notes that the new file has a name in `directory` now, and nothing in it.
    pub(crate) fn made_in(self, volume: &Volume, directory: &Arc<Object>) {
        self.made_of(volume, directory, 0);
    }

    /// Charges a new file ([`Charge::made_in`]) of `size` bytes.
    pub(crate) fn made_of(mut self, volume: &Volume, directory: &Arc<Object>, size: u64) {
        let Some(of) = volume.account() else { return };
        if !of.account.unless_counted(true, |count| count.is_counted(directory)) {
            return;
        }
        let is_of_now = self.of.as_ref().is_some_and(|taken| Arc::ptr_eq(&taken.account, &of.account));
        let (files, bytes) = if is_of_now { (self.files, self.bytes.min(size)) } else { (0, 0) };
        (self.files, self.bytes) = (self.files - files, self.bytes - bytes);
        // It may have grown behind the server's back, or another account be kept by now.
        of.account.add(1 - files.min(1), size - bytes);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        if let Some(of) = &self.of {
            of.give_back(self.files, self.bytes);
        }
    }
}

impl CountedFile {
    /// Something new without content.
    pub(crate) const EMPTY: Self = Self { inode: 0, links: 1, size: 0, attributes: 0 };
}

impl From<Attributes> for CountedFile {
    fn from(of: Attributes) -> Self {
        let size = if of.kind == FileKind::File { of.size } else { 0 };
        Self { inode: of.id.ino, links: of.nlink, size, attributes: 0 }
    }
}
