//! Identity of a file: what stays when it is renamed, linked or opened anew.

use lane::fs::Timestamp;

use super::words::Words;

/// Identity of a file in its file system, whatever its names. Change locks are taken in the order of identities.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// Form, device, and what the form says. Most are short: every object in use has two.
    words: Words,
}

impl Identity {
    /// Makes the identity from the kernel's file handle (name_to_handle_at(2)): its type and its bytes.
    pub fn of_handle(device: u64, kind: i32, bytes: &[u8]) -> Self {
        let device = device.to_le_bytes();
        let words = match u8::try_from(kind) {
            Ok(kind) => Words::of(&[&[HANDLE], &device, &[kind], bytes]),
            Err(_) => Words::of(&[&[HANDLE_OF_LONG_TYPE], &device, &kind.to_le_bytes(), bytes]),
        };
        Self { words }
    }

    /// Makes the identity where the file system refuses handles: inode number and time of birth. An inode
    /// number that is given out again comes with another time of birth.
    pub fn of_inode(device: u64, number: u64, birth: Timestamp) -> Self {
        let (device, number) = (device.to_le_bytes(), number.to_le_bytes());
        let (secs, nanos) = (birth.secs.to_le_bytes(), birth.nanos.to_le_bytes());
        Self { words: Words::of(&[&[INODE], &device, &number, &secs, &nanos]) }
    }

    /// Returns the words by which the index knows it, in a volume whose directory is on the device `home`. That device
    /// may have another number after a restart, and so is not part of them.
    pub(crate) fn words(&self, home: u64) -> Words {
        let mut words = self.words.clone();
        if self.device() == home {
            words[DEVICE].fill(0);
        }
        words
    }

    /// Returns what the index knows by these words; `None` for words that no identity has.
    pub(crate) fn of_words(words: &[u8], home: u64) -> Option<Self> {
        if words.len() < DEVICE.end || !matches!(words[0], HANDLE | INODE | HANDLE_OF_LONG_TYPE) {
            return None;
        }
        let mut words = Words::of(&[words]);
        if words[DEVICE] == [0; 8] {
            words[DEVICE].copy_from_slice(&home.to_le_bytes());
        }
        Some(Self { words })
    }

    /// Returns the device of the file system.
    pub fn device(&self) -> u64 {
        u64::from_le_bytes(self.words[DEVICE].try_into().expect("eight bytes"))
    }

    /// Returns type and bytes of the file handle, where there is one: it opens the file without a name.
    pub fn handle(&self) -> Option<(i32, &[u8])> {
        let rest = &self.words[DEVICE.end..];
        match self.words[0] {
            HANDLE => rest.split_first().map(|(kind, bytes)| (i32::from(*kind), bytes)),
            HANDLE_OF_LONG_TYPE => {
                rest.split_first_chunk().map(|(kind, bytes)| (i32::from_le_bytes(*kind), bytes))
            }
            _ => None,
        }
    }
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let what = if self.handle().is_some() { "handle" } else { "inode" };
        write!(f, "{}:{what}:", self.device())?;
        self.words[DEVICE.end..].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Forms.
const HANDLE: u8 = 1;
const INODE: u8 = 2;
const HANDLE_OF_LONG_TYPE: u8 = 3;
const DEVICE: std::ops::Range<usize> = 1..9;

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

    #[test]
    fn a_handle_is_given_as_it_was_taken() {
        for (kind, bytes) in [(1, &[7; 8][..]), (0x81, &[7; 12]), (0x10_0001, &[7; 128]), (-1, &[])] {
            let identity = Identity::of_handle(5, kind, bytes);
            assert_eq!((identity.device(), identity.handle()), (5, Some((kind, bytes))));
            assert_eq!(identity.words(5), Identity::of_handle(0, kind, bytes).words(9));
            assert_eq!(identity.words(9), Identity::of_handle(5, kind, bytes).words(0));
            for home in [5, 9] {
                assert_eq!(Identity::of_words(&identity.words(home), home), Some(identity.clone()));
            }
        }
        let by_inode = Identity::of_inode(5, 7, Timestamp::default());
        assert_eq!(by_inode.handle(), None);
        assert_eq!(Identity::of_words(&by_inode.words(5), 5), Some(by_inode));
        for words in [&b""[..], &[HANDLE; 8], &[0; 20], &[9; 20]] {
            assert_eq!(Identity::of_words(words, 5), None);
        }
    }

    #[test]
    fn most_need_no_memory_of_their_own() {
        let words = Identity::of_handle(5, 1, &[7; 12]).words(5);
        assert!(matches!(words, Words::Short { .. }), "ext4, XFS and tmpfs have no longer ones");
    }
}
