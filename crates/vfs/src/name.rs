//! Names and paths that have been checked once and stay good: no NUL, no empty component, no `.` or `..`,
//! nothing longer than the kernel takes. What is not valid cannot be built, so nothing below checks again.

use std::fmt;

/// One component of a path: 1 to 255 bytes, no slash, no NUL, neither `.` nor `..`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name<'a> {
    bytes: &'a [u8],
}

/// A path relative to a volume's directory: [`Name`]s joined by single slashes, at most 4,095 bytes.
/// Empty for the directory itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelPath<'a> {
    bytes: &'a [u8],
    hidden: bool,
}

/// A [`RelPath`] that owns its bytes, built name by name.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelPathBuf {
    bytes: Vec<u8>,
}

/// Reason why bytes are no name or path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum NameError {
    /// A zero byte.
    #[error("the name holds a zero byte")]
    Nul,
    /// Nothing between two slashes, before the first or after the last; or an empty name.
    #[error("the name has an empty component")]
    Empty,
    /// `.` or `..`.
    #[error("the name has a component that means this or the upper directory")]
    Dots,
    /// A slash within a single name.
    #[error("the name holds a slash")]
    Slash,
    /// A component of more than 255 bytes.
    #[error("a component of the name is longer than {} bytes", Name::BYTES_MAX)]
    NameTooLong,
    /// A path of more than 4,095 bytes.
    #[error("the path is longer than {} bytes", RelPath::BYTES_MAX)]
    PathTooLong,
}

impl<'a> Name<'a> {
    /// Bytes of the longest name (NAME_MAX).
    pub const BYTES_MAX: usize = 255;

    /// Checks one component, as AFS and SMB clients send them.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, NameError> {
        if bytes.contains(&b'/') {
            return Err(NameError::Slash);
        }
        check_component(bytes)?;
        Ok(Self { bytes })
    }

    /// Returns the bytes as the file system keeps them, in any encoding.
    pub fn as_bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Returns whether it begins with a dot.
    pub fn is_hidden(self) -> bool {
        self.bytes[0] == b'.'
    }

    /// Returns whether it is one of the server's own names, which clients neither see nor change.
    pub fn is_reserved(self) -> bool {
        self.bytes.starts_with(RESERVED)
    }
}

impl<'a> RelPath<'a> {
    /// Bytes of the longest path (PATH_MAX less the zero byte).
    pub const BYTES_MAX: usize = 4095;

    /// The volume's directory itself.
    pub const ROOT: RelPath<'static> = RelPath { bytes: b"", hidden: false };

