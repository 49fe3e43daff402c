//! The helper threads of a simulated host: each has one job at a time, done a moment later, after as long as
//! the dice say.

use super::config::HelperConfig;
use super::core::SimState;
use super::engine::{Bell, Event};
use super::net::HostId;
use crate::helper::Job;
use crate::helper::queue::{Client, FairQueue, Party};

pub(super) struct Helpers {
    queue: FairQueue<Job>,
    idle: usize,
}

impl Helpers {
    pub(super) fn new(config: &HelperConfig) -> Self {
        Self { queue: FairQueue::new(config.threads, config.queue_max), idle: config.threads }
    }
}

impl SimState {
    /// Queues a job. Returns the job that gave way, or this one when there is no room.
    pub(super) fn offload(
        &mut self,
        host: HostId,
        client: Option<Client>,
        job: Job,
    ) -> Result<Option<Job>, Job> {
        let gave_way = self.hosts[host.0].helpers.queue.push(client, job)?;
        self.help(host);
        Ok(gave_way)
    }

    /// Ends a helper's job, which happens now, and gives the helper the next.
    pub(super) fn helped(&mut self, host: HostId, party: Party, job: Bell) {
        self.engine.note("helped", &[host.0 as u64]);
        self.engine.ring(job);
        let helpers = &mut self.hosts[host.0].helpers;
        helpers.queue.done(party);
        helpers.idle += 1;
        self.help(host);
    }

    /// Gives idle helpers something to do.
    fn help(&mut self, host: HostId) {
        let helpers = &mut self.hosts[host.0].helpers;
        while helpers.idle > 0 {
            let Some((party, job)) = helpers.queue.pop() else { return };
            helpers.idle -= 1;
            let delay = self.engine.between(self.helpers.delay.clone());
            let job = Bell(Box::new(move || {
                job();
                None
            }));
            self.engine.after(delay, Event::Helped(host, party, job));
        }
    }
}
