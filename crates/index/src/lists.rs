//! Directories with an access list or security descriptor of their own, by path, so that a lost list is told
//! from one that never was.
//!
//! A path outlives what has it: another directory in its place is recognised, and so is each that lies beneath another.
//!
//! A record is safe before the list itself is: the file system may lose that with the machine's power. Until
//! the caller says that list and name are on the disk, the record bears the boot in which it was told, and
//! counts in that boot alone.

use std::collections::BTreeMap;
use std::ops::Bound;

use redb::{ReadOnlyTable, ReadTransaction, Table, TableDefinition, WriteTransaction};

use crate::codec::Fields;
use crate::tables::{LISTS, LISTS_UNSYNCED};
use crate::{Error, Number, VolumeId};

/// Record of a directory with a list or descriptor of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListRecord {
    /// Number of the directory.
    pub directory: Number,
    /// Generation of the volume's opening in which the list was seen.
    pub generation: u32,
    /// Time when the list was seen, in milliseconds since 1970.
    pub seen_ms: u64,
    /// Set if the file system is known to have the list on its disk, at this path.
    pub is_synced: bool,
}

/// Path of a directory, with its record.
pub type RecordedList = (Box<[u8]>, ListRecord);

impl ListRecord {
    /// Returns whether both records are of the same look at the same directory, synced or not.
    pub(crate) fn is_of_same(&self, other: &Self) -> bool {
        Self { is_synced: false, ..*self } == Self { is_synced: false, ..*other }
    }
}

/// Uncommitted changes of directories with access lists in two steps: paths that moved, then records of
/// single ones.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    moves: Vec<Move>,
    /// Records by path; `None` for a path without one.
    known: BTreeMap<ListKey, Option<ListRecord>>,
}

/// Key of a record: a volume, and a path in it.
type ListKey = (VolumeId, Box<[u8]>);

#[derive(Clone, Debug)]
struct Move {
    volume: VolumeId,
    from: Box<[u8]>,
    to: Box<[u8]>,
}

/// Entry of one layer of changes for a path.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LayerEntry {
    Record(Option<ListRecord>),
    /// The record is that of the layer beneath, at this path.
    Beneath(Box<[u8]>),
}

impl Lists {
    pub(crate) fn len(&self) -> usize {
        self.moves.len() + self.known.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.moves.is_empty() && self.known.is_empty()
    }

    /// Returns the entry that counts for a path.
    pub(crate) fn at(&self, volume: VolumeId, path: &[u8]) -> LayerEntry {
        if let Some(record) = self.known.get(&(volume, path.into())) {
            return LayerEntry::Record(*record);
        }
        let mut path: Box<[u8]> = path.into();
        for Move { from, to, .. } in self.moves.iter().rev().filter(|moved| moved.volume == volume) {
            if let Some(rest) = beneath(&path, to) {
                path = [from, rest].concat().into();
            } else if beneath(&path, from).is_some() {
                return LayerEntry::Record(None);
            }
        }
        LayerEntry::Beneath(path)
    }

    pub(crate) fn put(&mut self, volume: VolumeId, path: &[u8], record: Option<ListRecord>) {
        self.known.insert((volume, path.into()), record);
    }

    /// Moves the records at and beneath `from` to `to`, where they replace others. The disk may not have the
    /// new names yet.
    pub(crate) fn rename(&mut self, volume: VolumeId, from: &[u8], to: &[u8]) {
        self.carry(volume, from, to);
        self.moves.push(Move { volume, from: from.into(), to: to.into() });
    }

    /// Removes the records at and beneath `top`.
    pub(crate) fn clear(&mut self, volume: VolumeId, top: &[u8]) {
        self.rename(volume, top, NOWHERE);
        for key in self.keys_within(volume, NOWHERE) {
            self.known.remove(&key);
        }
    }

    /// Returns whether any change may concern `top` or a path beneath.
    pub(crate) fn concern(&self, volume: VolumeId, top: &[u8]) -> bool {
        self.moves.iter().any(|moved| moved.volume == volume) || !self.keys_within(volume, top).is_empty()
    }

    /// Removes the changes of a volume.
    pub(crate) fn drop_volume(&mut self, volume: VolumeId) {
        self.moves.retain(|moved| moved.volume != volume);
        self.known.retain(|(of, _), _| *of != volume);
    }

