//! Bounds of hosts.

use std::time::Duration;

/// Bounds of hosts and of their callbacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostOptions {
    /// Hosts known at once, by all lanes together; beyond it, and it is not to exceed
    /// [`CallbackOptions::clients_max`](vfs::CallbackOptions::clients_max), those of the address that has most leave.
    pub hosts_max: usize,
    /// Hosts of one address (IPv6: of one /64), as behind a NAT; beyond it the one that asked for something longest ago leaves.
    pub per_address_max: usize,
    /// Hosts of one address that may be silent when they are called. Beyond it the one that has been silent longest
    /// gives way to another of the address. No other is taken while none has been silent for
    /// [`silence`](Self::silence).
    pub silent_per_address_max: usize,
    /// Time for which a silent host keeps its place beside others of its address: clients that die keep no
    /// other out for longer, and an attacker that makes hosts only to be silent holds up a write of others by
    /// so many in that time.
    pub silence: Duration,
    /// Clients that one lane asks at once for their identity.
    pub asking_max: usize,
    /// Clients of one address among these.
    pub asking_per_address_max: usize,
    /// Time for which a client may rely on a callback.
    pub promise: Duration,
    /// Time that a call to a client may take. At most [`CallbackOptions::patience`](vfs::CallbackOptions::patience),
    /// after which no change waits for it.
    pub patience: Duration,
    /// Time that a client may take to answer whether it is still where it was.
    pub probe: Duration,
}

impl HostOptions {
    /// Returns how much longer than the client the server keeps a callback: clocks differ, and the client counts from
    /// before its request.
    pub fn bias(&self) -> Duration {
        self.promise / 64 + Duration::from_secs(5)
    }
}

impl Default for HostOptions {
    fn default() -> Self {
        Self {
            //@ limit: hosts
            //@ section: AFS hosts
            //@ unit: host of about 1 KiB
            //@ connection: one
            //@ address: {per_address_max} (IPv6: of a /64), of which {silent_per_address_max} silent
            //@ all: process: {}
            //@ empty: the one of that address that asked longest ago leaves, and of the whole table 64 of the addresses or networks with
            //@ most for their share; VBUSY
            //@ counter: afs_hosts_met, afs_hosts_left, afs_hosts_refused
            //@ attack: afs-pools
            hosts_max: 65_536,
            per_address_max: 1024,
            silent_per_address_max: 16,
            silence: Duration::from_secs(60),
            //@ limit: clients that are being identified
            //@ section: AFS hosts
            //@ unit: client
            //@ connection: one question, all its calls wait for it
            //@ address: {asking_per_address_max}; an IPv6 /56 four times what is free, a /48 six times
            //@ all: lane: {}
            //@ empty: VBUSY; others feel nothing
            //@ counter: afs_clients_asked, afs_hosts_refused{why="asking"}
            //@ attack: afs-pools
            asking_max: 1024,
            asking_per_address_max: 128,
            promise: Duration::from_secs(3600),
            //@ limit: time that a change waits for hosts
            //@ section: AFS hosts
            //@ unit: time
            //@ address: {}, all at once; none for one that was silent three times, or whose address says that its port is closed
            //@ empty: as for clients that cache; others wait with the change
            //@ counter: afs_breaks_failed, vfs_clients_down
            //@ attack: afs-pools
            patience: Duration::from_secs(4),
            probe: Duration::from_secs(2),
        }
    }
}
