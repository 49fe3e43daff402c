//! Events of the kernel's watches, and what the cache forgets for them.

use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use lane::Ended;
use lane::fs::{EntryChange, WatchEvent};

use super::key::KeyRef;
use super::watches::WatchedDir;
use super::{Cache, Inner, Node};

impl Cache {
    /// Starts the lane's listener once there are events to receive.
    pub(super) fn listen(&self) {
        let mut listener = self.inner.listener.borrow_mut();
        if listener.is_none() {
            let (inner, mut begun) = (Rc::downgrade(&self.inner), false);
            *listener = Some(lane::spawn_restarting("listener for changes", move || {
                // What was to be heard when the one before it failed may be lost.
                if std::mem::replace(&mut begun, true)
                    && let Some(inner) = inner.upgrade()
                {
                    inner.counters.notify_errors.increment();
                    inner.report_all_lost();
                    inner.revalidate_everything();
                }
                read_events(inner.clone())
            }));
        }
    }
}

impl Inner {
    fn handle_event(self: &Rc<Self>, event: &WatchEvent) {
        match event {
            WatchEvent::Entry { watch, name, what, is_directory } => {
                let mut heard = None;
                for watched in self.watches.of_event(*watch) {
                    // Other lanes tell only of what this one remembers.
                    self.note_own_change(&watched);
                    watched.note_change();
                    if *what != EntryChange::Modified {
                        watched.note_rename();
                    }
                    self.forget_in(&watched, name);
                    if *is_directory
                        && *what != EntryChange::Modified
                        && let Some(key) = watched.key().child(name)
                    {
                        self.follow_moved(key.as_ref());
                    }
                    self.revalidate(&watched, name, *what);
                    // A directory that is known by several paths has one watch for all of them.
                    let object = watched.object().map(Arc::as_ptr);
                    if heard != object && watched.object().is_some_and(|it| it.volume().watches().any()) {
                        heard = object;
                        self.note_external_event(&watched, name, *what, *is_directory);
                    }
                }
            }
            WatchEvent::Itself(watch) => {
                self.handle_file_event(*watch, false);
                for watched in self.watches.of_event(*watch) {
                    self.note_own_change(&watched);
                    watched.note_change();
                    self.forget_at(watched.key());
                    self.revalidate_directory(&watched);
                }
            }
            WatchEvent::Gone(watch) => {
                self.handle_file_event(*watch, true);
                let gone = self.watches.of_event(*watch);
                if self.watches.forget_watch(*watch) {
                    self.counters.invalidated_gone.increment();
                }
                // Of a move the directory itself is the last to tell: by then it may be watched where it is.
                gone.iter().for_each(|watched| self.follow_moved(watched.key()));
            }
            WatchEvent::Mounts => {
                self.counters.notify_mounts.increment();
                self.revalidate_everything();
            }
            WatchEvent::Overflow => {
                self.counters.notify_overflows.increment();
                self.report_all_lost();
                self.revalidate_everything();
            }
        }
    }

    /// Revalidates everything, as anything may have changed.
    fn revalidate_everything(self: &Rc<Self>) {
        self.revalidate_all_open_in(self.watches.pinned().all().iter().map(|watched| &**watched));
        self.watches.forget_all();
        self.revalidate_all();
    }

    /// Forgets a name in a directory, which leads to something else. Where what is open by it has no other name, the
    /// index learns that when it is closed.
    pub(super) fn forget_in(&self, watched: &WatchedDir, name: &[u8]) {
        if let Some(changed) = watched.key().child(name) {
            if let Some((Node::File(file), _)) = self.open.borrow().peek(&changed.as_ref())
                && let Some(object) = file.object()
            {
                object.is_fresh();
            }
            self.forget_at(changed.as_ref());
        }
    }

    /// Forgets what is there, as it is something else, or has other rights, which count beneath.
    pub(super) fn forget_at(&self, changed: KeyRef<'_>) {
        if self.forget(changed) {
            self.counters.invalidated_changed.increment();
        }
        if self.watches.contains(&changed.to_key()) {
            self.counters.invalidated_gone.increment();
            self.watches.forget_subtree(changed);
        }
    }
}

/// Reads events for as long as the cache lives.
async fn read_events(inner: Weak<Inner>) -> Ended {
    loop {
        let events = lane::fs::watch_events().await;
        let Some(inner) = inner.upgrade() else { return Ended::Done };
        match events {
            Ok(events) => events.iter().for_each(|event| inner.handle_event(event)),
            Err(_) => {
                inner.counters.notify_errors.increment();
                inner.report_all_lost();
                inner.revalidate_everything();
                drop(inner);
                lane::time::sleep(NOTIFY_ERROR_PAUSE).await;
            }
        }
    }
}

/// Time for which an event queue that cannot be read is left alone. Answers live for their time to live
/// meanwhile.
const NOTIFY_ERROR_PAUSE: Duration = Duration::from_secs(1);