    /// Takes back older changes that could not be committed; those of `self` are newer.
    pub(crate) fn put_back(&mut self, mut older: Self) {
        for Move { volume, from, to } in &self.moves {
            older.carry(*volume, from, to);
        }
        older.moves.append(&mut self.moves);
        older.known.append(&mut self.known);
        *self = older;
    }

    fn carry(&mut self, volume: VolumeId, from: &[u8], to: &[u8]) {
        for key in self.keys_within(volume, to) {
            self.known.remove(&key);
        }
        for key in self.keys_within(volume, from) {
            let record = self.known.remove(&key).flatten();
            let record = record.map(|record| ListRecord { is_synced: false, ..record });
            let rest = beneath(&key.1, from).expect("it was looked for there");
            self.known.insert((volume, [to, rest].concat().into()), record);
        }
    }

    fn keys_within(&self, volume: VolumeId, top: &[u8]) -> Vec<ListKey> {
        let (first, after) = inside(top);
        let range = (Bound::Included((volume, first.into())), Bound::Excluded((volume, after.into())));
        let itself = (volume, Box::from(top));
        let itself = self.known.contains_key(&itself).then_some(itself);
        itself.into_iter().chain(self.known.range(range).map(|(key, _)| key.clone())).collect()
    }
}

/// Returns the rest of a path behind `top`, if it is `top` or lies beneath: empty, or beginning with a slash.
fn beneath<'p>(path: &'p [u8], top: &[u8]) -> Option<&'p [u8]> {
    path.strip_prefix(top).filter(|rest| rest.is_empty() || rest[0] == b'/')
}

/// Returns the bounds of paths beneath `top`: from the first on, before the second.
fn inside(top: &[u8]) -> (Vec<u8>, Vec<u8>) {
    ([top, b"/"].concat(), [top, b"0"].concat())
}

/// Returns the committed record of a path that counts in this boot.
pub(crate) fn read(
    read: &ReadTransaction,
    VolumeId(volume): VolumeId,
    path: &[u8],
    boot: [u8; 16],
) -> Result<Option<ListRecord>, Error> {
    let (Some(lists), unsynced) = (opened(read, LISTS)?, opened(read, LISTS_UNSYNCED)?) else {
        return Ok(None);
    };
    let Some(record) = lists.get((volume, path))? else { return Ok(None) };
    let told_in = match unsynced {
        Some(unsynced) => unsynced.get((volume, path))?.map(|told_in| *told_in.value()),
        None => None,
    };
    let is_past = told_in.is_some_and(|told_in| told_in != boot);
    (!is_past).then(|| ListRecord::decode(record.value(), told_in.is_none())).transpose()
}

/// Returns whether anything is committed at `top` or beneath.
pub(crate) fn has_any(read: &ReadTransaction, VolumeId(volume): VolumeId, top: &[u8]) -> Result<bool, Error> {
    let Some(lists) = opened(read, LISTS)? else { return Ok(false) };
    let (first, after) = inside(top);
    let is_there = lists.get((volume, top))?.is_some();
    Ok(is_there || lists.range((volume, &first[..])..(volume, &after[..]))?.next().is_some())
}

/// Returns the first committed records in this boot, behind a path and in order, whose lists the disk may not
/// have yet.
pub(crate) fn unsynced(
    read: &ReadTransaction,
    VolumeId(volume): VolumeId,
    behind: Option<&[u8]>,
    boot: [u8; 16],
    most: usize,
) -> Result<Vec<RecordedList>, Error> {
    let (Some(lists), Some(unsynced)) = (opened(read, LISTS)?, opened(read, LISTS_UNSYNCED)?) else {
        return Ok(Vec::new());
    };
    let first = behind.map_or(Bound::Included((volume, &[][..])), |path| Bound::Excluded((volume, path)));
    let after = volume.checked_add(1).expect("volumes are numbered below the last");
    let mut found = Vec::new();
    for entry in unsynced.range((first, Bound::Excluded((after, &[][..]))))? {
        let (key, told_in) = entry?;
        if *told_in.value() != boot {
            continue;
        }
        if let Some(record) = lists.get(key.value())? {
            found.push((key.value().1.into(), ListRecord::decode(record.value(), false)?));
        }
        if found.len() == most {
            break;
        }
    }
    Ok(found)
}

