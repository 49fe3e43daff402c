//! IOCTL Response (MS-SMB2 2.2.32), for every file that answers control codes.

use smb_wire::Status;
use smb_wire::body::ioctl::{IoctlRequest, IoctlResponse, IoctlResponseFixed};
use smb_wire::fixed::Fixed;

use crate::connection::Reply;

/// Builds the response to `request` with this status and output.
pub(super) fn answer(request: &IoctlRequest<'_>, status: Status, output: Vec<u8>) -> Reply {
    let fixed = answer_fixed(request);
    Reply::with(status, move |body| IoctlResponse::write(body, fixed, &output))
}

/// Builds the fixed part of the response to `request`: its control code and file.
pub(super) fn answer_fixed(request: &IoctlRequest<'_>) -> IoctlResponseFixed {
    let (ctl_code, file_id) = (request.fixed.ctl_code, request.fixed.file_id);
    IoctlResponseFixed { ctl_code, file_id, ..IoctlResponseFixed::blank() }
}
