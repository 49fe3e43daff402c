//! Holes: they are made, and listed (MS-FSCC 2.3.51, 2.3.85).

use std::io;
use std::sync::Arc;

use grants::Range;
use grants::conflict::RangeUse;
use lane::fs::{Allocate, File, SeekTo};
use smb_wire::Status;
use smb_wire::create::access::attributes;
use smb_wire::create::access::rights::WRITE_DATA;
use smb_wire::fsctl::ranges::{AllocatedRange, parse_query, parse_zero};
use zerocopy::IntoBytes;

use crate::Answer;
use crate::open::{Open, OpenKind};
use crate::request_context::RequestContext;
use crate::share::Share;
use crate::status;
use crate::streams::StreamChange;

impl Share {
    pub(super) async fn zero_data(
        &self,
        ctx: &RequestContext,
        open: &Arc<Open>,
        input: &[u8],
    ) -> Result<(), Status> {
        let (offset, len) = parse_zero(input).map_err(|_| Status::INVALID_PARAMETER)?;
        if !matches!(open.kind(), OpenKind::File | OpenKind::Stream) {
            return Err(Status::INVALID_PARAMETER);
        }
        if !open.may(WRITE_DATA) {
            return Err(Status::ACCESS_DENIED);
        }
        let checked = open.grants().check(Range { offset, len }, RangeUse::Writing);
        checked.map_err(|_| Status::FILE_LOCK_CONFLICT)?;
        let handle = self.handle(ctx, open).await?;
        if let Some(stream) = open.stream() {
            let change = StreamChange::Zero(offset, len);
            self.change_stream(&ctx.by(open), &handle, open.grants().object(), &stream, change).await?;
            self.archive(ctx, open, &handle).await;
            return Ok(());
        }
        //= MS-FSA 2.1.5.10.37
        //# The file does not get longer by it.
        let len = len.min(handle.attributes()?.size.saturating_sub(offset));
        if len == 0 {
            return Ok(());
        }
        let caller = ctx.by(open);
        let writer =
            handle.writer(self.volume(), &caller, open.grants().object()).await.map_err(status::of)?;
        writer.allocate(&caller, Allocate::Punch, offset, len).await.map_err(status::of)?;
        self.archive(ctx, open, &handle).await;
        Ok(())
    }

    pub(super) async fn allocated_ranges(
        &self,
        ctx: &RequestContext,
        open: &Arc<Open>,
        input: &[u8],
        len_max: usize,
    ) -> Result<Answer, Status> {
        let (offset, len) = parse_query(input).map_err(|_| Status::INVALID_PARAMETER)?;
        if !matches!(open.kind(), OpenKind::File | OpenKind::Stream) {
            return Err(Status::INVALID_PARAMETER);
        }
        self.may_read_data(open)?;
        let handle = self.handle(ctx, open).await?;
        let end = offset.saturating_add(len).min(self.open_info(open, &handle).await?.size);
        let kept = self.dos_of(&handle).await?.attributes.unwrap_or_default();
        //= MS-FSA 2.1.5.10.22
        //# A file that is not sparse is allocated as far as it reaches, whatever lies on disk, and so is a stream, which has no holes.
        let is_sparse = kept & attributes::SPARSE_FILE != 0 && open.kind() == OpenKind::File;
        let (mut output, mut at, mut status) = (Vec::new(), offset, Status::SUCCESS);
        while at < end {
            let (begin, hole) = match is_sparse {
                true => {
                    let file = handle.file()?.lane_file();
                    let begin = seek(file, at, SeekTo::Data).await?.filter(|begin| *begin < end);
                    let Some(begin) = begin else { break };
                    (begin, seek(file, begin, SeekTo::Hole).await?.unwrap_or(end).min(end))
                }
                false => (at, end),
            };
            let range = AllocatedRange { file_offset: begin.into(), length: (hole - begin).into() };
            //= MS-FSCC 2.3.52
            //# What does not fit is left out: STATUS_BUFFER_OVERFLOW, or STATUS_BUFFER_TOO_SMALL without room for one.
            if output.len() + size_of_val(&range) > len_max {
                status = Status::BUFFER_OVERFLOW;
                break;
            }
            output.extend(range.as_bytes());
            at = hole;
        }
        if status == Status::BUFFER_OVERFLOW && output.is_empty() {
            return Err(Status::BUFFER_TOO_SMALL);
        }
        Ok(Answer { status, output })
    }
}

/// Returns where the next data or hole begins; `None` behind the last.
async fn seek(file: &File, offset: u64, to: SeekTo) -> Result<Option<u64>, Status> {
    match file.seek(offset, to).await {
        Ok(at) => Ok(Some(at)),
        Err(error) if error.raw_os_error() == Some(libc::ENXIO) => Ok(None),
        Err(error) => Err(status::of(io::Error::into(error))),
    }
}
