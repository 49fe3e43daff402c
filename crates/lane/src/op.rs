//! The future of one backend operation. Dropped early, the operation is cancelled and its buffers stay with
//! the backend until the kernel has let go of them.

use std::pin::Pin;
use std::task::{Context, Poll};

use crate::backend::{self, Op, OpId, Outcome};

/// Waits for the outcome of one operation.
#[derive(Debug)]
#[must_use = "an operation that is not awaited is cancelled"]
pub(crate) struct OpFuture {
    id: Option<OpId>,
}

impl OpFuture {
    /// Hands `op` to the current lane's backend.
    pub(crate) fn submit(op: Op) -> Self {
        Self { id: Some(backend::with(|backend| backend.submit(op))) }
    }
}

impl Future for OpFuture {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        let id = self.id.expect("polled again after it was ready");
        let polled = backend::with(|backend| backend.poll_op(id, cx));
        if polled.is_ready() {
            self.id = None;
        }
        polled
    }
}

impl Drop for OpFuture {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            backend::try_with(|backend| backend.forget(id));
        }
    }
}
