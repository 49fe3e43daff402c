//! The commands, each in a file of its own.

mod binding;
mod echo;
mod ioctl;
mod logoff;
pub(crate) mod negotiate;
mod session_setup;
mod tree_connect;
mod tree_disconnect;

use std::rc::Rc;

use smb_wire::{Command, Header, Request, Status};

use crate::connection::{Call, Connection, Reply};

/// Answers a request.
///
/// # Errors
/// The status that it fails with, where nothing goes with it.
pub(crate) async fn run(call: &Call<'_>, request: Request<'_>) -> Result<Reply, Status> {
    match request {
        Request::Negotiate(request) => negotiate::negotiate(call, &request),
        Request::SessionSetup(request) => session_setup::session_setup(call, &request).await,
        Request::Logoff => logoff::logoff(call).await,
        Request::TreeConnect(request) => tree_connect::tree_connect(call, &request).await,
        Request::TreeDisconnect => tree_disconnect::tree_disconnect(call).await,
        Request::Echo => echo::echo(),
        Request::Ioctl(request) => ioctl::ioctl(call, &request).await,
        _ => Err(Status::NOT_SUPPORTED),
    }
}

/// Hears of each reply as it was put together, before it is signed: what was said before there are keys goes into them.
pub(crate) fn was_put(connection: &Rc<Connection>, command: Command, header: &Header, reply: &[u8]) {
    match command {
        Command::Negotiate => negotiate::answered(connection, reply),
        Command::SessionSetup if header.status() == Status::MORE_PROCESSING_REQUIRED => {
            session_setup::answered(connection, header.session_id.get(), reply);
        }
        _ => {}
    }
}
