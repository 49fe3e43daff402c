//! The lane that the calling code runs on, found through a thread-local: futures need no handle passed down.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use crate::backend::{self, Backend, Fd};
use crate::buffer::BufferPool;
use crate::counters::LaneCounters;
use crate::executor::{self, Executor};
use crate::memory::LaneMemory;
use crate::mesh::{Member, Mesh};
use crate::on_thread::{self, Current};
use crate::timers::Timers;

/// Number of a lane of the process, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LaneId(pub u16);

/// Number of a silo of the process, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SiloId(pub u16);

impl From<LaneId> for Member {
    fn from(lane: LaneId) -> Self {
        Self::from(usize::from(lane.0))
    }
}

/// All that belongs to a lane.
pub struct Lane {
    pub(crate) id: LaneId,
    pub(crate) silo: SiloId,
    pub(crate) backend: Rc<dyn Backend>,
    pub(crate) executor: Rc<Executor>,
    pub(crate) timers: RefCell<Timers>,
    pub(crate) buffers: BufferPool,
    pub(crate) counters: Arc<LaneCounters>,
    pub(crate) memory: Arc<LaneMemory>,
    pub(crate) mesh: Mesh,
    /// Name of the task that ends the lane, once one failed.
    pub(crate) failure: Cell<Option<&'static str>>,
}

impl Lane {
    /// Returns the number of this lane in the process.
    pub fn id(&self) -> LaneId {
        self.id
    }

    /// Returns the silo of this lane.
    pub fn silo(&self) -> SiloId {
        self.silo
    }

    /// Returns the lane's send and read buffers.
    pub fn buffers(&self) -> &BufferPool {
        &self.buffers
    }

    /// Returns the lane's counters, which other threads read.
    pub fn counters(&self) -> &Arc<LaneCounters> {
        &self.counters
    }

    /// Returns the record of where the lane's memory lies, for which other threads ask.
    pub fn memory(&self) -> &Arc<LaneMemory> {
        &self.memory
    }

    /// Returns the mesh of the lane's process, of which the lane is the member of its number.
    pub fn mesh(&self) -> &Mesh {
        &self.mesh
    }

    /// Tells the observer of the lane's memory, if there is one, which part of a file was just served.
    pub(crate) fn note_served(&self, file: Fd, offset: u64, len: usize) {
        self.memory.note_served(offset, len, || self.backend.lend_file(file));
    }

    pub(crate) fn backend(&self) -> &dyn Backend {
        &*self.backend
    }
}

/// Returns the current lane.
///
/// # Panics
/// When the caller does not run on a lane: lane types were used from a plain thread.
pub fn current() -> Rc<Lane> {
    with(Rc::clone)
}

/// Runs `f` with the current lane; cheaper than [`current`].
pub(crate) fn with<R>(f: impl FnOnce(&Rc<Lane>) -> R) -> R {
    try_with(f).expect("lane types are used only on a lane's own thread")
}

/// Runs `f` like [`with`], or returns `None` off lanes and during thread teardown.
pub(crate) fn try_with<R>(f: impl FnOnce(&Rc<Lane>) -> R) -> Option<R> {
    Current::try_with(&CURRENT, f)
}

/// Returns whether this thread is a lane that has not ended: destructors may run later.
pub fn on_lane() -> bool {
    try_with(|_| ()).is_some()
}

/// Makes `lane` current until the guard is dropped. Simulated lanes share a thread and enter in turns.
pub(crate) fn enter(lane: &Rc<Lane>) -> Entered {
    Entered {
        _lane: Current::enter(&CURRENT, lane),
        _backend: backend::enter(&lane.backend),
        _executor: executor::enter(&lane.executor),
    }
}

/// Guard that restores the lane that was current before.
pub(crate) struct Entered {
    _lane: on_thread::CurrentGuard<Rc<Lane>>,
    _backend: on_thread::CurrentGuard<Rc<dyn Backend>>,
    _executor: on_thread::CurrentGuard<Rc<Executor>>,
}

thread_local! {
    static CURRENT: Current<Rc<Lane>> = const { Current::nobody() };
}
