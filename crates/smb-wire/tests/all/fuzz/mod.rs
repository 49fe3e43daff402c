//! Harnesses that take any bytes; corpora beside them are replayed by `cargo test`.

mod frames;
mod lists;
