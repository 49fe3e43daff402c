//! Clients shared out over lanes.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use lane::layout::Layout;
use lane::runtime::{Runtime, RuntimeOptions, StartError};

/// Share of one lane in the clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) lane: usize,
    /// Number of all lanes.
    pub(crate) lanes: usize,
    /// Numbers of the clients.
    pub(crate) clients: Range<usize>,
}

impl Share {
    /// Computes the share of one lane. The first lanes take the clients that do not share out evenly.
    fn of(clients: usize, lane: usize, lanes: usize) -> Self {
        let (each, over) = (clients / lanes, clients % lanes);
        let first = lane * each + lane.min(over);
        Self { lane, lanes, clients: first..first + each + usize::from(lane < over) }
    }

    /// Returns the lane that has this client of `clients` in all.
    pub(crate) fn lane_of(&self, client: usize, clients: usize) -> usize {
        let has = |lane: &usize| Self::of(clients, *lane, self.lanes).clients.contains(&client);
        (0..self.lanes).find(has).unwrap_or(0)
    }
}

/// Runs `work` once on each lane of `layout`, and gives what it came to, in no order.
///
/// # Errors
/// The lanes could not be started.
///
/// # Panics
/// As `work` does.
pub(crate) fn on_lanes<T: Send + 'static, F: Future<Output = T> + 'static>(
    layout: &Layout,
    clients: usize,
    work: impl Fn(Share) -> F + Clone + Send + 'static,
) -> Result<Vec<T>, StartError> {
    let (lanes, results) = (layout.lane_count(), Arc::new(Mutex::new(Vec::new())));
    let all = Arc::clone(&results);
    let runtime = Runtime::start(layout, RuntimeOptions::default(), move |spec| {
        let (work, sink) = (work(Share::of(clients, spec.id, lanes)), Arc::clone(&all));
        async move {
            let result = work.await;
            sink.lock().expect("no lane panics while it reports").push(result);
        }
    })?;
    runtime.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    let mut results = results.lock().expect("all lanes have ended");
    Ok(std::mem::take(&mut results))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_client_is_on_one_lane() {
        let shares: Vec<_> = (0..3).map(|lane| Share::of(8, lane, 3).clients).collect();
        assert_eq!(shares, [0..3, 3..6, 6..8]);
        assert_eq!(Share::of(1, 1, 2).clients, 1..1);
        let lanes: Vec<_> = (0..8).map(|client| Share::of(8, 0, 3).lane_of(client, 8)).collect();
        assert_eq!(lanes, [0, 0, 0, 1, 1, 1, 2, 2]);
    }
}
