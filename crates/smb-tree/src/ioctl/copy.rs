//! Copies within the server (MS-SMB2 3.3.5.15.5, 3.3.5.15.6): a file system that can share room does so.

use std::rc::Rc;
use std::sync::Arc;

use grants::Range;
use grants::conflict::RangeUse;
use lane::buffer::BufClass;
use smb_wire::create::access::attributes;
use smb_wire::create::access::rights::{EXECUTE, READ_DATA, WRITE_DATA};
use smb_wire::fixed::prefix;
use smb_wire::fsctl::code;
use smb_wire::fsctl::copy::{
    Copy, CopyResponse, DUPLICATE_SOURCE_ATOMIC, DuplicateExtents, DuplicateExtentsEx, ResumeKeyResponse,
};
use smb_wire::{FileId, Status};
use vfs::OpenFile;
use zerocopy::IntoBytes;

use crate::Answer;
use crate::open::{Open, OpenKind};
use crate::read::ReadSource;
use crate::request_context::RequestContext;
use crate::share::Share;
use crate::status;
use crate::write::FILE_SIZE_MAX;
use smb_wire::dos::Dos;

/// StructureSize of SMB2_DUPLICATE_EXTENTS_DATA_EX: that of its local form, whose handle has 8 bytes.
const DUPLICATE_EXTENTS_EX_SIZE: u64 = 0x30;

/// Returns what names an open to copy from: its id, and its session.
fn resume_key(open: &Open) -> [u8; 24] {
    let mut key = [0; 24];
    key[..16].copy_from_slice(open.id().as_bytes());
    key[16..].copy_from_slice(&open.session().to_le_bytes());
    key
}

/// Returns the answer to FSCTL_SRV_REQUEST_RESUME_KEY: the key, and no context.
pub(super) fn resume_key_response(open: &Open) -> Vec<u8> {
    let response =
        ResumeKeyResponse { resume_key: resume_key(open), context_length: 0.into(), context: 0.into() };
    response.as_bytes().to_vec()
}

/// The method of a copy: by the kernel, or through memory.
enum CopyMethod {
    /// The kernel copies out of this file.
    OfFile(Rc<OpenFile>),
    /// The data is read and written, as of named streams.
    ThroughMemory,
}

/// A range to be copied.
struct CopyRange {
    from: u64,
    to: u64,
    len: u64,
}

impl Share {
    pub(super) async fn copy_chunks(
        &self,
        ctx: &RequestContext,
        open: &Arc<Open>,
        control: u32,
        input: &[u8],
        len_max: usize,
    ) -> Result<Answer, Status> {
        let copy = Copy::parse(input).map_err(|_| Status::INVALID_PARAMETER)?;
        if len_max < size_of::<CopyResponse>() {
            return Err(Status::INVALID_PARAMETER);
        }
        if copy.is_too_much() {
            let output = CopyResponse::limits().as_bytes().to_vec();
            return Ok(Answer { status: Status::INVALID_PARAMETER, output });
        }
        let (id, _) = prefix::<FileId>(copy.source_key).map_err(|_| Status::OBJECT_NAME_NOT_FOUND)?;
        //= MS-SMB2 3.3.5.15.6
        //# The key is that of an open of the same session, else STATUS_OBJECT_NAME_NOT_FOUND.
        let source = self.opens().find(ctx.session, *id).map_err(|_| Status::OBJECT_NAME_NOT_FOUND)?;
        //= MS-SMB2 3.3.5.15.6
        //# SourceKey is compared as a whole with Open.ResumeKey.
        if resume_key(&source)[..] != copy.source_key[..] {
            return Err(Status::OBJECT_NAME_NOT_FOUND);
        }
        //= MS-SMB2 3.3.5.15.6
        //# The source is read, the target written; FSCTL_SRV_COPYCHUNK reads the target too.
        let reads_target = control == code::SRV_COPYCHUNK;
        if !source.may(READ_DATA | EXECUTE) || !open.may(WRITE_DATA) || (reads_target && !open.may(READ_DATA))
        {
            return Err(Status::ACCESS_DENIED);
        }
        let bytes = self.copied_bytes(ctx, open, &source).await?;
        let (mut chunks_written, mut total) = (0u32, 0u32);
        let mut status = Status::SUCCESS;
        for chunk in copy.chunks {
            let len = u64::from(chunk.length.get());
            let part = CopyRange { from: chunk.source_offset.get(), to: chunk.target_offset.get(), len };
            if let Err(refused) = self.copy_chunk(ctx, open, &source, &bytes, &part).await {
                //= MS-SMB2 3.3.5.15.6
                //# A copy that fails on its way tells how far it came.
                status = refused;
                break;
            }
            chunks_written += 1;
            total += chunk.length.get();
        }
        let response = CopyResponse {
            chunks_written: chunks_written.into(),
            chunk_bytes_written: 0.into(),
            total_bytes_written: total.into(),
        };
        Ok(Answer { status, output: response.as_bytes().to_vec() })
    }

