//! CREATE (MS-SMB2 3.3.5.9): of a file by its share, of a named pipe here.

use std::rc::Rc;
use std::sync::Arc;

use smb_tree::{Open, RequestContext};
use smb_wire::Status;
use smb_wire::create::{CreateRequest, CreateResponse};

use crate::connection::{Call, Reply};
use crate::session::{SessionState, TreeKind};

/// Opens or makes what the request names.
pub(super) async fn create(call: &Call<'_>, request: &CreateRequest<'_>) -> Result<Reply, Status> {
    let (tree, channel) = (call.tree()?, call.channel()?);
    let (id, fixed, contexts) = match &tree.kind {
        TreeKind::Disk { share, ctx } => {
            let created = share.create(ctx, request, call.sequence(), call.replays()).await;
            let created = match created {
                Ok(created) => created,
                Err(refused) => return Ok(Reply::error(refused.status, refused.data)),
            };
            // What ended the session or the tree meanwhile may not have seen what was opened since.
            if channel.session.state() != SessionState::Valid {
                Box::pin(close_unseen(call, ctx, created.open, true)).await;
                return Err(Status::USER_SESSION_DELETED);
            }
            if !tree.connect.is_open() {
                Box::pin(close_unseen(call, ctx, created.open, false)).await;
                return Err(Status::NETWORK_NAME_DELETED);
            }
            (created.open.id(), created.fixed, created.contexts)
        }
        TreeKind::Pipes => {
            let pipes = &call.connection.lane.server_state.pipes;
            let (id, fixed) = pipes.open(call, tree.connect.id, request)?;
            (id, fixed, Vec::new())
        }
    };
    call.update_context(|context| context.file_id = Some(id));
    Ok(Reply::of(move |body| CreateResponse::write(body, fixed, &contexts)))
}

/// Closes an open whose session, or tree alone, has ended before it; also where this is cut.
async fn close_unseen(call: &Call<'_>, ctx: &RequestContext, open: Arc<Open>, session_is_over: bool) {
    let (lane, ctx) = (Rc::clone(&call.connection.lane), ctx.clone());
    lane::run_to_completion(async move {
        let (trees, opens) = (lane.of_trees(), vec![open]);
        if session_is_over {
            trees.leave_session(&ctx, opens).await;
        } else {
            trees.close_all(&ctx, opens).await;
        }
    })
    .await;
}
