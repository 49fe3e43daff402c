//! LOGOFF (MS-SMB2 3.3.5.6).

use smb_wire::Status;

use crate::connection::{Call, Reply};

/// Ends a session on all its channels, with all that was open.
pub(super) async fn logoff(call: &Call<'_>) -> Result<Reply, Status> {
    let (connection, channel) = (call.connection, call.channel()?);
    //= MS-SMB2 3.3.5.6
    //# The session is taken from every channel's table and from GlobalSessionTable; its opens are closed, but for those that are durable,
    //# and the response comes after that.
    connection.remove_channel(channel.session.id);
    channel.session.remove_channel(connection.number);
    connection.lane.close_session(connection, &channel.session).await;
    Ok(Reply::empty())
}
