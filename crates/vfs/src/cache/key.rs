//! Keys of cached answers: a volume of this lane and a path in it.

use std::hash::{Hash, Hasher};

use equivalent::Equivalent;

use crate::name::{RelPath, RelPathBuf};

/// A volume as numbered by its lane's cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct OpeningId(pub(super) u32);

/// A key that owns its path.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    volume: OpeningId,
    path: RelPathBuf,
}

/// A key that borrows its path: look-ups allocate nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyRef<'a> {
    pub(crate) volume: OpeningId,
    pub(crate) path: RelPath<'a>,
}

impl Key {
    pub(crate) fn as_ref(&self) -> KeyRef<'_> {
        KeyRef { volume: self.volume, path: self.path.as_path() }
    }
}

impl<'a> KeyRef<'a> {
    /// Returns whether it is `top` or lies in it.
    pub(super) fn is_within(self, top: KeyRef<'_>) -> bool {
        let (path, top_path) = (self.path.as_bytes(), top.path.as_bytes());
        self.volume == top.volume
            && path
                .strip_prefix(top_path)
                .is_some_and(|rest| top_path.is_empty() || matches!(rest, [] | [b'/', ..]))
    }

    pub(crate) fn to_key(self) -> Key {
        Key { volume: self.volume, path: self.path.into() }
    }

    /// Returns the key of an entry in this directory; `None` if there can be none of this name.
    pub(super) fn child(self, name: &[u8]) -> Option<Key> {
        Some(Key { volume: self.volume, path: self.path.child(name)? })
    }

    pub(super) fn with_path(self, path: RelPath<'a>) -> Self {
        Self { path, ..self }
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_ref().hash(state);
    }
}

impl Hash for KeyRef<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u32(self.volume.0);
        state.write(self.path.as_bytes());
    }
}

impl Equivalent<Key> for KeyRef<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        let (path, other) = (self.path.as_bytes(), key.path.as_path().as_bytes());
        // Comparing no bytes where there is no memory takes some processors longer than comparing many.
        self.volume == key.volume && path.len() == other.len() && (path.is_empty() || path == other)
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.as_ref().equivalent(other)
    }
}

impl Eq for Key {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subtree_ends_at_whole_names() {
        let key = |volume, path: &'static str| KeyRef {
            volume: OpeningId(volume),
            path: RelPath::parse(path.as_bytes()).unwrap(),
        };
        assert!(key(1, "a/b").is_within(key(1, "a")));
        assert!(key(1, "a").is_within(key(1, "a")));
        assert!(key(1, "a").is_within(key(1, "")));
        assert!(!key(1, "ab").is_within(key(1, "a")));
        assert!(!key(1, "a").is_within(key(1, "a/b")));
        assert!(!key(2, "a/b").is_within(key(1, "a")));
    }
}
