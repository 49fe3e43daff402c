//! Services of one lane, by their index in the program, as one for operations on all of them.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lane::Ended;
use service::commons::Commons;
use service::pacer::RateShare;
use service::volumes::{LaneVolumes, VolumeTable};
use service::{LaneService, LaneStart, Site, Switch};
use vfs::{Cache, CacheOptions, Withheld};

use crate::lane_messages::Sites;
use crate::logs::LaneLogs;
use crate::metrics::Blocks;

/// Services that were ever wanted on the lane. One that no longer is has no sockets, and comes to its end
/// with its last connection; wanted again, it goes on.
pub(crate) struct LaneServices {
    slots: Vec<OnceCell<Rc<dyn LaneService>>>,
    volumes: RefCell<LaneVolumes>,
    commons: Commons,
    blocks: Blocks,
    logs: LaneLogs,
    mark: Cell<u32>,
    seed: u64,
}

/// Parts that the services of a lane start with.
pub(crate) struct ServicesStart {
    pub(crate) sites: Sites,
    pub(crate) volumes: VolumeTable,
    /// Files that are withheld from all clients.
    pub(crate) withheld: Arc<Withheld>,
    pub(crate) blocks: Blocks,
    pub(crate) logs: LaneLogs,
    pub(crate) share: Arc<RateShare>,
    pub(crate) seed: u64,
}

impl LaneServices {
    /// Opens the volumes and starts every service that is wanted.
    pub(crate) fn start(start: &ServicesStart) -> Result<Rc<Self>, String> {
        let cache = Cache::new(CacheOptions::default());
        cache.withhold(&start.withheld);
        let lane = lane::current();
        start.blocks.add("vfs", lane.id().0, lane.silo().0, Arc::clone(cache.counters()) as _);
        let services = Rc::new(Self {
            slots: start.sites.iter().map(|_| OnceCell::new()).collect(),
            volumes: RefCell::new(LaneVolumes::new(cache)),
            commons: Commons::new(Arc::clone(&start.share)),
            blocks: start.blocks.clone(),
            logs: start.logs.clone(),
            mark: Cell::new(0),
            seed: start.seed,
        });
        services.prepare(&start.sites, &start.volumes)?();
        Ok(services)
    }

    /// Returns the service of this index, if it was ever wanted.
    pub(crate) fn get(&self, place: usize) -> Option<Rc<dyn LaneService>> {
        self.slots.get(place)?.get().map(Rc::clone)
    }

    /// Prepares to serve new sites and volumes: does everything that can fail. What is served is untouched
    /// until the switch.
    pub(crate) fn prepare(self: &Rc<Self>, sites: &Sites, table: &VolumeTable) -> Result<Switch, String> {
        let volumes = self.volumes.borrow().followed_by(table).map_err(|error| error.to_string())?;
        let mut switches: Vec<Switch> = Vec::new();
        for (place, site) in sites.iter().enumerate() {
            match (self.get(place), site) {
                (Some(service), Some(site)) => switches.push(service.prepare(&**site, &volumes)?),
                (Some(service), None) => switches.push(Box::new(move || service.dismiss())),
                (None, Some(site)) => switches.push(self.prepare_first(place, &**site, &volumes)?),
                (None, None) => {}
            }
        }
        let me = Rc::clone(self);
        Ok(Box::new(move || {
            switches.into_iter().for_each(|switch| switch());
            for volume in volumes.iter().filter(|volume| volume.is_writable()) {
                let sweep = volume.sweep();
                lane::spawn(async move {
                    lane::time::sleep(SWEEP_PAUSE).await;
                    sweep.await;
                })
                .detach();
            }
            volumes.keep_counted().into_iter().for_each(|keeping| lane::spawn(keeping).detach());
            let before = me.volumes.replace(volumes);
            before.close_unused();
            drop(before);
        }))
    }

    fn prepare_first(
        self: &Rc<Self>,
        place: usize,
        site: &dyn Site,
        volumes: &LaneVolumes,
    ) -> Result<Switch, String> {
        let commons = self.commons.clone();
        let LaneLogs { access: log, audit } = self.logs.clone();
        let service = site.start(LaneStart { volumes, commons, log, audit, seed: self.seed })?;
        let me = Rc::clone(self);
        Ok(Box::new(move || {
            let lane = lane::current();
            for (area, counters) in service.counters() {
                me.blocks.add(area, lane.id().0, lane.silo().0, counters);
            }
            service.mark(me.mark.get());
            let occupied = me.slots[place].set(service).is_err();
            debug_assert!(!occupied, "one preparation at a time");
        }))
    }

    pub(crate) fn mark(&self, mark: u32) {
        self.mark.set(mark);
        self.running().for_each(|service| service.mark(mark));
    }

    pub(crate) fn dismiss(&self) {
        self.running().for_each(|service| service.dismiss());
    }

    /// Drains all services at the same time, and returns the number of connections left at the deadline.
    pub(crate) async fn drain(&self, deadline: Instant) -> usize {
        let draining: Vec<_> =
            self.running().map(|service| lane::spawn(Rc::clone(service).drain(deadline))).collect();
        let mut left = 0;
        for drained in draining {
            left += drained.await;
        }
        self.running().for_each(|service| service.flush_log());
        left
    }

    /// Restores the state that the last server left.
    pub(crate) async fn restore_state(&self) {
        for service in self.running() {
            Rc::clone(service).restore_state().await;
        }
    }

    /// Saves the state for the next server.
    pub(crate) async fn save_state(&self) {
        for service in self.running() {
            Rc::clone(service).save_state().await;
        }
    }

    /// Hands over the access logs' records at intervals, for as long as the lane lives.
    pub(crate) async fn keep_logs_fresh(self: Rc<Self>) -> Ended {
        loop {
            lane::time::sleep(LOG_FLUSH_PERIOD).await;
            self.running().for_each(|service| service.flush_log());
        }
    }

    fn running(&self) -> impl Iterator<Item = &Rc<dyn LaneService>> {
        self.slots.iter().filter_map(OnceCell::get)
    }
}

/// Delay of the sweep for what a crash left: first clients are served, and a check of the configuration
/// removes nothing.
const SWEEP_PAUSE: Duration = Duration::from_secs(5);
/// Longest delay of a line of the access log.
const LOG_FLUSH_PERIOD: Duration = Duration::from_secs(1);
