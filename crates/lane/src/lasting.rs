//! Tasks that go on to their end whatever becomes of who waits for them.

use std::pin::Pin;
use std::task::{Context, Poll};

use crate::Task;

/// Waits for a task, and lets it go on when this is dropped before its end; dropping the task itself would cancel it.
#[must_use = "it is the one who waits"]
pub struct Lasting<T> {
    task: Option<Task<T>>,
}

impl<T> From<Task<T>> for Lasting<T> {
    fn from(task: Task<T>) -> Self {
        Self { task: Some(task) }
    }
}

impl<T> Future for Lasting<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let task = self.task.as_mut().expect("it lives as long as this");
        Pin::new(task).poll(cx)
    }
}

impl<T> Drop for Lasting<T> {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            task.detach();
        }
    }
}
