//! Values that an abandoned operation holds until the kernel has answered it, besides the memory that the
//! kernel touches.
//!
//! An example is a change lock, under which no other operation may change the file before.

use std::any::Any;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;

use crate::on_thread::{Current, CurrentGuard};

/// Value that operations in flight keep alive, released by being dropped.
pub(crate) type KeepAlive = Rc<dyn Any>;

/// Runs `work` so that the operations it begins keep `held` alive. When this future is dropped before its
/// end, because its caller gave up or its lane ends, each operation keeps `held` until the kernel has
/// answered it.
pub async fn with_keepalive<T>(held: Rc<dyn Any>, work: impl Future<Output = T>) -> T {
    // Locals go in the reverse order: first this says what is held, then what it wraps gives up its operations, then it is over.
    let dropping = Dropping::default();
    let mut work = pin!(work);
    let entering = Entering { dropping: &dropping, held: &held };
    let result = poll_fn(|cx| {
        let _entered = Current::enter(&HELD, &held);
        work.as_mut().poll(cx)
    })
    .await;
    drop(entering);
    result
}

/// Returns the value to keep for operations that are given up now.
pub(crate) fn current() -> Option<KeepAlive> {
    Current::try_with(&HELD, Rc::clone)
}

#[derive(Default)]
struct Dropping(std::cell::RefCell<Option<CurrentGuard<KeepAlive>>>);

struct Entering<'a> {
    dropping: &'a Dropping,
    held: &'a KeepAlive,
}

impl Drop for Entering<'_> {
    fn drop(&mut self) {
        self.dropping.0.replace(Some(Current::enter(&HELD, self.held)));
    }
}

thread_local! {
    static HELD: Current<KeepAlive> = const { Current::nobody() };
}
