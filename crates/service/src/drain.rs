//! Drain of connections: of all when the service ends, or of the present ones while it goes on.

use std::cell::{Cell, RefCell};
use std::task::{Poll, Waker};
use std::time::Instant;

use lane::time::timeout_at;
use slab::Slab;

/// Connections taken between two calls of [`Drain::dismiss`], which leave together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cohort(u64);

/// Drain of a lane: the request to leave, the tasks that wait for it, and the number of those left.
#[derive(Debug, Default)]
pub struct Drain {
    asked: Cell<bool>,
    /// Number of cohorts that were asked to leave while the service goes on.
    dismissed: Cell<u64>,
    waiting: RefCell<Slab<Waker>>,
    /// Number of tasks that hold a [`Drain::stay`]: connections, calls and others.
    staying: Cell<usize>,
    all_gone: RefCell<Option<Waker>>,
}

/// Guard that counts a task as staying until it is dropped.
#[derive(Debug)]
pub struct Stay<'a>(&'a Drain);

impl Drain {
    /// Counts a task as staying. For as long as the guard lives [`Drain::ask`] waits for it.
    pub fn stay(&self) -> Stay<'_> {
        self.enter();
        Stay(self)
    }

    pub(crate) fn enter(&self) {
        self.staying.update(|staying| staying + 1);
    }

    pub(crate) fn leave(&self) {
        self.staying.update(|staying| staying - 1);
        if self.staying.get() == 0
            && let Some(waker) = self.all_gone.borrow_mut().take()
        {
            waker.wake();
        }
    }

    /// Returns the number of tasks that are staying.
    pub fn staying(&self) -> usize {
        self.staying.get()
    }

    /// Returns the cohort of the connections that are taken now.
    pub fn cohort(&self) -> Cohort {
        Cohort(self.dismissed.get())
    }

    /// Asks all tasks to leave, for good. Returns when all are gone, or at `deadline` with the number left;
    /// the caller then ends the lane, and with it the tasks that are left.
    pub async fn ask(&self, deadline: Instant) -> usize {
        self.asked.set(true);
        let waiting = std::mem::take(&mut *self.waiting.borrow_mut());
        waiting.into_iter().for_each(|(_, waker)| waker.wake());
        let all_gone = std::future::poll_fn(|cx| {
            if self.staying.get() == 0 {
                return Poll::Ready(());
            }
            *self.all_gone.borrow_mut() = Some(cx.waker().clone());
            Poll::Pending
        });
        let _ = timeout_at(deadline, all_gone).await;
        self.staying.get()
    }

    /// Asks the present tasks to leave. Others may come.
    pub fn dismiss(&self) {
        self.dismissed.update(|cohorts| cohorts + 1);
        // They stay in the list: listeners wait there too, and wait on.
        self.waiting.borrow().iter().for_each(|(_, waker)| waker.wake_by_ref());
    }

    /// Returns whether this cohort is to leave.
    pub fn is_leaving(&self, cohort: Cohort) -> bool {
        self.asked.get() || cohort < self.cohort()
    }

    /// Returns the output of `future`, or `None` once this cohort is to leave.
    pub async fn unless_leaving<F: Future>(&self, cohort: Cohort, future: F) -> Option<F::Output> {
        self.unless(|| self.is_leaving(cohort), future).await
    }

    /// Returns the output of `future`, or `None` once all tasks were asked to leave.
    pub async fn unless_asked<F: Future>(&self, future: F) -> Option<F::Output> {
        self.unless(|| self.asked.get(), future).await
    }

    async fn unless<F: Future>(&self, over: impl Fn() -> bool, future: F) -> Option<F::Output> {
        let mut future = std::pin::pin!(future);
        let mut place = WaitingPlace { drain: self, key: None };
        std::future::poll_fn(|cx| {
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                return Poll::Ready(Some(output));
            }
            if over() {
                return Poll::Ready(None);
            }
            place.take(cx.waker());
            Poll::Pending
        })
        .await
    }
}

impl Drop for Stay<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// Place of a waker in the list of those to wake.
struct WaitingPlace<'a> {
    drain: &'a Drain,
    key: Option<usize>,
}

impl WaitingPlace<'_> {
    fn take(&mut self, waker: &Waker) {
        if self.key.is_none() {
            self.key = Some(self.drain.waiting.borrow_mut().insert(waker.clone()));
        }
    }
}

impl Drop for WaitingPlace<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            // Shutdown may have taken the list.
            self.drain.waiting.borrow_mut().try_remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;
    use std::time::Duration;

    use lane::backend::sim::{Config, World};
    use lane::time::{now, sleep};

    use super::*;

    #[test]
    fn those_who_were_there_leave_and_those_who_come_stay_until_all_are_asked() {
        let world = World::new(1, Config::default());
        let host = world.host("10.0.0.1");
        world.block_on(&host, async {
            let drain = Rc::new(Drain::default());
            let client = || {
                let (drain, cohort) = (Rc::clone(&drain), drain.cohort());
                lane::spawn(async move {
                    let _stay = drain.stay();
                    drain.unless_leaving(cohort, std::future::pending::<()>()).await
                })
            };
            let old = client();
            sleep(Duration::from_millis(1)).await;
            drain.dismiss();
            let new = client();
            assert_eq!(old.await, None);
            assert!(!new.is_finished() && drain.staying() == 1);
            // One that does not hear is counted at the deadline, and not waited for any longer.
            let deaf = drain.stay();
            let begun = now();
            assert_eq!(drain.ask(begun + Duration::from_secs(3)).await, 1);
            assert_eq!(now(), begun + Duration::from_secs(3));
            assert_eq!(new.await, None);
            drop(deaf);
            assert_eq!(drain.ask(now() + Duration::from_secs(3)).await, 0);
        });
    }
}
