//! Images of directories' names in any case, of which a lane keeps as many names as of listings.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use quick_cache::Weighter;

use super::{Cache, Key, KeyRef};
use crate::fold_image::FoldedImage;

/// The folded images of one lane.
pub(super) struct Images(RefCell<quick_cache::unsync::Cache<Key, Rc<FoldedImage>, ByNames>>);

impl Images {
    pub(super) fn new(names_max: usize) -> Self {
        let typical = names_max / NAMES_TYPICAL;
        Self(RefCell::new(quick_cache::unsync::Cache::with_weighter(typical, names_max as u64, ByNames)))
    }

    pub(super) fn clear(&self) {
        self.0.borrow_mut().clear();
    }

    pub(super) fn sweep(&self, idle_max: Duration) {
        self.0.borrow_mut().retain(|_, image| image.age() < idle_max);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }
}

impl Cache {
    pub(crate) fn find_image(&self, key: KeyRef<'_>) -> Option<Rc<FoldedImage>> {
        self.inner.images.0.borrow().get(&key).cloned()
    }

    pub(crate) fn keep_image(&self, key: KeyRef<'_>, image: Rc<FoldedImage>) {
        self.inner.images.0.borrow_mut().insert(key.to_key(), image);
        self.after_insert();
    }
}

#[derive(Clone)]
struct ByNames;

impl Weighter<Key, Rc<FoldedImage>> for ByNames {
    fn weight(&self, _: &Key, image: &Rc<FoldedImage>) -> u64 {
        image.weight()
    }
}

const NAMES_TYPICAL: usize = 256;
