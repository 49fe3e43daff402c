//! The keys of the service, which change while connections are there.

use std::sync::{Arc, PoisonError, RwLock};

use krb::Keys;

/// A handle to the keys that open tickets. Clones, on whatever lane, see the same keys.
#[derive(Clone, Debug, Default)]
pub struct ServiceKeys {
    keys: Arc<RwLock<Arc<Keys>>>,
}

impl ServiceKeys {
    /// Shares the keys of all files.
    pub fn new(keys: Keys) -> Self {
        Self { keys: Arc::new(RwLock::new(Arc::new(keys))) }
    }

    /// Replaces all keys. Tickets that come from now on are opened with the new ones; proved connections go on.
    pub fn replace(&self, keys: Keys) {
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
    }

    /// Returns the keys as they are now.
    pub fn current(&self) -> Arc<Keys> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
