//! Bounds of what clients that cache may rely on.

use std::time::Duration;

/// Bounds of promises to clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PromiseOptions {
    /// Clients that are known at once, by all lanes together.
    pub clients_max: usize,
    /// Promises that one lane has given. Beyond it the oldest of the client that has most are broken.
    pub promises_max: usize,
    /// Notices kept one by one for a client that does not answer; beyond it, it hears that all is void.
    pub kept_max: usize,
    /// How long a change waits for a client.
    pub patience: Duration,
    /// Tellings in a row that a client does not answer until it is told nothing more before it comes by itself.
    pub late_max: u32,
    /// How long what a client has to hear is kept back while a reply that says the contrary is on its way.
    pub overtake_max: Duration,
}

impl Default for PromiseOptions {
    fn default() -> Self {
        Self {
            clients_max: 65_536,
            promises_max: 1 << 20,
            kept_max: 256,
            patience: Duration::from_secs(4),
            late_max: 3,
            overtake_max: Duration::from_secs(1),
        }
    }
}
