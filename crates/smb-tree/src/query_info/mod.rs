//! QUERY_INFO (MS-SMB2 3.3.5.20): what a file, its file system and its security descriptor are.

use std::sync::Arc;

use futures_util::future::LocalBoxFuture;
use smb_wire::Status;
use smb_wire::body::query_info::{QueryInfoRequest, info_type};

use crate::open::Open;
use crate::request_context::RequestContext;
use crate::share::Share;
use crate::{ANSWER_MAX, Answer};

pub(crate) use self::file::MODE_SETTABLE;

mod file;
mod file_system;

impl Share {
    /// Returns what is asked for, as long as the client has room for it.
    ///
    /// # Errors
    /// `STATUS_INVALID_INFO_CLASS`, `STATUS_INFO_LENGTH_MISMATCH`, `STATUS_ACCESS_DENIED`; `STATUS_NOT_SUPPORTED` for quota.
    pub fn query_info<'a>(
        &'a self,
        ctx: &'a RequestContext,
        open: &'a Arc<Open>,
        request: &'a QueryInfoRequest<'a>,
    ) -> LocalBoxFuture<'a, Result<Answer, Status>> {
        Box::pin(async move {
            let len_max = request.fixed.output_buffer_length.get().min(ANSWER_MAX) as usize;
            let class = request.fixed.file_info_class;
            match request.fixed.info_type {
                info_type::FILE => self.query_file(ctx, open, class, request, len_max).await,
                info_type::FILE_SYSTEM => self.query_file_system(ctx, open, class, len_max).await,
                info_type::SECURITY => {
                    let wanted = request.fixed.additional_information.get();
                    self.query_security(ctx, open, wanted, len_max).await
                }
                info_type::QUOTA => Err(Status::NOT_SUPPORTED),
                _ => Err(Status::INVALID_PARAMETER),
            }
        })
    }
}

/// Makes an answer whose first `fixed_len` bytes, or all if it is shorter, have to fit, and whose rest is cut.
pub(crate) fn cut(mut output: Vec<u8>, fixed_len: usize, len_max: usize) -> Result<Answer, Status> {
    let fixed_len = fixed_len.min(output.len());
    match smb_wire::info::file_system::cut(&mut output, 0, fixed_len, len_max) {
        status if status.is_error() => Err(status),
        status => Ok(Answer { status, output }),
    }
}