    /// Returns how bytes go from one open to another.
    async fn copied_bytes(
        &self,
        ctx: &RequestContext,
        open: &Open,
        source: &Arc<Open>,
    ) -> Result<CopyMethod, Status> {
        let is_of_stream = open.kind() == OpenKind::Stream || source.kind() == OpenKind::Stream;
        let is_here = source.share_name() == self.name();
        if is_of_stream && is_here && !open.is_directory() && !source.is_directory() {
            return Ok(CopyMethod::ThroughMemory);
        }
        self.source(ctx, open, source).await.map(CopyMethod::OfFile)
    }

    async fn copy_chunk(
        &self,
        ctx: &RequestContext,
        open: &Arc<Open>,
        source: &Arc<Open>,
        bytes: &CopyMethod,
        part: &CopyRange,
    ) -> Result<(), Status> {
        let handle = self.handle(ctx, source).await?;
        let size = self.open_info(source, &handle).await?.size;
        //= MS-SMB2 3.3.5.15.6
        //# A chunk that reaches behind the source's end: STATUS_INVALID_VIEW_SIZE.
        if part.from.checked_add(part.len).is_none_or(|end| end > size) {
            return Err(Status::INVALID_VIEW_SIZE);
        }
        // As a WRITE there.
        if part.to.checked_add(part.len).is_none_or(|end| end > FILE_SIZE_MAX) {
            return Err(Status::INVALID_PARAMETER);
        }
        let is_same = Arc::ptr_eq(open.grants().object(), source.grants().object());
        let overlaps = is_same && part.from.abs_diff(part.to) < part.len;
        match bytes {
            CopyMethod::OfFile(file) if !overlaps => {
                let check = |open: &Open, offset, wants| {
                    let range = Range { offset, len: part.len };
                    open.grants().check(range, wants).map_err(|_| Status::FILE_LOCK_CONFLICT)
                };
                check(source, part.from, RangeUse::Reading)?;
                check(open, part.to, RangeUse::Writing)?;
                self.copy_part(ctx, open, file, part).await
            }
            _ => self.copy_through_memory(ctx, open, source, part).await,
        }
    }

    /// Copies a chunk through memory. All of it is read before any of it is written, as where both overlap.
    async fn copy_through_memory(
        &self,
        ctx: &RequestContext,
        open: &Arc<Open>,
        source: &Arc<Open>,
        part: &CopyRange,
    ) -> Result<(), Status> {
        let len = u32::try_from(part.len).map_err(|_| Status::INVALID_PARAMETER)?;
        let bytes = match self.read(ctx, source, part.from, len, len).await? {
            ReadSource::Bytes(bytes) => bytes,
            ReadSource::File { file, offset, len } => {
                let mut bytes = Vec::with_capacity(len as usize);
                while bytes.len() < len as usize {
                    let buf = lane::current().buffers().get(BufClass::Large).await;
                    let at = offset + bytes.len() as u64;
                    let n = (len as usize - bytes.len()).min(buf.capacity());
                    let (read, buf) = file.lane_file().read_at(at, n, buf).await;
                    match read.map_err(|error| status::of(error.into()))? {
                        // It was cut meanwhile.
                        0 => return Err(Status::INVALID_VIEW_SIZE),
                        n => bytes.extend_from_slice(&buf[..n]),
                    }
                }
                bytes
            }
        };
        self.write_bytes(ctx, open, part.to, &bytes, false).await.map(drop)
    }

