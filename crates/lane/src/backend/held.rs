//! What an operation that is given up holds until the kernel has answered it, besides the memory that the kernel touches: a permit,
//! say, under which nobody else may change the file before.

use std::any::Any;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;

use crate::on_thread::{Current, Entered};

/// What is held; it is let go of by being dropped.
pub(crate) type Guard = Rc<dyn Any>;

/// Does `work`. Dropped before it has ended, because its caller gave up or its lane ends, the operations it had begun keep
/// `held` until the kernel has answered each. What the kernel never lets go of is held for ever.
pub async fn holding<T>(held: Rc<dyn Any>, work: impl Future<Output = T>) -> T {
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

/// What operations hold that are given up now.
pub(crate) fn current() -> Option<Guard> {
    Current::try_with(&HELD, Rc::clone)
}

#[derive(Default)]
struct Dropping(std::cell::RefCell<Option<Entered<Guard>>>);

struct Entering<'a> {
    dropping: &'a Dropping,
    held: &'a Guard,
}

impl Drop for Entering<'_> {
    fn drop(&mut self) {
        self.dropping.0.replace(Some(Current::enter(&HELD, self.held)));
    }
}

thread_local! {
    static HELD: Current<Guard> = const { Current::nobody() };
}
