//! The world, which makes hosts, runs their lanes in turns on the calling thread, and moves the clock to the
//! next event once all are idle.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rand::Rng;

use super::backend::SimBackend;
use super::config::Config;
use super::core::{Core, Process, SimState};
use super::fs::{Cut, Disk};
use super::host::Host;
use super::net::{HostId, Net};
use super::seeds;
use crate::buffer::{BufClass, BufferPool};
use crate::context::{self, Lane, LaneId, SiloId};
use crate::counters::LaneCounters;
use crate::mesh::Mesh;

/// Hosts, a network between them, and a clock. All that happens follows from the seed and from the test's
/// calls. Dropping the world ends all its tasks, and fails the test if one of them left a descriptor open.
pub struct World {
    inner: Rc<WorldInner>,
}

/// State that the world and the handles on its hosts share.
pub(super) struct WorldInner {
    pub(super) core: Rc<Core>,
    seed: u64,
    config: Config,
    hosts: RefCell<Vec<HostLanes>>,
    lanes_made: Cell<usize>,
    /// CPU time of the longest turn of each host, once a test asks for the times.
    longest_turns: RefCell<Option<Vec<Duration>>>,
}

struct HostLanes {
    addr: IpAddr,
    lanes: Vec<Rc<Lane>>,
    /// Mesh of the host's process, which ends when the power goes.
    mesh: Mesh,
}

/// Resources that a world still held when its tasks were gone; a number other than zero is a leak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Remains {
    /// Sockets, files and directories left open.
    pub descriptors: usize,
    /// Operations neither finished nor forgotten.
    pub operations: usize,
    /// Buffers of lanes still lent.
    pub buffers: usize,
    /// Timers of lanes still armed.
    pub timers: usize,
    /// Tasks of lanes still alive.
    pub tasks: usize,
}

impl World {
    /// Makes an empty world of the seed.
    pub fn new(seed: u64, config: Config) -> Self {
        let core = Core::new(seed, &config);
        let inner = WorldInner {
            core,
            seed,
            config,
            hosts: RefCell::default(),
            lanes_made: Cell::new(0),
            longest_turns: RefCell::default(),
        };
        Self { inner: Rc::new(inner) }
    }

    /// Returns the host with this address, made with one lane if there is none.
    ///
    /// # Panics
    /// When `ip` is no IP address.
    pub fn host(&self, ip: &str) -> Host {
        let ip: IpAddr = ip.parse().unwrap_or_else(|_| panic!("{ip:?} is no IP address"));
        let known = self.inner.core.with_net(|net| net.host_with(ip));
        let id = known.unwrap_or_else(|| self.inner.add_host(ip));
        Host::new(Rc::clone(&self.inner), id)
    }

    /// Returns a handle on the network between hosts.
    pub fn net(&self) -> Net {
        Net::new(Rc::clone(&self.inner.core))
    }

    /// Makes [`Host::longest_turn`] known from now on.
    pub fn measure_turns(&self) {
        self.inner.longest_turns.replace(Some(Vec::new()));
    }

    /// Returns the virtual time since the world began.
    pub fn now(&self) -> Duration {
        self.inner.core.with(|state| state.engine.now())
    }

    /// Returns the seed of the world.
    pub fn seed(&self) -> u64 {
        self.inner.seed
    }

    /// Returns a number that two worlds share only if the same things happened in both.
    pub fn trace_hash(&self) -> u64 {
        self.inner.core.with(|state| state.engine.trace().0)
    }

