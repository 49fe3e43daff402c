//! Promises between lanes: which lane relies on an object, and what tells it before the object changes.
//!
//! A lane sets its bit in the object, then looks. Who changes the object has its permit first, then reads the bits, and leaves
//! each such lane a [`Break`] in its desk. The bell of the mesh only says that there is something: what is to be
//! answered is in shared memory, and is answered when it is dropped, by whoever has it then.

pub(crate) use self::answers::{Answer, Answers};
pub use self::breaks::{Broken, Holder, What};
pub(crate) use self::desk::{Break, Desks};
pub(crate) use self::promises::{Promise, Promises};

mod answers;
mod breaks;
mod desk;
mod promises;
