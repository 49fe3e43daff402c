//! Changes of a writable volume: one file for each kind, and one way for all ([`here`], [`way`]): permits of what is concerned,
//! names confirmed under them, everybody who relies on it told, then the change itself, which runs to its end whatever
//! becomes of who asked for it. docs/design/vfs.md draws it.

pub(crate) use self::behind::{Doubted, Looked};
pub use self::create::{Created, How};
pub use self::extended::EntryExtended;
pub(crate) use self::extended::stored as stored_attribute;
pub(crate) use self::find::c_name;
pub use self::rename::Over;
pub use self::stage::{Expect, Published, Staged};
pub use self::store::Store;
pub use self::symbolic_link::SymbolicLink;
pub use self::writer::Writer;

mod access;
mod ahead;
mod anew;
mod archived;
mod aside;
mod attributes;
mod become_link;
mod behind;
mod compressed;
mod content;
mod create;
mod descriptor;
mod edited;
mod exchange;
mod extended;
mod find;
mod here;
mod in_the_way;
mod kept_with;
mod link;
mod make_directory;
mod owner;
mod remove;
mod rename;
mod room;
mod settle;
mod several;
mod stage;
mod store;
mod symbolic_link;
mod watched;
mod way;
mod write;
mod writer;
