//! GiveUpCallBacks (147), GiveUpAllCallBacks (65539), CallBackRxConnAddr (65541), GetCapabilities (65540).

use afs_wire::code::EINVAL;
use afs_wire::rxafs::{GetCapabilities, GiveUpCallBacks};
use afs_wire::{CAPABILITY_64_BIT_FILES, CAPABILITY_ERROR_TRANSLATION, CAPABILITY_WRITE_LOCKS};
use xdr::List;

use super::call_context::Reply;
use super::{Call, CallFailure, ServedCall};

impl ServedCall {
    /// Takes callbacks back, as far as this is cheap. The server need not: a client acknowledges breaks of files of
    /// which it keeps nothing, and its callbacks expire.
    pub(super) async fn give_up(&self, call: &Call, request: &GiveUpCallBacks) -> Result<(), CallFailure> {
        let GiveUpCallBacks { fids, call_backs } = request;
        // Each callback is that of the file in its place; stock servers ask for no more of them either.
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

    /// Returns the server's capabilities, for any client. A client is met first, as by stock servers. Linux's begins
    /// with this call. Where its callbacks are reset during a call, it counts every callback of that call void for as
    /// long as it keeps the file.
    pub(super) async fn capabilities(&self, call: &Call) -> Reply<GetCapabilities> {
        // A client that cannot be called is answered as well: it is refused when it asks for a file.
        let _ = self.host(call).await;
        let word = CAPABILITY_ERROR_TRANSLATION | CAPABILITY_64_BIT_FILES | CAPABILITY_WRITE_LOCKS;
        Reply::<GetCapabilities> { capabilities: List(vec![word]) }
    }
}