pub(crate) fn write(write: &WriteTransaction, lists: &Lists, boot: [u8; 16]) -> Result<(), Error> {
    if lists.is_empty() {
        return Ok(());
    }
    let (mut table, mut unsynced) = (write.open_table(LISTS)?, write.open_table(LISTS_UNSYNCED)?);
    for Move { volume: VolumeId(volume), from, to } in &lists.moves {
        let mut moved = Vec::new();
        if let Some(record) = table.remove((*volume, &**from))? {
            moved.push((Vec::new(), record.value().to_vec()));
        }
        let (first, after) = inside(from);
        for entry in table.extract_from_if((*volume, &first[..])..(*volume, &after[..]), |_, _| true)? {
            let (key, record) = entry?;
            let rest = beneath(key.value().1, from).unwrap_or_default();
            moved.push((rest.to_vec(), record.value().to_vec()));
        }
        let mut told_in = BTreeMap::new();
        for (rest, _) in &moved {
            let removed = unsynced.remove((*volume, &[from, &rest[..]].concat()[..]))?;
            told_in.insert(rest.clone(), removed.map_or(boot, |told_in| *told_in.value()));
        }
        drop_within(&mut table, *volume, to)?;
        drop_within(&mut unsynced, *volume, to)?;
        for (rest, record) in moved {
            let path = [to, &rest[..]].concat();
            table.insert((*volume, &path[..]), &record[..])?;
            unsynced.insert((*volume, &path[..]), &told_in[&rest])?;
        }
    }
    for Move { volume: VolumeId(volume), .. } in lists.moves.iter().filter(|moved| *moved.to == *NOWHERE) {
        drop_within(&mut table, *volume, NOWHERE)?;
        drop_within(&mut unsynced, *volume, NOWHERE)?;
    }
    for ((VolumeId(volume), path), record) in &lists.known {
        let key = (*volume, &**path);
        match record {
            Some(record) => table.insert(key, &record.encode()[..])?,
            None => table.remove(key)?,
        };
        match record {
            Some(record) if !record.is_synced => unsynced.insert(key, &boot)?,
            _ => unsynced.remove(key)?,
        };
    }
    Ok(())
}

type ByPath<V> = ReadOnlyTable<(u32, &'static [u8]), V>;

/// Opens a table; `None` if the file has none of the name.
fn opened<V: redb::Value + 'static>(
    read: &ReadTransaction,
    table: TableDefinition<'_, (u32, &'static [u8]), V>,
) -> Result<Option<ByPath<V>>, Error> {
    match read.open_table(table) {
        Err(redb::TableError::TableDoesNotExist(_)) => Ok(None),
        table => Ok(Some(table?)),
    }
}

/// Removes the entries at and beneath `top`.
fn drop_within<V: redb::Value + 'static>(
    table: &mut Table<'_, (u32, &'static [u8]), V>,
    volume: u32,
    top: &[u8],
) -> Result<(), Error> {
    table.remove((volume, top))?;
    let (first, after) = inside(top);
    Ok(table.retain_in((volume, &first[..])..(volume, &after[..]), |_, _| false)?)
}

/// Removes all entries of a volume.
pub(crate) fn clear(write: &WriteTransaction, VolumeId(volume): VolumeId) -> Result<(), Error> {
    let after = volume.checked_add(1).expect("volumes are numbered below the last");
    let mut lists = write.open_table(LISTS)?;
    lists.retain_in((volume, &[][..])..(after, &[][..]), |_, _| false)?;
    let mut unsynced = write.open_table(LISTS_UNSYNCED)?;
    Ok(unsynced.retain_in((volume, &[][..])..(after, &[][..]), |_, _| false)?)
}

/// Path that no directory has, as names hold no zero byte.
pub(crate) const NOWHERE: &[u8] = b"\0";

impl ListRecord {
    fn encode(self) -> [u8; 20] {
        let Self { directory: Number { vnode, uniquifier }, generation, seen_ms, is_synced: _ } = self;
        let mut value = [0; 20];
        value[..4].copy_from_slice(&vnode.to_le_bytes());
        value[4..8].copy_from_slice(&uniquifier.to_le_bytes());
        value[8..12].copy_from_slice(&generation.to_le_bytes());
        value[12..].copy_from_slice(&seen_ms.to_le_bytes());
        value
    }

    fn decode(value: &[u8], is_synced: bool) -> Result<Self, Error> {
        let mut fields = Fields::of(value, "the record of a directory's list");
        let directory = Number { vnode: fields.u32()?, uniquifier: fields.u32()? };
        Ok(Self { directory, generation: fields.u32()?, seen_ms: fields.u64()?, is_synced })
    }
}
