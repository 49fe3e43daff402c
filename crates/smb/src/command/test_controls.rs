//! Controls of Samba's tests, behind `smb.test_switches`: control codes that hold a connection's
//! acknowledgements or a request back and pad responses, and shares that are slow.

use std::time::Duration;

use lane::time::sleep;
use smb_wire::Status;
use smb_wire::body::ioctl::{IoctlRequest, IoctlResponse};
use smb_wire::fsctl::{TEST_PADDING, code};

use super::ioctl_response::{answer, answer_fixed};
use crate::connection::{Call, Reply};

/// Carries out a control code of tests.
pub(super) async fn ioctl(call: &Call<'_>, request: &IoctlRequest<'_>) -> Result<Reply, Status> {
    if !call.connection.lane.options().test_switches {
        return Err(Status::INVALID_DEVICE_REQUEST);
    }
    match (request.fixed.ctl_code.get(), request.input) {
        (code::TEST_FORCE_UNACKED, []) => call.connection.take_as_unacknowledged(),
        (code::TEST_ASYNC_SLEEP, &[milliseconds]) => {
            // What is under way of an open goes on to its end, though it is closed meanwhile.
            let target = call.target()?;
            sleep(Duration::from_millis(milliseconds.into())).await;
            drop(target);
        }
        (code::TEST_PAD_READS, []) => call.connection.pads_reads.set(true),
        (code::TEST_PAD_IOCTL, []) => {
            let len = request.fixed.max_output_response.get();
            let output = vec![TEST_OUTPUT; len.min(TEST_OUTPUT_MAX) as usize];
            let fixed = answer_fixed(request);
            return Ok(Reply::of(move |body| {
                IoctlResponse::write_behind(body, fixed, &TEST_PADDING, &output);
            }));
        }
        _ => return Err(Status::INVALID_PARAMETER),
    }
    Ok(answer(request, Status::SUCCESS, Vec::new()))
}

/// Holds a READ, WRITE or FLUSH up where its share is slow, so that it goes on asynchronously as it would on a slow disk.
pub(super) async fn slowness(call: &Call<'_>) {
    if let Some(delay) = call.tree.as_ref().and_then(|tree| tree.test_delay) {
        // Apart from the command, whose task has no room for what never happens.
        Box::pin(sleep(delay)).await;
    }
}

const TEST_OUTPUT: u8 = 8;
const TEST_OUTPUT_MAX: u32 = 4096;
