//! SET_INFO (MS-SMB2 3.3.5.21): what a file is becomes something else.

use std::sync::Arc;

use futures_util::future::LocalBoxFuture;
use lane::fs::Allocate;
use smb_wire::Status;
use smb_wire::body::query_info::info_type;
use smb_wire::body::set_info::SetInfoRequest;
use smb_wire::create::access::rights::{WRITE_ATTRIBUTES, WRITE_DATA, WRITE_EA};
use smb_wire::create::options;
use smb_wire::info::file::{BasicInformation, class, plain};
use smb_wire::malformed::Malformed;
use zerocopy::little_endian::{U32, U64};

use crate::lane_handle::LaneHandle;
use crate::open::{Open, OpenKind};
use crate::query_info::MODE_SETTABLE;
use crate::request_context::RequestContext;
use crate::share::Share;
use crate::status;
use crate::streams::StreamChange;
use crate::write::FILE_SIZE_MAX;

mod basic;
mod disposition;
mod rename;

impl Share {
    /// Sets what is said.
    ///
    /// # Errors
    /// `STATUS_INVALID_INFO_CLASS`, `STATUS_INFO_LENGTH_MISMATCH`, `STATUS_ACCESS_DENIED`; those of what is set.
    pub fn set_info<'a>(
        &'a self,
        ctx: &'a RequestContext,
        open: &'a Arc<Open>,
        request: &'a SetInfoRequest<'a>,
    ) -> LocalBoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            match request.fixed.info_type {
                info_type::FILE => {
                    self.set_file(ctx, open, request.fixed.file_info_class, request.data).await
                }
                info_type::SECURITY => {
                    let wanted = request.fixed.additional_information.get();
                    self.set_security(ctx, open, wanted, request.data).await
                }
                //= MS-SMB2 3.3.5.21.2
                //# A file system's information is not the clients' to set.
                info_type::FILE_SYSTEM => Err(Status::ACCESS_DENIED),
                info_type::QUOTA => Err(Status::NOT_SUPPORTED),
                _ => Err(Status::INVALID_PARAMETER),
            }
        })
    }

    async fn set_file(
        &self,
        ctx: &RequestContext,
        open: &Arc<Open>,
        class: u8,
        data: &[u8],
    ) -> Result<(), Status> {
        //= MS-SMB2 3.3.5.21.1
        //# Classes take the right to write what they set.
        let needs = match class {
            class::BASIC => WRITE_ATTRIBUTES,
            class::FULL_EA => WRITE_EA,
            class::END_OF_FILE | class::ALLOCATION | class::VALID_DATA_LENGTH => WRITE_DATA,
            _ => 0,
        };
        if needs != 0 && !open.may(needs) {
            return Err(Status::ACCESS_DENIED);
        }
        if matches!(class, class::BASIC | class::END_OF_FILE | class::ALLOCATION) {
            self.tell_write_time(open);
        }
        let handle = self.handle(ctx, open).await?;
        self.set_class(ctx, open, &handle, (class, data)).await?;
        if matches!(class, class::END_OF_FILE | class::ALLOCATION | class::FULL_EA | class::LINK) {
            self.archive(ctx, open, &handle).await;
        }
        Ok(())
    }

    async fn set_class(
        &self,
        ctx: &RequestContext,
        open: &Arc<Open>,
        handle: &LaneHandle,
        (class, data): (u8, &[u8]),
    ) -> Result<(), Status> {
        match class {
            class::BASIC => {
                let basic = plain::<BasicInformation>(data).map_err(mismatch)?;
                self.set_basic(ctx, open, handle, basic).await
            }
            // A share's root has no name in it.
            class::RENAME | class::RENAME_EX if !self.is_whole() && self.is_root(open) => {
                Err(Status::ACCESS_DENIED)
            }
            class::RENAME | class::RENAME_EX => self.rename(ctx, open, data, class).await,
            class::LINK => self.link(ctx, open, data).await,
            class::DISPOSITION | class::DISPOSITION_EX => {
                self.set_disposition(open, handle, class, data).await
            }
            class::POSITION => set_position(open, plain::<U64>(data).map_err(mismatch)?.get()),
            class::MODE => set_mode(open, plain::<U32>(data).map_err(mismatch)?.get()),
            class::FULL_EA => self.set_eas(&ctx.by(open), handle, open.grants().object(), data).await,
            class::END_OF_FILE => {
                let size = plain::<U64>(data).map_err(mismatch)?.get();
                self.set_size(ctx, open, handle, size).await
            }
            class::ALLOCATION => {
                let size = plain::<U64>(data).map_err(mismatch)?.get();
                self.set_allocation(ctx, open, handle, size).await
            }
            //= MS-FSCC 2.4.50
            //# Data is valid as far as it was written, which is as far as the file reaches.
            class::VALID_DATA_LENGTH => {
                let size = plain::<U64>(data).map_err(mismatch)?.get();
                //= MS-FSA 2.1.5.15.15
                //# A directory has no data, and what is valid stays so and ends with the file: STATUS_INVALID_PARAMETER.
                if open.is_directory() || size != self.open_info(open, handle).await?.size {
                    return Err(Status::INVALID_PARAMETER);
                }
                Ok(())
            }
            class::SHORT_NAME => Err(Status::ACCESS_DENIED),
            _ => Err(Status::INVALID_INFO_CLASS),
        }
    }

    /// Sets the length of the file or the stream.
    async fn set_size(
        &self,
        ctx: &RequestContext,
        open: &Open,
        handle: &LaneHandle,
        size: u64,
    ) -> Result<(), Status> {
        //= MS-FSA 2.1.5.15
        //# A directory has no length, and no file a negative one, or one beyond the longest: STATUS_INVALID_PARAMETER.
        if size > FILE_SIZE_MAX || open.is_directory() {
            return Err(Status::INVALID_PARAMETER);
        }
        let (caller, object) = (open.grants().resizing_caller(&ctx.caller), open.grants().object());
        if open.kind() == OpenKind::Stream {
            let stream = open.stream().unwrap_or_default();
            return self.change_stream(&caller, handle, object, &stream, StreamChange::Resize(size)).await;
        }
        let now = handle.attributes()?.size;
        let (from, to) = (now.min(size), now.max(size));
        let range = grants::Range { offset: from, len: to - from };
        open.grants().check_to_resize(range).map_err(|_| Status::FILE_LOCK_CONFLICT)?;
        let writer = handle.writer(self.volume(), &caller, object).await.map_err(status::of)?;
        writer.truncate(&caller, size).await.map_err(status::of)
    }

    /// Sets room aside; what is longer than it is cut.
    async fn set_allocation(
        &self,
        ctx: &RequestContext,
        open: &Open,
        handle: &LaneHandle,
        size: u64,
    ) -> Result<(), Status> {
        //= MS-FSA 2.1.5.15
        //# A directory has no length, and no file a negative one, or one beyond the longest: STATUS_INVALID_PARAMETER.
        if size > FILE_SIZE_MAX || open.is_directory() {
            return Err(Status::INVALID_PARAMETER);
        }
        let now = self.open_info(open, handle).await?;
        if size < now.size {
            return self.set_size(ctx, open, handle, size).await;
        }
        if open.kind() == OpenKind::Stream || size == 0 {
            return Ok(());
        }
        self.has_room_for(size.saturating_sub(now.allocation)).await?;
        let caller = ctx.by(open);
        let writer =
            handle.writer(self.volume(), &caller, open.grants().object()).await.map_err(status::of)?;
        match writer.allocate(&caller, Allocate::KeepSize, 0, size).await {
            Err(error @ (vfs::Error::NoSpace | vfs::Error::Quota | vfs::Error::FileTooLarge)) => {
                Err(status::of(error))
            }
            // A file system that cannot set room aside writes as well without.
            _ => Ok(()),
        }
    }
}

