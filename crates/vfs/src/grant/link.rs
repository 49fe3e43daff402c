//! A name by which a file is open.

use std::sync::Arc;

use crate::object::Object;

/// A directory and a name in it; none for a volume's own directory. As long as this lives the directory's object does,
/// and it counts the name as [open](Object::open_names).
pub(crate) struct Link {
    pub(crate) place: Option<(Arc<Object>, Box<[u8]>)>,
}

impl Link {
    /// Makes the name by which `object` is open.
    pub(crate) fn new(directory: &Arc<Object>, name: &[u8], object: &Arc<Object>) -> Arc<Self> {
        directory.open_names().add(name, Arc::downgrade(object));
        Arc::new(Self { place: Some((Arc::clone(directory), name.into())) })
    }

    pub(crate) fn root() -> Arc<Self> {
        Arc::new(Self { place: None })
    }

    pub(crate) fn directory(&self) -> Option<&Arc<Object>> {
        self.place.as_ref().map(|(directory, _)| directory)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Some((directory, name)) = &self.place {
            directory.open_names().remove(name);
        }
    }
}

impl PartialEq for Link {
    fn eq(&self, other: &Self) -> bool {
        match (&self.place, &other.place) {
            (None, None) => true,
            (Some((a, at)), Some((b, bt))) => Arc::ptr_eq(a, b) && at == bt,
            _ => false,
        }
    }
}

impl Eq for Link {}