    /// Checks a decoded path: `a/b`, not `/a/b`, not `a/b/`.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, NameError> {
        if bytes.is_empty() {
            return Ok(Self::ROOT);
        }
        if bytes.len() > Self::BYTES_MAX {
            return Err(NameError::PathTooLong);
        }
        bytes.split(|&byte| byte == b'/').try_for_each(check_component)?;
        Ok(Self::trusted(bytes))
    }

    /// Returns the bytes, slashes included.
    pub fn as_bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Returns whether it names the volume's directory itself.
    pub fn is_root(self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns whether a component begins with a dot. A leading `.well-known` does not count: it is public by
    /// definition (RFC 8615 3).
    pub fn is_hidden(self) -> bool {
        self.hidden
    }

    /// Returns whether a component is one of the server's own.
    pub fn is_reserved(self) -> bool {
        self.hidden && self.components().any(Name::is_reserved)
    }

    /// Returns the directory that the path lies in; `None` for the root.
    pub fn parent(self) -> Option<RelPath<'a>> {
        let (parent, _) = self.split()?;
        Some(Self::trusted(parent))
    }

    /// Returns the last component; `None` for the root.
    pub fn file_name(self) -> Option<Name<'a>> {
        let (_, bytes) = self.split()?;
        Some(Name { bytes })
    }

    /// Returns the components from the top.
    pub fn components(self) -> impl Iterator<Item = Name<'a>> {
        self.bytes.split(|&byte| byte == b'/').filter(|name| !name.is_empty()).map(|bytes| Name { bytes })
    }

    /// Returns the path of `name` in this directory.
    pub fn join(self, name: Name<'_>) -> Result<RelPathBuf, NameError> {
        let mut peer = RelPathBuf { bytes: Vec::with_capacity(self.bytes.len() + 1 + name.bytes.len()) };
        peer.bytes.extend_from_slice(self.bytes);
        peer.push(name)?;
        Ok(peer)
    }

    /// Returns the path of an entry of this directory, by the name that a file system or the kernel gives; `None` if
    /// there can be none of this name.
    pub(crate) fn child(self, name: &[u8]) -> Option<RelPathBuf> {
        self.join(Name::parse(name).ok()?).ok()
    }

    /// Returns the root and every directory on the way, down to the path itself.
    pub(crate) fn prefixes(self) -> impl Iterator<Item = RelPath<'a>> {
        let bytes = self.bytes;
        let slashes = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        let whole = (!bytes.is_empty()).then_some(bytes.len());
        std::iter::once(0).chain(slashes).chain(whole).map(move |end| Self::trusted(&bytes[..end]))
    }

    /// Makes a path of bytes already known to be a valid one.
    fn trusted(bytes: &'a [u8]) -> Self {
        let visible = bytes.strip_prefix(b".well-known").filter(|rest| matches!(rest, [] | [b'/', ..]));
        let rest = visible.unwrap_or(bytes);
        let hidden = rest.first() == Some(&b'.') || rest.windows(2).any(|pair| pair == b"/.");
        Self { bytes, hidden }
    }

    fn split(self) -> Option<(&'a [u8], &'a [u8])> {
        if self.is_root() {
            return None;
        }
        Some(match self.bytes.iter().rposition(|&byte| byte == b'/') {
            Some(slash) => (&self.bytes[..slash], &self.bytes[slash + 1..]),
            None => (b"", self.bytes),
        })
    }
}

impl RelPathBuf {
    /// Makes the path of the volume's directory itself.
    pub fn root() -> Self {
        Self::default()
    }

    /// Goes down to `name`.
    ///
    /// # Errors
    /// [`NameError::PathTooLong`]; the path is unchanged then.
    pub fn push(&mut self, name: Name<'_>) -> Result<(), NameError> {
        let slash = usize::from(!self.bytes.is_empty());
        if self.bytes.len() + slash + name.bytes.len() > RelPath::BYTES_MAX {
            return Err(NameError::PathTooLong);
        }
        if slash == 1 {
            self.bytes.push(b'/');
        }
        self.bytes.extend_from_slice(name.bytes);
        Ok(())
    }

    /// Goes up by one; false at the root.
    pub fn pop(&mut self) -> bool {
        let Some(parent) = self.as_path().parent().map(|parent| parent.bytes.len()) else { return false };
        self.bytes.truncate(parent);
        true
    }

    /// Borrows the path.
    pub fn as_path(&self) -> RelPath<'_> {
        RelPath::trusted(&self.bytes)
    }
}

impl From<RelPath<'_>> for RelPathBuf {
    fn from(path: RelPath<'_>) -> Self {
        Self { bytes: path.bytes.to_vec() }
    }
}

/// Prefix of the server's own names.
pub(crate) const RESERVED: &[u8] = b".linerate-";

macro_rules! shows_as_text {
    ($($type:ty),*) => {$(
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.bytes.escape_ascii())
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "\"{self}\"")
            }
        }
    )*};
}

shows_as_text!(Name<'_>, RelPath<'_>, RelPathBuf);

