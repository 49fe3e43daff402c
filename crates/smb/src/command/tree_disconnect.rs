//! TREE_DISCONNECT (MS-SMB2 3.3.5.8).

use std::rc::Rc;

use smb_wire::Status;

use crate::connection::{Call, Reply};

/// Ends a session's use of a share, with all that was open in it.
pub(super) async fn tree_disconnect(call: &Call<'_>) -> Result<Reply, Status> {
    let (channel, tree) = (call.channel()?, call.tree()?);
    let id = tree.connect.id;
    //= MS-SMB2 3.3.5.8
    //# The tree is taken from Session.TreeConnectTable, and every open of it is closed; STATUS_NETWORK_NAME_DELETED where it is not there.
    channel.session.remove_tree(id).ok_or(Status::NETWORK_NAME_DELETED)?;
    call.connection.lane.close_tree(channel.session.id, Rc::clone(tree)).await;
    Ok(Reply::empty())
}
