//! Files of several names that clients rely on. The watch of a directory tells what is done by the names in it, so such a file is watched
//! itself: then it does not matter which of its names another program uses, or where that lies.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use lane::backend::Watch;
use lane::fs::unwatch;

use super::Inner;
use super::key::Key;
use crate::object::Object;
use crate::volume::{Resolved, Volume};

/// The watched files of one lane. They count among its watches.
#[derive(Default)]
pub(super) struct WatchedFiles {
    by_watch: RefCell<HashMap<Watch, Arc<Object>>>,
    by_object: RefCell<HashMap<*const Object, Watch>>,
}

impl WatchedFiles {
    pub(super) fn len(&self) -> usize {
        self.by_watch.borrow().len()
    }

    pub(super) fn contains(&self, object: &Arc<Object>) -> bool {
        self.by_object.borrow().contains_key(&Arc::as_ptr(object))
    }

    pub(super) fn add(&self, watch: Watch, object: &Arc<Object>) {
        self.by_object.borrow_mut().insert(Arc::as_ptr(object), watch);
        self.by_watch.borrow_mut().insert(watch, Arc::clone(object));
    }

    fn of_event(&self, watch: Watch) -> Option<Arc<Object>> {
        self.by_watch.borrow().get(&watch).cloned()
    }

    /// Forgets a watch that the kernel has dropped, or whose file has moved; returns the file.
    fn forget(&self, watch: Watch) -> Option<Arc<Object>> {
        let object = self.by_watch.borrow_mut().remove(&watch)?;
        self.by_object.borrow_mut().remove(&Arc::as_ptr(&object));
        unwatch(watch);
        Some(object)
    }

    /// Forgets the files that no client relies on any more.
    fn keep_those(&self, is_relied_on: impl Fn(&Arc<Object>) -> bool) {
        let over = |(watch, object): (&Watch, &Arc<Object>)| (!is_relied_on(object)).then_some(*watch);
        let over: Vec<_> = self.by_watch.borrow().iter().filter_map(over).collect();
        over.into_iter().for_each(|watch| _ = self.forget(watch));
    }
}

impl Volume {
    /// Has a file of several names watched itself for as long as clients rely on it: what is done by a name in an
    /// unwatched directory is reported then too. Returns whether the watch begins now: what was looked at before may
    /// have changed unreported.
    pub(crate) fn watch_by_all_names(&self, resolved: &Resolved) -> bool {
        match resolved {
            Resolved::File(file, attributes) if attributes.nlink > 1 => {
                file.object().is_some_and(|object| self.cache().watch_file(object, || file.watch()))
            }
            _ => false,
        }
    }
}

impl Inner {
    /// Handles an event of a file that is watched itself: it has changed, or has moved and lost its watch.
    pub(super) fn handle_file_event(self: &Rc<Self>, watch: Watch, is_gone: bool) {
        let files = self.watches.files();
        let object = if is_gone { files.forget(watch) } else { files.of_event(watch) };
        let Some(object) = object else { return };
        if is_gone {
            self.watches.gauge();
        }
        let Some(key) = self.key_of_file(&object) else { return };
        self.forget_at(key.as_ref());
        if object.grants().is_cached() {
            self.revalidate_open(Some(key.clone()));
        }
        self.revalidate_name(key);
    }

    /// Returns where a file was last found.
    fn key_of_file(&self, object: &Arc<Object>) -> Option<Key> {
        let place = object.place()?;
        let volume = self.volume_of_object(object)?;
        let path = volume.path_of(&place.directory)?.as_path().child(&place.name)?;
        Some(volume.key(path.as_path()).to_key())
    }

    /// Lets go of the watches of files that no client relies on any more.
    pub(super) fn sweep_files(&self) {
        let callbacks = self.peer.get().map(|peer| &peer.callbacks);
        let is_relied_on = |object: &Arc<Object>| {
            object.grants().is_cached() || callbacks.is_some_and(|callbacks| callbacks.has_clients_of(object))
        };
        self.watches.files().keep_those(is_relied_on);
        self.watches.gauge();
    }
}
