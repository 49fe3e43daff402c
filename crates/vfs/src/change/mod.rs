//! Changes of a writable volume: one file for each kind, and one way for all ([`located_directory`],
//! [`transaction`]): permits of what is concerned, names confirmed under them, every client that relies on it
//! told, then the change itself, which runs to its end whatever becomes of the request. docs/design/vfs.md
//! draws it.

pub use self::create::{CreateOptions, Created};
pub use self::extended::EntryExtended;
pub(crate) use self::extended::stored as stored_attribute;
pub(crate) use self::external::{LookedUpName, NotifiedNames};
pub(crate) use self::name_target::c_name;
pub use self::rename::Replace;
pub use self::stage::{Expect, Published, Staged};
pub use self::store::Store;
pub use self::symbolic_link::SymbolicLink;
pub use self::writer::Writer;

mod access;
mod archived;
mod attributes;
mod become_link;
mod carried_attributes;
mod compressed;
mod content;
mod create;
mod descriptor;
mod exchange;
mod extended;
mod external;
mod hard_links;
mod inheritance;
mod lease_breaks;
mod link;
mod located_directory;
mod make_directory;
mod name_edits;
mod name_target;
mod notify_watches;
mod open_conflicts;
mod owner;
mod preallocation;
mod remove;
mod rename;
mod reread;
mod room;
mod stage;
mod staged_name;
mod store;
mod symbolic_link;
mod transaction;
mod write;
mod writer;
