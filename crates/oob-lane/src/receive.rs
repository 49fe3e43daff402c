//! A part of a file out of a connection into its owner's hands, in pieces of its own memory.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use lane::buffer::Buf;
use lane::net::TcpStream;
use lane::time::timeout;
use oob::{Expected, HEADER_BYTES, Receiving};

use crate::{Broken, Memory, Patience, Stop};

/// End of a received part.
#[derive(Debug)]
pub enum Received<E> {
    /// The part has come as a whole and was taken. The connection is idle.
    Whole,
    /// The other end stopped the part with this code. The connection is idle.
    Stopped(i32),
    /// The transfer is over with this code; more may come: see [`discard`].
    Over(i32),
    /// The caller's `take` did not accept a piece, with this error; more may come.
    Refused(E),
}

/// Receives what is left of a part, and calls `take` for each piece with its offset in the file and its
/// bytes.
///
/// # Errors
/// [`Broken`]: the connection is to be closed.
pub async fn receive_part<E>(
    stream: &TcpStream,
    receiving: &mut Receiving,
    stop: &Stop,
    memory: &Memory,
    patience: &Patience,
    mut take: impl AsyncFnMut(u64, Buf) -> Result<(), E>,
) -> Result<Received<E>, Broken> {
    loop {
        if let Some(code) = stop.code() {
            return Ok(Received::Over(code));
        }
        match receiving.expected() {
            Expected::Ended => return Ok(Received::Whole),
            Expected::Stopped(code) => return Ok(Received::Stopped(code)),
            expected => {
                let piece = pin!(piece(stream, receiving, memory, patience.piece, expected));
                let piece = match select(piece, pin!(stop.stopped())).await {
                    Either::Left((piece, _)) => piece?,
                    Either::Right((code, _)) => return Ok(Received::Over(code)),
                };
                let Some((offset, bytes)) = piece else { continue };
                if let Err(error) = take(offset, bytes).await {
                    return Ok(Received::Refused(error));
                }
            }
        }
    }
}

/// Discards what is left of a part, at most `max` bytes within the time `within`: the connection is idle
/// then.
///
/// # Errors
/// [`Broken`], also where there is more: the connection is to be closed.
pub async fn discard(
    stream: &TcpStream,
    receiving: &mut Receiving,
    memory: &Memory,
    max: u64,
    within: Duration,
) -> Result<(), Broken> {
    let enough = receiving.left().saturating_sub(max);
    let thrown = timeout(within, async {
        loop {
            match receiving.expected() {
                Expected::Ended | Expected::Stopped(_) => return Ok(()),
                _ if receiving.left() < enough => return Err(Broken::Stalled),
                expected => drop(piece(stream, receiving, memory, within, expected).await?),
            }
        }
    });
    thrown.await.unwrap_or(Err(Broken::Stalled))
}

/// Receives the next header, or bytes of the file, with the header behind them where one is certain to
/// follow.
async fn piece(
    stream: &TcpStream,
    receiving: &mut Receiving,
    memory: &Memory,
    within: Duration,
    expected: Expected,
) -> Result<Option<(u64, Buf)>, Broken> {
    let (offset, count) = match expected {
        Expected::Bytes { offset, len } => (offset, len.min(RECEIVE_BYTES)),
        _ => (0, 0),
    };
    let with_header = count == 0 || receiving.is_followed_by_header(count);
    let bytes = count as usize;
    let wanted = bytes + if with_header { HEADER_BYTES } else { 0 };
    // A header alone needs no piece of memory, which would be cleared for it.
    let room = if count == 0 { Vec::new() } else { memory.take(RECEIVE_BYTES as usize + HEADER_BYTES) };
    let received = timeout(within, stream.recv_alone(room, wanted)).await;
    let (result, room) = received.map_err(|_| Broken::Stalled)?;
    result?;
    let header = with_header.then(|| std::array::from_fn(|at| room[bytes + at]));
    receiving.handle_bytes(count);
    if let Some(header) = header {
        receiving.handle_header(&header)?;
    }
    Ok((count > 0).then(|| (offset, memory.lend(room, bytes))))
}

/// Bytes of the file received at a time.
const RECEIVE_BYTES: u32 = 256 << 10;
