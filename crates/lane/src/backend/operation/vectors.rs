//! Parts of a vectored operation as the kernel reads them.

use crate::buffer::Buf;

/// Array of iovec at an address that does not move. It is valid for as long as the buffers it was made of
/// live and keep their bytes: operations own both.
pub(super) struct Vectors {
    parts: Box<[libc::iovec]>,
}

impl Vectors {
    /// Makes vectors of the written bytes of all buffers but the first `skip`, as far as one call takes them.
    pub(super) fn of_bytes(bufs: &[Buf], skip: usize) -> Self {
        let slices = rest_of(bufs, skip).map(|bytes| (bytes.as_ptr().cast_mut(), bytes.len()));
        Self::new(slices)
    }

    /// Makes vectors of the room behind the written bytes of all buffers, at most `len` bytes.
    pub(super) fn of_room(bufs: &mut [Buf], len: usize) -> Self {
        let mut left = len;
        let slices = bufs.iter_mut().map(move |buf| {
            let room = buf.spare_mut();
            let n = room.len().min(left);
            left -= n;
            (room.as_mut_ptr(), n)
        });
        Self::new(slices.filter(|(_, n)| *n > 0))
    }

    pub(super) fn as_ptr(&self) -> *const libc::iovec {
        self.parts.as_ptr()
    }

    pub(super) fn len(&self) -> u32 {
        u32::try_from(self.parts.len()).expect("at most as many as one call takes")
    }

    /// Returns the number of bytes in all parts.
    pub(super) fn bytes(&self) -> usize {
        self.parts.iter().map(|part| part.iov_len).sum()
    }

    fn new(slices: impl Iterator<Item = (*mut u8, usize)>) -> Self {
        let part = |(base, len): (*mut u8, usize)| libc::iovec { iov_base: base.cast(), iov_len: len };
        Self { parts: slices.map(part).take(PARTS_MAX).collect() }
    }
}

/// Returns the written bytes of buffers, one after another, but the first `skip`.
pub(super) fn rest_of(bufs: &[Buf], skip: usize) -> impl Iterator<Item = &[u8]> {
    let mut skip = skip;
    let rest = bufs.iter().map(move |buf| {
        let from = skip.min(buf.len());
        skip -= from;
        &buf[from..]
    });
    rest.filter(|bytes| !bytes.is_empty())
}

/// Returns the first `len` bytes of several parts.
pub(super) fn beginning_of<'a>(
    parts: impl Iterator<Item = &'a [u8]>,
    len: usize,
) -> impl Iterator<Item = &'a [u8]> {
    parts.scan(len, |left, part| {
        let part = &part[..part.len().min(*left)];
        *left -= part.len();
        (!part.is_empty()).then_some(part)
    })
}

/// Counts `n` bytes as written to the room of buffers, in order.
pub(super) fn fill(bufs: &mut [Buf], n: usize) {
    let mut left = n;
    for buf in bufs {
        let here = left.min(buf.spare());
        buf.grow(here);
        left -= here;
    }
}

/// Most parts of one call, UIO_MAXIOV.
pub(crate) const PARTS_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::{BufClass, BufferCounts, BufferPool};

    #[test]
    fn parts_are_what_is_left_of_each_buffer() {
        let pool = BufferPool::new(BufferCounts { small: 3, large: 0 }).unwrap();
        let mut bufs: Vec<Buf> = (0..3).map(|_| pool.try_get(BufClass::Small).unwrap()).collect();
        for (buf, text) in bufs.iter_mut().zip(["abc", "", "defg"]) {
            buf.append(text.as_bytes());
        }
        let texts = |skip| rest_of(&bufs, skip).map(|bytes| bytes.to_vec()).collect::<Vec<_>>().concat();
        assert_eq!(
            (texts(0), texts(2), texts(3)),
            (b"abcdefg".to_vec(), b"cdefg".to_vec(), b"defg".to_vec())
        );
        assert_eq!((Vectors::of_bytes(&bufs, 0).len(), Vectors::of_bytes(&bufs, 4).len()), (2, 1));
        let beginning = |len| beginning_of(rest_of(&bufs, 2), len).collect::<Vec<_>>().concat();
        assert_eq!(
            (beginning(0), beginning(3), beginning(9)),
            (Vec::new(), b"cde".to_vec(), b"cdefg".to_vec())
        );
        let room = bufs[0].spare();
        assert_eq!(Vectors::of_room(&mut bufs, room + 1).len(), 2);
        fill(&mut bufs, room + 1);
        assert_eq!((bufs[0].spare(), bufs[1].len(), bufs[2].len()), (0, 1, 4));
    }
}
