//! Whether a name goes (MS-FSCC 2.4.11, 2.4.12, MS-FSA 2.1.5.15.3).

use std::sync::Arc;

use identity::Rights;
use smb_wire::Status;
use smb_wire::create::access::{attributes, rights};
use smb_wire::create::options;
use smb_wire::info::file::{class, disposition, plain};
use vfs::{Directory, Error, Resolved};
use zerocopy::little_endian::U32;

use super::mismatch;
use crate::lane_handle::LaneHandle;
use crate::open::{Open, OpenKind};
use crate::request_context::RequestContext;
use crate::share::Share;
use crate::status;

impl Share {
    pub(super) async fn set_disposition(
        &self,
        ctx: &RequestContext,
        open: &Arc<Open>,
        handle: &LaneHandle,
        class: u8,
        data: &[u8],
    ) -> Result<(), Status> {
        let bits = match class {
            class::DISPOSITION => u32::from(*data.first().ok_or(Status::INFO_LENGTH_MISMATCH)? != 0),
            _ => plain::<U32>(data).map_err(mismatch)?.get(),
        };
        if bits & !disposition::ALL != 0 {
            return Err(Status::INVALID_PARAMETER);
        }
        if !open.may(rights::DELETE) {
            return Err(Status::ACCESS_DENIED);
        }
        //= MS-FSCC 2.4.12
        //# FILE_DISPOSITION_ON_CLOSE says it of an open that was made to delete on close, as Windows has it: STATUS_NOT_SUPPORTED of others.
        let is_on_close = bits & disposition::ON_CLOSE != 0;
        if is_on_close && !open.has_options(options::DELETE_ON_CLOSE) {
            return Err(Status::NOT_SUPPORTED);
        }
        let deletes = bits & disposition::DELETE != 0;
        if deletes {
            let kept = self.dos_of(handle).await?.attributes.unwrap_or_default();
            //= MS-FSA 2.1.5.15.3
            //# What is not to be written is not deleted, file or directory; nor is a share's root.
            //= MS-FSA 2.1.5.15.4
            //# Unless that is to be ignored, by a client that may write attributes.
            let ignores = bits & disposition::IGNORE_READONLY != 0 && open.may(rights::WRITE_ATTRIBUTES);
            if kept & attributes::READONLY != 0 && !ignores {
                return Err(Status::CANNOT_DELETE);
            }
            if open.by_link.is_none() && self.is_root(open) && open.kind() != OpenKind::Stream {
                return Err(Status::CANNOT_DELETE);
            }
            if open.kind() == OpenKind::Directory {
                let directory = handle.directory().ok_or(Status::NOT_A_DIRECTORY)?;
                check_empty(directory).await?;
            }
        }
        if is_on_close {
            open.state().stays_on_close = !deletes;
            return open.named().delete_on_close(deletes).map_err(status::of_open);
        }
        let set = open.named().set_deletion(self.volume(), deletes).await;
        set.map_err(status::of_open)?;
        let at_once = disposition::POSIX_SEMANTICS;
        if deletes && bits & at_once != 0 && open.kind() != OpenKind::Stream {
            self.remove_now(ctx, open).await?;
        }
        Ok(())
    }

    /// Takes the name away though it is open, as POSIX does. Where an open does not share deletion the name
    /// goes with its last open.
    async fn remove_now(&self, ctx: &RequestContext, open: &Arc<Open>) -> Result<(), Status> {
        let caller = ctx.by(open);
        let path = open.named().path(self.volume()).ok_or(Status::FILE_DELETED)?;
        let (Some(above), Some(name)) = (path.as_path().parent(), path.as_path().file_name()) else {
            return Err(Status::CANNOT_DELETE);
        };
        let above = self.volume().lookup_as(&caller, above, Rights::NONE).await;
        let (directory, _) = above.and_then(Resolved::into_directory).map_err(status::of)?;
        // The name may have come to lead to something else, which the open has nothing to do with.
        let which = open.named().object().number();
        let is_directory = open.is_directory() && open.by_link.is_none();
        match directory.remove_which(&caller, which, name, is_directory).await {
            Ok(()) | Err(Error::NotFound | Error::Locked | Error::Busy) => Ok(()),
            Err(error) => Err(status::of(error)),
        }
    }
}

//= MS-FSA 2.1.5.15.3
//# A directory that holds names fails with STATUS_DIRECTORY_NOT_EMPTY.
async fn check_empty(directory: &Directory) -> Result<(), Status> {
    match directory.entries(0).await {
        Ok(_) => Ok(()),
        Err(Error::TooLarge { .. }) => Err(Status::DIRECTORY_NOT_EMPTY),
        Err(error) => Err(status::of(error)),
    }
}
