//! Administration of a running service: lists of its users, and their removal.

/// Endpoint where an administrator lists the users of a service and ends them. Called on a thread beside the
/// lanes, which waits for them.
pub trait AdminEndpoint: Send + Sync {
    /// Returns the objects at `path`, such as `sessions`, as JSON; `None` for an unknown path.
    fn show(&self, path: &str) -> Option<String>;

    /// Ends the object at `path`, such as `sessions/17`; `false` for an unknown path.
    fn end(&self, path: &str) -> bool;
}
