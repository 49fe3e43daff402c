//! Whether a name goes (MS-FSCC 2.4.11, 2.4.12, MS-FSA 2.1.5.15.3).

use std::sync::Arc;

use grants::NameEnd;
use smb_wire::Status;
use smb_wire::create::access::{attributes, rights};
use smb_wire::create::options;
use smb_wire::info::file::{class, disposition, plain};
use vfs::{Directory, Error};
use zerocopy::little_endian::U32;

use super::mismatch;
use crate::lane_handle::LaneHandle;
use crate::open::{Open, OpenKind};
use crate::share::Share;
use crate::status;

impl Share {
    pub(super) async fn set_disposition(
        &self,
        open: &Arc<Open>,
        handle: &LaneHandle,
        class: u8,
        data: &[u8],
    ) -> Result<(), Status> {
        let bits = match class {
            class::DISPOSITION => u32::from(*data.first().ok_or(Status::INFO_LENGTH_MISMATCH)? != 0),
            _ => plain::<U32>(data).map_err(mismatch)?.get(),
        };
        //= MS-FSA 2.1.5.15.4
        //# Flags that are not known: STATUS_NOT_SUPPORTED.
        if bits & !disposition::ALL != 0 {
            return Err(Status::NOT_SUPPORTED);
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
        //= MS-FSCC 2.4.12
        //# FILE_DISPOSITION_POSIX_SEMANTICS: the name goes when this open is closed, and others go on with what has no name then. A later
        //# class without FILE_DISPOSITION_DELETE takes the deletion back.
        let is_posix = bits & disposition::POSIX_SEMANTICS != 0;
        let end = deletes.then_some(if is_posix { NameEnd::OwnClose } else { NameEnd::LastClose });
        if is_on_close {
            open.state().stays_on_close = !deletes;
            return open.named().delete_on_close(end).map_err(status::of_open);
        }
        open.named().set_deletion(self.volume(), end).await.map_err(status::of_open)
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
