//! Numbers of channels of sessions.

use std::sync::Arc;

use lane::counters::{CounterBlock, CounterKind, Reading};
use lane::mesh::Member;

use super::SessionState;
use crate::server::ServerState;

/// Counts the sessions whose oldest connection is on this lane when it is asked for: so each is counted once.
pub(crate) struct ChannelsPerSession {
    server_state: Arc<ServerState>,
    lane: Member,
}

impl ChannelsPerSession {
    pub(crate) fn new(server_state: &Arc<ServerState>, lane: Member) -> Self {
        Self { server_state: Arc::clone(server_state), lane }
    }

    fn counts(&self) -> [u64; BUCKETS.len()] {
        let mut counts = [0; BUCKETS.len()];
        let sessions = self.server_state.sessions.all();
        for session in sessions.iter().filter(|session| session.state() == SessionState::Valid) {
            let channels = session.channels();
            if channels.first().is_some_and(|oldest| oldest.lane == self.lane) {
                counts[bucket(channels.len())] += 1;
            }
        }
        counts
    }
}

impl CounterBlock for ChannelsPerSession {
    fn visit(&self, visit: &mut dyn FnMut(Reading)) {
        for (value, (_, label)) in self.counts().into_iter().zip(BUCKETS) {
            visit(Reading {
                name: "sessions_by_channels",
                help: "Sessions with so many connections.",
                kind: CounterKind::Gauge,
                label: Some(("channels", label)),
                value,
            });
        }
    }
}

fn bucket(channels: usize) -> usize {
    BUCKETS.iter().position(|(most, _)| channels <= *most).unwrap_or(BUCKETS.len() - 1)
}

/// Largest number of channels of each bucket, and its label.
const BUCKETS: [(usize, &str); 6] = [(1, "1"), (2, "2"), (4, "3-4"), (8, "5-8"), (16, "9-16"), (32, "17-32")];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_channels_has_a_bucket_that_says_so() {
        let labels = [1, 2, 3, 4, 5, 8, 9, 16, 17, 32].map(|channels| BUCKETS[bucket(channels)].1);
        assert_eq!(labels, ["1", "2", "3-4", "3-4", "5-8", "5-8", "9-16", "9-16", "17-32", "17-32"]);
    }
}
