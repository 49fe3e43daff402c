//! Files that a call writes to: opened, or taken from those kept open ([`Writers`](super::writers::Writers)).

use afs_wire::code::EISDIR;
use afs_wire::{Fid, Status};
use identity::Rights;
use vfs::Writer;

use super::ServedCall;
use super::call_context::CallContext;
use super::call_failure::CallFailure;
use super::writers::OpenWriter;

impl ServedCall {
    /// Returns a file open for writing by the client, if it has the right to write to it. A client that has made the
    /// file itself may have the right to add names to its directory instead.
    pub(super) async fn writer(&self, context: &CallContext, fid: Fid) -> Result<Writer, CallFailure> {
        if fid.is_directory() {
            return Err(EISDIR.into());
        }
        let (volume, number) = (&context.volume.volume, context.number(fid)?);
        let shared = volume.shared().ok_or(vfs::Error::ReadOnly)?;
        let (writers, holder) = (&self.server.inner.writers, context.host.holder());
        let kept = writers.find(holder, shared.id(), number);
        // What has a descriptor of its own that decides which users may write to it, whatever user has made
        // it.
        let is_described =
            |kept: &OpenWriter| kept.writer.file().object().is_some_and(|object| object.is_described());
        if let Some(kept) = kept.as_ref().filter(|kept| kept.is_its_own && !is_described(kept)) {
            volume.find_with_parent(&context.caller, number, Rights::NONE, Rights::INSERT).await?;
            return Ok(kept.writer.clone());
        }
        let found = volume.find(&context.caller, number, Rights::WRITE).await?;
        if let Some(kept) = kept {
            return Ok(kept.writer);
        }
        let object = found.object().ok_or(vfs::Error::ReadOnly)?;
        Ok(volume.reopen_writer(&context.caller, object.identity()).await?)
    }

    /// Keeps a file open that the client has stored to, for its next store.
    pub(super) fn keep_writer(&self, context: &CallContext, writer: &Writer) {
        let (writers, holder) = (&self.server.inner.writers, context.host.holder());
        if let Some(object) = writer.file().object()
            && writers.find(holder, object.volume().id(), object.number()).is_none()
        {
            writers.keep(holder, object, writer, false);
        }
    }

    /// Closes a file that may be executed on the server when the client has stored it: not while it is open
    /// for writing (ETXTBSY). The client's next store opens it anew.
    pub(super) fn close_if_executable(
        &self,
        context: &CallContext,
        fid: Fid,
        status: &Status,
    ) -> Result<(), CallFailure> {
        if !fid.is_directory()
            && status.unix_mode_bits & EXECUTABLE != 0
            && let Some(shared) = context.volume.volume.shared()
        {
            self.server.inner.writers.let_go(context.host.holder(), shared.id(), context.number(fid)?);
        }
        Ok(())
    }
}

/// Mode bits that let a user execute a file.
const EXECUTABLE: u32 = 0o111;
