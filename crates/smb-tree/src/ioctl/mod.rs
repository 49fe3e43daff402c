//! IOCTL (MS-SMB2 3.3.5.15, MS-FSCC 2.3): control codes of files.

use std::sync::Arc;

use futures_util::future::LocalBoxFuture;
use smb_wire::Status;
use smb_wire::create::access::attributes;
use smb_wire::create::access::rights::{APPEND_DATA, READ_DATA, WRITE_ATTRIBUTES, WRITE_DATA};
use smb_wire::fsctl::code;
use smb_wire::fsctl::ranges::parse_sparse;

use crate::open::{Open, OpenKind};
use crate::request_context::RequestContext;
use crate::share::Share;
use crate::{ANSWER_MAX, Answer};
use smb_wire::dos::Dos;

mod compression;
mod copy;
mod ranges;
mod reparse;

impl Share {
    /// Does what a code says. An answer may have an error for its status: `STATUS_INVALID_PARAMETER` of a copy that asks for too much comes
    /// with what is allowed.
    ///
    /// # Errors
    /// `STATUS_INVALID_DEVICE_REQUEST` for a code that no file has; `STATUS_BUFFER_TOO_SMALL`; those of what is done.
    pub fn ioctl<'a>(
        &'a self,
        ctx: &'a RequestContext,
        open: &'a Arc<Open>,
        control: u32,
        input: &'a [u8],
        max_output: u32,
    ) -> LocalBoxFuture<'a, Result<Answer, Status>> {
        Box::pin(async move {
            let len_max = max_output.min(ANSWER_MAX) as usize;
            let nothing = || whole(Vec::new(), len_max);
            match control {
                code::SRV_REQUEST_RESUME_KEY => whole(copy::resume_key_response(open), len_max),
                code::SRV_COPYCHUNK | code::SRV_COPYCHUNK_WRITE => {
                    self.copy_chunks(ctx, open, control, input, len_max).await
                }
                code::DUPLICATE_EXTENTS_TO_FILE | code::DUPLICATE_EXTENTS_TO_FILE_EX => {
                    self.duplicate_extents(ctx, open, control, input).await?;
                    nothing()
                }
                code::SET_SPARSE => {
                    self.set_sparse(ctx, open, parse_sparse(input)).await?;
                    nothing()
                }
                code::SET_ZERO_DATA => {
                    self.zero_data(ctx, open, input).await?;
                    nothing()
                }
                code::QUERY_ALLOCATED_RANGES => self.allocated_ranges(ctx, open, input, len_max).await,
                //= MS-FSA 2.1.5.10.1
                //# Without room for FILE_OBJECTID_BUFFER: STATUS_INVALID_PARAMETER.
                code::CREATE_OR_GET_OBJECT_ID if len_max < OBJECT_ID_LEN => Err(Status::INVALID_PARAMETER),
                code::CREATE_OR_GET_OBJECT_ID => self.object_id(ctx, open, len_max).await,
                //= MS-FSA 2.1.5.10.9
                //# Without room for the two bytes of the answer: STATUS_INVALID_PARAMETER.
                code::GET_COMPRESSION if len_max < size_of::<u16>() => Err(Status::INVALID_PARAMETER),
                code::GET_COMPRESSION => {
                    whole(self.compression(ctx, open).await?.to_le_bytes().to_vec(), len_max)
                }
                code::SET_COMPRESSION => {
                    self.set_compression(ctx, open, input).await?;
                    nothing()
                }
                code::GET_REPARSE_POINT => self.reparse_point(ctx, open, len_max).await,
                // A link goes with its name; there is nothing that it could be without leading somewhere.
                code::DELETE_REPARSE_POINT if open.kind() == OpenKind::Link => Err(Status::NOT_SUPPORTED),
                code::DELETE_REPARSE_POINT => Err(Status::NOT_A_REPARSE_POINT),
                code::SET_REPARSE_POINT => {
                    self.set_reparse_point(ctx, open, input).await?;
                    nothing()
                }
                //= MS-SMB2 3.3.5.15.1
                //# There are no snapshots: none in all, none told, and an empty list's two bytes.
                code::SRV_ENUMERATE_SNAPSHOTS if len_max < 16 => Err(Status::INVALID_PARAMETER),
                code::SRV_ENUMERATE_SNAPSHOTS => {
                    whole([0u32, 0, 2, 0].iter().flat_map(|word| word.to_le_bytes()).collect(), len_max)
                }
                //= MS-SMB2 3.3.5.15.3
                //# On a share that is not that of named pipes: STATUS_NOT_SUPPORTED.
                code::PIPE_TRANSCEIVE => Err(Status::NOT_SUPPORTED),
                _ => Err(Status::INVALID_DEVICE_REQUEST),
            }
        })
    }

    /// Checks whether there may be holes. There may be in any case: it is kept for queries.
    async fn set_sparse(&self, ctx: &RequestContext, open: &Arc<Open>, sparse: bool) -> Result<(), Status> {
        //= MS-FSA 2.1.5.10.36
        //# A directory has no holes: STATUS_INVALID_PARAMETER; and it takes the right to write data, at the end or anywhere, or attributes.
        if open.kind() != OpenKind::File {
            return Err(Status::INVALID_PARAMETER);
        }
        if !open.may(WRITE_DATA | APPEND_DATA | WRITE_ATTRIBUTES) {
            return Err(Status::ACCESS_DENIED);
        }
        let handle = self.handle(ctx, open).await?;
        let now = self.dos_of(&handle).await?;
        let had = now.attributes.unwrap_or(attributes::ARCHIVE);
        let has = if sparse { had | attributes::SPARSE_FILE } else { had & !attributes::SPARSE_FILE };
        if had == has {
            return Ok(());
        }
        let dos = Dos { attributes: Some(has), changed: None, ..now };
        self.keep_dos(&ctx.by(open), &handle, open.grants().object(), dos).await
    }

    /// Answers with an id that stays with the file: made of its numbers.
    async fn object_id(
        &self,
        ctx: &RequestContext,
        open: &Arc<Open>,
        len_max: usize,
    ) -> Result<Answer, Status> {
        let handle = self.handle(ctx, open).await?;
        let info = self.info(&handle, None).await?;
        let mut id = [0; OBJECT_ID_LEN];
        for at in [0, 32] {
            id[at..at + 8].copy_from_slice(&info.index.to_le_bytes());
            id[at + 8..at + 16].copy_from_slice(&info.device.to_le_bytes());
        }
        whole(id.to_vec(), len_max)
    }

    pub(super) fn may_read_data(&self, open: &Open) -> Result<(), Status> {
        if open.may(READ_DATA) { Ok(()) } else { Err(Status::ACCESS_DENIED) }
    }
}

/// FILE_OBJECTID_BUFFER, bytes (MS-FSCC 2.1.3).
const OBJECT_ID_LEN: usize = 64;

fn whole(output: Vec<u8>, len_max: usize) -> Result<Answer, Status> {
    if output.len() > len_max {
        return Err(Status::BUFFER_TOO_SMALL);
    }
    Ok(Answer { status: Status::SUCCESS, output })
}
