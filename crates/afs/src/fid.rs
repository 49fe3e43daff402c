//! Files as AFS names them: a volume's number, and the number of a file in it.

use afs_wire::Fid;
use vfs::{Number, VolumeId};

/// Returns the FID of a file of a volume.
pub fn of(volume: VolumeId, number: Number) -> Fid {
    Fid { volume: volume.0, vnode: number.vnode, uniquifier: number.uniquifier }
}

/// Returns the file's number in its volume.
pub fn number(fid: Fid) -> Number {
    Number { vnode: fid.vnode, uniquifier: fid.uniquifier }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_told_by_volume_vnode_and_uniquifier() {
        let root = of(VolumeId(536_870_912), Number::ROOT);
        assert_eq!(root.to_string(), "536870912.1.1");
        assert_eq!(number(root), Number::ROOT);
        assert!(root.is_directory());
    }
}