    /// Runs the world until `main`, on lane 0 of `host`, has ended. Other tasks stay as they are and go on
    /// with the next call.
    ///
    /// # Panics
    /// With the seed and the state of all lanes: when nothing can ever happen any more, when lanes stay busy
    /// without letting time pass, and when the configured time limit is reached.
    pub fn block_on<T: 'static>(&self, host: &Host, main: impl Future<Output = T> + 'static) -> T {
        let result = Rc::new(RefCell::new(None));
        let slot = Rc::clone(&result);
        let task = host.start_on(0, async move {
            let value = main.await;
            *slot.borrow_mut() = Some(value);
        });
        while !task.is_finished() {
            if !self.inner.run_round() && !task.is_finished() && !self.inner.advance(None) {
                panic!("deadlock: nothing is ready and nothing is to come\n{}", self.inner.report());
            }
        }
        let value = result.borrow_mut().take();
        value.unwrap_or_else(|| panic!("the main task was cancelled\n{}", self.inner.report()))
    }

    /// Runs the world until `duration` of virtual time has passed.
    pub fn run_for(&self, duration: Duration) {
        let until = self.now() + duration;
        loop {
            if !self.inner.run_round() && !self.inner.advance(Some(until)) {
                self.inner.core.with(|state| state.engine.advance_to(until));
                return;
            }
        }
    }

    /// Returns every lane's tasks, timers and operations, for a look at a world that does not do what it
    /// should.
    pub fn report(&self) -> String {
        self.inner.report()
    }

    /// Ends all tasks and returns the resources that are left. Values that tasks gave to the test count as
    /// left too.
    pub fn end(self) -> Remains {
        self.inner.cancel_all();
        self.inner.remains()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let now = self.now();
            eprintln!("simulated world failed {now:?} after it began; {}", seeds::repro(self.inner.seed));
        }
        self.inner.cancel_all();
        let leaked = self.inner.remains().descriptors;
        // Nothing closes a descriptor in a world but its owner.
        assert!(
            leaked == 0 || std::thread::panicking(),
            "{leaked} descriptors leaked: their owners are gone, or left the world\n{}",
            self.inner.report()
        );
        // Hosts' handles may be held by what tasks left behind; lanes must not be.
        self.inner.hosts.borrow_mut().clear();
    }
}

impl WorldInner {
    pub(super) fn lane(&self, host: HostId, lane: usize) -> Rc<Lane> {
        let hosts = self.hosts.borrow();
        let host = hosts.get(host.0).expect("the world of this host is gone");
        Rc::clone(host.lanes.get(lane).unwrap_or_else(|| panic!("{} has no lane {lane}", host.addr)))
    }

    pub(super) fn add_lane(self: &Rc<Self>, host: HostId) -> usize {
        let (number, mesh) = {
            let host = &self.hosts.borrow()[host.0];
            (host.lanes.len(), host.mesh.clone())
        };
        assert!(number < LANES_MAX, "a simulated host has at most {LANES_MAX} lanes");
        let lane = self.make_lane(host, number, mesh);
        self.hosts.borrow_mut()[host.0].lanes.push(lane);
        number
    }

    pub(super) fn lose_power(&self, host: HostId) {
        let outcomes = self.core.with(|state| {
            state.engine.note("power lost", &[host.0 as u64]);
            state.net.lose_power(host);
            // What holds a file lets go of it before the file system is what the disk has left.
            let outcomes = state.ops.lose_power(host, &mut state.engine);
            state.hosts[host.0].clear();
            state.disks[host.0].lose_power(&mut state.engine);
            outcomes
        });
        drop(outcomes);
        self.end_tasks(host);
    }

    /// Kills a host's process at once; some of the operations that it had asked the kernel for are done yet.
    pub(super) fn kill(&self, host: HostId) {
        let outcomes = self.core.with(|state| {
            state.engine.note("killed", &[host.0 as u64]);
            for op in state.ops.keys(host) {
                if state.engine.rng.random_bool(0.5) {
                    state.step(op);
                }
            }
            let outcomes = state.ops.lose_power(host, &mut state.engine);
            for fd in state.hosts[host.0].numbers() {
                state.close(host, fd);
            }
            state.hosts[host.0].clear();
            state.disks[host.0].forget_process();
            outcomes
        });
        drop(outcomes);
        self.end_tasks(host);
    }

    fn end_tasks(&self, host: HostId) {
        let lanes = self.hosts.borrow()[host.0].lanes.clone();
        lanes.iter().for_each(end_tasks);
    }

    pub(super) fn end_lane(&self, host: HostId, lane: usize) {
        self.core.with(|state| state.engine.note("lane ended", &[host.0 as u64, lane as u64]));
        end_tasks(&self.lane(host, lane));
    }

