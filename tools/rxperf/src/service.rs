//! The rxperf service on a lane: answers each call as its head asks.

use crate::{ABORT_CODE, Inbound};
use rx_lane::{AbortCode, ServerCall};

/// Serves one rxperf call. What it cannot take it aborts with [`ABORT_CODE`].
///
/// # Errors
/// The code that the call is aborted with.
pub async fn serve(mut call: ServerCall) -> Result<(), AbortCode> {
    let mut inbound = Inbound::default();
    let mut refused = false;
    while call.read(|part| refused |= inbound.handle(part).is_err()).await? > 0 {
        if refused {
            return Err(AbortCode(ABORT_CODE));
        }
    }
    let mut outbound = inbound.finish().map_err(|_| AbortCode(ABORT_CODE))?;
    call.write_with(outbound.remaining(), |room| {
        outbound.fill(room);
    })
    .await?;
    Ok(call.finish().await?)
}
