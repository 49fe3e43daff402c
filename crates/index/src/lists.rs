//! Which directories have an access list or security descriptor of their own, by their paths: so that one which lost it, as in a copy
//! that leaves attributes out, is told from one that never had any.
//!
//! A path outlives what has it: another directory in its place is recognised, and so is each that lies beneath another.

use std::collections::BTreeMap;
use std::ops::Bound;

use redb::{ReadTransaction, Table, WriteTransaction};

use crate::codec::Fields;
use crate::tables::LISTS;
use crate::{Error, Number, VolumeId};

/// A directory that was seen with a list or descriptor of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListRecord {
    /// Its number.
    pub directory: Number,
    /// The generation of the volume's opening in which it was seen.
    pub generation: u32,
    /// When it was seen, in milliseconds since 1970.
    pub seen_ms: u64,
}

/// What was told of such directories, in two steps: paths that moved, and then what is known of single ones.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    moves: Vec<Move>,
    /// `None`: there is none at this path.
    known: BTreeMap<Key, Option<ListRecord>>,
}

/// A volume, and a path in it.
type Key = (VolumeId, Box<[u8]>);

#[derive(Clone, Debug)]
struct Move {
    volume: VolumeId,
    from: Box<[u8]>,
    to: Box<[u8]>,
}

/// What one layer of changes says of a path.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Said {
    Record(Option<ListRecord>),
    /// What the layer beneath has for this path.
    Beneath(Box<[u8]>),
}

impl Lists {
    pub(crate) fn len(&self) -> usize {
        self.moves.len() + self.known.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.moves.is_empty() && self.known.is_empty()
    }

    /// What counts for a path.
    pub(crate) fn at(&self, volume: VolumeId, path: &[u8]) -> Said {
        if let Some(record) = self.known.get(&(volume, path.into())) {
            return Said::Record(*record);
        }
        let mut path: Box<[u8]> = path.into();
        for Move { from, to, .. } in self.moves.iter().rev().filter(|moved| moved.volume == volume) {
            if let Some(rest) = beneath(&path, to) {
                path = [from, rest].concat().into();
            } else if beneath(&path, from).is_some() {
                return Said::Record(None);
            }
        }
        Said::Beneath(path)
    }

    pub(crate) fn put(&mut self, volume: VolumeId, path: &[u8], record: Option<ListRecord>) {
        self.known.insert((volume, path.into()), record);
    }

    /// What was at and beneath `from` is at and beneath `to`, in place of what was there.
    pub(crate) fn rename(&mut self, volume: VolumeId, from: &[u8], to: &[u8]) {
        self.carry(volume, from, to);
        self.moves.push(Move { volume, from: from.into(), to: to.into() });
    }

    /// Nothing is at or beneath `top` any more.
    pub(crate) fn clear(&mut self, volume: VolumeId, top: &[u8]) {
        self.rename(volume, top, NOWHERE);
        for key in self.keys_within(volume, NOWHERE) {
            self.known.remove(&key);
        }
    }

    /// Whether something may have been told of `top` or of what lies beneath.
    pub(crate) fn concern(&self, volume: VolumeId, top: &[u8]) -> bool {
        self.moves.iter().any(|moved| moved.volume == volume) || !self.keys_within(volume, top).is_empty()
    }

    /// Forgets what was told of a volume.
    pub(crate) fn drop_volume(&mut self, volume: VolumeId) {
        self.moves.retain(|moved| moved.volume != volume);
        self.known.retain(|(of, _), _| *of != volume);
    }

    /// Takes back what could not be committed; this is newer.
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
            let rest = beneath(&key.1, from).expect("it was looked for there");
            self.known.insert((volume, [to, rest].concat().into()), record);
        }
    }

    fn keys_within(&self, volume: VolumeId, top: &[u8]) -> Vec<Key> {
        let (first, after) = inside(top);
        let range = (Bound::Included((volume, first.into())), Bound::Excluded((volume, after.into())));
        let itself = (volume, Box::from(top));
        let itself = self.known.contains_key(&itself).then_some(itself);
        itself.into_iter().chain(self.known.range(range).map(|(key, _)| key.clone())).collect()
    }
}

/// What a path has beyond `top`, if it is `top` or lies beneath: nothing, or a part that begins with a slash.
fn beneath<'p>(path: &'p [u8], top: &[u8]) -> Option<&'p [u8]> {
    path.strip_prefix(top).filter(|rest| rest.is_empty() || rest[0] == b'/')
}

