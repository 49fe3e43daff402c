//! Records of the access log, and the form of their lines.

mod line;
mod record;

pub use line::put_line;
pub use record::{Protocol, Record};
