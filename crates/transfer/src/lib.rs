//! What the clients of all services share: how far a transfer is ([`Progress`]), what it moved ([`Tree`]), local files that are
//! there under their name only when they are whole ([`Landing`]), several files at once ([`files_at_once`]), and the server in an
//! address ([`authority`]).

mod at_once;
pub mod authority;
mod landing;
mod progress;

pub use at_once::files_at_once;
pub use landing::{Landing, is_taken, made, make_way};
pub use progress::{Progress, Tree};
