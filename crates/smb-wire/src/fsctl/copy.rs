//! Copies within the server: FSCTL_SRV_REQUEST_RESUME_KEY, FSCTL_SRV_COPYCHUNK (MS-SMB2 2.2.31.1, 2.2.32.1, 2.2.32.3)
//! and FSCTL_DUPLICATE_EXTENTS_TO_FILE with its second form (MS-FSCC 2.3.7, 2.3.9).

use zerocopy::IntoBytes;
use zerocopy::little_endian::{U32, U64};

use crate::fixed::{prefix, prefix_of, wire};
use crate::guid::FileId;
use crate::malformed::Malformed;

/// Most ranges of one copy: `ServerSideCopyMaxNumberofChunks`.
pub const CHUNKS_MAX: u32 = 256;
/// Longest range: `ServerSideCopyMaxChunkSize`, bytes.
pub const CHUNK_LEN_MAX: u32 = 1 << 20;
/// Largest total length of the ranges of one copy: `ServerSideCopyMaxDataSize`, bytes.
pub const COPY_LEN_MAX: u32 = 16 << 20;

wire! {
    /// A key that names an open to copy from, MS-SMB2 2.2.32.3.
    pub struct ResumeKeyResponse {
        resume_key: [u8; 24],
        context_length: U32,
        context: U32,
    }
}

wire! {
    /// Fixed part of a copy, MS-SMB2 2.2.31.1.
    pub struct CopyFixed {
        source_key: [u8; 24],
        chunk_count: U32,
        reserved: U32,
    }
}

wire! {
    /// A range, MS-SMB2 2.2.31.1.1.
    pub struct Chunk {
        source_offset: U64,
        target_offset: U64,
        length: U32,
        reserved: U32,
    }
}

wire! {
    /// Progress of a copy, or the limits of one, MS-SMB2 2.2.32.1.
    pub struct CopyResponse {
        chunks_written: U32,
        chunk_bytes_written: U32,
        total_bytes_written: U32,
    }
}

impl CopyResponse {
    /// Makes the answer to a copy that asks for too much: the limits.
    pub fn limits() -> Self {
        Self {
            chunks_written: CHUNKS_MAX.into(),
            chunk_bytes_written: CHUNK_LEN_MAX.into(),
            total_bytes_written: COPY_LEN_MAX.into(),
        }
    }
}

wire! {
    /// MS-FSCC 2.3.7
    pub struct DuplicateExtents {
        source: FileId,
        source_offset: U64,
        target_offset: U64,
        byte_count: U64,
    }
}

wire! {
    /// MS-FSCC 2.3.9
    pub struct DuplicateExtentsEx {
        structure_size: U64,
        extents: DuplicateExtents,
        flags: U32,
        reserved: U32,
    }
}

/// `Flags` of [`DuplicateExtentsEx`]: what fails leaves nothing behind.
pub const DUPLICATE_SOURCE_ATOMIC: u32 = 1;

/// A request to copy ranges.
#[derive(Clone, Copy, Debug)]
pub struct Copy<'a> {
    /// The source's key.
    pub source_key: &'a [u8; 24],
    /// The ranges.
    pub chunks: &'a [Chunk],
}

impl<'a> Copy<'a> {
    /// Reads IOCTL's input.
    pub fn parse(input: &'a [u8]) -> Result<Self, Malformed> {
        let (fixed, rest) = prefix::<CopyFixed>(input)?;
        let chunks = prefix_of(rest, fixed.chunk_count.get() as usize)?;
        Ok(Self { source_key: &fixed.source_key, chunks })
    }

    /// Returns whether it asks for more than is allowed: then the answer is [`CopyResponse::limits`].
    pub fn is_too_much(&self) -> bool {
        //= MS-SMB2 3.3.5.15.6
        //# Too many chunks, a chunk that is empty or too long, or too much in all.
        let lens = || self.chunks.iter().map(|chunk| chunk.length.get());
        self.chunks.len() > CHUNKS_MAX as usize
            || lens().any(|len| len == 0 || len > CHUNK_LEN_MAX)
            || lens().map(u64::from).sum::<u64>() > COPY_LEN_MAX.into()
    }

    /// Returns the bytes of the wire.
    pub fn to_bytes(&self) -> Vec<u8> {
        let fixed = CopyFixed {
            source_key: *self.source_key,
            chunk_count: U32::new(self.chunks.len() as u32),
            reserved: U32::ZERO,
        };
        [fixed.as_bytes(), self.chunks.as_bytes()].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_says_what_it_asks_for_and_too_much_is_noticed() {
        let chunk = |len: u32| Chunk {
            source_offset: 1.into(),
            target_offset: 2.into(),
            length: len.into(),
            reserved: U32::ZERO,
        };
        let copy = |chunks: &[Chunk]| {
            let bytes = Copy { source_key: &[7; 24], chunks }.to_bytes();
            let copy = Copy::parse(&bytes).unwrap();
            assert_eq!((copy.source_key, copy.chunks), (&[7; 24], chunks));
            copy.is_too_much()
        };
        assert!(!copy(&[]) && !copy(&[chunk(CHUNK_LEN_MAX); 16]) && !copy(&[chunk(1); 256]));
        assert!(copy(&[chunk(CHUNK_LEN_MAX); 17]) && copy(&[chunk(1); 257]));
        assert!(copy(&[chunk(0)]) && copy(&[chunk(CHUNK_LEN_MAX + 1)]));
        let mut lie = Copy { source_key: &[7; 24], chunks: &[chunk(1)] }.to_bytes();
        lie[24..28].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(Copy::parse(&lie).map(|_| ()), Err(Malformed::Count));
    }
}
