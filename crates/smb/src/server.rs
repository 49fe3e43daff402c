//! State of SMB that all lanes of the process share, and that outlives reloads.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Instant, SystemTime};

use lane::mesh::Member;
use smb_tree::{Opens, OpensLimits};
use smb_wire::Guid;
use smb_wire::time::from_unix;

use crate::admin::AdminRequests;
use crate::connection::StatsByConnection;
use crate::interfaces::InterfaceCache;
use crate::persisted_state::PersistedState;
use crate::pipe::Pipes;
use crate::service::Clients;
use crate::session::{PendingSignIns, Sessions, TreeConnectSlots};
use crate::sign_in::Failures;

/// The state of the SMB server that all lanes share and reloads keep.
#[derive(Debug, Default)]
pub(crate) struct ServerState {
    guid: OnceLock<Guid>,
    started: OnceLock<Instant>,
    has_listened: AtomicBool,
    connections: AtomicU64,
    /// Every session.
    pub(crate) sessions: Sessions,
    /// Room for tree connects.
    pub(crate) trees: TreeConnectSlots,
    /// Sign-ins under way.
    pub(crate) pending_sign_ins: PendingSignIns,
    /// Every open pipe.
    pub(crate) pipes: Pipes,
    opens: OnceLock<Arc<Opens>>,
    /// Connections of clients.
    pub(crate) clients: Clients,
    /// This machine's addresses, as they were a moment ago.
    pub(crate) interface_cache: InterfaceCache,
    /// The statistics of each connection.
    pub(crate) stats: StatsByConnection,
    /// The state of the previous server process, and that for the next.
    pub(crate) persisted_state: PersistedState,
    /// Requests of administrators that no lane has taken yet.
    pub(crate) admin_requests: AdminRequests,
    nodes: OnceLock<Vec<Option<u32>>>,
    /// Failed sign-ins by name and address.
    pub(crate) failures: Failures,
}

impl ServerState {
    /// Returns the GUID by which clients know the server while it runs.
    pub(crate) fn guid(&self) -> Guid {
        *self.guid.get_or_init(|| Guid::new(lane::random::array()))
    }

    /// Sets the ServerGuid of an earlier process, unless clients know another one already.
    pub(crate) fn set_guid(&self, guid: Guid) {
        self.guid.get_or_init(|| guid);
    }

    /// Returns the time since the server began to listen, milliseconds.
    pub(crate) fn uptime_ms(&self) -> u64 {
        let started = self.started.get_or_init(Instant::now);
        started.elapsed().as_millis() as u64
    }

    /// Returns every open file.
    pub(crate) fn opens(&self) -> &Arc<Opens> {
        self.opens.get_or_init(|| Opens::new(OpensLimits::default()))
    }

    /// Sets the NUMA nodes of the lanes, once for the process.
    pub(crate) fn set_lane_nodes(&self, nodes: impl Iterator<Item = Option<u32>>) {
        self.nodes.get_or_init(|| nodes.collect());
    }

    /// Returns the node of a lane.
    pub(crate) fn node_of(&self, lane: Member) -> Option<u32> {
        *self.nodes.get()?.get(lane.index())?
    }

    /// Returns the nodes of all lanes.
    pub(crate) fn lane_nodes(&self) -> Vec<u32> {
        self.nodes.get().into_iter().flatten().filter_map(|node| *node).collect()
    }

    /// Returns a number for a connection that no other has.
    pub(crate) fn next_connection(&self) -> u64 {
        self.connections.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Notes that the server listens at its addresses.
    pub(crate) fn set_listening(&self) {
        self.started.get_or_init(Instant::now);
        self.has_listened.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_listened(&self) -> bool {
        self.has_listened.load(Ordering::Relaxed)
    }
}

/// Returns the time in 100 ns since 1601.
pub(crate) fn file_time(at: SystemTime) -> u64 {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    from_unix(since.as_secs() as i64, since.subsec_nanos())
}