    /// Ends the hosts that were to end after a number of changes of their files.
    fn make_cuts(&self) {
        for (host, cut) in self.core.with(|state| state.engine.take_cuts()) {
            match cut {
                Cut::Power => self.lose_power(host),
                Cut::Process => self.kill(host),
            }
        }
    }

    pub(super) fn restart(&self, host: HostId) {
        let count = self.hosts.borrow()[host.0].lanes.len();
        let mesh = Mesh::new(LANES_MAX, OUTSIDERS_MAX);
        let lanes = (0..count).map(|number| self.make_lane(host, number, mesh.clone())).collect();
        let addr = self.hosts.borrow()[host.0].addr;
        let started = HostLanes { addr, lanes, mesh };
        let before = std::mem::replace(&mut self.hosts.borrow_mut()[host.0], started);
        before.lanes.iter().for_each(cancel);
        self.core.with(|state| {
            state.engine.note("power back", &[host.0 as u64]);
            state.net.regain_power(host);
        });
    }

    fn add_host(&self, ip: IpAddr) -> HostId {
        let id = HostId(self.hosts.borrow().len());
        self.core.with(|state| {
            state.hosts.push(Process::new(self.config.descriptors_max, &self.config.helpers));
            state.disks.push(Disk::new(id, self.config.fs.clone()));
            state.net.add_address(id, ip);
        });
        let mesh = Mesh::new(LANES_MAX, OUTSIDERS_MAX);
        let lane = self.make_lane(id, 0, mesh.clone());
        self.hosts.borrow_mut().push(HostLanes { addr: ip, lanes: vec![lane], mesh });
        id
    }

    fn make_lane(&self, host: HostId, number: usize, mesh: Mesh) -> Rc<Lane> {
        let lane = self.lanes_made.replace(self.lanes_made.get() + 1);
        let counters = Arc::new(LaneCounters::default());
        let backend = SimBackend::new(Rc::clone(&self.core), host, lane, Arc::clone(&counters));
        let buffers = BufferPool::new(self.config.buffers).expect("a test machine has memory for a lane");
        let id = LaneId(u16::try_from(number).expect("hosts have few lanes"));
        Lane::new(id, SiloId(0), Box::new(backend), buffers, counters, Arc::default(), mesh)
    }

    /// Gives every lane that has ready tasks a round, in an order the dice choose, then lets happen what is
    /// due. Returns whether a task ran.
    fn run_round(&self) -> bool {
        let mut lanes = self.lanes();
        let first = self.core.with(|state| state.engine.rng.random_range(0..lanes.len().max(1)));
        lanes.rotate_left(first);
        let mut ran = 0;
        for lane in &lanes {
            if lane.executor.is_ready() {
                let _entered = context::enter(lane);
                let began = self.longest_turns.borrow().is_some().then(thread_time);
                ran += lane.run_ready();
                if let Some(began) = began {
                    self.note_turn(lane, thread_time().saturating_sub(began));
                }
                if let Some(what) = lane.take_failure() {
                    self.core.with(|state| state.engine.note("lane failed", &[what.len() as u64]));
                }
                lane.backend.turn(crate::backend::Park::No).expect("simulated turns do not fail");
            }
        }
        ran += self.core.with(|state| {
            if ran > 0 {
                state.engine.note("round", &[ran as u64]);
            }
            state.dispatch_due()
        });
        self.make_cuts();
        self.check_time_passes();
        ran > 0
    }

    fn note_turn(&self, lane: &Rc<Lane>, took: Duration) {
        let has_it = |host: &HostLanes| host.lanes.iter().any(|other| Rc::ptr_eq(other, lane));
        let Some(host) = self.hosts.borrow().iter().position(has_it) else { return };
        let mut longest = self.longest_turns.borrow_mut();
        let Some(longest) = &mut *longest else { return };
        if longest.len() <= host {
            longest.resize(host + 1, Duration::ZERO);
        }
        longest[host] = longest[host].max(took);
    }

    pub(super) fn longest_turn(&self, host: HostId) -> Duration {
        let longest = self.longest_turns.borrow();
        longest.as_ref().and_then(|longest| longest.get(host.0)).copied().unwrap_or_default()
    }

