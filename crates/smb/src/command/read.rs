//! READ (MS-SMB2 3.3.5.12). Which way the bytes take: docs/design/smb.md "Data path".

use std::rc::Rc;
use std::sync::Arc;

use lane::buffer::Buf;
use smb_tree::{Open, ReadSource, RequestContext, Share};
use smb_wire::Status;
use smb_wire::body::read::{ReadRequest, ReadResponse};
use smb_wire::fsctl::TEST_PADDING;
use vfs::OpenFile;

use super::target::Target;
use super::test_controls;
use crate::connection::{Call, Content, DATA_AT, Reply};
use crate::memory::Pieces;

/// Handles READ: bytes of a file, a stream or a pipe.
pub(super) async fn read(call: &Call<'_>, request: &ReadRequest) -> Result<Reply, Status> {
    let (offset, length) = (request.offset.get(), request.length.get());
    //= MS-SMB2 3.3.5.12
    //# More than MaxReadSize fails with STATUS_INVALID_PARAMETER.
    if length > call.negotiated()?.transfer_max {
        return Err(Status::INVALID_PARAMETER);
    }
    call.pays(0, length)?;
    let (share, ctx, open) = match call.target()? {
        Target::File { share, ctx, open } => (share, ctx, open),
        Target::Pipe(pipe) => {
            let answer = pipe.read(length as usize).await?;
            return Ok(Reply::with(answer.status, move |body| ReadResponse::write(body, &answer.data)));
        }
    };
    let _entered = call.enter(&open)?;
    test_controls::slowness(call).await;
    let padding: &'static [u8] = if call.connection.pads_reads.get() { &TEST_PADDING } else { &[] };
    // Its message is put together in memory.
    let is_gathered = call.is_compounded || !padding.is_empty();
    if !is_gathered && let Some(short) = short(call, &share, &ctx, &open, request).await? {
        return Ok(short);
    }
    match share.read(&ctx, &open, offset, length, request.minimum_count.get()).await? {
        ReadSource::Bytes(data) => {
            Ok(Reply::of(move |body| ReadResponse::write_behind(body, padding, &data)))
        }
        ReadSource::File { file, offset, len } if is_gathered || len == 0 => {
            let (pieces, size) = (&call.connection.lane.pieces, len as usize);
            let charge = call.memory(Pieces::size(size)).await?;
            let room = pieces.lend_blank(size, 0);
            let data = into_memory(&file, offset, room, len).await?;
            call.connection.lane.counters.bytes_read.add(data.len() as u64);
            let reply = Reply::of(move |body| ReadResponse::write_behind(body, padding, &data));
            Ok(reply.paid_by(Some(charge)))
        }
        ReadSource::File { file, offset, len } if call.protects_reply => {
            let trail = None;
            Ok(Reply { content: Content::Later { file, offset, len, trail }, ..Reply::empty() })
        }
        ReadSource::File { file, offset, len } => {
            Ok(Reply { content: Content::File { file, offset, len }, ..Reply::empty() })
        }
    }
}

/// Answers a short READ whose data is in memory. It goes out with the other short replies of its turn: three calls of
/// the kernel fewer than page cache to socket costs.
async fn short(
    call: &Call<'_>,
    share: &Share,
    ctx: &RequestContext,
    open: &Arc<Open>,
    request: &ReadRequest,
) -> Result<Option<Reply>, Status> {
    let (offset, length) = (request.offset.get(), request.length.get());
    if length == 0 || length > SHORT_MAX || request.minimum_count.get() > length {
        return Ok(None);
    }
    let size = DATA_AT + length as usize;
    // Without room the bytes come the way that holds none, or the request waits there.
    let Some(charge) = call.connection.account.try_charge(size) else { return Ok(None) };
    let mut message = vec![0; size];
    if !share.read_resident(ctx, open, offset, &mut message[DATA_AT..]).await? {
        return Ok(None);
    }
    call.connection.lane.counters.bytes_read.add(length.into());
    Ok(Some(Reply { content: Content::Short { message, charge }, ..Reply::empty() }))
}

/// Appends bytes of a file to a buffer that has room for them.
async fn into_memory(file: &Rc<OpenFile>, offset: u64, buf: Buf, len: u32) -> Result<Buf, Status> {
    let (read, buf) = file.lane_file().read_at(offset, len as usize, buf).await;
    match read {
        // It became shorter since it was looked at.
        Ok(0) if len > 0 => Err(Status::END_OF_FILE),
        Ok(_) => Ok(buf),
        Err(_) => Err(Status::UNEXPECTED_IO_ERROR),
    }
}

/// Longest READ that is copied; a longer one goes page cache to socket, or is read into a piece of the
/// lane's.
const SHORT_MAX: u32 = 16 << 10;
