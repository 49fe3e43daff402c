//! Bounds of the callbacks that clients hold.

use std::time::Duration;

/// Bounds of the callbacks that clients hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallbackOptions {
    /// Clients that are known at once, by all lanes together.
    pub clients_max: usize,
    /// Callbacks that one lane has given. Beyond it the oldest of the client that has most are broken.
    pub callbacks_max: usize,
    /// Notices kept one by one for a client that does not answer; beyond it, one that voids all callbacks replaces
    /// them.
    pub kept_max: usize,
    /// Time for which a change waits for a client.
    pub patience: Duration,
    /// Notifications in a row without an answer, after which a client is not notified again before it comes by itself.
    pub late_max: u32,
    /// Time for which a callback break is held back while a reply that carries the callback is in flight.
    pub overtake_max: Duration,
}

impl Default for CallbackOptions {
    fn default() -> Self {
        Self {
            //@ limit: clients that cache
            //@ section: Writable volumes
            //@ unit: client
            //@ all: process: {}
            //@ empty: a new one is refused as busy; others feel nothing
            //@ counter: vfs_refused{reason="busy"}, vfs_callbacks_held
            //@ attack: afs-pools
            clients_max: 65_536,
            //@ limit: callbacks of clients
            //@ section: Writable volumes
            //@ unit: callback of about 100 bytes
            //@ address: what is free; when places are short the fifty oldest of the client that has most are broken
            //@ all: lane: {}, and an eighth more while they leave
            //@ empty: a new one is refused as busy; a client that has most asks again
            //@ counter: vfs_callbacks_held, vfs_callbacks_evicted
            //@ attack: afs-pools
            callbacks_max: 1 << 20,
            //@ limit: notices kept for a client that does not answer
            //@ section: Writable volumes
            //@ unit: notice
            //@ address: {} of a client
            //@ empty: it hears that all is void instead; others feel nothing
            //@ counter: vfs_clients_down, vfs_clients_late
            //@ attack: afs-pools
            kept_max: 256,
            //@ limit: time that a change waits for clients
            //@ section: Writable volumes
            //@ unit: time
            //@ address: {}, all at once; none for one that is down, after three tellings without an answer or as it is known to be gone
            //@ empty: the change goes on; the client hears before it is served again
            //@ counter: vfs_clients_late, vfs_clients_not_waited_for, vfs_clients_down
            //@ attack: afs-pools
            patience: Duration::from_secs(4),
            late_max: 3,
            overtake_max: Duration::from_secs(1),
        }
    }
}
