//! READ (MS-SMB2 3.3.5.12).

use std::rc::Rc;
use std::sync::Arc;

use grants::Range;
use grants::conflict::RangeUse;
use smb_wire::Status;
use smb_wire::create::access::rights::{EXECUTE, READ_DATA};
use vfs::OpenFile;

use crate::lane_handle::LaneHandle;
use crate::open::{Open, OpenKind};
use crate::request_context::RequestContext;
use crate::share::Share;
use crate::streams;

/// The source of the bytes that a READ returns: a range of a file, or bytes in memory.
pub enum ReadSource {
    /// A range of a file that existed when it was looked at; to be sent or read by [`OpenFile::lane_file`].
    File {
        /// The file.
        file: Rc<OpenFile>,
        /// First byte.
        offset: u64,
        /// Bytes; 0 only where none were asked for.
        len: u32,
    },
    /// Bytes of a named stream.
    Bytes(Vec<u8>),
}

impl Share {
    /// Returns what there is to read: at most `length` bytes from `offset` on.
    ///
    /// # Errors
    /// `STATUS_ACCESS_DENIED`; `STATUS_INVALID_DEVICE_REQUEST` for a directory; `STATUS_FILE_LOCK_CONFLICT`;
    /// `STATUS_END_OF_FILE` at or behind the end, or where fewer than `minimum` are there.
    pub async fn read(
        &self,
        ctx: &RequestContext,
        open: &Arc<Open>,
        offset: u64,
        length: u32,
        minimum: u32,
    ) -> Result<ReadSource, Status> {
        let handle = self.readable(ctx, open, offset, length).await?;
        if open.kind() == OpenKind::Stream {
            let mut data = streams::read(&handle, &open.stream().unwrap_or_default()).await?;
            let len = within(data.len() as u64, offset, length, minimum)?;
            open.set_position(offset + u64::from(len));
            let begin = offset.min(data.len() as u64) as usize;
            data.drain(..begin);
            data.truncate(len as usize);
            return Ok(ReadSource::Bytes(data));
        }
        let file = Rc::clone(handle.file()?);
        let size = handle.attributes()?.size;
        let len = within(size, offset, length, minimum)?;
        open.set_position(offset + u64::from(len));
        Ok(ReadSource::File { file, offset, len })
    }

    /// Fills `into` from `offset` on, where a file has all of it in the page cache: nothing else is asked of the kernel. `false`
    /// where [`Share::read`] has to be asked: what is shorter, has to be waited for, or is no file's.
    ///
    /// # Errors
    /// As there.
    pub async fn read_resident(
        &self,
        ctx: &RequestContext,
        open: &Arc<Open>,
        offset: u64,
        into: &mut [u8],
    ) -> Result<bool, Status> {
        let length = u32::try_from(into.len()).map_err(|_| Status::INVALID_PARAMETER)?;
        let handle = self.readable(ctx, open, offset, length).await?;
        if open.kind() == OpenKind::Stream {
            return Ok(false);
        }
        // A read that fails fails again in the next request, which reports it.
        let is_all =
            matches!(handle.file()?.lane_file().try_read_at(offset, into), Ok(Some(n)) if n == into.len());
        if is_all {
            open.set_position(offset + u64::from(length));
        }
        Ok(is_all)
    }

    /// Returns what an open is of, if these bytes of it may be read.
    async fn readable(
        &self,
        ctx: &RequestContext,
        open: &Arc<Open>,
        offset: u64,
        length: u32,
    ) -> Result<Rc<LaneHandle>, Status> {
        if open.is_directory() {
            return Err(Status::INVALID_DEVICE_REQUEST);
        }
        //= MS-SMB2 3.3.5.12
        //# Without FILE_READ_DATA and FILE_EXECUTE the request fails with STATUS_ACCESS_DENIED.
        if !open.may(READ_DATA | EXECUTE) {
            return Err(Status::ACCESS_DENIED);
        }
        let end = offset.checked_add(length.into()).filter(|end| *end <= i64::MAX as u64);
        end.ok_or(Status::INVALID_PARAMETER)?;
        let range = Range { offset, len: length.into() };
        open.grants().check(range, RangeUse::Reading).map_err(|_| Status::FILE_LOCK_CONFLICT)?;
        self.handle(ctx, open).await
    }
}

/// Returns how many of `length` bytes at `offset` there are.
fn within(size: u64, offset: u64, length: u32, minimum: u32) -> Result<u32, Status> {
    let there = size.saturating_sub(offset).min(length.into()) as u32;
    //= MS-SMB2 3.3.5.12
    //# A read that gives nothing fails with STATUS_END_OF_FILE, and so does one that gives less than MinimumCount.
    if (length > 0 && there == 0) || there < minimum { Err(Status::END_OF_FILE) } else { Ok(there) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_ends_where_the_file_does() {
        assert_eq!(within(10, 0, 4, 0), Ok(4));
        assert_eq!(within(10, 8, 4, 2), Ok(2));
        assert_eq!(within(10, 8, 4, 3), Err(Status::END_OF_FILE));
        assert_eq!(within(10, 10, 1, 0), Err(Status::END_OF_FILE));
        assert_eq!(within(10, 99, 0, 0), Ok(0), "nothing was asked for");
        assert_eq!(within(0, 0, 0, 1), Err(Status::END_OF_FILE));
    }
}
