//! A machine of a world, with addresses, files, lanes and power.

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::fs::Fs;
use super::net::HostId;
use super::world::WorldInner;
use crate::buffer::BufferPool;
use crate::context::{self, Lane};
use crate::counters::LaneCounters;
use crate::executor::Task;

/// A handle on one machine of a world. Clones name the same one; futures may hold one.
#[derive(Clone)]
pub struct Host {
    pub(super) inner: Rc<WorldInner>,
    id: HostId,
}

impl Host {
    pub(super) fn new(inner: Rc<WorldInner>, id: HostId) -> Self {
        Self { inner, id }
    }

    pub(super) fn id(&self) -> HostId {
        self.id
    }

    /// Adds an address to this host.
    ///
    /// # Panics
    /// When another host has it.
    pub fn add_address(&self, ip: &str) {
        let ip: IpAddr = ip.parse().unwrap_or_else(|_| panic!("{ip:?} is no IP address"));
        self.inner.core.with_net(|net| net.add_address(self.id, ip));
    }

    /// Adds a lane to this host's process; returns the lane's number. Hosts begin with lane 0.
    pub fn add_lane(&self) -> usize {
        self.inner.add_lane(self.id)
    }

    /// Starts a task on lane 0. It runs until it ends, or the host loses power, or the world goes.
    pub fn spawn(&self, future: impl Future<Output = ()> + 'static) {
        self.start_on(0, future).detach();
    }

    /// Spawns a task on a lane of choice ([`Host::spawn`]).
    pub fn spawn_on(&self, lane: usize, future: impl Future<Output = ()> + 'static) {
        self.start_on(lane, future).detach();
    }

    /// Starts a task on a lane; dropping the returned handle cancels the task.
    pub fn start_on<T: 'static>(&self, lane: usize, future: impl Future<Output = T> + 'static) -> Task<T> {
        let lane = self.lane(lane);
        let _entered = context::enter(&lane);
        lane.executor.spawn(None, Box::pin(future))
    }

    /// Returns a lane's buffers, which tests count after the world is gone.
    pub fn buffers(&self, lane: usize) -> BufferPool {
        self.lane(lane).buffers.clone()
    }

    /// Returns the counters of a lane, by number.
    pub fn counters(&self, lane: usize) -> Arc<LaneCounters> {
        Arc::clone(&self.lane(lane).counters)
    }

    /// Returns the CPU time of the longest task turn of a lane of this host, in a world that
    /// [measures](super::World::measure_turns).
    pub fn longest_turn(&self) -> Duration {
        self.inner.longest_turn(self.id)
    }

    /// Makes a panic on this lane end only its task, as in servers, so that tests see the effects of
    /// supervision.
    pub fn contain_panics(&self, lane: usize) {
        self.lane(lane).executor.contain_panics();
    }

    /// Ends a lane, while the others go on. Tasks of the lane are dropped where they are; what they had asked
    /// the kernel for comes to its end.
    ///
    /// # Panics
    /// When called from a task of this lane.
    pub fn end_lane(&self, lane: usize) {
        self.inner.end_lane(self.id, lane);
    }

    /// Returns a handle on the files of this host.
    pub fn fs(&self) -> Fs {
        Fs::new(Rc::clone(&self.inner.core), self.id)
    }

    /// Sets the number of descriptors that this host may have open; opens and accepts beyond that fail with
    /// `EMFILE`.
    pub fn set_descriptors_max(&self, max: usize) {
        self.inner.core.with(|state| state.hosts[self.id.0].descriptors_max = max);
    }

    /// Returns the number of descriptors open now.
    pub fn descriptors(&self) -> usize {
        self.inner.core.with(|state| state.hosts[self.id.0].open())
    }

    /// Cuts the power, at once and without a packet. Tasks end, sockets vanish, and of files there is what
    /// was synced and some of the rest (see [`JournalKind`](super::JournalKind)). Peers find silence until
    /// the host is back, and resets after that.
    ///
    /// # Panics
    /// When called from a task of this host: it would have to outlive itself.
    pub fn lose_power(&self) {
        self.inner.lose_power(self.id);
    }

    /// Kills the process (`kill -9`). Tasks end where they are and run nothing more, descriptors are closed
    /// and locks gone; of operations under way some are done yet. All that the process wrote stays.
    /// [`Host::restart`] starts it again.
    ///
    /// # Panics
    /// When called from a task of this host: it would have to outlive itself.
    pub fn kill(&self) {
        self.inner.kill(self.id);
    }

    /// Restores the power, or starts the killed process again. The host has as many lanes as before, and no
    /// tasks. Start its server again.
    pub fn restart(&self) {
        self.inner.restart(self.id);
    }

    pub(super) fn lane(&self, lane: usize) -> Rc<Lane> {
        self.inner.lane(self.id, lane)
    }
}
