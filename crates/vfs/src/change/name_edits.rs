//! The names that a change adds to directories and removes from them, for their images.

use std::sync::Arc;

use index::{Number, Version};

use super::transaction::{ChangeTransaction, Committed};
use crate::object::{Edit, Log, LoggedChange, Object};

/// Names added to and removed from one directory.
pub(super) struct NameEdits {
    pub(super) object: Arc<Object>,
    /// Log of the directory's changes, where a client keeps an image of it.
    log: Option<Arc<Log>>,
    change: LoggedChange,
}

impl NameEdits {
    pub(super) fn new(object: &Arc<Object>, log: Option<Arc<Log>>, before: Version, after: Version) -> Self {
        Self { object: Arc::clone(object), log, change: LoggedChange { before, after, edits: Vec::new() } }
    }

    /// Enters the change, which is made, in the log.
    pub(super) fn note(self) {
        if let Some(log) = self.log {
            log.note(self.change);
        }
    }

    /// Returns what was said of it.
    pub(super) fn edits(&self) -> &[Edit] {
        &self.change.edits
    }
}

impl ChangeTransaction<Committed> {
    /// Returns whether an image of the directory is kept, or a client watches in its volume.
    pub(super) fn is_kept(&self, directory: &Arc<Object>) -> bool {
        self.edited.borrow().iter().any(|edited| Arc::ptr_eq(&edited.object, directory))
    }

    /// Adds an edit: the name leads to the file of this number now.
    pub(super) fn added(&self, directory: &Arc<Object>, name: &[u8], number: Number) {
        self.edit(directory, || Edit::Added { name: name.into(), number });
    }

    /// Adds an edit: the name leads nowhere, or to another file.
    pub(super) fn removed(&self, directory: &Arc<Object>, name: &[u8]) {
        self.edit(directory, || Edit::Removed { name: name.into() });
    }

    fn edit(&self, directory: &Arc<Object>, edit: impl FnOnce() -> Edit) {
        let mut edited = self.edited.borrow_mut();
        if let Some(edited) = edited.iter_mut().find(|edited| Arc::ptr_eq(&edited.object, directory)) {
            edited.change.edits.push(edit());
        }
    }
}
