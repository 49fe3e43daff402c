//! Content of files: what takes it, what it comes from, and the ranges that move.

use afs_wire::{Fid, StoreStatus};
use lane::buffer::Buf;
use lane::fs::File;
use rx_lane::{Held, PacketBuffers};

use crate::error::Error;
use crate::status::Metadata;

/// Receiver of fetched bytes.
pub trait Sink {
    /// Takes bytes of the file from `offset` on, in their packets. Ranges come in any order, and the bytes of one too where they come
    /// over several connections.
    fn take(&self, offset: u64, bytes: Held) -> impl Future<Output = Result<(), Error>>;

    /// Takes bytes that came over TCP.
    fn take_bytes(&self, offset: u64, bytes: Buf) -> impl Future<Output = Result<(), Error>>;

    /// Returns whether the bytes of a range must come in their order: over TCP it comes by one connection
    /// then. A range that is fetched again because that one broke begins anew.
    fn is_in_order(&self) -> bool {
        false
    }
}

/// A range that came.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// Bytes of it; fewer than asked for where the file ends.
    pub length: u64,
    /// The file's status with it.
    pub metadata: Metadata,
}

/// Source of stored bytes.
pub trait Source {
    /// Fills rooms of packets with the bytes from `offset` on; returns how many there were, fewer only at the end.
    fn fill(
        &self,
        offset: u64,
        packet_buffers: &mut PacketBuffers,
    ) -> impl Future<Output = Result<usize, Error>>;

    /// Returns the file that the bytes are in, each at its own offset, if they are in one: it may go to a server as it
    /// lies. Asked for again and again meanwhile.
    ///
    /// # Errors
    /// Those that end the store.
    fn file(&self) -> Result<Option<&File>, Error> {
        Ok(None)
    }
}

/// A range to be stored.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// The file.
    pub fid: Fid,
    /// Change of its status with the store.
    pub change: StoreStatus,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// Length of the file afterwards.
    pub file_length: u64,
}
