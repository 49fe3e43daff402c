//! Notes of a case while it runs.

use std::cell::RefCell;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;
use std::time::Duration;

/// Observations of a case.
#[derive(Debug, Default)]
pub struct Seen {
    /// Signs of what happened, each as a hash: commands with their answers, one after another, and which
    /// counters counted.
    pub signs: HashSet<u64>,
    /// Messages sent.
    pub messages: u64,
    /// CPU time of the longest turn of the server's lane.
    pub longest_turn: Duration,
    /// The most bytes that the world took,
    pub heap_most: isize,
    /// and those that it had more than before, at rest.
    pub heap_at_rest: isize,
    /// Findings that must not be.
    pub findings: Vec<String>,
}

/// Notes of a case while it runs.
#[derive(Clone, Default)]
pub struct Notes(pub(crate) Rc<RefCell<Seen>>);

impl Notes {
    /// Notes something that tells this case from others.
    pub fn sign(&self, what: impl Hash) {
        let mut hasher = DefaultHasher::new();
        what.hash(&mut hasher);
        self.0.borrow_mut().signs.insert(hasher.finish());
    }

    /// Counts one more message on its way.
    pub fn message(&self) {
        self.0.borrow_mut().messages += 1;
    }

    /// Notes something that must not be.
    pub fn finding(&self, what: String) {
        self.0.borrow_mut().findings.push(what);
    }

    /// Looks at what is noted, and adds to it.
    pub fn with<R>(&self, look: impl FnOnce(&mut Seen) -> R) -> R {
        look(&mut self.0.borrow_mut())
    }
}
