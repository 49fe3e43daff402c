//! The rxperf service on a lane: answers each call as its head asks.

use crate::{ABORT_CODE, Inbound};
use rx_lane::{CallError, ServerCall};

/// Serves one rxperf call. What it cannot take it aborts with [`ABORT_CODE`].
///
/// # Errors
/// How the call ended, if not well.
pub async fn serve(mut call: ServerCall) -> Result<(), CallError> {
    let mut inbound = Inbound::default();
    let mut refused = false;
    while call.read(|part| refused |= inbound.handle(part).is_err()).await? > 0 {
        if refused {
            call.abort(ABORT_CODE);
            return Err(CallError::Aborted(ABORT_CODE));
        }
    }
    let Ok(mut outbound) = inbound.finish() else {
        call.abort(ABORT_CODE);
        return Err(CallError::Aborted(ABORT_CODE));
    };
    call.write_with(outbound.remaining(), |room| {
        outbound.fill(room);
    })
    .await?;
    call.finish().await
}