    /// Moves the clock to the next event or timer, but not beyond `limit`; returns `false` when there is
    /// none.
    fn advance(&self, limit: Option<Duration>) -> bool {
        let lanes = self.lanes();
        let timers = lanes.iter().filter_map(|lane| lane.timers.borrow().next_deadline());
        let timer = timers.min().map(|deadline| self.core.moment(deadline));
        let event = self.core.with(|state| state.engine.next_event_at());
        let Some(next) = timer.into_iter().chain(event).min() else { return false };
        if limit.is_some_and(|limit| next > limit) {
            return false;
        }
        if next > self.config.time_limit {
            panic!("nothing has ended within {:?}\n{}", self.config.time_limit, self.report());
        }
        self.core.with(|state| {
            let now = state.engine.now();
            state.engine.advance_to(next.max(now));
            state.dispatch_due();
        });
        self.make_cuts();
        lanes.iter().for_each(|lane| lane.fire_timers());
        true
    }

    /// Checks that virtual time passes: lanes that never rest hold it up for ever.
    fn check_time_passes(&self) {
        let rounds = self.core.with(|state| state.engine.count_round());
        if rounds > ROUNDS_WITHOUT_TIME_MAX {
            panic!("livelock: lanes stay busy and time does not pass\n{}", self.report());
        }
    }

    fn lanes(&self) -> Vec<Rc<Lane>> {
        self.hosts.borrow().iter().flat_map(|host| host.lanes.iter().cloned()).collect()
    }

    fn cancel_all(&self) {
        // A task that is dropped may spawn one on its way out; the second pass gets that too.
        for _ in 0..2 {
            self.lanes().iter().for_each(cancel);
        }
        self.core.with(SimState::cancel_given_up);
    }

    fn remains(&self) -> Remains {
        self.core.with(|state| state.close_dropped());
        let mut remains = self.core.with(|state| Remains {
            descriptors: state.hosts.iter().map(Process::open).sum(),
            operations: state.ops.len(),
            ..Remains::default()
        });
        for lane in self.lanes() {
            let in_use = |class| lane.buffers.usage(class).in_use;
            remains.buffers += in_use(BufClass::Small) + in_use(BufClass::Large);
            remains.timers += lane.timers.borrow().len();
            remains.tasks += lane.executor.len();
        }
        remains
    }

    fn report(&self) -> String {
        use std::fmt::Write;
        let mut text = String::new();
        let (now, events, conns) = self
            .core
            .with(|state| (state.engine.now(), state.engine.events_pending(), state.net.connections()));
        let _ = writeln!(text, "at {now:?}: {events} events to come, {conns} connections");
        for (index, host) in self.hosts.borrow().iter().enumerate() {
            for (number, lane) in host.lanes.iter().enumerate() {
                let timers = lane.timers.borrow();
                let next = timers.next_deadline().map(|deadline| self.core.moment(deadline));
                let next = next.map_or("none".to_owned(), |moment| format!("next at {moment:?}"));
                let (tasks, armed) = (lane.executor.len(), timers.len());
                let _ = writeln!(text, "{} lane {number}: {tasks} tasks, {armed} timers ({next})", host.addr);
            }
            let operations = self.core.with(|state| state.ops.names(HostId(index)));
            let _ = writeln!(text, "{} operations: {operations:?}", host.addr);
        }
        text + &seeds::repro(self.seed)
    }
}

/// Returns the CPU time of this thread, without that of others on the machine.
fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Ends the tasks of a lane that does not run now ([`cancel`]).
fn end_tasks(lane: &Rc<Lane>) {
    let running = context::try_with(|current| Rc::ptr_eq(current, lane)).unwrap_or(false);
    assert!(!running, "a task cannot end its own lane");
    cancel(lane);
}

/// Ends the tasks of a lane with the lane as the current one, where their descriptors can be closed.
fn cancel(lane: &Rc<Lane>) {
    let _entered = context::enter(lane);
    lane.executor.cancel_all();
}

/// Most lanes of a host.
const LANES_MAX: usize = 64;
/// Members of a host's mesh beside the host's lanes.
const OUTSIDERS_MAX: usize = 8;
/// Rounds at one moment after which time is taken to stand still for ever.
const ROUNDS_WITHOUT_TIME_MAX: u32 = 1_000_000;
