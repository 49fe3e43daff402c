//! Record of files with room beyond their ends, taken ahead of a client's store: a file in the server's state
//! directory, so that after a kill the next start gives that room back.
//!
//! A slot is written before room is taken, and cleared when it has been given back. Each is 16 bytes, little endian: the volume's
//! number, the file's vnode and uniquifier, and a checksum of these; zeros: free. After a loss of power a slot may be missing.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use index::{Number, VolumeId};
use lane::offload::offload;

/// The record of a process.
#[derive(Debug)]
pub(crate) struct RoomRecord {
    file: File,
    slots: Mutex<Slots>,
    /// Slots being written: helper threads that a disk which does not answer could hold.
    under_way: AtomicUsize,
}

#[derive(Debug, Default)]
struct Slots {
    free: Vec<u16>,
    /// Records of room of an earlier process.
    left: Vec<(u16, VolumeId, Number)>,
}

/// A file of the record.
#[derive(Debug)]
pub(crate) struct RoomSlot {
    record: Arc<RoomRecord>,
    at: u16,
}

impl RoomRecord {
    /// Opens the record, or makes it, and reads what an earlier process left in it. Blocks: for start-up and reload.
    pub(super) fn open(path: &Path) -> io::Result<Arc<Self>> {
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        let mut bytes = vec![0; SLOTS * SLOT];
        let mut read = 0;
        while read < bytes.len() {
            match file.read_at(&mut bytes[read..], read as u64)? {
                0 => break,
                more => read += more,
            }
        }
        let mut slots = Slots::default();
        // The first are given first.
        for (at, slot) in bytes.chunks_exact(SLOT).enumerate().rev() {
            let at = u16::try_from(at).expect("there are fewer");
            match parse(slot) {
                Some((volume, number)) => slots.left.push((at, volume, number)),
                None => slots.free.push(at),
            }
        }
        Ok(Arc::new(Self { file, slots: Mutex::new(slots), under_way: AtomicUsize::new(0) }))
    }

    /// Returns what an earlier process left of a volume; the taker gives back the room.
    pub(crate) fn take_left(self: &Arc<Self>, of: VolumeId) -> Vec<(RoomSlot, Number)> {
        let mut slots = self.lock();
        let left = slots.left.extract_if(.., |(_, volume, _)| *volume == of);
        left.map(|(at, _, number)| (RoomSlot { record: Arc::clone(self), at }, number)).collect()
    }

    /// Notes that a file may have room beyond its end; `None` where that cannot be done, and no room is to be taken.
    pub(crate) async fn note(self: &Arc<Self>, volume: VolumeId, number: Number) -> Option<RoomSlot> {
        let at = self.lock().free.pop()?;
        let slot = RoomSlot { record: Arc::clone(self), at };
        if slot.write(encode(volume, number)).await {
            return Some(slot);
        }
        slot.clear().await;
        None
    }

    fn lock(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().expect("nobody panics while holding it")
    }
}

impl RoomSlot {
    /// Notes that the file has no room beyond its end any more. What cannot be cleared is given back by the next start
    /// once more.
    pub(crate) async fn clear(self) {
        if self.write([0; SLOT]).await {
            self.record.lock().free.push(self.at);
        }
    }

    async fn write(&self, bytes: [u8; SLOT]) -> bool {
        let (record, at) = (Arc::clone(&self.record), u64::from(self.at) * SLOT as u64);
        if record.under_way.fetch_add(1, Ordering::Relaxed) >= UNDER_WAY_MAX {
            record.under_way.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        let under_way = UnderWay(record);
        let written = offload(None, move || under_way.0.file.write_all_at(&bytes, at));
        matches!(lane::time::timeout(PATIENCE, written).await, Ok(Ok(Ok(()))))
    }
}

/// A slot being written.
struct UnderWay(Arc<RoomRecord>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        let before = self.0.under_way.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "a write that ends has begun");
    }
}

fn encode(volume: VolumeId, number: Number) -> [u8; SLOT] {
    let mut bytes = [0; SLOT];
    for (at, word) in [volume.0, number.vnode, number.uniquifier].into_iter().enumerate() {
        bytes[4 * at..4 * at + 4].copy_from_slice(&word.to_le_bytes());
    }
    let sum = checksum(&bytes[..12]);
    bytes[12..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

fn parse(slot: &[u8]) -> Option<(VolumeId, Number)> {
    let word = |at: usize| u32::from_le_bytes(slot[4 * at..4 * at + 4].try_into().expect("four bytes"));
    let is_whole = word(3) != 0 && word(3) == checksum(&slot[..12]);
    is_whole.then(|| (VolumeId(word(0)), Number { vnode: word(1), uniquifier: word(2) }))
}

/// Computes the checksum, which is never 0.
fn checksum(bytes: &[u8]) -> u32 {
    let sum = index::checksum(bytes);
    (sum ^ sum >> 32) as u32 | 1
}

const SLOT: usize = 16;
//@ limit: files with room beyond their ends
//@ section: Writable volumes
//@ unit: file
//@ all: process: {}, recorded in the state directory by {UNDER_WAY_MAX} writes at once within {PATIENCE}
//@ empty: a store takes no room ahead; others feel nothing
//@ counter: vfs_room_unrecorded, vfs_room_given_back
//@ attack: afs-announced-stores
/// Files with room beyond their ends at once; a store beyond that takes none.
const SLOTS: usize = 4096;
/// Slots being written at once.
const UNDER_WAY_MAX: usize = 2;
/// Time for which a store waits for its slot.
const PATIENCE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_that_was_broken_off_counts_for_nothing() {
        let (volume, number) = (VolumeId(7), Number { vnode: 12, uniquifier: 3 });
        let whole = encode(volume, number);
        assert_eq!(parse(&whole), Some((volume, number)));
        assert_eq!(parse(&[0; SLOT]), None);
        for at in 0..SLOT {
            let mut broken = whole;
            broken[at] ^= 1 << (at % 8);
            assert_eq!(parse(&broken), None, "byte {at}");
        }
    }
}
