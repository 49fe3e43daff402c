//! LOGOFF (MS-SMB2 3.3.5.6).

use smb_wire::Status;

use crate::connection::{Call, Reply};

/// Ends a session on all its channels, with all that was open.
pub(super) async fn logoff(call: &Call<'_>) -> Result<Reply, Status> {
    let (connection, channel) = (call.connection, call.channel()?);
    if connection.channels.borrow_mut().remove(&channel.session.id).is_some() {
        connection.lane.counters.sessions.sub(1);
    }
    channel.session.remove_channel(connection.number);
    connection.lane.close_session(connection, &channel.session).await;
    Ok(Reply::empty())
}
