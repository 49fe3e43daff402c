//! The commands, each in a file of its own.

pub(crate) mod binding;
mod change_notify;
mod close;
mod create;
mod echo;
mod flush;
mod ioctl;
mod ioctl_response;
mod lock;
mod logoff;
pub(crate) mod negotiate;
mod oplock_break;
mod query_directory;
mod query_info;
mod read;
mod session_setup;
mod set_info;
mod target;
mod test_controls;
mod tree_connect;
mod tree_disconnect;
pub(crate) mod write;

use std::rc::Rc;

use smb_wire::{Command, Header, Request, Status};

use crate::connection::{Call, Connection, Reply};

/// Answers a request. What is done to data is done by the task of its frame as it stands; a command that needs more room while it waits
/// has it for itself, so that every READ need not have it too.
///
/// # Errors
/// The status that it fails with, where nothing goes with it.
pub(crate) async fn run(call: &Call<'_>, request: Request<'_>) -> Result<Reply, Status> {
    match request {
        Request::Negotiate(request) => negotiate::negotiate(call, &request),
        Request::SessionSetup(request) => Box::pin(session_setup::session_setup(call, &request)).await,
        Request::Logoff => Box::pin(logoff::logoff(call)).await,
        Request::TreeConnect(request) => tree_connect::tree_connect(call, &request).await,
        Request::TreeDisconnect => tree_disconnect::tree_disconnect(call).await,
        Request::Create(request) => Box::pin(create::create(call, &request)).await,
        Request::Close(request) => close::close(call, request).await,
        Request::Flush(_) => Box::pin(flush::flush(call)).await,
        Request::Read(request) => read::read(call, request).await,
        Request::Write(request) => write::write(call, &request).await,
        Request::Lock(request) => lock::lock(call, &request).await,
        Request::Ioctl(request) => ioctl::ioctl(call, &request).await,
        // It has no answer, and was obeyed before.
        Request::Cancel => Err(Status::INVALID_PARAMETER),
        Request::Echo => echo::echo(call),
        Request::QueryDirectory(request) => query_directory::query_directory(call, &request).await,
        Request::QueryInfo(request) => query_info::query_info(call, &request).await,
        Request::SetInfo(request) => set_info::set_info(call, &request).await,
        Request::OplockBreak(answer) => Box::pin(oplock_break::oplock_break(call, &answer)).await,
        Request::ChangeNotify(request) => change_notify::change_notify(call, request).await,
    }
}

/// Adds a reply to the pre-authentication integrity hash, before it is signed (MS-SMB2 3.3.5.4, 3.3.5.5).
pub(crate) fn reply_built(connection: &Rc<Connection>, command: Command, header: &Header, reply: &[u8]) {
    match command {
        Command::Negotiate => negotiate::answered(connection, reply),
        Command::SessionSetup if header.status() == Status::MORE_PROCESSING_REQUIRED => {
            session_setup::answered(connection, header.session_id.get(), reply);
        }
        _ => {}
    }
}
