//! Whether the file system compresses a file (MS-FSCC 2.3.18, 2.3.67): its own flag, where it can (btrfs). How it does
//! so is its own choice too, so clients see the one format that there is.

use std::sync::Arc;

use smb_wire::Status;
use smb_wire::create::access::attributes;
use smb_wire::create::access::rights::WRITE_DATA;
use smb_wire::fsctl::compression;

use crate::lane_handle::{HandleKind, LaneHandle, is_unsupported};
use crate::open::{Open, OpenKind};
use crate::request_context::RequestContext;
use crate::share::Share;
use crate::status;

impl Share {
    /// Returns the format of what is open.
    pub(super) async fn compression(&self, ctx: &RequestContext, open: &Arc<Open>) -> Result<u16, Status> {
        let handle = self.handle(ctx, open).await?;
        Ok(self.info(&handle, None).await?.compression())
    }

    /// Has what is written be compressed from now on, or not.
    ///
    /// # Errors
    /// `STATUS_NOT_SUPPORTED` where the file system cannot, but for what is so already.
    pub(super) async fn set_compression(
        &self,
        ctx: &RequestContext,
        open: &Arc<Open>,
        input: &[u8],
    ) -> Result<(), Status> {
        //= MS-FSA 2.1.5.10.30
        //# A format that there is not fails with STATUS_INVALID_PARAMETER; which one DEFAULT is the server may choose.
        let on = match compression::parse(input) {
            Some(compression::NONE) => false,
            Some(compression::DEFAULT | compression::LZNT1) => true,
            _ => return Err(Status::INVALID_PARAMETER),
        };
        // As Windows and Samba want it, whose control code says so.
        if !open.may(WRITE_DATA) {
            return Err(Status::ACCESS_DENIED);
        }
        if matches!(open.kind(), OpenKind::Link | OpenKind::Stream) || !self.compresses().await {
            // As Windows' file systems that compress nothing.
            return if on { Err(Status::NOT_SUPPORTED) } else { Ok(()) };
        }
        let handle = self.handle(ctx, open).await?;
        self.have_compressed(&ctx.by(open), &handle, open.grants().object(), on).await
    }

    pub(crate) async fn have_compressed(
        &self,
        caller: &vfs::Caller,
        handle: &LaneHandle,
        object: &vfs::Object,
        on: bool,
    ) -> Result<(), Status> {
        let is_so = self.info(handle, None).await?.attributes & attributes::COMPRESSED != 0;
        if is_so == on {
            return Ok(());
        }
        let set = match &handle.what {
            HandleKind::Directory(directory) => directory.set_compressed(caller, on).await,
            HandleKind::File(_) | HandleKind::Link(_) => {
                let writer = handle.writer(self.volume(), caller, object).await.map_err(status::of)?;
                writer.set_compressed(caller, on).await
            }
        };
        set.map_err(|error| if is_unsupported(&error) { Status::NOT_SUPPORTED } else { status::of(error) })
    }
}
