//! Executor of the tasks of one lane, first come first served. Tasks never leave their lane; wakers may be
//! used from any thread and bring the task back through the lane's remote queue.
//!
//! A task with long work gives way between its steps ([`yield_if_due`]). Such tasks have a line of their own, which moves
//! for a bounded time in each round, after all others: however many they are, a short answer does not wait behind them.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use async_task::{Builder, ScheduleInfo, WithInfo};
use crossbeam_queue::SegQueue;
use slab::Slab;

use crate::backend::{self, Unpark};
use crate::helper::account;
use crate::helper::queue::Client;
use crate::on_thread::{Current, CurrentGuard};

/// A task that was spawned. Dropping it cancels the task; [`Task::detach`] lets it run on.
pub type Task<T> = async_task::Task<T, Account>;

/// Client on whose account helpers work for a task.
type Account = Option<Client>;
type Runnable = async_task::Runnable<Account>;

/// State of the tasks of one lane.
pub(crate) struct Executor {
    local: Rc<RefCell<VecDeque<Runnable>>>,
    /// Tasks that gave way, in order.
    patient: RefCell<VecDeque<Runnable>>,
    /// True while the running task gives way.
    gives_way: Cell<bool>,
    shared: Arc<ExecutorShared>,
    active: Rc<RefCell<Slab<Waker>>>,
    contains_panics: Cell<bool>,
    panics: Cell<u64>,
}

/// State that wakers on other threads reach.
struct ExecutorShared {
    remote: SegQueue<Runnable>,
    unparker: OnceLock<Arc<dyn Unpark>>,
}

impl Executor {
    pub(crate) fn new() -> Rc<Self> {
        Rc::new(Self {
            local: Rc::default(),
            patient: RefCell::default(),
            gives_way: Cell::new(false),
            shared: Arc::new(ExecutorShared { remote: SegQueue::new(), unparker: OnceLock::new() }),
            active: Rc::default(),
            contains_panics: Cell::new(false),
            panics: Cell::new(0),
        })
    }

    /// Makes a panic end its task only, as servers want it. Otherwise a panic goes through the lane's loop,
    /// as tests want it.
    pub(crate) fn contain_panics(&self) {
        self.contains_panics.set(true);
    }

    pub(crate) fn contains_panics(&self) -> bool {
        self.contains_panics.get()
    }

    /// Notes that a task met a panic that was caught elsewhere.
    pub(crate) fn note_panic(&self) {
        self.panics.set(self.panics.get() + 1);
    }

    /// Returns the number of tasks that were ended by a panic.
    pub(crate) fn panics(&self) -> u64 {
        self.panics.get()
    }

    /// Sets the way to wake the lane while parked; called once, before the first turn.
    pub(crate) fn set_unparker(&self, unparker: Arc<dyn Unpark>) {
        self.shared.unparker.set(unparker).ok().expect("a lane gets its unparker once");
    }

    /// Starts a task. The future is behind a pointer: tasks of all futures with one output share the code
    /// that runs them. A service spawns sixty kinds, and each took a kilobyte and a half.
    pub(crate) fn spawn<T: 'static>(
        &self,
        account: Account,
        future: Pin<Box<dyn Future<Output = T>>>,
    ) -> Task<T> {
        let mut active = self.active.borrow_mut();
        let entry = active.vacant_entry();
        let guard = ActiveGuard { active: Rc::clone(&self.active), key: entry.key() };
        let future = async move {
            let _guard = guard;
            future.await
        };
        let shared = Arc::clone(&self.shared);
        let schedule = WithInfo(move |runnable, info| Self::schedule(&shared, runnable, info));
        let (runnable, task) = Builder::new().metadata(account).spawn_local(|_| future, schedule);
        entry.insert(runnable.waker());
        drop(active);
        runnable.schedule();
        task
    }

    /// Runs tasks that are ready now, at most `budget` of them; those they wake run in the same round while
    /// the budget lasts. Then those that gave way before have their time. Returns how many ran.
    pub(crate) fn run(&self, budget: usize, clock: impl Fn() -> Instant) -> usize {
        // First, and each round: those that other threads woke must not wait until no task here is ready.
        while let Some(runnable) = self.shared.remote.pop() {
            self.local.borrow_mut().push_back(runnable);
        }
        let mut ran = 0;
        while ran < budget {
            let Some(runnable) = self.local.borrow_mut().pop_front() else { break };
            self.run_one(runnable);
            ran += 1;
        }
        ran + self.run_patient(clock)
    }

    /// Runs a task that gave way, and more while their time lasts; returns how many ran.
    fn run_patient(&self, clock: impl Fn() -> Instant) -> usize {
        let waiting = self.patient.borrow().len();
        if waiting == 0 {
            return 0;
        }
        let end = clock() + PATIENT_TIME;
        for ran in 1..=waiting {
            let Some(runnable) = self.patient.borrow_mut().pop_front() else { return ran - 1 };
            self.run_one(runnable);
            if clock() >= end {
                return ran;
            }
        }
        waiting
    }

    fn run_one(&self, runnable: Runnable) {
        self.gives_way.set(false);
        let _entered = account::enter(*runnable.metadata());
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

    /// Returns whether a task is ready to run.
    pub(crate) fn is_ready(&self) -> bool {
        !self.local.borrow().is_empty() || !self.patient.borrow().is_empty() || !self.shared.remote.is_empty()
    }

    /// Returns the number of tasks spawned and not finished.
    pub(crate) fn len(&self) -> usize {
        self.active.borrow().len()
    }

    /// Returns addresses of some of the living tasks, a bounded number spread over all.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = usize> {
        let active = self.active.borrow();
        let slots = active.capacity();
        let step = slots.div_ceil(ADDRESSES_MAX).max(1);
        let some = (0..slots).step_by(step).filter_map(|slot| active.get(slot));
        some.map(|waker| waker.data() as usize).collect::<Vec<_>>().into_iter()
    }

    /// Cancels every task, so that values of tasks are dropped while the lane still stands.
    pub(crate) fn cancel_all(&self) {
        let wakers: Vec<_> = self.active.borrow_mut().drain().collect();
        wakers.into_iter().for_each(Waker::wake);
        loop {
            let next = self.local.borrow_mut().pop_front();
            let next = next.or_else(|| self.patient.borrow_mut().pop_front());
            match next.or_else(|| self.shared.remote.pop()) {
                Some(runnable) => drop(runnable),
                None => return,
            }
        }
    }

    fn schedule(shared: &Arc<ExecutorShared>, runnable: Runnable, info: ScheduleInfo) {
        let mut runnable = Some(runnable);
        try_with_current(|executor| {
            if Arc::ptr_eq(&executor.shared, shared) {
                let gives_way = info.woken_while_running && executor.gives_way.take();
                let line = if gives_way { &executor.patient } else { &*executor.local };
                line.borrow_mut().extend(runnable.take());
            }
        });
        if let Some(runnable) = runnable {
            shared.remote.push(runnable);
            if shared.unparker.get().is_some_and(|unparker| unparker.unpark()) {
                backend::try_with(|backend| {
                    backend.counters().wakes.increment();
                    backend.counters().syscalls.increment();
                });
            }
        }
    }
}