/// The paths beneath `top`: from the first of these on, before the second.
fn inside(top: &[u8]) -> (Vec<u8>, Vec<u8>) {
    ([top, b"/"].concat(), [top, b"0"].concat())
}

/// What is committed for a path.
pub(crate) fn read(
    read: &ReadTransaction,
    VolumeId(volume): VolumeId,
    path: &[u8],
) -> Result<Option<ListRecord>, Error> {
    let lists = match read.open_table(LISTS) {
        Err(redb::TableError::TableDoesNotExist(_)) => return Ok(None),
        lists => lists?,
    };
    let record = lists.get((volume, path))?;
    record.map(|record| ListRecord::decode(record.value())).transpose()
}

/// Whether anything is committed for `top` or for what lies beneath.
pub(crate) fn has_any(read: &ReadTransaction, VolumeId(volume): VolumeId, top: &[u8]) -> Result<bool, Error> {
    let lists = match read.open_table(LISTS) {
        Err(redb::TableError::TableDoesNotExist(_)) => return Ok(false),
        lists => lists?,
    };
    let (first, after) = inside(top);
    let is_there = lists.get((volume, top))?.is_some();
    Ok(is_there || lists.range((volume, &first[..])..(volume, &after[..]))?.next().is_some())
}

pub(crate) fn write(write: &WriteTransaction, lists: &Lists) -> Result<(), Error> {
    if lists.is_empty() {
        return Ok(());
    }
    let mut table = write.open_table(LISTS)?;
    for Move { volume: VolumeId(volume), from, to } in &lists.moves {
        let mut moved = Vec::new();
        if let Some(record) = table.remove((*volume, &**from))? {
            moved.push((to.to_vec(), record.value().to_vec()));
        }
        let (first, after) = inside(from);
        for entry in table.extract_from_if((*volume, &first[..])..(*volume, &after[..]), |_, _| true)? {
            let (key, record) = entry?;
            let rest = beneath(key.value().1, from).unwrap_or_default();
            moved.push(([to, rest].concat(), record.value().to_vec()));
        }
        drop_within(&mut table, *volume, to)?;
        for (path, record) in moved {
            table.insert((*volume, &path[..]), &record[..])?;
        }
    }
    for Move { volume: VolumeId(volume), .. } in lists.moves.iter().filter(|moved| *moved.to == *NOWHERE) {
        drop_within(&mut table, *volume, NOWHERE)?;
    }
    for ((VolumeId(volume), path), record) in &lists.known {
        match record {
            Some(record) => table.insert((*volume, &**path), &record.encode()[..])?,
            None => table.remove((*volume, &**path))?,
        };
    }
    Ok(())
}

/// Takes away what is at and beneath `top`.
fn drop_within(
    table: &mut Table<'_, (u32, &'static [u8]), &'static [u8]>,
    volume: u32,
    top: &[u8],
) -> Result<(), Error> {
    table.remove((volume, top))?;
    let (first, after) = inside(top);
    Ok(table.retain_in((volume, &first[..])..(volume, &after[..]), |_, _| false)?)
}

/// Takes all of a volume away.
pub(crate) fn clear(write: &WriteTransaction, VolumeId(volume): VolumeId) -> Result<(), Error> {
    let after = volume.checked_add(1).expect("volumes are numbered below the last");
    let mut lists = write.open_table(LISTS)?;
    Ok(lists.retain_in((volume, &[][..])..(after, &[][..]), |_, _| false)?)
}

/// No path: a name holds no zero byte.
pub(crate) const NOWHERE: &[u8] = b"\0";

impl ListRecord {
    fn encode(self) -> [u8; 20] {
        let Self { directory: Number { vnode, uniquifier }, generation, seen_ms } = self;
        let mut value = [0; 20];
        value[..4].copy_from_slice(&vnode.to_le_bytes());
        value[4..8].copy_from_slice(&uniquifier.to_le_bytes());
        value[8..12].copy_from_slice(&generation.to_le_bytes());
        value[12..].copy_from_slice(&seen_ms.to_le_bytes());
        value
    }

    fn decode(value: &[u8]) -> Result<Self, Error> {
        let mut fields = Fields::of(value, "the record of a directory's list");
        let directory = Number { vnode: fields.u32()?, uniquifier: fields.u32()? };
        Ok(Self { directory, generation: fields.u32()?, seen_ms: fields.u64()? })
    }
}
