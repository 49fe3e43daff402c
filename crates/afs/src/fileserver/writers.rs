//! Files that clients of a lane write to, kept open between one store and the next, and not for long behind
//! the last: a file that is removed gives its room back when no descriptor has it open, and is closed here
//! within two seconds.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, Instant};

use afs_wire::code::EISDIR;
use afs_wire::{Fid, Status};
use identity::Rights;
use lane::time;
use quick_cache::unsync::Cache;
use vfs::{Holder, Number, Object, VolumeId, Writer};

use super::call_context::CallContext;
use super::{CallFailure, ServedCall};

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
struct OpenWriter {
    writer: Writer,
    /// The client has made the file: it may finish it, whatever the mode that it gave it.
    is_its_own: bool,
    used: Rc<Cell<Instant>>,
}

impl Writers {
    pub(super) fn new(max: usize) -> Self {
        let kept = RefCell::new(Cache::new(max));
        Self { shared: Rc::new(WritersShared { kept, is_swept: Cell::new(false) }) }
    }

    /// A client has made a file.
    pub(super) fn keep_made(&self, holder: Holder, object: &Arc<Object>, writer: &Writer) {
        self.keep(holder, object, writer, true);
    }

    fn keep(&self, holder: Holder, object: &Arc<Object>, writer: &Writer, is_its_own: bool) {
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

    fn find(&self, holder: Holder, volume: VolumeId, number: Number) -> Option<OpenWriter> {
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

impl ServedCall {
    /// A file open for writing by the client, if it has the right to: to write to it, or to add names to its directory where it has
    /// made the file itself.
    pub(super) async fn writer(&self, context: &CallContext, fid: Fid) -> Result<Writer, CallFailure> {
        if fid.is_directory() {
            return Err(EISDIR.into());
        }
        let (volume, number) = (&context.volume.volume, context.number(fid)?);
        let shared = volume.shared().ok_or(vfs::Error::ReadOnly)?;
        let (writers, holder) = (&self.server.inner.writers, context.host.holder());
        let kept = writers.find(holder, shared.id(), number);
        // What has a descriptor of its own that decides which users may write to it, whatever user has made
        // it.
        let is_described =
            |kept: &OpenWriter| kept.writer.file().object().is_some_and(|object| object.is_described());
        if let Some(kept) = kept.as_ref().filter(|kept| kept.is_its_own && !is_described(kept)) {
            volume.find_with_parent(&context.caller, number, Rights::NONE, Rights::INSERT).await?;
            return Ok(kept.writer.clone());
        }
        let found = volume.find(&context.caller, number, Rights::WRITE).await?;
        if let Some(kept) = kept {
            return Ok(kept.writer);
        }
        let object = found.object().ok_or(vfs::Error::ReadOnly)?;
        Ok(volume.reopen_writer(&context.caller, object.identity()).await?)
    }

    /// Keeps a file open that the client has stored to, for its next store.
    pub(super) fn keep_writer(&self, context: &CallContext, writer: &Writer) {
        let (writers, holder) = (&self.server.inner.writers, context.host.holder());
        if let Some(object) = writer.file().object()
            && writers.find(holder, object.volume().id(), object.number()).is_none()
        {
            writers.keep(holder, object, writer, false);
        }
    }

    /// Closes a file that may be executed on the server when the client has stored it: not while it is open
    /// for writing (ETXTBSY). The client's next store opens it anew.
    pub(super) fn close_if_executable(
        &self,
        context: &CallContext,
        fid: Fid,
        status: &Status,
    ) -> Result<(), CallFailure> {
        if !fid.is_directory()
            && status.unix_mode_bits & EXECUTABLE != 0
            && let Some(shared) = context.volume.volume.shared()
        {
            self.server.inner.writers.let_go(context.host.holder(), shared.id(), context.number(fid)?);
        }
        Ok(())
    }
}

/// Time for which a file is kept open without a store.
const UNUSED_MAX: Duration = Duration::from_secs(10);
/// Interval of sweeps: a file that is used more often is not looked at.
const SWEEP_PERIOD: Duration = Duration::from_secs(1);
/// Mode bits that let a user execute a file.
const EXECUTABLE: u32 = 0o111;
