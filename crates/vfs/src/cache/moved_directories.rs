//! Directories that another program has moved, with what clients rely on in them: they are watched where they are now.

use std::collections::HashSet;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Instant;

use lane::Task;

use super::Inner;
use super::key::KeyRef;
use super::watches::WatchedDir;
use crate::error::Error;
use crate::object::{Object, Place};
use crate::volume::Volume;
use crate::which_name::WhichName;

/// Directories to follow, each with until when clients rely on it, and the task that does it.
#[derive(Default)]
pub(super) struct MovedDirectories {
    waiting: Vec<(Rc<WatchedDir>, Instant)>,
    /// Where these lie in memory: each is followed once, though a move is told of by several events.
    known: HashSet<*const WatchedDir>,
    following: Option<Task<()>>,
}

impl Inner {
    /// Follows the directories that were at or beneath a path which leads elsewhere by now, where clients rely on them.
    pub(super) fn follow_moved(self: &Rc<Self>, key: KeyRef<'_>) {
        let moved = self.watches.pinned().moved_from(key);
        if moved.is_empty() {
            return;
        }
        let mut directories = self.moved_directories.borrow_mut();
        let MovedDirectories { waiting, known, .. } = &mut *directories;
        waiting.extend(moved.into_iter().filter(|(watched, _)| known.insert(Rc::as_ptr(watched))));
        if directories.following.as_ref().is_none_or(Task::is_finished) {
            directories.following = Some(lane::spawn(follow(Rc::downgrade(self))));
        }
    }

    fn next_moved(&self) -> Option<(Rc<WatchedDir>, Instant)> {
        let mut directories = self.moved_directories.borrow_mut();
        let next = directories.waiting.pop()?;
        directories.known.remove(&Rc::as_ptr(&next.0));
        Some(next)
    }
}

async fn follow(inner: Weak<Inner>) {
    while let Some((watched, until)) = inner.upgrade().and_then(|inner| inner.next_moved()) {
        // A look that came by may have it watched where it is, but has not seen what was done in it before.
        let volume = inner.upgrade().and_then(|inner| inner.volume_of(watched.key()));
        let (Some(volume), Some(directory)) = (volume, watched.object()) else { continue };
        // Of what another program has moved this lane's clients are still to hear, be it that another lane has found it.
        if directory.was_moved_by_server(lane::time::now())
            && let Some(path) = volume.path_of(directory)
            && let Some(validity) = volume.cache().pin_watch_again(&volume, path.as_path(), until).await
            && validity.object().is_some_and(|there| Arc::ptr_eq(there, directory))
        {
            volume.cache().revalidate_all_open_in(&validity);
            continue;
        }
        // Where it is cannot be known, so nobody hears of changes in it.
        if !volume.resume_moved(directory, until).await
            && let Some(inner) = inner.upgrade()
        {
            inner.revalidate_all_open_in([&*watched]);
            inner.revalidate_all();
        }
        lane::yield_now().await;
    }
}

impl Volume {
    /// Watches a directory that another program moved where it is now, and looks at what clients rely on in it.
    /// Returns whether that is done, or the directory has left the volume and all clients were notified.
    async fn resume_moved(&self, directory: &Arc<Object>, until: Instant) -> bool {
        for _ in 0..ATTEMPTS_MAX {
            let path = match self.find_moved(directory, None, WhichName::Any).await {
                Ok(path) => path,
                Err(Error::Stale) => {
                    self.has_left(directory).await;
                    return true;
                }
                Err(_) => return false,
            };
            // It may have moved on meanwhile.
            let there = self.resume_watch(path.as_path(), until).await;
            if there.is_some_and(|there| Arc::ptr_eq(&there, directory)) {
                return true;
            }
        }
        false
    }

    /// Notifies clients that rely on something in a directory that it is gone: the directory has left the volume.
    pub(super) async fn has_left(&self, directory: &Arc<Object>) {
        self.for_each_tracked_in(directory, async |gone| self.taken_from(&gone.object, &gone.at).await).await;
        for name in directory.open_names().all() {
            for object in directory.open_names().objects(&name) {
                let at = Place { directory: Arc::clone(directory), name: name.clone() };
                self.taken_from(&object, &at).await;
            }
        }
        // It is found out at the next look otherwise.
        let _ = self.changed_unseen(directory, None).await;
    }
}

/// Times that a directory is found which moves on meanwhile.
const ATTEMPTS_MAX: u32 = 8;
