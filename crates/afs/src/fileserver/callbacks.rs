//! GiveUpCallBacks (147), GiveUpAllCallBacks (65539), CallBackRxConnAddr (65541), GetCapabilities (65540).

use afs_wire::code::EINVAL;
use afs_wire::rxafs::{GetCapabilities, GiveUpCallBacks};
use afs_wire::{CAPABILITY_64_BIT_FILES, CAPABILITY_ERROR_TRANSLATION, CAPABILITY_WRITE_LOCKS};
use xdr::List;

use super::call_context::Reply;
use super::{Call, CallFailure, ServedCall};

impl ServedCall {
    /// A hint that the server need not take: a client that is told of a file of which it keeps nothing says that it has heard. What it
    /// was promised goes with its time.
    pub(super) async fn give_up(&self, call: &Call, request: &GiveUpCallBacks) -> Result<(), CallFailure> {
        let GiveUpCallBacks { fids, call_backs } = request;
        // Each promise is that of the file in its place; stock servers ask for no more of them either.
        if call_backs.0.len() > fids.0.len() {
            return Err(EINVAL.into());
        }
        self.host(call).await?;
        self.server.inner.hosts.give_up_callbacks(fids.0.len());
        Ok(())
    }

    pub(super) async fn give_up_all(&self, call: &Call) -> Result<(), CallFailure> {
        let host = self.host(call).await?;
        self.server.inner.hosts.give_up_all_callbacks(call.data(), &host).await;
        Ok(())
    }

    /// Returns the server's capabilities, for any client. A client is met first, as by stock servers: Linux's
    /// begins with this call, and counts every promise void, for as long as it keeps the file, that comes by
    /// a call during which it is told that it relies on nothing.
    pub(super) async fn capabilities(&self, call: &Call) -> Reply<GetCapabilities> {
        // A client that cannot be called is told as well: it will hear so when it asks for a file.
        let _ = self.host(call).await;
        let word = CAPABILITY_ERROR_TRANSLATION | CAPABILITY_64_BIT_FILES | CAPABILITY_WRITE_LOCKS;
        Reply::<GetCapabilities> { capabilities: List(vec![word]) }
    }
}
