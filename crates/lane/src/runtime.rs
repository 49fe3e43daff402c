//! Start of the lanes of a layout, each on a pinned thread, with a main future on every lane.

use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use crate::affinity;
use crate::backend::uring::{RingError, RingOptions, Uring};
use crate::backend::{Backend, Park};
use crate::buffer::{BufClass, BufferCounts, BufferPool};
use crate::context::{self, Lane, LaneId, SiloId};
use crate::counters::LaneCounters;
use crate::executor::Executor;
use crate::helper::HelperPool;
use crate::layout::{LaneSpec, Layout, SiloLayout};
use crate::memory::{self, LaneMemory};
use crate::mesh::Mesh;

/// Sizes of the memory and the ring that every lane makes at start.
#[derive(Clone, Copy, Debug, Default)]
pub struct RuntimeOptions {
    /// Sizes of the ring and the receive buffers.
    pub ring: RingOptions,
    /// Numbers of send and read buffers.
    pub buffers: BufferCounts,
}

/// Lanes that run on threads of this process. [`Runtime::join`] waits for their main futures.
pub struct Runtime {
    lanes: Vec<RunningLane>,
    mesh: Mesh,
}

/// Description of a running lane for the rest of the process.
#[derive(Clone, Debug)]
pub struct LaneInfo {
    /// Id of the lane in the process.
    pub id: LaneId,
    /// Id of the lane's silo.
    pub silo: SiloId,
    /// Number of the lane's CPU.
    pub cpu: u32,
    /// True if the lane is pinned to the CPU; else a seccomp filter forbids to pin threads.
    pub is_pinned: bool,
    /// Node of the CPU's memory; `None` on a machine without NUMA.
    pub node: Option<u32>,
    /// Kernel thread id, as in `/proc/self/task`.
    pub thread: i32,
    /// Counters of the lane, which other threads may read.
    pub counters: Arc<LaneCounters>,
    /// Record of the lane's memory.
    pub memory: Arc<LaneMemory>,
}

/// Reason why a lane did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The lane's ring or receive buffers could not be made.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// The thread, CPU or memory of a lane could not be had.
    #[error("lane {lane} cannot {what}: {source}")]
    Lane {
        /// Number of the lane.
        lane: usize,
        /// Name of the step that failed.
        what: &'static str,
        /// Answer of the kernel to the failed step.
        source: std::io::Error,
    },
}

struct RunningLane {
    info: LaneInfo,
    thread: JoinHandle<()>,
}

impl Runtime {
    /// Starts every lane of `layout`. `main` runs on each lane's thread and gives that lane's main future;
    /// when it ends, the lane cancels its other tasks and ends too. A task that panics is ended and counted,
    /// and its lane goes on; a main future that panics ends its lane, as one of its vital tasks does
    /// ([`crate::spawn_critical`]).
    ///
    /// # Errors
    /// The first lane that could not start; the others are gone by then.
    pub fn start<F>(
        layout: &Layout,
        options: RuntimeOptions,
        main: impl Fn(LaneSpec) -> F + Clone + Send + 'static,
    ) -> Result<Self, StartError>
    where
        F: Future<Output = ()> + 'static,
    {
        // Every lane waits for the word to go, so that a failed start leaves no half-running server behind.
        let mesh = Mesh::new(layout.lane_count(), OUTSIDERS_MAX);
        let mut starting = Vec::new();
        for silo in &layout.silos {
            let helpers = start_helpers(silo)?;
            for &spec in &silo.lanes {
                let local = silo.node.is_some();
                let beside = Beside { helpers: helpers.clone(), mesh: mesh.clone() };
                starting.push(start_lane(spec, local, options, beside, main.clone())?);
            }
        }
        let mut lanes = Vec::new();
        for starting in starting {
            let info = starting.ready.recv().map_err(|_| thread_died(starting.lane))??;
            lanes.push((RunningLane { info, thread: starting.thread }, starting.go));
        }
        let lanes = lanes.into_iter().map(|(lane, go)| {
            // A lane that is gone already shows at `join`.
            let _ = go.send(());
            lane
        });
        Ok(Self { lanes: lanes.collect(), mesh })
    }

