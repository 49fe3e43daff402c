//! CREATE (MS-SMB2 3.3.5.9): of a file by its share, of a named pipe here.

use smb_wire::Status;
use smb_wire::create::{CreateRequest, CreateResponse};

use crate::connection::{Call, Reply};
use crate::session::Kind;

/// Opens or makes what the request names.
pub(super) async fn create(call: &Call<'_>, request: &CreateRequest<'_>) -> Result<Reply, Status> {
    let tree = call.tree()?;
    let (id, fixed, contexts) = match &tree.kind {
        Kind::Disk { share, asker } => {
            let created = share.create(asker, request, call.sequence(), call.replays()).await;
            let created = match created {
                Ok(created) => created,
                Err(refused) => return Ok(Reply::error(refused.status, refused.data)),
            };
            (created.open.id(), created.fixed, created.contexts)
        }
        Kind::Pipes => {
            let (id, fixed) =
                call.connection.lane.kept.pipes.open(call.channel()?, tree.connect.id, request)?;
            (id, fixed, Vec::new())
        }
    };
    call.now_with(|step| step.file_id = Some(id));
    Ok(Reply::of(move |body| CreateResponse::write(body, fixed, &contexts)))
}
