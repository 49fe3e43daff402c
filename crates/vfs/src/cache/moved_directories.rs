//! Directories that another program has moved, with what clients rely on in them: they are watched where they are now.

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
        directories.waiting.extend(moved);
        if directories.following.as_ref().is_none_or(Task::is_finished) {
            directories.following = Some(lane::spawn(follow(Rc::downgrade(self))));
        }
    }

    fn next_moved(&self) -> Option<(Rc<WatchedDir>, Instant)> {
        self.moved_directories.borrow_mut().waiting.pop()
    }
}

async fn follow(inner: Weak<Inner>) {
    while let Some((watched, until)) = inner.upgrade().and_then(|inner| inner.next_moved()) {
        // Another event of the same move may have come first.
        if watched.pinned_until().is_none() {
            continue;
        }
        let volume = inner.upgrade().and_then(|inner| inner.volume_of(watched.key()));
        let (Some(volume), Some(directory)) = (volume, watched.object()) else { continue };
        // A change of this server's own has moved it, and told all who have to hear.
        if let Some(path) = volume.path_of(directory).filter(|path| path.as_path() != watched.key().path) {
            volume.cache().pin_watch_again(&volume, path.as_path(), until).await;
            continue;
        }
        match volume.find_moved(directory, None, WhichName::Any).await {
            Ok(path) => volume.resume_watch(path.as_path(), until).await,
            Err(Error::Stale) => volume.has_left(directory).await,
            // Where it is cannot be known, so nobody hears of changes in it.
            Err(_) => inner.upgrade().into_iter().for_each(|inner| inner.revalidate_all()),
        }
        lane::yield_now().await;
    }
}

impl Volume {
    /// Notifies clients that rely on something in a directory that it is gone: the directory has left the volume.
    async fn has_left(&self, directory: &Arc<Object>) {
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
