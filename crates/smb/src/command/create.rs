//! CREATE (MS-SMB2 3.3.5.9): of a file by its share, of a named pipe here.

use smb_wire::Status;
use smb_wire::create::{CreateRequest, CreateResponse};

use crate::connection::{Call, Reply};
use crate::session::{Kind, State};

/// Opens or makes what the request names.
pub(super) async fn create(call: &Call<'_>, request: &CreateRequest<'_>) -> Result<Reply, Status> {
    let (tree, channel) = (call.tree()?, call.channel()?);
    let (id, fixed, contexts) = match &tree.kind {
        Kind::Disk { share, asker } => {
            let created = share.create(asker, request, call.sequence(), call.replays()).await;
            let created = match created {
                Ok(created) => created,
                Err(refused) => return Ok(Reply::error(refused.status, refused.data)),
            };
            // Who ended the session or the tree meanwhile may not have seen what was opened since.
            if channel.session.state() != State::Valid {
                call.connection.lane.of_trees().leave_session(asker, vec![created.open]).await;
                return Err(Status::USER_SESSION_DELETED);
            }
            if !tree.connect.is_open() {
                call.connection.lane.of_trees().close_all(asker, vec![created.open]).await;
                return Err(Status::NETWORK_NAME_DELETED);
            }
            (created.open.id(), created.fixed, created.contexts)
        }
        Kind::Pipes => {
            let lane = &call.connection.lane;
            let (id, fixed) = lane.kept.pipes.open(channel, tree.connect.id, request, &lane.counters)?;
            (id, fixed, Vec::new())
        }
    };
    call.now_with(|step| step.file_id = Some(id));
    Ok(Reply::of(move |body| CreateResponse::write(body, fixed, &contexts)))
}
