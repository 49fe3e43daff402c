//! The keys of the service, which change while connections are there.

use std::sync::{Arc, PoisonError, RwLock};

use krb::Keys;

/// The keys that open tickets, shared by all lanes. A handle: clones see the same keys.
#[derive(Clone, Debug, Default)]
pub struct ServiceKeys {
    keys: Arc<RwLock<Arc<Keys>>>,
}

impl ServiceKeys {
    /// Of the keys of all files.
    pub fn new(keys: Keys) -> Self {
        Self { keys: Arc::new(RwLock::new(Arc::new(keys))) }
    }

    /// Replaces all: tickets that come from now on are opened with these. Connections that are proved go on.
    pub fn replace(&self, keys: Keys) {
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
    }

    /// The keys as they are now.
    pub fn current(&self) -> Arc<Keys> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
