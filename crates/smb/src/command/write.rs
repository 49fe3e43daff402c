//! WRITE (MS-SMB2 3.3.5.13).

use smb_wire::body::write::{FLAG_WRITE_THROUGH, WriteRequest, WriteRequestFixed, WriteResponse};
use smb_wire::fixed::Fixed;
use smb_wire::{Dialect, Status};

use super::target::Target;
use super::test_controls;
use crate::connection::{Call, ReceivedWrite, Reply};

/// Writes bytes that lie in a message.
pub(super) async fn write(call: &Call<'_>, request: &WriteRequest<'_>) -> Result<Reply, Status> {
    let (fixed, data) = (request.fixed, request.data);
    check(call, fixed)?;
    let written = match call.target()? {
        Target::File { share, ctx, open } => {
            let _entered = call.enter(&open)?;
            test_controls::slowness(call).await;
            share.write_bytes(&ctx, &open, fixed.offset.get(), data, is_through(call, fixed)?).await?
        }
        Target::Pipe(pipe) => pipe.write(call, data)?,
    };
    Ok(answer(call, written))
}

/// Writes bytes from where they were received.
pub(crate) async fn write_received(call: &Call<'_>, received: ReceivedWrite) -> Result<Reply, Status> {
    let ReceivedWrite { fixed, data, charge } = received;
    check(call, &fixed)?;
    let written = match call.target()? {
        Target::File { share, ctx, open } => {
            let _entered = call.enter(&open)?;
            test_controls::slowness(call).await;
            let through = is_through(call, &fixed)?;
            let (written, buffers) = share.write(&ctx, &open, fixed.offset.get(), vec![data], through).await;
            drop(buffers);
            written?
        }
        Target::Pipe(pipe) => pipe.write(call, &data)?,
    };
    drop(charge);
    Ok(answer(call, written))
}

fn check(call: &Call<'_>, fixed: &WriteRequestFixed) -> Result<(), Status> {
    //= MS-SMB2 3.3.5.13
    //# More than MaxWriteSize fails with STATUS_INVALID_PARAMETER.
    if fixed.length.get() > call.negotiated()?.transfer_max {
        return Err(Status::INVALID_PARAMETER);
    }
    call.pays(fixed.length.get(), 0)
}

/// Returns whether the data is to be on the disk before the answer.
fn is_through(call: &Call<'_>, fixed: &WriteRequestFixed) -> Result<bool, Status> {
    Ok(call.negotiated()?.dialect >= Dialect::Smb210 && fixed.flags.get() & FLAG_WRITE_THROUGH != 0)
}

fn answer(call: &Call<'_>, written: u32) -> Reply {
    call.connection.lane.counters.bytes_written.add(written.into());
    let response = WriteResponse { count: written.into(), ..WriteResponse::blank() };
    Reply::of(move |body| body.push(&response))
}
