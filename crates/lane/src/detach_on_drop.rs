//! Tasks that run to completion even where the task that waits for them ends.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::Task;

/// Waiter for a task, which detaches the task when dropped before the task's end; dropping the task itself
/// would cancel it.
#[must_use = "it is the one who waits"]
pub struct DetachOnDrop<T> {
    task: Option<Task<T>>,
}

/// Runs `work` to its end, even where the returned future is dropped before. Work that waits for nothing at
/// its first turn takes no task of its own.
///
/// The future is a few words long, however much `work` holds: futures are copied with all that they wait for.
///
/// # Panics
/// Off lanes.
pub fn run_to_completion<T: 'static>(work: impl Future<Output = T> + 'static) -> impl Future<Output = T> {
    let mut work = Box::pin(work);
    async move {
        match poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx))).await {
            Poll::Ready(done) => done,
            Poll::Pending => DetachOnDrop::from(crate::spawn(work)).await,
        }
    }
}

impl<T> From<Task<T>> for DetachOnDrop<T> {
    fn from(task: Task<T>) -> Self {
        Self { task: Some(task) }
    }
}

impl<T> Future for DetachOnDrop<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let task = self.task.as_mut().expect("it lives as long as this");
        Pin::new(task).poll(cx)
    }
}

impl<T> Drop for DetachOnDrop<T> {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            task.detach();
        }
    }
}