fn check_component(bytes: &[u8]) -> Result<(), NameError> {
    match bytes {
        [] => Err(NameError::Empty),
        b"." | b".." => Err(NameError::Dots),
        _ if bytes.len() > Name::BYTES_MAX => Err(NameError::NameTooLong),
        _ if bytes.contains(&0) => Err(NameError::Nul),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn upper_directories_are_refused_in_every_place() {
        for path in ["..", "../a", "a/..", "a/../b", ".", "./a", "a/.", "a/./b"] {
            assert_eq!(RelPath::parse(path.as_bytes()), Err(NameError::Dots), "{path}");
        }
        assert_eq!(Name::parse(b".."), Err(NameError::Dots));
        assert_eq!(Name::parse(b"."), Err(NameError::Dots));
        assert!(RelPath::parse(b"...").is_ok() && RelPath::parse(b"..a/b..").is_ok());
    }

    #[test]
    fn absolute_paths_and_empty_components_are_refused() {
        for path in ["/", "/a", "a/", "a//b", "//"] {
            assert_eq!(RelPath::parse(path.as_bytes()), Err(NameError::Empty), "{path}");
        }
        assert_eq!(Name::parse(b""), Err(NameError::Empty));
    }

    #[test]
    fn zero_bytes_are_refused() {
        assert_eq!(RelPath::parse(b"a/b\0c"), Err(NameError::Nul));
        assert_eq!(Name::parse(b"\0"), Err(NameError::Nul));
    }

    #[test]
    fn a_single_name_holds_no_slash() {
        assert_eq!(Name::parse(b"a/b"), Err(NameError::Slash));
    }

    #[test]
    fn lengths_are_limited_to_what_the_kernel_takes() {
        assert!(RelPath::parse(&[b'n'; 255]).is_ok());
        assert_eq!(RelPath::parse(&[b'n'; 256]), Err(NameError::NameTooLong));
        let longest = [[b'n'; 15].as_slice(), b"/"].concat().repeat(256);
        assert!(RelPath::parse(&longest[..4095]).is_ok());
        let longer = [&longest[..4095], b"n"].concat();
        assert_eq!(RelPath::parse(&longer), Err(NameError::PathTooLong));
        let path = RelPath::parse(&longest[..4095]).unwrap();
        assert_eq!(path.join(Name::parse(b"x").unwrap()), Err(NameError::PathTooLong));
    }

    #[test]
    fn dot_names_are_hidden_anywhere_but_a_leading_well_known() {
        let hidden = |path: &str| RelPath::parse(path.as_bytes()).unwrap().is_hidden();
        assert!(hidden(".git") && hidden("a/.git/config") && hidden(".well-known-not"));
        assert!(hidden("a/.well-known/x") && hidden(".well-known/.x"));
        assert!(!hidden(".well-known") && !hidden(".well-known/acme") && !hidden("a.b/c") && !hidden(""));
    }

    #[test]
    fn the_servers_own_names_are_hidden_wherever_they_stand() {
        let path = |path: &'static str| RelPath::parse(path.as_bytes()).unwrap();
        for own in [".linerate-1", "a/.linerate-1", ".linerate-1/a", ".well-known/.linerate-1"] {
            assert!(path(own).is_hidden() && path(own).is_reserved(), "{own}");
        }
        assert!(!path(".linerate").is_reserved() && !path("a.linerate-1").is_reserved());
    }

    #[test]
    fn parents_and_names_take_a_path_apart() {
        let path = RelPath::parse(b"a/b/c").unwrap();
        assert_eq!(path.parent().unwrap().as_bytes(), b"a/b");
        assert_eq!(path.file_name().unwrap().as_bytes(), b"c");
        assert_eq!(RelPath::ROOT.parent(), None);
        let prefixes: Vec<_> = path.prefixes().map(|p| p.to_string()).collect();
        assert_eq!(prefixes, ["", "a", "a/b", "a/b/c"]);
        assert_eq!(RelPath::ROOT.prefixes().count(), 1);
    }

    proptest! {
        #[test]
        fn accepted_paths_rebuild_from_their_components(bytes in "[a./\\\\\u{0}ü]{0,24}") {
            if let Ok(path) = RelPath::parse(bytes.as_bytes()) {
                let mut rebuilt = RelPathBuf::root();
                for name in path.components() {
                    prop_assert_eq!(Name::parse(name.as_bytes()), Ok(name));
                    rebuilt.push(name).unwrap();
                }
                prop_assert_eq!(rebuilt.as_path(), path);
                while rebuilt.pop() {}
                prop_assert!(rebuilt.as_path().is_root());
            }
        }
    }
}
