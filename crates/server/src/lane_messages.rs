//! Messages between the control thread and the lanes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use service::Site;
use service::volumes::VolumeTable;

use crate::egress::Mark;
use crate::listeners::{LaneListener, ListenerId};
use crate::silo::Placement;

/// Site of each service of the program, by its index; `None` where it is not wanted.
pub(crate) type Sites = Vec<Option<Arc<dyn Site>>>;

/// Message from the control thread to a lane.
pub(crate) enum Control {
    /// Prepare to serve this, and report whether it can be done; serve as before until the verdict.
    Prepare(Box<PrepareRequest>),
    /// Look at the verdict on the prepared order. It stands in [`PrepareRequest::decision`]: this only wakes
    /// the lane.
    Decided,
    /// Listen at these sockets too; a listener with the same id is replaced.
    Listen(Vec<LaneListener>),
    /// Accept what waits at the listeners, which get nothing new, then close them. Connections end as they
    /// become idle.
    StopListening,
    /// Place connections by this from now on.
    Place(Arc<Placement>),
    /// Mark the packets of every connection so, open ones too.
    Mark(Mark),
    /// Take no more connections, and end the open ones within this time.
    Drain(Duration),
}

/// Event of a lane, for the control thread.
#[derive(Debug)]
pub(crate) enum LaneEvent {
    /// The lane serves clients now.
    Serving,
    /// The lane cannot carry out an order, for this reason.
    Failed(String),
    /// The lane is prepared for the order of this number, or cannot be.
    Prepared { lane: usize, order: u64, outcome: Result<(), String> },
    /// The lane has switched to the order of this number.
    Switched { lane: usize, order: u64 },
    /// A listener ended without an order.
    ListenerDied { lane: usize, problem: String },
    /// The lane has carried out [`Control::StopListening`].
    StoppedListening { lane: usize },
    /// The lane has ended, with this many connections cut.
    Ended { cut: usize },
}

/// Prepare message of a reload to one lane: sites, volumes and listeners.
pub(crate) struct PrepareRequest {
    pub(crate) number: u64,
    pub(crate) sites: Sites,
    pub(crate) volumes: VolumeTable,
    /// Listeners to begin with, which take no connections yet.
    pub(crate) listeners: Vec<LaneListener>,
    /// Ids of the listeners to end.
    pub(crate) close: Vec<ListenerId>,
    pub(crate) decision: Arc<CommitDecision>,
}

/// Decision to commit or abort a reload: written once by the control thread, read by every lane.
#[derive(Debug, Default)]
pub(crate) struct CommitDecision(AtomicU8);

impl CommitDecision {
    pub(crate) fn give(&self, carry_out: bool) {
        self.0.store(if carry_out { CARRY_OUT } else { DROP }, Ordering::Release);
    }

    pub(crate) fn get(&self) -> Option<bool> {
        match self.0.load(Ordering::Acquire) {
            CARRY_OUT => Some(true),
            DROP => Some(false),
            _ => None,
        }
    }
}

const CARRY_OUT: u8 = 1;
const DROP: u8 = 2;
