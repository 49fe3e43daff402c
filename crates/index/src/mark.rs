//! Mark on a volume's root, by which tree and index recognize each other.

use crate::codec::Fields;
use crate::volume_id::VolumeId;

/// Bytes of a mark.
pub const MARK_LEN: usize = 64;

/// Mark of a volume's root, which is independent of the index's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Number of the volume.
    pub volume: VolumeId,
    /// Generation that the volume was last opened with.
    pub generation: u32,
    /// UUID of the volume, made once.
    pub uuid: [u8; 16],
    /// Counter below which numbers may have been given to directories.
    pub directories_to: u64,
    /// Counter below which numbers may have been given to files.
    pub files_to: u64,
    /// Storage of the volume's access lists and descriptors; `None` in older marks.
    pub rights: Option<RightsIn>,
}

/// Kind of attribute that keeps a volume's access lists and descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RightsIn {
    /// The attributes take CAP_SYS_ADMIN.
    Trusted,
    /// The attributes may be written by a file's owner.
    User,
}

impl Mark {
    /// Parses a mark. `None` for bytes that are no mark of this format, or torn.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; MARK_LEN] = bytes.try_into().ok()?;
        let mut fields = Fields::of(bytes, "a mark");
        let magic: [u8; 4] = fields.array().ok()?;
        let format = fields.u32().ok()?;
        let mut mark = Self {
            volume: VolumeId(fields.u32().ok()?),
            generation: fields.u32().ok()?,
            uuid: fields.array().ok()?,
            directories_to: fields.u64().ok()?,
            files_to: fields.u64().ok()?,
            rights: None,
        };
        mark.rights = match fields.u8().ok()? {
            0 => None,
            1 => Some(RightsIn::Trusted),
            2 => Some(RightsIn::User),
            _ => return None,
        };
        let reserved: [u8; 7] = fields.array().ok()?;
        let sum = fields.u64().ok()?;
        let sound =
            magic == MAGIC && format == FORMAT && reserved == [0; 7] && sum == checksum(&bytes[..SUMMED]);
        sound.then_some(mark)
    }

    /// Returns the attribute that keeps a volume's rights, from the marks of its root; `None` for a root
    /// without any. The mark in the privileged attribute counts, as the directory's owner may write the
    /// other.
    pub fn rights_of(trusted: Option<&[u8]>, user: Option<&[u8]>) -> Option<RightsIn> {
        let parsed = |mark: Option<&[u8]>| mark.and_then(Self::parse);
        let (of_trusted, of_user) = (parsed(trusted), parsed(user));
        let says = |mark: Option<Self>| mark.and_then(|mark| mark.rights);
        match (trusted, user) {
            (None, None) => None,
            (None, Some(_)) => Some(says(of_user).unwrap_or(RightsIn::User)),
            (Some(_), _) => {
                // Before marks said so, a server kept rights where it had its mark.
                let is_older = of_user.map(|mark| mark.generation) > of_trusted.map(|mark| mark.generation);
                let by_place =
                    if is_older && says(of_user).is_none() { RightsIn::User } else { RightsIn::Trusted };
                Some(says(of_trusted).unwrap_or(by_place))
            }
        }
    }

    /// Encodes the mark as the root's attribute.
    pub fn encode(&self) -> [u8; MARK_LEN] {
        let mut bytes = Vec::with_capacity(MARK_LEN);
        bytes.extend(MAGIC);
        bytes.extend(FORMAT.to_le_bytes());
        bytes.extend(self.volume.0.to_le_bytes());
        bytes.extend(self.generation.to_le_bytes());
        bytes.extend(self.uuid);
        bytes.extend(self.directories_to.to_le_bytes());
        bytes.extend(self.files_to.to_le_bytes());
        bytes.push(match self.rights {
            None => 0,
            Some(RightsIn::Trusted) => 1,
            Some(RightsIn::User) => 2,
        });
        bytes.extend([0; 7]);
        bytes.extend(checksum(&bytes).to_le_bytes());
        bytes.try_into().expect("the fields are 64 bytes")
    }
}

/// Computes FNV-1a, 64 bits: against torn and foreign bytes, not against forgers.
pub fn checksum(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum, &byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// Returns a checksum of words, never 0 ([`checksum`]).
pub(crate) fn checksum_words(words: impl Iterator<Item = u64>) -> u64 {
    // Turned, as a product carries nothing from high bits to low ones.
    let mix = |sum: u64, word: u64| (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    words.fold(0xcbf2_9ce4_8422_2325, mix).max(1)
}

const MAGIC: [u8; 4] = *b"LRVM";
const FORMAT: u32 = 1;
const SUMMED: usize = MARK_LEN - 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_read_as_it_was_written_and_no_other_bytes_are_one() {
        let mark = Mark {
            volume: VolumeId(536_870_913),
            generation: 1_800_000_000,
            uuid: *b"0123456789abcdef",
            directories_to: 65_536,
            files_to: 131_072,
            rights: Some(RightsIn::User),
        };
        let of_before = Mark { rights: None, ..mark };
        assert_eq!(Mark::parse(&of_before.encode()), Some(of_before));
        let bytes = mark.encode();
        assert_eq!(Mark::parse(&bytes), Some(mark));
        let rights = |trusted: Option<&Mark>, user: Option<&Mark>| {
            let [trusted, user] = [trusted, user].map(|mark| mark.map(Mark::encode));
            Mark::rights_of(trusted.as_ref().map(|mark| &mark[..]), user.as_ref().map(|mark| &mark[..]))
        };
        let later = Mark { generation: mark.generation + 1, ..of_before };
        let trusted = Mark { rights: Some(RightsIn::Trusted), ..mark };
        for (in_trusted, in_user, wanted) in [
            (None, None, None),
            (None, Some(&mark), Some(RightsIn::User)),
            (None, Some(&trusted), Some(RightsIn::Trusted)),
            (None, Some(&of_before), Some(RightsIn::User)),
            (Some(&trusted), Some(&mark), Some(RightsIn::Trusted)),
            (Some(&of_before), None, Some(RightsIn::Trusted)),
            (Some(&of_before), Some(&later), Some(RightsIn::User)),
            (Some(&later), Some(&of_before), Some(RightsIn::Trusted)),
        ] {
            assert_eq!(rights(in_trusted, in_user), wanted, "{in_trusted:?} {in_user:?}");
        }
        assert_eq!(Mark::parse(&bytes[..63]), None);
        assert_eq!(Mark::parse(&[0; MARK_LEN]), None);
        for at in 0..MARK_LEN {
            let mut torn = bytes;
            torn[at] ^= 1;
            assert_eq!(Mark::parse(&torn), None, "byte {at}");
        }
    }
}
