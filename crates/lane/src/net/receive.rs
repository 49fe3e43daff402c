//! Receiving into a caller's own memory: long messages come as one piece, without a buffer of the lane.

use std::future::poll_fn;
use std::io;

use super::TcpStream;
use crate::backend::operation as op;
use crate::backend::{OpFuture, RecvPaused};
use crate::buffer::RecvBuf;
use crate::context;

impl TcpStream {
    /// Appends exactly `len` bytes to `into`, and gives `into` back in every case. For long messages, whose
    /// bytes the kernel puts where they belong; what the stream has received already comes first. The lane's
    /// own receive rests meanwhile and begins again with the next [`TcpStream::recv`], which costs two
    /// operations: heads and short messages come by that.
    ///
    /// A future that is dropped early loses no bytes: those it had go back to the stream, in memory that counts as the
    /// stream's untaken bytes do.
    ///
    /// # Errors
    /// `UnexpectedEof` when the stream ends first, or is reset after some of the bytes; what came before is in the buffer
    /// then.
    pub async fn recv_exact(&self, into: Vec<u8>, len: usize) -> (io::Result<()>, Vec<u8>) {
        let start = into.len();
        let mut taken = TakenBytes { stream: self, bytes: into, start };
        taken.bytes.reserve_exact(len);
        let result = self.fill(&mut taken, start + len, ALONE_BYTES_MIN).await;
        (result, taken.keep())
    }

    /// Receives exactly `len` bytes, however short, and takes nothing beyond them off the socket
    /// ([`TcpStream::recv_exact`]). A stream that was read in no other way can then still be given away
    /// ([`TcpStream::release`]), and the lane's own receive is not begun only to rest again. For streams that
    /// say how long each message is.
    ///
    /// # Errors
    /// As there.
    pub async fn recv_alone(&self, into: Vec<u8>, len: usize) -> (io::Result<()>, Vec<u8>) {
        let start = into.len();
        let mut taken = TakenBytes { stream: self, bytes: into, start };
        taken.bytes.reserve_exact(len);
        let result = self.fill(&mut taken, start + len, 0).await;
        (result, taken.keep())
    }

    /// Fills the buffer; a rest shorter than `alone_min` comes by the lane's own receive.
    async fn fill(&self, taken: &mut TakenBytes<'_>, end: usize, alone_min: usize) -> io::Result<()> {
        while taken.bytes.len() < end {
            let missing = end - taken.bytes.len();
            let recv_paused = match missing < alone_min {
                true => RecvPaused::Bytes(self.recv().await?),
                false => poll_fn(|cx| context::with(|lane| lane.backend().poll_quiet(self.fd(), cx))).await?,
            };
            match recv_paused {
                RecvPaused::Bytes(received) if received.is_empty() => {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                RecvPaused::Bytes(received) => taken.take(received, missing),
                RecvPaused::Resting(name) => {
                    let into = std::mem::take(&mut taken.bytes);
                    let receive = op::ReceiveInto::new(self.fd(), name, into, taken.start, missing);
                    let received = OpFuture::submit(receive).await;
                    taken.bytes = received.into;
                    if received.result? == 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
            }
        }
        Ok(())
    }
}

/// Bytes that were taken from a stream for a task that may give up waiting for the rest.
struct TakenBytes<'a> {
    stream: &'a TcpStream,
    bytes: Vec<u8>,
    /// Offset of the stream's first byte; bytes before are the caller's.
    start: usize,
}

impl TakenBytes<'_> {
    /// Takes at most `most` bytes; the rest goes back to the stream.
    fn take(&mut self, mut received: RecvBuf, most: usize) {
        let n = received.len().min(most);
        self.bytes.extend_from_slice(&received[..n]);
        received.advance(n);
        self.put_back(received);
    }

    fn keep(mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    fn put_back(&self, bytes: RecvBuf) {
        if !bytes.is_empty() {
            context::try_with(|lane| lane.backend().put_back(self.stream.fd(), bytes));
        }
    }
}

impl Drop for TakenBytes<'_> {
    fn drop(&mut self) {
        if self.bytes.len() > self.start {
            let mut bytes = self.bytes.split_off(self.start);
            bytes.shrink_to_fit();
            self.put_back(RecvBuf::from_vec(bytes));
        }
    }
}

//@ limit: long message received into a service's memory
//@ section: Lanes
//@ unit: byte
//@ connection: what its service gives it; given up, what had come is among the copies
//@ all: lane: as its services
//@ empty: as the copies; others feel nothing
//@ counter: lane_recv_held_bytes
//@ attack: smb-pools
/// Least bytes that are worth a receive of their own; fewer come by the lane's, with what follows.
const ALONE_BYTES_MIN: usize = 32 << 10;
