//! Place where an object was last found, and the way there.

use std::sync::Arc;

use index::Number;

use super::Object;
use crate::name::{Name, RelPath, RelPathBuf};

/// A directory and a name in it. It keeps the directory's object alive, and so the way up.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) directory: Arc<Object>,
    pub(crate) name: Box<[u8]>,
}

impl PartialEq for Place {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.directory, &other.directory) && self.name == other.name
    }
}

/// Returns the path of `object` beneath `top` as the places on the way have it; `None` where they do not lead there.
/// Renames may come in between: the caller checks that the path leads to the object.
pub(crate) fn path_beneath(top: &Arc<Object>, object: &Arc<Object>) -> Option<RelPathBuf> {
    path_up_to(|at| Arc::ptr_eq(at, top), object)
}

/// Returns the path beneath the directory of its volume ([`path_beneath`]), which the lane that asks need not
/// have looked at.
pub(crate) fn path_in_volume(object: &Arc<Object>) -> Option<RelPathBuf> {
    path_up_to(|at| at.number() == Number::ROOT, object)
}

fn path_up_to(is_top: impl Fn(&Arc<Object>) -> bool, object: &Arc<Object>) -> Option<RelPathBuf> {
    let (mut names, mut length) = (Vec::new(), 0);
    let mut at = Arc::clone(object);
    while !is_top(&at) {
        let Place { directory, name } = at.place()?;
        debug_assert!(!name.is_empty(), "only a volume's own directory has no name");
        length += name.len() + 1;
        // Places may form a circle while directories move.
        if length > RelPath::BYTES_MAX + 1 {
            return None;
        }
        names.push(name);
        at = directory;
    }
    let mut path = RelPathBuf::root();
    for name in names.iter().rev() {
        path.push(Name::parse(name).ok()?).ok()?;
    }
    Some(path)
}
