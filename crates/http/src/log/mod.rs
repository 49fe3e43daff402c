//! What the access log tells of a request, and how its line looks.

mod line;
mod record;

pub use line::put_line;
pub use record::{Protocol, Record};
