//! One change that the tortured process is asked to make, as it is told before it begins.

use rand::Rng;
use rand::rngs::SmallRng;
use serde::{Deserialize, Serialize};

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
    pub(super) fn at_random(rng: &mut SmallRng, len_max: usize) -> Self {
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
}

/// Longest of what is written in one go: several pages.
pub(super) const BYTES_MAX: usize = 20_000;
