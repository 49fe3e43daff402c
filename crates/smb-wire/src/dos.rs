//! The attribute `user.DOSATTRIB` as Samba keeps it, so that a share moves over as it is: NDR of `xattr_DOSATTRIB`, a hexadecimal
//! text and a version, behind which stand what is valid, the attributes and the time of creation. Versions 3 to 5 are read, and the
//! bare text of older ones; version 3 is written, which every Samba since 3.5 reads. Behind it stands, where a client has set the
//! time of change, what shows that it still holds; Samba leaves unread what lies behind the structure.

use crate::create::access::attributes;

/// Name of the attribute among a file's extended attributes.
pub const NAME: &[u8] = b"DOSATTRIB";
/// Longest value that is read.
pub const VALUE_MAX: usize = 256;

/// Attributes that are kept; the others follow from what the file is.
pub const KEPT: u32 = attributes::READONLY
    | attributes::HIDDEN
    | attributes::SYSTEM
    | attributes::ARCHIVE
    | attributes::TEMPORARY
    | attributes::SPARSE_FILE
    | attributes::OFFLINE
    | attributes::NOT_CONTENT_INDEXED;

/// DOS attributes and times that are kept with a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dos {
    /// Attributes: bits of [`KEPT`].
    pub attributes: Option<u32>,
    /// Time of creation, 100 ns since 1601.
    pub created: Option<u64>,
    /// The time of change that a client has set.
    pub changed: Option<SetChange>,
}

/// A time of change that a client has set. The kernel's own cannot be set, and moves when this is kept: from then on it is as it was
/// left, within a tick, and the time of the last write exactly so, until something changes the file. All are 100 ns since 1601.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetChange {
    /// Time of change that clients see.
    pub told: u64,
    /// Earliest time of change that the kernel may have.
    pub from: u64,
    /// Latest time of change that the kernel may have.
    pub until: u64,
    /// Time of the last write that the kernel must have.
    pub written: u64,
}

impl SetChange {
    /// Returns whether nothing has changed the file since, by the kernel's times of now.
    pub fn holds(&self, written: u64, changed: u64) -> bool {
        self.written == written && (self.from..=self.until).contains(&changed)
    }
}

impl Dos {
    /// Returns what is kept once the file's content is another. `born` is its time of creation, if none is kept.
    #[must_use]
    pub fn replaced(self, born: Option<u64>) -> Self {
        let attributes = self.attributes.map(|bits| bits | attributes::ARCHIVE);
        Self { attributes, created: self.created.or(born), changed: None }
    }

    /// Returns whether a file was marked as backed up: nothing has changed it since.
    pub fn is_backed_up(&self) -> bool {
        self.attributes.is_some_and(|bits| bits & attributes::ARCHIVE == 0)
    }

    /// Parses the attribute's value; what is not understood says nothing.
    pub fn parse(value: &[u8]) -> Self {
        Self::read(value).unwrap_or_default()
    }

    fn read(value: &[u8]) -> Option<Self> {
        let end = value.iter().position(|byte| *byte == 0).unwrap_or(value.len());
        let text = std::str::from_utf8(&value[..end]).ok()?;
        let from_text = || u32::from_str_radix(text.strip_prefix("0x")?, 16).ok();
        let head = (end + 1).next_multiple_of(2);
        let Some(version) = u16_at(value, head) else {
            return Some(Self { attributes: Some(from_text()? & KEPT), ..Self::default() });
        };
        // The union repeats the version, and is aligned to four bytes behind it.
        let at = (head + 4).next_multiple_of(4);
        let (valid, bits) = (u32_at(value, at)?, u32_at(value, at + 4)?);
        let created = match version {
            // Behind the size of the extended attributes, the file's and the allocated.
            3 => at + 28,
            // Behind the time that makes the file's number.
            4 => at + 16,
            5 => at + 8,
            _ => return None,
        };
        let changed = if version == 3 && valid & VALID_CHANGED != 0 { set_change(value, at) } else { None };
        let created = if valid & VALID_CREATED == 0 { None } else { u64_at(value, created) };
        let attributes = (valid & VALID_ATTRIBUTES != 0).then_some(bits & KEPT);
        Some(Self { attributes, created: created.filter(|created| *created != 0), changed })
    }

