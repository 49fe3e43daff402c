//! OPLOCK_BREAK (MS-SMB2 3.3.5.22): a client gives back what it cached.

use smb_wire::body::oplock_break::{Break, LeaseBreakAck, OplockBreak};
use smb_wire::fixed::Fixed;
use smb_wire::{FileId, Status};

use crate::connection::{Call, Reply};
use crate::session::TreeKind;

/// Handles OPLOCK_BREAK: an oplock or a lease falls to what the client says.
pub(super) async fn oplock_break(call: &Call<'_>, answer: &Break<'_>) -> Result<Reply, Status> {
    match answer {
        Break::Oplock(answer) => oplock(call, answer.file_id, answer.oplock_level),
        Break::LeaseAck(answer) => {
            let share = call.connection.lane.any_share(call)?;
            let TreeKind::Disk { share, ctx } = &share.kind else {
                return Err(Status::OBJECT_NAME_NOT_FOUND);
            };
            let state = share.lease_break(ctx, answer.lease_key, answer.lease_state.get())?;
            let response = LeaseBreakAck {
                lease_key: answer.lease_key,
                lease_state: state.into(),
                ..LeaseBreakAck::blank()
            };
            Ok(Reply::of(move |body| body.push(&response)))
        }
        // Only a server sends it.
        Break::Lease(_) => Err(Status::INVALID_PARAMETER),
    }
}

fn oplock(call: &Call<'_>, file_id: FileId, level: u8) -> Result<Reply, Status> {
    let (lane, channel) = (&call.connection.lane, call.channel()?);
    // A tree that is not the session's fails with STATUS_NETWORK_NAME_DELETED, an open that is not of the tree with STATUS_FILE_CLOSED
    // (MS-SMB2 3.3.5.22.1).
    let tree = lane.tree(call.connection, channel, call.context.get().tree_id)?;
    let open = lane.opens().find(channel.session.id, file_id)?;
    if open.tree() != tree.connect.id {
        return Err(Status::FILE_CLOSED);
    }
    let TreeKind::Disk { share, ctx } = &tree.kind else { return Err(Status::FILE_CLOSED) };
    let oplock_level = share.oplock_break(ctx, &open, level)?;
    let response = OplockBreak { oplock_level, file_id, ..OplockBreak::blank() };
    Ok(Reply::of(move |body| body.push(&response)))
}
