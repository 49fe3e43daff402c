//! Runs the tasks of one lane, first come first served. Tasks never leave their lane; wakers may be used
//! from any thread and bring the task back through the lane's remote queue.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use std::task::Waker;

use async_task::Runnable;
use crossbeam_queue::SegQueue;
use slab::Slab;

use crate::backend::Unpark;
use crate::context::{self, Lane};

/// A spawned task. Dropping it cancels the task; [`Task::detach`] lets it run on.
pub type Task<T> = async_task::Task<T>;

/// The tasks of one lane.
pub(crate) struct Executor {
    local: Rc<RefCell<VecDeque<Runnable>>>,
    shared: Arc<Shared>,
    active: Rc<RefCell<Slab<Waker>>>,
    contains_panics: Cell<bool>,
    panics: Cell<u64>,
}

/// What wakers on other threads reach.
struct Shared {
    remote: SegQueue<Runnable>,
    unparker: OnceLock<Arc<dyn Unpark>>,
}

impl Executor {
    pub(crate) fn new() -> Self {
        Self {
            local: Rc::default(),
            shared: Arc::new(Shared { remote: SegQueue::new(), unparker: OnceLock::new() }),
            active: Rc::default(),
            contains_panics: Cell::new(false),
            panics: Cell::new(0),
        }
    }

    /// From now on a panic ends its task only, as servers want it. Otherwise it goes through the lane's loop,
    /// as tests want it.
    pub(crate) fn contain_panics(&self) {
        self.contains_panics.set(true);
    }

    pub(crate) fn contains_panics(&self) -> bool {
        self.contains_panics.get()
    }

    /// A task has met a panic that somebody else caught.
    pub(crate) fn note_panic(&self) {
        self.panics.set(self.panics.get() + 1);
    }

    /// Tasks that were ended by a panic.
    pub(crate) fn panics(&self) -> u64 {
        self.panics.get()
    }

    /// Says how to wake the lane while it is parked. Called once, before the first turn.
    pub(crate) fn set_unparker(&self, unparker: Arc<dyn Unpark>) {
        self.shared.unparker.set(unparker).ok().expect("a lane gets its unparker once");
    }

    pub(crate) fn spawn<T: 'static>(&self, future: impl Future<Output = T> + 'static) -> Task<T> {
        let mut active = self.active.borrow_mut();
        let entry = active.vacant_entry();
        let guard = ActiveGuard { active: Rc::clone(&self.active), key: entry.key() };
        let future = async move {
            let _guard = guard;
            future.await
        };
        let shared = Arc::clone(&self.shared);
        let schedule = move |runnable| Self::schedule(&shared, runnable);
        let (runnable, task) = async_task::spawn_local(future, schedule);
        entry.insert(runnable.waker());
        drop(active);
        runnable.schedule();
        task
    }

    /// Runs tasks that are ready now, at most `budget` of them; those they wake run in the same round while
    /// the budget lasts. Returns how many ran.
    pub(crate) fn run(&self, budget: usize) -> usize {
        let mut ran = 0;
        while ran < budget {
            let next = self.local.borrow_mut().pop_front().or_else(|| self.shared.remote.pop());
            let Some(runnable) = next else { break };
            self.run_one(runnable);
            ran += 1;
        }
        ran
    }

    fn run_one(&self, runnable: Runnable) {
        if !self.contains_panics.get() {
            runnable.run();
            return;
        }
        // async-task drops a task that panics before it lets the panic through; what the task shared with
        // others is behind cells whose borrows ended as the panic unwound.
        if catch_unwind(AssertUnwindSafe(|| runnable.run())).is_err() {
            self.panics.set(self.panics.get() + 1);
        }
    }

    /// Whether a task is ready to run.
    pub(crate) fn is_ready(&self) -> bool {
        !self.local.borrow().is_empty() || !self.shared.remote.is_empty()
    }

    /// Tasks spawned and not finished.
    pub(crate) fn len(&self) -> usize {
        self.active.borrow().len()
    }

    /// Where some of the living tasks lie, a bounded number spread over all.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = usize> {
        let active = self.active.borrow();
        let slots = active.capacity();
        let step = slots.div_ceil(ADDRESSES_MAX).max(1);
        let some = (0..slots).step_by(step).filter_map(|slot| active.get(slot));
        some.map(|waker| waker.data() as usize).collect::<Vec<_>>().into_iter()
    }

    /// Cancels every task, so that what they own is dropped while the lane still stands.
    pub(crate) fn cancel_all(&self) {
        let wakers: Vec<_> = self.active.borrow_mut().drain().collect();
        wakers.into_iter().for_each(Waker::wake);
        loop {
            let next = self.local.borrow_mut().pop_front().or_else(|| self.shared.remote.pop());
            match next {
                Some(runnable) => drop(runnable),
                None => return,
            }
        }
    }

    fn schedule(shared: &Arc<Shared>, runnable: Runnable) {
        let mut runnable = Some(runnable);
        context::try_with(|lane: &Rc<Lane>| {
            if Arc::ptr_eq(&lane.executor.shared, shared) {
                lane.executor.local.borrow_mut().extend(runnable.take());
            }
        });
        if let Some(runnable) = runnable {
            shared.remote.push(runnable);
            if let Some(unparker) = shared.unparker.get() {
                unparker.unpark();
            }
        }
    }
}

/// Starts a task on the current lane.
///
/// # Panics
/// Off lanes.
pub fn spawn<T: 'static>(future: impl Future<Output = T> + 'static) -> Task<T> {
    context::with(Rc::clone).executor.spawn(future)
}

/// Lets the lane's other ready tasks run before the caller goes on.
pub async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return std::task::Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await
}

/// Tasks looked at in one walk.
const ADDRESSES_MAX: usize = 64;

/// Takes a finished task off the list of active ones.
struct ActiveGuard {
    active: Rc<RefCell<Slab<Waker>>>,
    key: usize,
}

impl Drop for ActiveGuard {
    fn drop(&mut self) {
        let waker = self.active.borrow_mut().try_remove(self.key);
        drop(waker);
    }
}
