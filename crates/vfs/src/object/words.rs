//! A few bytes, most often fewer than 23, in 24: every object in use keeps two of these.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::ops::{Deref, DerefMut};

/// Bytes that are compared as such.
#[derive(Clone, Debug)]
pub(crate) enum Words {
    Short { len: u8, bytes: [u8; SHORT_MAX] },
    Long(Box<[u8]>),
}

impl Words {
    /// Makes the words of all parts, one after another.
    pub(super) fn of(parts: &[&[u8]]) -> Self {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        if len > SHORT_MAX {
            return Self::Long(parts.concat().into());
        }
        let (mut bytes, mut at) = ([0; SHORT_MAX], 0);
        for part in parts {
            bytes[at..][..part.len()].copy_from_slice(part);
            at += part.len();
        }
        Self::Short { len: len as u8, bytes }
    }
}

impl Deref for Words {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Short { len, bytes } => &bytes[..usize::from(*len)],
            Self::Long(bytes) => bytes,
        }
    }
}

impl DerefMut for Words {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Short { len, bytes } => &mut bytes[..usize::from(*len)],
            Self::Long(bytes) => bytes,
        }
    }
}

impl PartialEq for Words {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Words {}

impl PartialOrd for Words {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Words {
    fn cmp(&self, other: &Self) -> Ordering {
        (**self).cmp(&**other)
    }
}

impl Hash for Words {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

/// Form, device, type and the 12 bytes that handles of ext4, XFS and tmpfs have at most.
const SHORT_MAX: usize = 22;
const _: () = assert!(size_of::<Words>() == 24);
