//! Harnesses of bolero over the packet parsers and the whole endpoint. `cargo test` replays the corpus beside
//! this file and tries random inputs; `cargo bolero test` fuzzes with coverage.

mod endpoint;
mod parser;
