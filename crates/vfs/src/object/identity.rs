//! Which file: what stays when it is renamed, linked or opened anew.

use lane::fs::Timestamp;
use smallvec::SmallVec;

/// Which file of which file system, whatever its names. Permits are taken in the order of identities.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    device: u64,
    form: Form,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Form {
    /// Inode and generation, in the file system's own words.
    Handle { kind: i32, bytes: SmallVec<[u8; 16]> },
    /// Where there are no handles. An inode number that is given out again comes with another time of birth.
    Inode { number: u64, birth: Timestamp },
}

impl Identity {
    /// Of the kernel's file handle (name_to_handle_at(2)): its type and its bytes.
    pub fn of_handle(device: u64, kind: i32, bytes: &[u8]) -> Self {
        Self { device, form: Form::Handle { kind, bytes: SmallVec::from_slice(bytes) } }
    }

    /// Where the file system refuses handles: inode number and time of birth.
    pub fn of_inode(device: u64, number: u64, birth: Timestamp) -> Self {
        Self { device, form: Form::Inode { number, birth } }
    }

    /// The device of the file system.
    pub fn device(&self) -> u64 {
        self.device
    }

    /// Type and bytes of the file handle, where there is one: it opens the file without a name.
    pub fn handle(&self) -> Option<(i32, &[u8])> {
        match &self.form {
            Form::Handle { kind, bytes } => Some((*kind, bytes)),
            Form::Inode { .. } => None,
        }
    }
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:", self.device)?;
        match &self.form {
            Form::Handle { kind, bytes } => {
                write!(f, "{kind}:")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            Form::Inode { number, birth } => write!(f, "inode {number} of {}.{:09}", birth.secs, birth.nanos),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inode_number_given_out_again_is_another_file() {
        let born = |secs| Identity::of_inode(1, 7, Timestamp { secs, nanos: 0 });
        assert_ne!(born(1), born(2));
        assert_eq!(born(1), born(1));
        assert_ne!(Identity::of_handle(1, 1, &[7, 1]), Identity::of_handle(1, 1, &[7, 2]));
        assert_ne!(Identity::of_handle(1, 1, &[7]), Identity::of_handle(2, 1, &[7]));
    }
}
