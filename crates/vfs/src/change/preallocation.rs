//! Room that a store of many packets has ahead of what has come, so that a large file lies in few pieces, and what of it fails for lack of
//! room fails early.
//!
//! Which files have such room is [recorded](crate::Objects::record_room_in) before it is taken, so that the next start gives back what a kill
//! has left.
//!
//! How much a client says is to come takes nothing: room is taken as bytes come, for about as many again, is charged to the volume
//! as if they were there, and is given back however the store ends.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use coherence::ChangeKind;
use identity::Rights;
use index::Number;
use lane::fs::{Allocate, OpenHow, OpenKind};

use super::{Writer, c_name};
use crate::caller::Caller;
use crate::error::Error;
use crate::file::OpenFile;
use crate::name::Name;
use crate::object::RoomSlot;
use crate::usage::Charge;
use crate::volume::Volume;

/// The room that one store has preallocated.
pub(super) struct Preallocation {
    writer: Writer,
    caller: Caller,
    /// End of the bytes that are to come; 0 where no client has said so, or the file system takes no room
    /// ahead.
    announced: Cell<u64>,
    received: Cell<u64>,
    taken: RefCell<Option<PreallocatedRoom>>,
    slot: RefCell<RecordSlot>,
}

/// State of the record that the file has room ahead.
#[derive(Default)]
enum RecordSlot {
    #[default]
    Untried,
    /// The record is being written.
    Asked,
    Recorded(RoomSlot),
    /// No record is kept.
    NotNeeded,
    /// The record cannot be written: no room is taken.
    Refused,
}

/// Room beyond the received bytes, up to some offset.
struct PreallocatedRoom {
    to: u64,
    charge: Charge,
}

impl Preallocation {
    /// Makes the record of a writer that has taken no room yet.
    pub(super) fn new(writer: &Writer, caller: &Caller) -> Self {
        let (announced, received, taken) = (Cell::new(0), Cell::new(0), RefCell::default());
        let slot = RefCell::default();
        Self { writer: writer.clone(), caller: caller.clone(), announced, received, taken, slot }
    }

    /// Notes that the client will send bytes up to this offset.
    pub(super) fn announce(&self, end: u64) {
        self.announced.set(self.announced.get().max(end));
    }

    /// Checks whether the disk has room for what is to come; nothing is taken.
    ///
    /// # Errors
    /// [`Error::NoSpace`]; those of the file system.
    pub(super) async fn fits_the_disk(&self, end: u64) -> Result<(), Error> {
        let more = end.saturating_sub(self.writer.file().attributes()?.size);
        // A little is told of by the write itself as soon.
        if more <= AHEAD_MIN {
            return Ok(());
        }
        let system = self.writer.file().lane_file().stat_system().await?;
        let free = system.blocks_free.saturating_mul(system.block_bytes);
        if more > free { Err(Error::NoSpace) } else { Ok(()) }
    }

    /// Notes that bytes up to `end` are about to be charged as content.
    pub(super) fn reaches(&self, end: u64) {
        if let Some(taken) = &mut *self.taken.borrow_mut() {
            let left = taken.to.saturating_sub(end);
            taken.charge.keep(left);
        }
    }

    /// Notes that so many bytes have come.
    pub(super) fn received(&self, bytes: u64) {
        self.received.update(|before| before.saturating_add(bytes));
    }

    /// Takes room behind `end`, to which the step at hand writes, if there is none left and more is to come.
    ///
    /// # Errors
    /// [`Error::NoSpace`]; those of the file system.
    pub(super) async fn make_room(&self, file: &OpenFile, end: u64) -> Result<(), Error> {
        let more = self.received.get().clamp(AHEAD_MIN, AHEAD_MAX);
        let to = self.announced.get().min(end.saturating_add(more));
        let is_left = self.taken.borrow().as_ref().is_some_and(|taken| taken.to > end);
        if is_left || to <= end {
            return Ok(());
        }
        let from = end.max(file.attributes()?.size);
        if to <= from {
            return Ok(());
        }
        if !self.is_recorded(to - from).await {
            return Ok(());
        }
        // What the volume may not hold is refused when it comes.
        let Ok(charge) = self.writer.volume().charge(0, to - from) else { return Ok(()) };
        self.writer.volume().spare_room(file.lane_file(), to - from).await?;
        match file.lane_file().allocate(Allocate::KeepSize, from, to - from).await {
            Ok(()) => {
                self.taken.replace(Some(PreallocatedRoom { to, charge }));
                Ok(())
            }
            Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOSYS)) => {
                self.announced.set(0);
                Ok(())
            }
            Err(error) => Err(Error::of_write(error)),
        }
    }

    /// Returns whether so much room may be taken: a kill would leave it behind where the file is not
    /// recorded.
    async fn is_recorded(&self, bytes: u64) -> bool {
        if matches!(&*self.slot.borrow(), RecordSlot::Untried) {
            let (volume, object) = (self.writer.volume(), self.writer.file().object());
            let Some((shared, object)) = volume.shared().zip(object) else { return false };
            let slot = match shared.objects().room_record() {
                None => RecordSlot::NotNeeded,
                // For so little at the end of a store it is not worth while.
                Some(_) if bytes < AHEAD_MIN => return false,
                Some(Some(record)) if shared.is_numbered() => {
                    self.slot.replace(RecordSlot::Asked);
                    match record.note(shared.id(), object.number()).await {
                        Some(slot) => RecordSlot::Recorded(slot),
                        None => RecordSlot::Refused,
                    }
                }
                Some(_) => RecordSlot::Refused,
            };
            if matches!(slot, RecordSlot::Refused) {
                volume.counters().room_unrecorded.increment();
            }
            self.slot.replace(slot);
        }
        matches!(&*self.slot.borrow(), RecordSlot::Recorded(_) | RecordSlot::NotNeeded)
    }
}