fn set_position(open: &Open, offset: u64) -> Result<(), Status> {
    //= MS-FSA 2.1.5.15.10
    //# A negative position, or one within a sector where nothing is buffered: STATUS_INVALID_PARAMETER.
    let is_within =
        open.has_options(options::NO_INTERMEDIATE_BUFFERING) && !offset.is_multiple_of(SECTOR_BYTES);
    if i64::try_from(offset).is_err() || is_within {
        return Err(Status::INVALID_PARAMETER);
    }
    open.set_position(offset);
    Ok(())
}

fn set_mode(open: &Open, mode: u32) -> Result<(), Status> {
    let waits = options::SYNCHRONOUS_IO_ALERT | options::SYNCHRONOUS_IO_NONALERT;
    let known = options::WRITE_THROUGH | options::SEQUENTIAL_ONLY | waits;
    //= MS-FSA 2.1.5.15.8
    //# Of the mode only these are set, and not both of those that wait: one where the open has one, none where it has none.
    if mode & !known != 0 || mode & waits == waits || (mode & waits != 0) != open.has_options(waits) {
        return Err(Status::INVALID_PARAMETER);
    }
    open.state().mode = Some(mode & MODE_SETTABLE);
    Ok(())
}

/// Returns what is shorter than its class.
pub(crate) fn mismatch(_: Malformed) -> Status {
    Status::INFO_LENGTH_MISMATCH
}

/// Bytes of a sector, as clients see it.
const SECTOR_BYTES: u64 = 512;
