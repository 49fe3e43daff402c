//! TREE_CONNECT (MS-SMB2 3.3.5.7).

use smb_tree::consumer_of;
use smb_wire::body::tree_connect::{TreeConnectRequest, TreeConnectResponse, share_flags, share_type};
use smb_wire::create::access::rights;
use smb_wire::fixed::Fixed;
use smb_wire::header::flags;
use smb_wire::name::parse_share;
use smb_wire::{Dialect, Status};

use crate::connection::{Call, Reply};
use crate::session::{TreeConnect, TreeKind};
use crate::settings::PIPES;

/// Begins a session's use of a share.
pub(super) async fn tree_connect(call: &Call<'_>, request: &TreeConnectRequest<'_>) -> Result<Reply, Status> {
    let (connection, channel) = (call.connection, call.channel()?);
    let (lane, session) = (&connection.lane, &channel.session);
    //= MS-SMB2 3.3.5.7
    //# In 3.1.1 it is signed or encrypted, unless the session is a guest's or anonymous; else the connection ends.
    let protected = call.is_sealed || call.header().has(flags::SIGNED);
    if call.negotiated()?.dialect == Dialect::Smb311 && session.is_proved() && !protected {
        lane.counters.unsigned_refused.increment();
        connection.end();
        return Err(Status::ACCESS_DENIED);
    }
    let (_, name) = parse_share(request.path)?;
    let refused = |status| {
        lane.counters.trees_refused.increment();
        status
    };
    let (share, root) = if name.eq_ignore_ascii_case(PIPES) {
        (PIPES.to_owned(), None)
    } else {
        let name = name.to_lowercase();
        let options = lane.options();
        let found = options.shares.iter().find(|share| share.name.to_lowercase() == name);
        //= MS-SMB2 3.3.5.7
        //# A share that there is not fails with STATUS_BAD_NETWORK_NAME.
        let section = found.ok_or_else(|| refused(Status::BAD_NETWORK_NAME))?;
        let root = lane.root_of(connection, channel, section).await.map_err(refused)?;
        (section.name.clone(), root)
    };
    let who = session.principal().ok_or_else(|| refused(Status::USER_SESSION_DELETED))?;
    let room = lane
        .server_state
        .trees
        .take(connection.number, consumer_of(connection.peer, &who))
        .map_err(refused)?;
    let connect = session.add_tree(|id| TreeConnect::new(id, &share, root, room)).map_err(refused)?;
    let tree = match lane.tree(connection, channel, connect.id) {
        Ok(tree) => tree,
        Err(status) => {
            session.remove_tree(connect.id);
            return Err(refused(status));
        }
    };
    call.update_context(|context| context.tree_id = connect.id);
    let mut response = TreeConnectResponse::blank();
    match &tree.kind {
        TreeKind::Pipes => {
            response.share_type = share_type::PIPE;
            response.share_flags.set(share_flags::NO_CACHING);
            response.maximal_access.set(rights::FILE_ALL);
        }
        TreeKind::Disk { share, ctx } => {
            response.share_type = share_type::DISK;
            //= MS-SMB2 3.3.5.7
            //# SHI1005_FLAGS_ACCESS_BASED_DIRECTORY_ENUM where listings leave out what the user may not read.
            if share.hides_unreadable() {
                response.share_flags.set(share_flags::ACCESS_BASED_DIRECTORY_ENUM);
            }
            response.maximal_access.set(share.maximal_access(ctx).await?);
        }
    }
    Ok(Reply::of(move |body| body.push(&response)))
}
