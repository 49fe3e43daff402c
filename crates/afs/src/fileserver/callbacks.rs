//! GiveUpCallBacks (147), GiveUpAllCallBacks (65539), CallBackRxConnAddr (65541), GetCapabilities (65540).

use afs_wire::rxafs::{GetCapabilities, GiveUpCallBacks};
use afs_wire::{CAPABILITY_64_BIT_FILES, CAPABILITY_ERROR_TRANSLATION, CAPABILITY_WRITE_LOCKS};
use xdr::List;

use super::asked::Reply;
use super::{Call, Refused, Serving};

impl Serving {
    /// A hint that the server need not take: a client that is told of a file of which it keeps nothing says that it has heard. What it
    /// was promised goes with its time.
    pub(super) async fn give_up(&self, call: &Call, _: &GiveUpCallBacks) -> Result<(), Refused> {
        self.host(call).await?;
        Ok(())
    }

    pub(super) async fn give_up_all(&self, call: &Call) -> Result<(), Refused> {
        let host = self.host(call).await?;
        self.server.inner.hosts.gives_up_all(call.data(), &host).await;
        Ok(())
    }

    pub(super) fn capabilities(&self) -> Reply<GetCapabilities> {
        let word = CAPABILITY_ERROR_TRANSLATION | CAPABILITY_64_BIT_FILES | CAPABILITY_WRITE_LOCKS;
        Reply::<GetCapabilities> { capabilities: List(vec![word]) }
    }
}
