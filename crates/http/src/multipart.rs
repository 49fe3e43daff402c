//! `multipart/byteranges` bodies (RFC 9110 14.6): framing whose length is known before a byte is sent.

use smallvec::SmallVec;

use crate::range::ByteRange;
pub use crate::response::BOUNDARY_LEN;
use crate::response::Writer;

/// Upper bound of the bytes of a part's head, without the media type.
pub const PART_HEAD_BYTES_MAX: usize = 256;

/// A multi-range answer: part heads, file bytes between them, a trailer.
#[derive(Clone, Debug)]
pub struct Multipart {
    /// Parts in the order they are sent.
    pub ranges: SmallVec<[ByteRange; 4]>,
    /// Separates the parts. Must not occur in the file, so it is long and not guessable from it.
    pub boundary: [u8; BOUNDARY_LEN],
    /// Media type of the file.
    pub content_type: &'static str,
    /// Size of the whole file.
    pub size: u64,
}

impl Multipart {
    /// Returns the boundary that a random number gives.
    pub fn boundary(random: u64) -> [u8; BOUNDARY_LEN] {
        let mut text = *b"linerate0000000000000000";
        for (position, digit) in text[8..].iter_mut().enumerate() {
            *digit = b"0123456789abcdef"[(random >> (60 - 4 * position)) as usize & 15];
        }
        text
    }

    /// Returns the length of the body with all its framing, saturating.
    pub fn len(&self) -> u64 {
        let mut scratch = [0u8; PART_HEAD_BYTES_MAX + 256];
        let framing: u64 = (0..self.ranges.len())
            .map(|index| {
                let mut head = Writer::new(&mut scratch);
                self.put_part_head(index, &mut head);
                head.written().len() as u64
            })
            .sum();
        let data = self.ranges.iter().fold(0u64, |sum, range| sum.saturating_add(range.len()));
        data.saturating_add(framing).saturating_add(TRAILER_LEN)
    }

    /// Returns false: there are at least the trailer's bytes.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Writes what precedes the bytes of part `index`, which must exist.
    pub fn put_part_head(&self, index: usize, out: &mut Writer<'_>) {
        let range = self.ranges[index];
        // Before the first one too, as nginx does (RFC 2046 5.1.1 allows a preamble): zsync 0.6 passes over a line there.
        out.put(b"\r\n--");
        out.put(&self.boundary);
        out.put(b"\r\nContent-Type: ");
        out.put(self.content_type.as_bytes());
        out.put(b"\r\n");
        out.content_range(range, self.size);
        out.put(b"\r\n");
    }

    /// Writes what follows the bytes of the last part.
    pub fn put_trailer(&self, out: &mut Writer<'_>) {
        out.put(b"\r\n--");
        out.put(&self.boundary);
        out.put(b"--\r\n");
    }
}

/// Length of what [`Multipart::put_trailer`] writes.
const TRAILER_LEN: u64 = BOUNDARY_LEN as u64 + 8;

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::*;

    #[test]
    fn body_matches_the_example_of_rfc_9110_and_its_announced_length() {
        let multipart = Multipart {
            ranges: smallvec![ByteRange { start: 0, end: 2 }, ByteRange { start: 8, end: 10 }],
            boundary: Multipart::boundary(0x0123_4567_89ab_cdef),
            content_type: "text/plain; charset=utf-8",
            size: 10,
        };
        let file = b"0123456789";
        let mut buffer = [0u8; 1024];
        let mut out = Writer::new(&mut buffer);
        for (index, range) in multipart.ranges.iter().enumerate() {
            multipart.put_part_head(index, &mut out);
            out.put(&file[range.start as usize..range.end as usize]);
        }
        multipart.put_trailer(&mut out);
        let body = String::from_utf8(out.written().to_vec()).unwrap();
        assert_eq!(
            body,
            "\r\n--linerate0123456789abcdef\r\nContent-Type: text/plain; charset=utf-8\r\n\
             Content-Range: bytes 0-1/10\r\n\r\n01\r\n\
             --linerate0123456789abcdef\r\nContent-Type: text/plain; charset=utf-8\r\n\
             Content-Range: bytes 8-9/10\r\n\r\n89\r\n\
             --linerate0123456789abcdef--\r\n"
        );
        assert_eq!(multipart.len(), body.len() as u64);
    }
}