    /// Returns the lanes, in the order of their ids.
    pub fn lanes(&self) -> impl Iterator<Item = &LaneInfo> {
        self.lanes.iter().map(|lane| &lane.info)
    }

    /// Returns the mesh of the lanes, for threads beside them.
    pub fn mesh(&self) -> &Mesh {
        &self.mesh
    }

    /// Waits until every lane's main future has ended.
    ///
    /// # Errors
    /// The panics of lanes that did not end by themselves.
    pub fn join(self) -> std::thread::Result<()> {
        let results: Vec<_> = self.lanes.into_iter().map(|lane| lane.thread.join()).collect();
        results.into_iter().collect()
    }
}

/// Runs `main` on one lane on the calling thread, unpinned: for tools, and tests of the real backend.
///
/// # Errors
/// As [`Runtime::start`].
pub fn run_here<T: 'static>(
    options: RuntimeOptions,
    main: impl Future<Output = T> + 'static,
) -> Result<T, StartError> {
    let helpers = HelperPool::start("helper", &[], 1, false, HELPER_QUEUE_MAX)
        .map_err(|source| StartError::Lane { lane: 0, what: "start a helper thread", source })?;
    let beside = Beside { helpers, mesh: Mesh::new(1, OUTSIDERS_MAX) };
    let lane = make_lane(LaneId(0), SiloId(0), options, beside)?;
    Ok(run(&lane, main))
}

/// State that a lane shares with the other lanes and with threads beside them.
struct Beside {
    helpers: HelperPool,
    mesh: Mesh,
}

struct StartingLane {
    lane: usize,
    thread: JoinHandle<()>,
    ready: mpsc::Receiver<Result<LaneInfo, StartError>>,
    go: mpsc::Sender<()>,
}

fn start_helpers(silo: &SiloLayout) -> Result<HelperPool, StartError> {
    let lane = silo.lanes.first().map_or(0, |lane| lane.id);
    let cpus: Vec<u32> = silo.cpus.iter().collect();
    HelperPool::start(
        &format!("helper-{lane}"),
        &cpus,
        silo.helper_threads,
        silo.node.is_some(),
        HELPER_QUEUE_MAX,
    )
    .map_err(|source| StartError::Lane { lane, what: "start a helper thread", source })
}

fn start_lane<F>(
    spec: LaneSpec,
    local_memory: bool,
    options: RuntimeOptions,
    beside: Beside,
    main: impl Fn(LaneSpec) -> F + Send + 'static,
) -> Result<StartingLane, StartError>
where
    F: Future<Output = ()> + 'static,
{
    let (report, ready) = mpsc::channel();
    let (go, wait) = mpsc::channel::<()>();
    let body = move || {
        if local_memory {
            // Where a container forbids it the inherited policy stays, which is hardly ever another.
            let _ = memory::allocate_where_running();
        }
        let pinned = affinity::pin_to(&[spec.cpu]);
        let is_pinned = pinned.is_ok();
        let lane = match pinned {
            Err(source) if !is_refused_by_filter(&source) => {
                Err(StartError::Lane { lane: spec.id, what: "run on its CPU", source })
            }
            _ => make_lane(lane_id(spec), silo_id(spec), options, beside),
        };
        match lane {
            Ok(lane) => {
                let thread = rustix::thread::gettid().as_raw_nonzero().get();
                let info = LaneInfo {
                    id: lane.id,
                    silo: lane.silo,
                    cpu: spec.cpu,
                    is_pinned,
                    node: spec.node,
                    thread,
                    counters: Arc::clone(&lane.counters),
                    memory: Arc::clone(&lane.memory),
                };
                let _ = report.send(Ok(info));
                if wait.recv().is_ok() {
                    lane.executor.contain_panics();
                    run(&lane, main(spec));
                }
            }
            Err(error) => {
                let _ = report.send(Err(error));
            }
        }
    };
    let thread = std::thread::Builder::new()
        .name(format!("lane-{}", spec.id))
        .spawn(body)
        .map_err(|source| StartError::Lane { lane: spec.id, what: "start its thread", source })?;
    Ok(StartingLane { lane: spec.id, thread, ready, go })
}