/// Starts a task on the current lane, on the account of its starter.
///
/// # Panics
/// Off lanes.
pub fn spawn<T: 'static>(future: impl Future<Output = T> + 'static) -> Task<T> {
    current().spawn(account::current(), Box::pin(future))
}

/// Spawns a task on this client's account ([`spawn`]): helper threads take turns between clients, whatever
/// they do for tasks ([`offload`](crate::offload), and the operations on files that need a thread).
///
/// # Panics
/// Off lanes.
pub fn spawn_for<T: 'static>(client: Client, future: impl Future<Output = T> + 'static) -> Task<T> {
    current().spawn(Some(client), Box::pin(future))
}

/// Lets the lane's other ready tasks run before the caller goes on.
pub async fn yield_now() {
    step_back(|| ()).await
}

/// Yields between the steps of long work ([`yield_now`]): everything else that is ready goes first, and later
/// arrivals while others give way too.
pub async fn yield_if_due() {
    step_back(|| current().gives_way.set(true)).await
}

/// Waits once, ready again at once, in the line that `choose_line` asks for.
#[inline]
async fn step_back(choose_line: impl Fn()) {
    let mut waited = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut waited, true) {
            return Poll::Ready(());
        }
        choose_line();
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await
}

/// Makes `executor` the one of this thread until the guard is dropped.
pub(crate) fn enter(executor: &Rc<Executor>) -> CurrentGuard<Rc<Executor>> {
    Current::enter(&CURRENT, executor)
}

fn current() -> Rc<Executor> {
    try_with_current(Rc::clone).expect("tasks are spawned only on a lane's own thread")
}

/// Runs `f` with this thread's executor; returns `None` off lanes and during thread teardown.
fn try_with_current<R>(f: impl FnOnce(&Rc<Executor>) -> R) -> Option<R> {
    Current::try_with(&CURRENT, f)
}

thread_local! {
    /// Executor of the lane that runs on this thread.
    static CURRENT: Current<Rc<Executor>> = const { Current::nobody() };
}

/// Most time in a round for all tasks that give way, from the moment when the first of them begins its step.
/// Steps are not cut.
const PATIENT_TIME: Duration = Duration::from_micros(500);
/// Most tasks looked at in a walk.
const ADDRESSES_MAX: usize = 64;

/// Guard that takes a finished task off the list of active ones.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::sim::{Config, World};

    #[test]
    fn who_gives_way_waits_for_all_who_do_not_and_is_not_forgotten() {
        let world = World::new(1, Config::default());
        let host = world.host("10.0.0.1");
        world.block_on(&host, async {
            let log: Rc<RefCell<Vec<&str>>> = Rc::default();
            let begin = |name, steps: usize, patient: bool| {
                let log = Rc::clone(&log);
                spawn(async move {
                    for _ in 0..steps {
                        log.borrow_mut().push(name);
                        match patient {
                            true => yield_if_due().await,
                            false => yield_now().await,
                        }
                    }
                })
            };
            let long: Vec<_> = (0..20).map(|_| begin("long", 3, true)).collect();
            let short = begin("short", 10, false);
            short.await;
            // Each has begun, as first come first served has it; from then on the short one has every turn.
            assert_eq!(log.borrow().iter().rposition(|name| *name == "short"), Some(20 + 9));
            for task in long {
                task.await;
            }
            assert_eq!(log.borrow().iter().filter(|name| **name == "long").count(), 60);
        });
    }
}
