//! Files as AFS names them: a volume's number, and the number of a file in it.

use vfs::{Number, VolumeId};

use crate::wire::Fid;

impl Fid {
    /// A volume's own directory.
    pub fn root(volume: VolumeId) -> Self {
        Self::of(volume, Number::ROOT)
    }

    /// A file of a volume.
    pub fn of(volume: VolumeId, number: Number) -> Self {
        Self { volume: volume.0, vnode: number.vnode, uniquifier: number.uniquifier }
    }

    /// The file's number in its volume.
    pub fn number(self) -> Number {
        Number { vnode: self.vnode, uniquifier: self.uniquifier }
    }

    /// Whether it is that of a directory: clients tell them by their odd vnodes.
    pub fn is_directory(self) -> bool {
        self.vnode % 2 == 1
    }
}

impl std::fmt::Display for Fid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.volume, self.number())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_told_by_volume_vnode_and_uniquifier() {
        let fid = Fid::of(VolumeId(536_870_912), Number { vnode: 6, uniquifier: 2 });
        assert_eq!(fid.to_string(), "536870912.6.2");
        assert_eq!(fid.number(), Number { vnode: 6, uniquifier: 2 });
        assert!(!fid.is_directory());
        assert!(Fid::root(VolumeId(1)).is_directory());
    }
}