/// Returns whether a filter refused to pin: the kernel itself lets every thread be pinned to its own process'
/// CPUs.
fn is_refused_by_filter(error: &std::io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOSYS))
}

fn make_lane(
    id: LaneId,
    silo: SiloId,
    options: RuntimeOptions,
    beside: Beside,
) -> Result<Rc<Lane>, StartError> {
    let counters = Arc::new(LaneCounters::default());
    let memory = Arc::new(LaneMemory::default());
    let backend = Uring::new(options.ring, beside.helpers, Arc::clone(&counters), Arc::clone(&memory))?;
    let buffers = BufferPool::new(options.buffers).map_err(|source| StartError::Lane {
        lane: id.0.into(),
        what: "map its buffers",
        source,
    })?;
    buffers.addresses().into_iter().for_each(|pool| memory.add_pool(pool));
    if options.ring.register_buffers {
        backend.register_buffers(&buffers);
    }
    Ok(Lane::new(id, silo, Box::new(backend), buffers, counters, memory, beside.mesh))
}

/// Runs the loop of a lane: tasks that are ready, then a turn of the kernel.
fn run<T: 'static>(lane: &Rc<Lane>, main: impl Future<Output = T> + 'static) -> T {
    let _entered = context::enter(lane);
    let result: Rc<std::cell::RefCell<Option<T>>> = Rc::default();
    let slot = Rc::clone(&result);
    let main = async move {
        let value = main.await;
        *slot.borrow_mut() = Some(value);
    };
    let main = lane.executor.spawn(None, Box::pin(main));
    loop {
        lane.run_ready();
        if let Some(what) = lane.take_failure() {
            panic!("the lane ends: its {what} cannot go on");
        }
        if main.is_finished() {
            break;
        }
        let park = if lane.executor.is_ready() {
            Park::No
        } else {
            Park::Until(lane.timers.borrow().next_deadline())
        };
        lane.backend.turn(park).unwrap_or_else(|error| panic!("the lane's ring failed: {error}"));
        lane.fire_timers();
    }
    lane.executor.cancel_all();
    let value = result.borrow_mut().take();
    value.expect("a finished main future left its output")
}

impl Lane {
    pub(crate) fn new(
        id: LaneId,
        silo: SiloId,
        backend: Box<dyn Backend>,
        buffers: BufferPool,
        counters: Arc<LaneCounters>,
        memory: Arc<LaneMemory>,
        mesh: Mesh,
    ) -> Rc<Self> {
        let executor = Executor::new();
        executor.set_unparker(backend.unparker());
        let backend = Rc::from(backend);
        let (timers, failure) = Default::default();
        Rc::new(Self { id, silo, backend, executor, timers, buffers, counters, memory, mesh, failure })
    }

    /// Runs ready tasks, at most a round's worth, and brings the gauges up to date.
    pub(crate) fn run_ready(&self) -> usize {
        let ran = self.executor.run(TASKS_PER_ROUND, || self.backend.clock());
        self.counters.tasks.set(self.executor.len() as u64);
        self.counters.task_panics.set(self.executor.panics());
        self.counters.buffers_small_in_use.set(self.buffers.usage(BufClass::Small).in_use as u64);
        self.counters.buffers_large_in_use.set(self.buffers.usage(BufClass::Large).in_use as u64);
        if self.memory.wants_tasks() {
            self.memory.note_tasks(self.executor.addresses());
        }
        ran
    }

