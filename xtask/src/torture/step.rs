//! One change that the tortured process is asked to make, as it is told before it begins.

use rand::Rng;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use serde::{Deserialize, Serialize};

use super::model::{Model, Node};

/// A change; paths are relative to the volume's directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Step {
    Create { path: String },
    Write { path: String, offset: u64, bytes: Bytes },
    Append { path: String, bytes: Bytes },
    Truncate { path: String, len: u64 },
    SyncFile { path: String },
    SyncDirectory { path: String },
    Publish { path: String, bytes: Bytes, synced: bool },
    Rename { from: String, to: String },
    Link { from: String, to: String },
    Symlink { path: String, target: String },
    Remove { path: String },
    MakeDirectory { path: String },
    RemoveDirectory { path: String },
    SetExtended { path: String, value: Bytes },
    RemoveExtended { path: String },
    SetAccessList { path: String, user: Option<u64> },
}

/// Bytes that are told by their seed: each process makes the same of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Bytes {
    pub(super) seed: u64,
    pub(super) len: usize,
}

impl Bytes {
    fn at_random(rng: &mut SmallRng, len_max: usize) -> Self {
        Self { seed: rng.random(), len: rng.random_range(1..=len_max) }
    }

    /// Makes the bytes, none of which is zero, as zeros were not written.
    pub(super) fn make(self) -> Vec<u8> {
        let mut word = self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).max(1);
        let next = || {
            word ^= word << 13;
            word ^= word >> 7;
            word ^= word << 17;
            word as u8 | 1
        };
        std::iter::repeat_with(next).take(self.len).collect()
    }
}

impl Step {
    /// Name that all workers fight for.
    pub(super) const CONTEST: &str = "shared/contest";

    /// Makes another file for the name that all fight for. Always synced, so that it is never found torn.
    pub(super) fn contest(rng: &mut SmallRng) -> Self {
        Self::Publish {
            path: Self::CONTEST.to_owned(),
            bytes: Bytes::at_random(rng, BYTES_MAX),
            synced: true,
        }
    }

    /// Makes a change that `model`, which no other worker changes, allows.
    pub(super) fn at_random(model: &Model, rng: &mut SmallRng) -> Self {
        loop {
            if let Some(step) = Self::try_at_random(model, rng) {
                return step;
            }
        }
    }

    fn try_at_random(model: &Model, rng: &mut SmallRng) -> Option<Self> {
        let place = model.place_at_random(rng);
        let file = model.paths_of(Node::is_file);
        let file = file.choose(rng).cloned();
        let is_free = !model.nodes.contains_key(&place);
        Some(match rng.random_range(0..100) {
            0..12 if is_free && model.has_room() => Self::Create { path: place },
            12..28 => Self::Write {
                path: file?,
                offset: rng.random_range(0..OFFSET_MAX),
                bytes: Bytes::at_random(rng, BYTES_MAX),
            },
            28..38 => {
                let path = file?;
                if model.content(&path).len() > LENGTH_MAX {
                    return Some(Self::Truncate { path, len: 0 });
                }
                Self::Append { path, bytes: Bytes::at_random(rng, BYTES_MAX) }
            }
            38..42 => Self::Truncate { path: file?, len: rng.random_range(0..OFFSET_MAX) },
            42..52 => Self::SyncFile { path: file? },
            52..57 => Self::SyncDirectory { path: model.directory_at_random(rng) },
            57..65 if model.may_publish(&place) => {
                Self::Publish { path: place, bytes: Bytes::at_random(rng, BYTES_MAX), synced: rng.random() }
            }
            65..77 => {
                let movable = model.paths_of(|_| true);
                let from = movable.choose(rng)?.clone();
                model.may_rename(&from, &place).then_some(())?;
                Self::Rename { from, to: place }
            }
            77..80 => {
                let (from, name) = (file?, place.rsplit('/').next()?.to_owned());
                let to = format!("{}/{name}", from.rsplit_once('/')?.0);
                (!model.nodes.contains_key(&to) && model.is_own(&to)).then_some(())?;
                Self::Link { from, to }
            }
            80..82 if is_free => Self::Symlink { path: place, target: format!("to/{}", rng.random::<u16>()) },
            82..87 => {
                let removable = model.paths_of(|node| !node.is_directory());
                Self::Remove { path: removable.choose(rng)?.clone() }
            }
            87..91 if is_free && model.may_hold_directory(&place) => Self::MakeDirectory { path: place },
            91..93 => {
                let empty = model.empty_directories();
                Self::RemoveDirectory { path: empty.choose(rng)?.clone() }
            }
            93..96 => Self::SetExtended { path: file?, value: Bytes::at_random(rng, EXTENDED_MAX) },
            96..97 => {
                let path = file?;
                model.extended(&path)?;
                Self::RemoveExtended { path }
            }
            97..100 => {
                let own = model.paths_of(Node::is_directory);
                let user = rng.random_bool(0.8).then(|| rng.random());
                Self::SetAccessList { path: own.choose(rng)?.clone(), user }
            }
            _ => return None,
        })
    }
}

/// Longest of what is written in one go: several pages.
const BYTES_MAX: usize = 20_000;
const OFFSET_MAX: u64 = 30_000;
/// A file that has grown beyond it is not appended to.
const LENGTH_MAX: usize = 60_000;
/// Fits into a block of 1 KiB of attributes, which is what a small ext4 has, beside the access list.
const EXTENDED_MAX: usize = 500;
