//! Future of an operation. Dropped early, the operation is cancelled and its memory stays with the backend
//! until the kernel has released it.

use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::Operation;
use crate::backend::{OpId, current, keep_alive};

#[must_use = "an operation that is not awaited is cancelled"]
pub(crate) struct OpFuture<O> {
    id: Option<OpId>,
    operation: PhantomData<fn(O)>,
}

impl<O: Operation> OpFuture<O> {
    /// Hands an operation to the current lane's backend.
    pub(crate) fn submit(op: O) -> Self {
        Self { id: Some(current::with(|backend| backend.submit(op.into()))), operation: PhantomData }
    }
}

impl<O: Operation> Future for OpFuture<O> {
    type Output = O::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<O::Output> {
        let id = self.id.expect("polled again after it was ready");
        let polled = current::with(|backend| backend.poll_op(id, cx));
        polled.map(|outcome| {
            self.id = None;
            O::output(outcome)
        })
    }
}

impl<O> Drop for OpFuture<O> {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            current::try_with(|backend| backend.forget(id, keep_alive::current()));
        }
    }
}
