//! Administration of a service while it runs: its users, and their ends.

/// Shows an administrator the users of a service and ends them. It is called on a thread beside the lanes, and waits for them.
pub trait AdminEndpoint: Send + Sync {
    /// Returns what there is at `path`, such as `sessions`, as JSON; `None` where there is no such thing.
    fn show(&self, path: &str) -> Option<String>;

    /// Ends what is at `path`, such as `sessions/17`; `false` where there is no such thing.
    fn end(&self, path: &str) -> bool;
}
