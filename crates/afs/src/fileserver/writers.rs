//! Files that clients of a lane write to, kept open between one store and the next, and not for long behind
//! the last: a file that is removed gives its room back when no descriptor has it open, and is closed here
//! within two seconds.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lane::time;
use quick_cache::unsync::Cache;
use vfs::{Holder, Number, Object, VolumeId, Writer};

/// The host that writes, and the file that it writes to.
type WriterKey = (Holder, VolumeId, Number);

/// Files kept open, the least used of which go first.
pub(super) struct Writers {
    shared: Rc<WritersShared>,
}

struct WritersShared {
    kept: RefCell<Cache<WriterKey, OpenWriter>>,
    /// A task closes what is used no more.
    is_swept: Cell<bool>,
}

#[derive(Clone)]
pub(super) struct OpenWriter {
    pub(super) writer: Writer,
    /// The client has made the file: it may finish it, whatever the mode that it gave it.
    pub(super) is_its_own: bool,
    used: Rc<Cell<Instant>>,
}

impl Writers {
    pub(super) fn new(max: usize) -> Self {
        let kept = RefCell::new(Cache::new(max));
        Self { shared: Rc::new(WritersShared { kept, is_swept: Cell::new(false) }) }
    }

    /// Keeps the writer of a file that the client has made.
    pub(super) fn keep_made(&self, holder: Holder, object: &Arc<Object>, writer: &Writer) {
        self.keep(holder, object, writer, true);
    }

    pub(super) fn keep(&self, holder: Holder, object: &Arc<Object>, writer: &Writer, is_its_own: bool) {
        let key = (holder, object.volume().id(), object.number());
        let used = Rc::new(Cell::new(time::now()));
        self.shared.kept.borrow_mut().insert(key, OpenWriter { writer: writer.clone(), is_its_own, used });
        if !self.shared.is_swept.replace(true) {
            lane::spawn(sweep(Rc::downgrade(&self.shared))).detach();
        }
    }

    /// Closes what a client writes to, which could not be executed else.
    pub(super) fn let_go(&self, holder: Holder, volume: VolumeId, number: Number) {
        self.shared.kept.borrow_mut().remove(&(holder, volume, number));
    }

    pub(super) fn find(&self, holder: Holder, volume: VolumeId, number: Number) -> Option<OpenWriter> {
        let kept = self.shared.kept.borrow().get(&(holder, volume, number)).cloned();
        kept.inspect(|kept| kept.used.set(time::now()))
    }
}

/// Closes what was not used for a while, or has lost its last name, until nothing is left.
async fn sweep(shared: Weak<WritersShared>) {
    loop {
        time::sleep(SWEEP_PERIOD).await;
        let Some(shared) = shared.upgrade() else { return };
        let mut kept = shared.kept.borrow_mut();
        let now = time::now();
        kept.retain(|_, kept| {
            let unused = now.saturating_duration_since(kept.used.get());
            unused < SWEEP_PERIOD || (unused < UNUSED_MAX && kept.has_a_name())
        });
        if kept.is_empty() {
            shared.is_swept.set(false);
            return;
        }
    }
}

impl OpenWriter {
    /// Returns whether a client can still find it: a file without a name gives its room back once it is
    /// closed.
    fn has_a_name(&self) -> bool {
        self.writer.file().attributes().is_ok_and(|attributes| attributes.nlink > 0)
    }
}

/// Time for which a file is kept open without a store.
const UNUSED_MAX: Duration = Duration::from_secs(10);
/// Interval of sweeps: a file that is used more often is not looked at.
const SWEEP_PERIOD: Duration = Duration::from_secs(1);
