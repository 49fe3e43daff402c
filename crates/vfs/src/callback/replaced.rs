//! Files that another program has replaced or removed: found among the objects that clients hold callbacks on, by
//! where they were.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::change::LookedUpName;
use crate::name::RelPath;
use crate::object::{Identity, Object, Place, Recorded};

/// Names that were looked at, by their directories, and what has them now.
pub(crate) struct ReplacedNames {
    by_directory: HashMap<*const Object, Vec<Place>>,
    directories: HashSet<Identity>,
    now: HashSet<*const Object>,
    /// Keeps what has the names now, and so its place in memory, from being another's.
    looked: Vec<LookedUpName>,
}

/// An object that is perhaps no longer where it was found.
pub(crate) struct ReplacedFile {
    pub(crate) object: Arc<Object>,
    pub(crate) at: Place,
}

impl ReplacedNames {
    pub(crate) fn new(looked: Vec<LookedUpName>) -> Self {
        let mut by_directory = HashMap::<_, Vec<_>>::new();
        for LookedUpName { at, .. } in &looked {
            by_directory.entry(Arc::as_ptr(&at.directory)).or_default().push(at.clone());
        }
        let directories = looked.iter().map(|looked| looked.at.directory.identity().clone()).collect();
        // Of several looks at one name the last counts: what an earlier one has found may be gone.
        let (mut seen, mut now) = (HashSet::new(), HashSet::new());
        for LookedUpName { at, now: found, .. } in looked.iter().rev() {
            if seen.insert((Arc::as_ptr(&at.directory), &*at.name)) {
                now.extend(found.as_ref().map(Arc::as_ptr));
            }
        }
        Self { by_directory, directories, now, looked }
    }

    /// Returns which of the names this was, and by which path it was looked at last, as its directory may have moved;
    /// `None` for what has a name elsewhere.
    pub(crate) fn name_of(&self, displaced: &ReplacedFile) -> Option<(usize, RelPath<'_>)> {
        let known = self.looked.iter().rposition(|looked| looked.at == displaced.at)?;
        Some((known, self.looked[known].path.as_path()))
    }

    /// Returns the object with its place if it was at one of the names and is not there any more, unless it has come
    /// since. Where it `is_linked`, one of the names may also have been another of its own: then it has to be looked
    /// for elsewhere.
    pub(crate) fn displaced(&self, object: &Arc<Object>, is_linked: bool) -> Option<ReplacedFile> {
        let is_found = self.now.contains(&Arc::as_ptr(object));
        if let Some(at) = object.placed_among(&self.by_directory).filter(|_| !is_found) {
            return Some(ReplacedFile { object: Arc::clone(object), at });
        }
        // Also what was found by one of its names: it may have lost another since.
        let at = object.place().filter(|_| is_linked)?;
        let is_known = |seen: Recorded| self.directories.contains(&seen.directory);
        let is_near = self.by_directory.contains_key(&Arc::as_ptr(&at.directory));
        let is_here = is_near || object.volume().other_names_of(object.identity()).any(is_known);
        is_here.then(|| ReplacedFile { object: Arc::clone(object), at })
    }
}
