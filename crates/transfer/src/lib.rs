//! Common parts of the clients of all services.
//!
//! Progress of a transfer ([`Progress`]) and its counts ([`Tree`]); local files under names of their own
//! until they are whole ([`Landing`]); several files at once ([`files_at_once`]); the name of a file on the
//! server until it is whole ([`staged_name`]); the server in an address ([`authority`]).

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
pub use staged::{is_staged, is_staged_name_of, staged_name, staged_name_of_bytes};
pub use text::is_deceptive;
