//! PACTYPE (MS-PAC 2.3): the list of parts, by type, length and offset.

use super::PacRefused;

pub(super) mod kind {
    //! Types of parts (MS-PAC 2.4).

    pub(in super::super) const LOGON_INFO: u32 = 1;
    pub(in super::super) const SERVER_CHECKSUM: u32 = 6;
    pub(in super::super) const KDC_CHECKSUM: u32 = 7;
    pub(in super::super) const CLIENT_INFO: u32 = 10;
    pub(in super::super) const DELEGATION_INFO: u32 = 11;
    pub(in super::super) const UPN_DNS_INFO: u32 = 12;
    pub(in super::super) const REQUESTOR: u32 = 18;
}

/// The parts of a certificate, which do not overlap.
pub(super) struct Buffers<'a> {
    parts: Vec<(u32, &'a [u8])>,
}

impl<'a> Buffers<'a> {
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, PacRefused> {
        let malformed = PacRefused::Malformed("PACTYPE");
        if bytes.len() > super::Pac::BYTES_MAX {
            return Err(malformed);
        }
        let (header, rest) = bytes.split_first_chunk::<8>().ok_or(malformed)?;
        let [count, version] = words(header);
        let count = count as usize;
        if version != 0 || count > PARTS_MAX {
            return Err(malformed);
        }
        let table = rest.get(..count * 16).ok_or(malformed)?;
        let mut taken = vec![(0, 8 + table.len())];
        let mut parts = Vec::with_capacity(count);
        for entry in table.as_chunks::<16>().0 {
            let (head, offset) = entry.split_first_chunk::<8>().ok_or(malformed)?;
            let [kind, len] = words(head);
            let offset = u64::from_le_bytes(offset.try_into().map_err(|_| malformed)?);
            let start = usize::try_from(offset).map_err(|_| malformed)?;
            let end = start.checked_add(len as usize).ok_or(malformed)?;
            if start % 8 != 0 {
                return Err(malformed);
            }
            parts.push((kind, bytes.get(start..end).ok_or(malformed)?));
            taken.push((start, end));
        }
        taken.sort_unstable();
        if taken.windows(2).any(|pair| pair[0].1 > pair[1].0) {
            return Err(malformed);
        }
        Ok(Self { parts })
    }

    /// Finds the part of a type; two of one type are refused.
    pub(super) fn find(&self, kind: u32) -> Result<Option<&'a [u8]>, PacRefused> {
        let mut all = self.parts.iter().filter(|(of, _)| *of == kind).map(|(_, part)| *part);
        match (all.next(), all.next()) {
            (_, Some(_)) => Err(PacRefused::Duplicate(kind)),
            (part, None) => Ok(part),
        }
    }
}

fn words(bytes: &[u8; 8]) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = *bytes;
    [u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h])]
}

/// Most parts: Windows has about ten.
const PARTS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn table(entries: &[(u32, u32, u64)], len: usize) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend((entries.len() as u32).to_le_bytes());
        out.extend([0; 4]);
        for (kind, size, offset) in entries {
            out.extend(kind.to_le_bytes());
            out.extend(size.to_le_bytes());
            out.extend(offset.to_le_bytes());
        }
        out.resize(len, 7);
        out
    }

    #[test]
    fn parts_lie_within_aligned_and_apart() {
        let good = table(&[(1, 5, 40), (6, 8, 48)], 56);
        let buffers = Buffers::parse(&good).unwrap();
        assert_eq!(buffers.find(1), Ok(Some(&[7; 5][..])));
        assert_eq!(buffers.find(2), Ok(None));
        for (bad, why) in [
            (table(&[(1, 5, 41)], 56), "misaligned"),
            (table(&[(1, 5, 16)], 56), "over the table"),
            (table(&[(1, 9, 40), (6, 8, 48)], 56), "overlapping"),
            (table(&[(1, 17, 40)], 56), "beyond the end"),
            (table(&[(1, u32::MAX, u64::MAX - 7)], 56), "wrapping"),
            (table(&[(1, u32::MAX, 40)], 56), "long"),
            (table(&[(1, 0, 1 << 40)], 56), "far"),
            (u32::MAX.to_le_bytes().repeat(8), "many"),
            ([[65, 0, 0, 0, 0, 0, 0, 0], [0; 8]].concat().repeat(200), "more than there can be"),
            (vec![0; 7], "short"),
        ] {
            assert!(Buffers::parse(&bad).is_err(), "{why}");
        }
        let twice = table(&[(6, 8, 40), (6, 8, 48)], 56);
        assert_eq!(Buffers::parse(&twice).unwrap().find(6), Err(PacRefused::Duplicate(6)));
    }
}
