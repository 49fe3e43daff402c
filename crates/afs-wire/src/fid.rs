//! File identifiers of AFS.

use crate::Fid;

impl Fid {
    /// Returns whether the identifier is a directory's: clients recognize directories by odd vnodes.
    pub fn is_directory(self) -> bool {
        self.vnode % 2 == 1
    }
}

/// Writes the identifier as AFS's tools do: volume, vnode and uniquifier with dots between.
impl std::fmt::Display for Fid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.volume, self.vnode, self.uniquifier)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_have_odd_vnodes() {
        let fid = |vnode| Fid { volume: 536_870_912, vnode, uniquifier: 2 };
        assert!(fid(1).is_directory());
        assert!(!fid(6).is_directory());
        assert_eq!(fid(6).to_string(), "536870912.6.2");
    }
}
