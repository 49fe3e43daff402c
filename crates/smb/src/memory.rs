//! Memory of data that comes and goes: one piece for each WRITE, and for each READ that is signed or sealed.
//! Pieces are of a few sizes and used again; how much each may have is on the books of [`service::memory`].

use std::cell::{Cell, RefCell};
use std::ops::{Deref, DerefMut, Range};
use std::rc::Rc;

use lane::buffer::{Buf, Lender};

/// The pieces of one lane that are not in use.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    shelves: RefCell<[Vec<Box<[u8]>>; CLASSES]>,
    kept: Cell<usize>,
}

impl Pieces {
    /// Returns room for `capacity` bytes at least, and nothing in it. What it holds in truth is [`Pieces::size`].
    pub(crate) fn take(&self, capacity: usize) -> Vec<u8> {
        let class = class(capacity);
        match self.take_kept(class) {
            Some(piece) => {
                let mut piece = Vec::from(piece);
                piece.clear();
                piece
            }
            None => Vec::with_capacity(bytes(class)),
        }
    }

    fn take_kept(&self, class: usize) -> Option<Box<[u8]>> {
        let piece = self.shelves.borrow_mut()[class].pop()?;
        self.kept.update(|kept| kept - piece.len());
        Some(piece)
    }

    /// Returns the number of bytes of the piece that [`Pieces::take`] gives for this.
    pub(crate) fn size(capacity: usize) -> usize {
        bytes(class(capacity))
    }

    /// Lends a piece of `capacity` bytes to a reader that reads on behind the first `written`. These hold
    /// what they held for the last borrower, and the reader writes them: nothing is cleared.
    pub(crate) fn lend_blank(self: &Rc<Self>, capacity: usize, written: usize) -> Buf {
        let class = class(capacity);
        let piece = self.take_kept(class).unwrap_or_else(|| vec![0; bytes(class)].into_boxed_slice());
        Buf::lent(piece, 0..capacity, written, 0, Rc::clone(self) as _)
    }

    /// Lends `part` of a piece, of which `written` bytes are there, to a borrower that reads it on or goes on
    /// writing it. The piece comes back when the buffer is dropped.
    pub(crate) fn lend(self: &Rc<Self>, mut piece: Vec<u8>, part: Range<usize>, written: usize) -> Buf {
        // Its capacity is its length from here on, which makes it a box without a copy.
        piece.resize(piece.capacity(), 0);
        Buf::lent(piece.into_boxed_slice(), part, written, 0, Rc::clone(self) as _)
    }

    /// Takes a piece back that was not lent.
    fn put(&self, mut piece: Vec<u8>) {
        piece.resize(piece.capacity(), 0);
        self.take_back(0, piece.into_boxed_slice());
    }
}

/// A piece that holds something; it comes back when it is dropped.
pub(crate) struct Piece {
    bytes: Vec<u8>,
    pieces: Rc<Pieces>,
}

impl Piece {
    pub(crate) fn new(bytes: Vec<u8>, pieces: &Rc<Pieces>) -> Self {
        Self { bytes, pieces: Rc::clone(pieces) }
    }

    /// Returns `part` of it, all of which is there.
    pub(crate) fn into_part(mut self, part: Range<usize>) -> Buf {
        let (bytes, len) = (std::mem::take(&mut self.bytes), part.len());
        self.pieces.lend(bytes, part, len)
    }
}

impl Deref for Piece {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl DerefMut for Piece {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        if self.bytes.capacity() > 0 {
            self.pieces.put(std::mem::take(&mut self.bytes));
        }
    }
}

impl Lender for Pieces {
    fn take_back(&self, _: usize, piece: Box<[u8]>) {
        let class = class(piece.len());
        if bytes(class) == piece.len() && self.kept.get() + piece.len() <= KEPT_MAX {
            self.kept.update(|kept| kept + piece.len());
            self.shelves.borrow_mut()[class].push(piece);
        }
    }
}

/// Returns the class of the smallest pieces of at least this capacity.
fn class(capacity: usize) -> usize {
    let units = capacity.saturating_sub(HEAD).div_ceil(LEAST).max(1);
    (units.next_power_of_two().trailing_zeros() as usize).min(CLASSES - 1)
}

fn bytes(class: usize) -> usize {
    (LEAST << class) + HEAD
}

/// Sizes of pieces: 64 KiB to 16 MiB.
const CLASSES: usize = 9;
const LEAST: usize = 64 << 10;
/// Room of a piece for headers beside the data, so that data of a power of two fits its class.
const HEAD: usize = 4 << 10;
//@ limit: pieces of memory kept while they are not used
//@ section: SMB
//@ unit: byte
//@ all: lane: {:b}
//@ empty: given back
//@ counter: none
//@ attack: smb-unread
/// Bytes of a lane that are kept while they are not in use.
const KEPT_MAX: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_have_room_for_headers_beside_the_data_and_are_used_again() {
        for (wanted, size) in [
            (1, (64 << 10) + HEAD),
            ((64 << 10) + 200, (64 << 10) + HEAD),
            ((1 << 20) + 200, (1 << 20) + HEAD),
            ((1 << 20) + HEAD + 1, (2 << 20) + HEAD),
            (0xff_ffff, (16 << 20) + HEAD),
        ] {
            assert_eq!(Pieces::size(wanted), size, "{wanted}");
        }
        let pieces = Rc::new(Pieces::default());
        let mut piece = pieces.take(100 << 10);
        assert_eq!(piece.capacity(), Pieces::size(100 << 10));
        piece.extend_from_slice(b"head and data");
        let address = piece.as_ptr();
        let lent = pieces.lend(piece, 9..13, 4);
        assert_eq!(&lent[..], b"data");
        drop(lent);
        let again = pieces.take(128 << 10);
        assert_eq!((again.as_ptr(), again.len()), (address, 0));
        pieces.put(again);
        assert_eq!(pieces.kept.get(), Pieces::size(128 << 10));
        let blank = pieces.lend_blank(100 << 10, 4);
        assert_eq!((blank.as_ptr(), blank.len(), blank.spare()), (address, 4, (100 << 10) - 4));
        drop(blank);
        assert_eq!(pieces.kept.get(), Pieces::size(128 << 10));
    }
}
