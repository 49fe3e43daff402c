//! WRITE (MS-SMB2 3.3.5.13).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use grants::Range;
use grants::conflict::RangeUse;
use lane::buffer::{Buf, BufClass};
use lane::fs::SyncOf;
use smb_wire::Status;
use smb_wire::create::access::rights::{APPEND_DATA, WRITE_DATA};
use smb_wire::create::options;
use vfs::Writer;

use crate::lane_handle::LaneHandle;
use crate::open::{Open, OpenKind};
use crate::request_context::RequestContext;
use crate::share::Share;
use crate::status;
use crate::streams::StreamChange;

impl Share {
    /// Writes the bytes of the buffers one after another. They come back unless this is dropped before; the write ends all the same.
    ///
    /// # Errors
    /// `STATUS_ACCESS_DENIED`; `STATUS_INVALID_DEVICE_REQUEST` for a directory; `STATUS_FILE_LOCK_CONFLICT`; `STATUS_DISK_FULL`;
    /// what the file system says. Some of it may be written then.
    pub async fn write(
        &self,
        ctx: &RequestContext,
        open: &Arc<Open>,
        offset: u64,
        bufs: Vec<Buf>,
        write_through: bool,
    ) -> (Result<u32, Status>, Option<Vec<Buf>>) {
        let len: u64 = bufs.iter().map(|buf| buf.len() as u64).sum();
        let handle = match self.to_write(ctx, open, offset, len).await {
            Ok(handle) => handle,
            Err(status) => return (Err(status), Some(bufs)),
        };
        if open.kind() == OpenKind::Stream {
            let data: Vec<u8> = bufs.iter().flat_map(|buf| buf.iter().copied()).collect();
            let written = self.write_stream(ctx, open, &handle, offset, data).await;
            return (written.map(|()| len as u32), Some(bufs));
        }
        let caller = ctx.by(open);
        let writer = match handle.writer(self.volume(), &caller, open.grants().object()).await {
            Ok(writer) => writer,
            Err(error) => return (Err(status::of(error)), Some(bufs)),
        };
        let before = self.before_write(open, &handle);
        open.writes.fetch_add(1, Ordering::AcqRel);
        let (written, bufs) = writer.write_vectored_at(&caller, offset, bufs).await;
        // Not so where this is dropped: the one that takes the open over or closes it waits for the kernel
        // then.
        open.writes.fetch_sub(1, Ordering::AcqRel);
        if let Err(error) = written {
            return (Err(of_write(error)), bufs);
        }
        self.archive(ctx, open, &handle).await;
        self.after_write(open, &handle, before);
        let synced = self.written(open, &writer, write_through).await;
        (synced.map(|()| len as u32), bufs)
    }

    /// Writes bytes that lie in a message ([`Share::write`]).
    ///
    /// # Errors
    /// As there.
    pub async fn write_bytes(
        &self,
        ctx: &RequestContext,
        open: &Arc<Open>,
        offset: u64,
        data: &[u8],
        write_through: bool,
    ) -> Result<u32, Status> {
        let len = u32::try_from(data.len()).map_err(|_| Status::INVALID_PARAMETER)?;
        if open.kind() == OpenKind::Stream {
            let handle = self.to_write(ctx, open, offset, len.into()).await?;
            self.write_stream(ctx, open, &handle, offset, data.to_vec()).await?;
            return Ok(len);
        }
        let mut done = 0;
        // One pass at least: a write of nothing has its statuses too.
        loop {
            let mut buf = lane::current().buffers().get(BufClass::Large).await;
            let n = buf.append(&data[done..]);
            let at = offset.checked_add(done as u64).ok_or(Status::INVALID_PARAMETER)?;
            done += n;
            let is_last = done == data.len();
            self.write(ctx, open, at, vec![buf], write_through && is_last).await.0?;
            if is_last {
                return Ok(len);
            }
        }
    }

    async fn to_write(
        &self,
        ctx: &RequestContext,
        open: &Arc<Open>,
        offset: u64,
        len: u64,
    ) -> Result<std::rc::Rc<LaneHandle>, Status> {
        if open.is_directory() {
            return Err(Status::INVALID_DEVICE_REQUEST);
        }
        //= MS-SMB2 3.3.5.13
        //# Without FILE_WRITE_DATA and FILE_APPEND_DATA the request fails with STATUS_ACCESS_DENIED; either is enough for any range, as
        //# with Windows and Samba.
        if !open.may(WRITE_DATA | APPEND_DATA) {
            return Err(Status::ACCESS_DENIED);
        }
        let end = offset.checked_add(len).filter(|end| *end <= i64::MAX as u64);
        let end = end.ok_or(Status::INVALID_PARAMETER)?;
        if len > 0 && end > FILE_SIZE_MAX {
            return Err(Status::INVALID_PARAMETER);
        }
        let range = Range { offset, len };
        open.grants().check(range, RangeUse::Writing).map_err(|_| Status::FILE_LOCK_CONFLICT)?;
        self.handle(ctx, open).await
    }

    async fn write_stream(
        &self,
        ctx: &RequestContext,
        open: &Arc<Open>,
        handle: &LaneHandle,
        offset: u64,
        data: Vec<u8>,
    ) -> Result<(), Status> {
        let stream = open.stream().unwrap_or_default();
        let change = StreamChange::Write(offset, data);
        self.change_stream(&ctx.by(open), handle, open.grants().object(), &stream, change).await?;
        self.archive(ctx, open, handle).await;
        Ok(())
    }

    /// Syncs written bytes, where the request or the open asks for write-through.
    async fn written(&self, open: &Open, writer: &Writer, write_through: bool) -> Result<(), Status> {
        //= MS-SMB2 3.3.5.13
        //# With SMB2_WRITEFLAG_WRITE_THROUGH, or an open made with FILE_WRITE_THROUGH, the data is on disk before the response.
        if write_through || open.has_options(options::WRITE_THROUGH) {
            writer.sync(SyncOf::Data).await.map_err(status::of)?;
        }
        Ok(())
    }
}

/// Returns the status of a refused write. A share mode in the way of a write is that of a client of another service:
/// for an open it was looked at when it was made.
fn of_write(error: vfs::Error) -> Status {
    match error {
        vfs::Error::Locked => Status::FILE_LOCK_CONFLICT,
        error => status::of(error),
    }
}

/// Longest file that clients write, bytes: the most of NTFS's usual units, which Samba keeps to too.
pub(crate) const FILE_SIZE_MAX: u64 = 0xfff_ffff_0000;
