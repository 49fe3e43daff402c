//! Attributes of an object: what the file system says, and what the object knows of rights.

use std::sync::Arc;

use lane::fs::Stat;

use crate::attributes::Attributes;
use crate::object::Object;

/// Makes the attributes from a `Stat` and from what the object knows of rights.
pub(crate) fn attributes_of(stat: &Stat, object: Option<&Arc<Object>>) -> Attributes {
    let Some(object) = object else { return Attributes::from(*stat) };
    let bits = object.left().map_or(stat.mode, |left| left.narrowed(stat.mode));
    Attributes { maker: object.maker(stat.uid), bits, ..Attributes::from(*stat) }
}