    /// Wakes the tasks with timers that are due.
    pub(crate) fn fire_timers(&self) {
        let due = self.timers.borrow_mut().take_due(self.backend.now());
        due.into_iter().for_each(std::task::Waker::wake);
    }
}

fn lane_id(spec: LaneSpec) -> LaneId {
    LaneId(u16::try_from(spec.id).expect("layouts have far fewer lanes"))
}

fn silo_id(spec: LaneSpec) -> SiloId {
    SiloId(u16::try_from(spec.silo).expect("layouts have far fewer silos"))
}

fn thread_died(lane: usize) -> StartError {
    StartError::Lane { lane, what: "start", source: std::io::Error::other("its thread ended early") }
}

/// Tasks run between two looks at the kernel: completions must not wait behind a long queue of tasks.
const TASKS_PER_ROUND: usize = 256;

/// Most threads beside the lanes that may take part in the lanes' mesh.
const OUTSIDERS_MAX: usize = 8;

//@ limit: jobs that wait for helper threads
//@ section: Lanes
//@ unit: job
//@ all: process: {} of each silo
//@ empty: the newest job of the client with most is refused (`EAGAIN`); others feel nothing
//@ counter: lane_helper_refused, lane_helper_jobs
//@ attack: http2-resets
/// Most calls that wait for a silo's helpers; callers beyond get `EAGAIN`.
const HELPER_QUEUE_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Wishes;
    use crate::topology::Topology;

    #[test]
    fn a_task_that_panics_takes_nobody_along() {
        let topology = Topology::of_this_machine().unwrap();
        let layout = Layout::new(&topology, &Wishes::default()).unwrap();
        let runtime = Runtime::start(&layout, RuntimeOptions::default(), |_| async {
            crate::spawn(async { panic!("expected by the test") }).detach();
            let neighbour = crate::spawn(async {
                crate::time::sleep(std::time::Duration::from_millis(5)).await;
                7
            });
            assert_eq!(neighbour.await, 7);
        })
        .unwrap();
        let counters: Vec<_> = runtime.lanes().map(|lane| Arc::clone(&lane.counters)).collect();
        runtime.join().unwrap();
        assert!(counters.iter().all(|counters| counters.task_panics.get() == 1));
    }

    #[test]
    fn a_vital_task_that_panics_takes_its_lane_along_with_its_listeners() {
        use std::net::TcpStream;
        let topology = Topology::of_this_machine().unwrap();
        let layout = Layout::new(&topology, &Wishes::default()).unwrap();
        let (told, addresses) = mpsc::channel();
        let runtime = Runtime::start(&layout, RuntimeOptions::default(), move |_| {
            let told = told.clone();
            async move {
                let any = "127.0.0.1:0".parse().unwrap();
                let listener = crate::net::TcpListener::bind(any, &Default::default()).unwrap();
                let addr = listener.local_addr().unwrap();
                let accepting = crate::spawn_critical("accept loop", async move {
                    let _ = listener.accept().await;
                    panic!("expected by the test")
                });
                told.send(addr).unwrap();
                accepting.await;
                // The main future is dropped here, and what it sends by with it.
                std::future::pending::<()>().await;
            }
        })
        .unwrap();
        let counters: Vec<_> = runtime.lanes().map(|lane| Arc::clone(&lane.counters)).collect();
        let addresses: Vec<_> = counters.iter().map(|_| addresses.recv().unwrap()).collect();
        let _clients: Vec<_> = addresses.iter().map(|addr| TcpStream::connect(addr).unwrap()).collect();
        assert!(runtime.join().is_err(), "it shows that the lanes did not end by themselves");
        for addr in addresses {
            assert!(TcpStream::connect(addr).is_err(), "somebody still listens at {addr}");
        }
        assert!(counters.iter().all(|counters| counters.task_panics.get() == 1));
        assert!(counters.iter().all(|counters| counters.failed.get() == 1));
    }
}
