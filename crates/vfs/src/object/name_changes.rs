//! What comes and goes in a directory, told as it happens: for clients who watch one.

use std::sync::Arc;
use std::task::{Context, Poll};

use index::Version;

use super::{Edit, Log, Object};

/// The changes of a directory's names from one moment on, whichever lane and whichever service makes them. Any lane may ask; what others
/// do to the tree behind the server's back is not among them.
pub struct NameChanges {
    object: Arc<Object>,
    log: Arc<Log>,
    version: Version,
}

impl NameChanges {
    pub(crate) fn of(object: &Arc<Object>) -> Self {
        // Before the version: a change that comes in between is kept.
        let log = object.keep_log();
        Self { object: Arc::clone(object), log, version: object.version() }
    }

    /// What has changed since it was asked last, change by change, or since this was made: each with what came and went by it, a name that is
    /// given to another file going first. `None`: too much to be told one by one. Without any, who asks is woken when there is.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Vec<Vec<Edit>>>> {
        // Before the look: what comes after it wakes.
        self.log.wake_later(cx.waker());
        match self.log.changes_since(self.version) {
            Some((changes, _)) if changes.is_empty() => Poll::Pending,
            Some((changes, version)) => {
                self.version = version;
                Poll::Ready(Some(changes))
            }
            None => {
                self.version = self.object.version();
                Poll::Ready(None)
            }
        }
    }
}

impl std::fmt::Debug for NameChanges {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NameChanges").field("object", &self.object).finish_non_exhaustive()
    }
}
