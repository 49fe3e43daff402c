//! CLOSE (MS-SMB2 3.3.5.10).

use std::sync::Arc;
use std::task::Waker;

use futures_util::future::LocalBoxFuture;
use identity::Accounts;
use smb_wire::Status;
use smb_wire::body::close::{CloseResponse, FLAG_POSTQUERY_ATTRIB};
use smb_wire::fixed::Fixed;
use vfs::CloseOutcome;

use crate::by_name::NamedOpen;
use crate::open::{Open, OpenKind};
use crate::request_context::RequestContext;
use crate::share::Share;
use crate::streams::{self, StreamChange};

impl Share {
    /// Closes an open, and takes away what was to go with it. It is no more afterwards, whatever this answers.
    ///
    /// # Errors
    /// `STATUS_FILE_CLOSED` where it was closed before.
    pub fn close<'a>(
        &'a self,
        ctx: &'a RequestContext,
        open: &'a Arc<Open>,
        flags: u16,
    ) -> LocalBoxFuture<'a, Result<CloseResponse, Status>> {
        Box::pin(async move {
            if open.is_writing() {
                // Else what is still written would come behind the next user of the file. Where no change
                // lock is to be had nothing else can change it.
                let _ = open.grants().settled(self.volume()).await;
            }
            self.tell_write_time(open);
            self.keep_sticky(ctx, open).await;
            let mut response = CloseResponse::blank();
            //= MS-SMB2 3.3.5.10
            //# With SMB2_CLOSE_FLAG_POSTQUERY_ATTRIB the response tells the file's attributes; without, they are zero.
            if flags & FLAG_POSTQUERY_ATTRIB != 0
                && let Ok(handle) = self.handle(ctx, open).await
                && let Ok(info) = self.open_info(open, &handle).await
            {
                response.flags.set(FLAG_POSTQUERY_ATTRIB);
                response.creation_time.set(info.created);
                response.last_access_time.set(info.accessed);
                response.last_write_time.set(info.written);
                response.change_time.set(info.changed);
                response.allocation_size.set(info.allocation);
                response.end_of_file.set(info.size);
                response.file_attributes.set(info.attributes);
            }
            if !self.opens().remove(open) {
                return Err(Status::FILE_CLOSED);
            }
            // Its session may have ended meanwhile, as that of a CREATE that is cut has: it waits for no client.
            self.opens().disconnected().claim(open);
            // No other request closes it from here on, whatever becomes of this one.
            lane::run_to_completion(self.clone().finish(ctx.clone(), Arc::clone(open))).await;
            Ok(response)
        })
    }

    /// Ends an open that is out of the table: its watches, locks and grants, and the name that was to go with it.
    async fn finish(self, ctx: RequestContext, open: Arc<Open>) {
        let (ctx, open) = (&ctx, &open);
        let directory_watch = open.state().directory_watch.close();
        directory_watch.into_iter().for_each(Waker::wake);
        let may_go = open.named().is_deleting() || open.deletes_on_close();
        if may_go
            && open.kind() != OpenKind::Stream
            && let Ok(handle) = self.handle(ctx, open).await
        {
            // The right to delete it was granted when it was opened. Where it has no name any more none goes.
            let operator = Accounts::none().local_administrator();
            let operator = vfs::Caller { principal: operator, ..ctx.by(open) };
            let _ = self.confirm_name(&operator, NamedOpen::of_name(open, &handle)).await;
            //= MS-FSA 2.1.5.5
            //# FILE_DELETE_ON_CLOSE: a directory that is not empty by then stays.
            let is_kept =
                match handle.directory().filter(|_| open.deletes_on_close() && open.by_link.is_none()) {
                    Some(directory) => matches!(directory.entries(0).await, Err(vfs::Error::TooLarge { .. })),
                    None => false,
                };
            if is_kept {
                let _ = open.named().delete_on_close(None);
            }
        }
        let ended = self.end(ctx, open).await;
        if may_go && ended.is_some() && open.is_directory() && open.by_link.is_none() {
            // Watches of it are answered with STATUS_DELETE_PENDING, though it stays until their opens are
            // closed too.
            open.grants().object().announce_end();
        }
        if ended == Some(CloseOutcome::StreamGoes) {
            // Seldom, and longer than all else that a CLOSE holds.
            Box::pin(self.remove_stream(ctx, open)).await;
        }
        self.lane_state().forget_open(open);
        self.counters().closed(open);
    }

    async fn remove_stream(&self, ctx: &RequestContext, open: &Arc<Open>) {
        let Ok(handle) = self.handle(ctx, open).await else { return };
        let (object, stream) = (open.grants().object(), open.stream().unwrap_or_default());
        // As with names: the closing client does not learn why it stayed.
        let _ = self.change_stream(&ctx.by(open), &handle, object, &stream, StreamChange::Remove).await;
    }

    /// Gives back what the open holds, and says what goes with it; `None` where what was to go has stayed.
    async fn end(&self, ctx: &RequestContext, open: &Arc<Open>) -> Option<CloseOutcome> {
        if let Some(before) = open.grants_before() {
            // Its file has no name that could go.
            let _ = before.close(self.volume(), &ctx.caller).await;
        }
        let ended = open.grants().close(self.volume(), &ctx.caller).await.ok();
        match &open.by_link {
            Some(link) => link.close(self.volume(), &ctx.caller).await.ok(),
            None => ended,
        }
    }

    /// Returns what an open is of now: of a stream, with the stream's size.
    pub(crate) async fn open_info(
        &self,
        open: &Open,
        handle: &crate::lane_handle::LaneHandle,
    ) -> Result<crate::attributes::Info, Status> {
        let path = open.grants().path(self.volume());
        let name = path.as_ref().and_then(|path| path.as_path().file_name());
        let mut info = self.info_by(open, handle, name.map(|name| name.as_bytes())).await?;
        if let Some(written) = self.late_write_time(open) {
            info.written = written;
        }
        if open.kind() == OpenKind::Stream {
            let size = streams::read(handle, &open.stream().unwrap_or_default()).await?.len() as u64;
            info.size = size;
            info.allocation = crate::attributes::allocated(size);
        }
        Ok(info)
    }
}