    pub(super) async fn duplicate_extents(
        &self,
        ctx: &RequestContext,
        open: &Arc<Open>,
        control: u32,
        input: &[u8],
    ) -> Result<(), Status> {
        //= MS-FSA 2.1.5.10.4
        //# A file system that shares no extents fails with STATUS_INVALID_DEVICE_REQUEST, as NTFS does: the client copies then.
        if !self.shares_room().await {
            return Err(Status::INVALID_DEVICE_REQUEST);
        }
        let asked = match control {
            code::DUPLICATE_EXTENTS_TO_FILE_EX => {
                let (asked, _) =
                    prefix::<DuplicateExtentsEx>(input).map_err(|_| Status::INVALID_PARAMETER)?;
                //= MS-FSCC 2.3.9.2
                //# StructureSize is 0x30; of Flags one bit is defined.
                if asked.structure_size.get() != DUPLICATE_EXTENTS_EX_SIZE
                    || asked.flags.get() & !DUPLICATE_SOURCE_ATOMIC != 0
                {
                    return Err(Status::INVALID_PARAMETER);
                }
                // The kernel shares a long range part by part.
                if asked.flags.get() & DUPLICATE_SOURCE_ATOMIC != 0 {
                    return Err(Status::NOT_SUPPORTED);
                }
                &asked.extents
            }
            _ => prefix::<DuplicateExtents>(input).map_err(|_| Status::INVALID_PARAMETER)?.0,
        };
        let source = self.opens().find(ctx.session, asked.source).map_err(|_| Status::INVALID_HANDLE)?;
        if !open.may(WRITE_DATA) || !source.may(READ_DATA) {
            return Err(Status::ACCESS_DENIED);
        }
        let file = self.source(ctx, open, &source).await?;
        let (from, len) = (asked.source_offset.get(), asked.byte_count.get());
        let (theirs, ours) = (self.handle(ctx, &source).await?, self.handle(ctx, open).await?);
        let is_same = Arc::ptr_eq(open.grants().object(), source.grants().object());
        let to = asked.target_offset.get();
        //= MS-FSCC 2.3.7
        //# Offsets and lengths are signed, and not negative.
        if [from, to, len].into_iter().any(|of| i64::try_from(of).is_err()) {
            return Err(Status::INVALID_PARAMETER);
        }
        let is_sparse = |dos: Dos| dos.attributes.unwrap_or_default() & attributes::SPARSE_FILE != 0;
        let end = self.open_info(&source, &theirs).await?.size;
        //= MS-FSA 2.1.5.10.4
        //# STATUS_NOT_SUPPORTED: what is behind the source's end, ranges of one file that overlap, and extents of a file that may have
        //# holes for one that may not.
        if from.checked_add(len).is_none_or(|asked| asked > end)
            || (is_same && from.abs_diff(to) < len)
            || (is_sparse(self.dos_of(&theirs).await?) && !is_sparse(self.dos_of(&ours).await?))
        {
            return Err(Status::NOT_SUPPORTED);
        }
        // Nothing becomes longer by it. The specification refuses what is behind the target's end; Windows leaves that part out, and
        // is content, and so Samba's tests want it.
        let len = len.min(self.open_info(open, &ours).await?.size.saturating_sub(to));
        if len == 0 {
            return Ok(());
        }
        self.copy_part(ctx, open, &file, &CopyRange { from, to, len }).await
    }

    async fn source(
        &self,
        ctx: &RequestContext,
        open: &Open,
        source: &Arc<Open>,
    ) -> Result<Rc<OpenFile>, Status> {
        if open.is_directory() || source.is_directory() {
            return Err(Status::INVALID_DEVICE_REQUEST);
        }
        let is_here = source.share_name() == self.name();
        if open.kind() == OpenKind::Stream || source.kind() == OpenKind::Stream || !is_here {
            return Err(Status::NOT_SUPPORTED);
        }
        let handle = self.handle(ctx, source).await?;
        Ok(Rc::clone(handle.file()?))
    }

    /// Copies a range by the kernel. Locked ranges bind chunks alone, and no extents: so it is with Windows, and with
    /// Samba.
    async fn copy_part(
        &self,
        ctx: &RequestContext,
        open: &Arc<Open>,
        file: &Rc<OpenFile>,
        part: &CopyRange,
    ) -> Result<(), Status> {
        let (caller, handle) = (ctx.by(open), self.handle(ctx, open).await?);
        let writer =
            handle.writer(self.volume(), &caller, open.grants().object()).await.map_err(status::of)?;
        let copied = writer.copy_from(&caller, file, part.from, part.to, part.len).await;
        self.archive(ctx, open, &handle).await;
        match copied.map_err(status::of)? {
            len if len == part.len => Ok(()),
            // It was cut meanwhile.
            _ => Err(Status::INVALID_VIEW_SIZE),
        }
    }
}