    /// Returns the attribute's value.
    pub fn to_bytes(self) -> Vec<u8> {
        let bits = self.attributes.unwrap_or_default();
        let mut out = vec![0; 2];
        // Its text is empty since version 3.
        out.extend(3u16.to_le_bytes());
        out.extend(3u16.to_le_bytes());
        out.resize(out.len().next_multiple_of(4), 0);
        let valid = if self.attributes.is_some() { VALID_ATTRIBUTES } else { 0 }
            | if self.created.is_some() { VALID_CREATED } else { 0 }
            | if self.changed.is_some() { VALID_CHANGED } else { 0 };
        out.extend(valid.to_le_bytes());
        out.extend(bits.to_le_bytes());
        out.extend([0; 20]);
        out.extend(self.created.unwrap_or_default().to_le_bytes());
        out.extend(self.changed.map_or(0, |set| set.told).to_le_bytes());
        if let Some(set) = self.changed {
            out.extend(PROOF_MAGIC);
            out.extend([set.from, set.until, set.written].iter().flat_map(|time| time.to_le_bytes()));
        }
        out
    }
}

/// Returns the time of change that was set, with what lies behind the structure that begins at `at`. Without that it
/// says nothing: others that write it, if there are any, mean the kernel's.
fn set_change(value: &[u8], at: usize) -> Option<SetChange> {
    let proof = at + INFO3_LEN;
    let is_ours = value.get(proof..)?.starts_with(PROOF_MAGIC);
    let time = |n: usize| u64_at(value, proof + PROOF_MAGIC.len() + 8 * n);
    is_ours.then_some(())?;
    Some(SetChange { told: u64_at(value, at + 36)?, from: time(0)?, until: time(1)?, written: time(2)? })
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|word| u16::from_le_bytes(*word))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_le_bytes(*word))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|word| u64::from_le_bytes(*word))
}

const VALID_ATTRIBUTES: u32 = 0x01;
const VALID_CREATED: u32 = 0x10;
const VALID_CHANGED: u32 = 0x20;
/// Bytes of version 3 behind its number: what is valid, the attributes, four lengths and two times.
const INFO3_LEN: usize = 44;
/// Bytes before what shows that a time of change holds.
const PROOF_MAGIC: &[u8] = b"LRct";

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    }

    #[test]
    fn what_sambas_of_many_years_have_written_is_read() {
        // smbd 4.17 has written it.
        let dos =
            Dos::parse(&bytes("000005000500000011000000210000008 96aa954c77add01".replace(' ', "").as_str()));
        assert_eq!(dos.attributes, Some(attributes::READONLY | attributes::ARCHIVE));
        assert_eq!(dos.created, Some(0x01dd_7ac7_54a9_6a89));
        // Version 4, with a text.
        let dos =
            Dos::parse(&bytes("307832320000040004000000510000002200000001000000000000000200000000000000"));
        let attributes = Some(attributes::HIDDEN | attributes::ARCHIVE);
        assert_eq!(dos, Dos { attributes, created: Some(2), changed: None });
        // Before there were versions.
        assert_eq!(Dos::parse(b"0x26\0").attributes, Some(0x26));
        assert_eq!(Dos::parse(b"0x26").attributes, Some(0x26));
    }

    #[test]
    fn a_time_of_change_comes_back_with_its_proof_alone_and_holds_until_the_kernel_says_otherwise() {
        let set = SetChange { told: 5, from: 100, until: 120, written: 90 };
        let dos = Dos { changed: Some(set), ..Dos::default() };
        let whole = dos.to_bytes();
        assert_eq!(Dos::parse(&whole), dos);
        for end in whole.len() - 28..whole.len() {
            assert_eq!(Dos::parse(&whole[..end]), Dos::default(), "{end}");
        }
        assert!(set.holds(90, 100) && set.holds(90, 120));
        assert!(!set.holds(91, 100) && !set.holds(90, 99) && !set.holds(90, 121));
    }

    #[test]
    fn what_is_written_comes_back_and_nothing_else_harms() {
        let dos = Dos { attributes: Some(attributes::SYSTEM), created: Some(77), changed: None };
        assert_eq!(Dos::parse(&dos.to_bytes()), dos);
        assert_eq!(Dos::parse(&Dos { created: None, ..dos }.to_bytes()).created, None);
        let whole = dos.to_bytes();
        for end in 0..whole.len() - 8 {
            assert_eq!(Dos::parse(&whole[..end]).created, None, "{end}");
        }
        assert_eq!(Dos::parse(b"\xff\xff"), Dos::default());
        assert_eq!(Dos::parse(&bytes("0000090009000000ffffffffffffffff")), Dos::default());
    }
}
