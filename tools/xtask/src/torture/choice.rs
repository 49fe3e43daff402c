//! Choice of the next change of a worker.

use rand::Rng;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;

use super::model::{Model, Node};
use super::step::{BYTES_MAX, Bytes, Step};

impl Step {
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

const OFFSET_MAX: u64 = 30_000;
/// A file that has grown beyond it is not appended to.
const LENGTH_MAX: usize = 60_000;
/// Fits into a block of 1 KiB of attributes, which is what a small ext4 has, beside the access list.
const EXTENDED_MAX: usize = 500;
