//! Bytes of files to servers: a range by one call, a whole file by ranges one after the other.

use std::rc::Rc;

use afs_wire::{Fid, Status, StoreStatus, rxafs};
use rx_lane::{Call, CallError};
use xdr::rpc::{self, Failure};

pub use crate::content::{Piece, Source};
use crate::error::Error;
use crate::fetch;
use crate::file_server::FileServer;
use crate::out_of_band;
use crate::status::Metadata;

/// Stores a range by one call of one of the connections, again while the volume is busy.
///
/// # Errors
/// [`Error`]; the source's own, and [`Error::Short`] where it ends early: the call is aborted.
pub async fn range(
    server: &FileServer,
    connection: usize,
    piece: Piece,
    source: &impl Source,
) -> Result<Metadata, Error> {
    server
        .patiently(async || {
            if let Some(metadata) = out_of_band::store(server, connection, piece, source).await? {
                return Ok(metadata);
            }
            if !server.is_old() {
                match new(server, connection, piece, source).await {
                    Err(Error::Refused(code)) if code.is_unknown_procedure() => server.note_old(),
                    done => return done,
                }
            }
            old(server, connection, piece, source).await
        })
        .await
}

async fn new(
    server: &FileServer,
    connection: usize,
    piece: Piece,
    source: &impl Source,
) -> Result<Metadata, Error> {
    let Piece { fid, change, offset, length, file_length } = piece;
    let request = rxafs::StoreData64 { fid, change, offset, length, file_length };
    let status = |reply: rxafs::StoreData64Reply| reply.status;
    exchange(server, connection, &request, status, piece, source).await
}

/// Stores a range by the procedure of 32 bits.
async fn old(
    server: &FileServer,
    connection: usize,
    piece: Piece,
    source: &impl Source,
) -> Result<Metadata, Error> {
    let word = |value: u64| u32::try_from(value).ok().filter(|&value| value <= i32::MAX as u32);
    let words = (word(piece.offset), word(piece.length), word(piece.file_length));
    let (Some(offset), Some(length), Some(file_length)) = words else { return Err(Error::NoLargeFiles) };
    let request = rxafs::StoreData { fid: piece.fid, change: piece.change, offset, length, file_length };
    let status = |reply: rxafs::StoreDataReply| reply.status;
    exchange(server, connection, &request, status, piece, source).await
}

/// Makes one call.
async fn exchange<P: rpc::SplitCall>(
    server: &FileServer,
    connection: usize,
    request: &P,
    status: impl FnOnce(P::Reply<'_>) -> Status,
    piece: Piece,
    source: &impl Source,
) -> Result<Metadata, Error> {
    let mut call = server.open(connection).await?;
    let outcome = async {
        rpc::start(&mut call, request).await?;
        if let Err(error) = data(&mut call, piece, source).await? {
            return Ok(Err(error));
        }
        call.finish().await?;
        let reply = rpc::end::<P, _>(&mut call).await?;
        Ok(Ok(Metadata::of(&status(reply.get()))))
    };
    outcome.await.map_err(|failure| server.failed(call, failure))?
}

async fn data(
    call: &mut Call,
    piece: Piece,
    source: &impl Source,
) -> Result<Result<(), Error>, Failure<CallError>> {
    let mut at = 0;
    while at < piece.length {
        let wanted = usize::try_from(piece.length - at).unwrap_or(usize::MAX).min(ROOMS_MAX);
        let mut packet_buffers = call.packet_buffers(wanted).await?;
        let filled = match source.fill(piece.offset + at, &mut packet_buffers).await {
            Ok(0) => return Ok(Err(Error::Short { got: at, wanted: piece.length })),
            Ok(filled) => filled,
            Err(error) => return Ok(Err(error)),
        };
        packet_buffers.commit(filled)?;
        at += filled as u64;
    }
    Ok(Ok(()))
}

/// Stores a file of `length` bytes from its start, a piece at a time; `change` goes with the first one.
///
/// # Errors
/// As [`range`]; [`Error::Size`] when the server says at the end that the file has another length.
pub async fn whole(
    server: &FileServer,
    fid: Fid,
    change: StoreStatus,
    length: u64,
    source: &impl Source,
    progress: Rc<dyn Fn(u64)>,
) -> Result<Metadata, Error> {
    let connection = server.turn();
    let most = if server.goes_out_of_band(length).await { fetch::OOB_PIECE } else { PIECE };
    let mut offset = 0;
    loop {
        let count = (length - offset).min(most);
        let piece = Piece { fid, change, offset, length: count, file_length: length };
        let metadata = range(server, connection, piece, source).await?;
        progress(count);
        offset += count;
        if offset == length {
            if metadata.length != length {
                return Err(Error::Size(metadata.length, length));
            }
            return Ok(metadata);
        }
    }
}

/// Bytes of rooms asked for at a time.
const ROOMS_MAX: usize = 1 << 20;
/// Bytes of one call.
const PIECE: u64 = 16 << 20;