impl Volume {
    /// Gives back the room beyond the ends of files that the last process had taken when it was killed.
    pub(crate) async fn release_leftover_room(&self) {
        let Some(shared) = self.shared() else { return };
        let Some(Some(record)) = shared.objects().room_record() else { return };
        let caller = Caller::operator();
        for (slot, number) in record.take_left(shared.id()) {
            match self.give_back_of(&caller, number).await {
                Ok(()) => {
                    self.counters().room_given_back.increment();
                    slot.clear().await;
                }
                // It is gone, and its room with it.
                Err(Error::Stale | Error::NotFound) => slot.clear().await,
                // The next start tries it again.
                Err(error) => {
                    tracing::debug!("volume {}: room beyond a file's end stays: {error}", self.name())
                }
            }
        }
    }

    async fn give_back_of(&self, caller: &Caller, number: Number) -> Result<(), Error> {
        let placed = self.find_with_parent(caller, number, Rights::NONE, Rights::NONE).await?;
        let name = Name::parse(&placed.name)?;
        let how = OpenHow { kind: OpenKind::Any, symlinks: false, write: true };
        let file = placed.directory.dir().open(&c_name(name), how).await?;
        let stat = file.stat()?;
        let file = Rc::new(placed.directory.opened_file(name, file, &stat).await?);
        if file.object().is_none_or(|object| object.number() != number) {
            return Err(Error::Stale);
        }
        Writer::new(self.clone(), file).give_back_room(caller).await
    }
}

impl Drop for Preallocation {
    fn drop(&mut self) {
        let slot = match self.slot.take() {
            RecordSlot::Recorded(slot) => Some(slot),
            _ => None,
        };
        let is_content =
            |taken: &PreallocatedRoom| self.writer.file().attributes().is_ok_and(|now| now.size >= taken.to);
        let Some(taken) = self.taken.take().filter(|taken| !is_content(taken)) else {
            slot.into_iter().for_each(|slot| lane::spawn(slot.clear()).detach());
            return;
        };
        let (writer, caller) = (self.writer.clone(), self.caller.clone());
        lane::spawn(async move {
            let given_back = writer.give_back_room(&caller).await;
            // What cannot be given back now the next start may give back.
            if let (Ok(()), Some(slot)) = (&given_back, slot) {
                slot.clear().await;
            }
            if let Err(error) = given_back {
                //@ cause: An upload that did not come to its end had disk space reserved beyond the end of its file, and cutting that off
                //@ failed.
                //@ remedy: Write the file again, or truncate it to its length on the server: `truncate -s +0 FILE`.
                tracing::warn!(
                    "file {}: disk space reserved for an upload that was broken off cannot be released: {error}; the space stays used \
                     until the file is written again [file-space-kept]",
                    writer.file().place()
                );
            }
            drop(taken);
        })
        .detach();
    }
}

impl Writer {
    /// Gives back what is taken beyond the end of the file: a cut to the length that it has does that.
    async fn give_back_room(&self, caller: &Caller) -> Result<(), Error> {
        // Bytes, size and version stay as they are. No operation makes it longer meanwhile, not even the same
        // client.
        self.change(caller, ChangeKind::Attributes, None, async |file| {
            let size = file.attributes()?.size;
            file.lane_file().truncate(size).await.map_err(Error::of_write)
        })
        .await
    }
}

/// Room that is taken at once, however little has come.
const AHEAD_MIN: u64 = 1 << 20;
/// Room that is taken at once at most, however much has come.
const AHEAD_MAX: u64 = 64 << 20;
