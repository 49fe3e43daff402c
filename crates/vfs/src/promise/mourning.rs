//! What is left of a lane that has ended: promises that nobody can break any more, until their clients have heard that all is void.

use std::sync::Arc;

use lane::mesh::Member;

use super::Client;
use crate::object::{Object, Objects, SharedVolume};

/// The promises of a lane that has ended.
pub(crate) struct Ended {
    /// Who relied on them.
    pub(crate) clients: Vec<Arc<Client>>,
    /// What they were of.
    pub(super) objects: Vec<Arc<Object>>,
    pub(super) volumes: Vec<Arc<SharedVolume>>,
}

/// Keeps the bits of a lane that has ended, and changes waiting that it is asked about, until it is dropped.
pub(crate) struct Mourning {
    table: Objects,
    lane: Member,
    ended: Ended,
}

impl Ended {
    pub(crate) fn mourning(&self, table: &Objects, lane: Member) -> Arc<Mourning> {
        let ended =
            Self { clients: Vec::new(), objects: self.objects.clone(), volumes: self.volumes.clone() };
        Arc::new(Mourning { table: table.clone(), lane, ended })
    }

    /// Nobody relies on the lane any more.
    pub(crate) fn take_bits_back(&self, lane: Member) {
        self.objects.iter().for_each(|object| object.promises().clear(lane));
        self.volumes.iter().for_each(|volume| volume.promises().clear(lane));
    }
}

impl Drop for Mourning {
    fn drop(&mut self) {
        // A lane of the same number that has begun since relies on some of them, nobody knows which: a bit too many costs a question.
        if self.table.desks().end_mourning(self.lane) {
            self.ended.take_bits_back(self.lane);
        }
    }
}
