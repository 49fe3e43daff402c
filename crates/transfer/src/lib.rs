//! Common parts of the clients of all services: how far a transfer is ([`Progress`]), what it moved
//! ([`Tree`]), local files that are there under their name only when they are whole ([`Landing`]), several
//! files at once ([`files_at_once`]), what a file is called on the server until it is whole
//! ([`staged_name`]), and the server in an address ([`authority`]).

mod at_once;
pub mod authority;
mod distinct;
mod landing;
mod progress;
mod staged;
mod text;

pub use at_once::files_at_once;
pub use distinct::distinct;
pub use landing::{Landing, is_taken, made, make_way};
pub use progress::{EndsAll, Progress, Tree, below};
pub use staged::{is_staged, staged_name, staged_name_of_bytes};
pub use text::is_deceptive;
