//! Generates Rust from rxgen `.xg` interface files: types with XDR codecs, client stubs and server dispatch.
//!
//! The dialect is the one OpenAFS's rxgen reads (docs of [`ast`]); the generated code uses the `xdr` crate and nothing
//! else, and knows no transport: stubs turn values into bytes and back. Use it from a `build.rs`:
//!
//! ```no_run
//! rxgen::Builder::new().compile(&["proto/note.xg"], "note.rs").unwrap_or_else(|error| panic!("{error}"));
//! ```
//!
//! and take the result in with
//!
//! ```ignore
//! mod note {
//!     include!(concat!(env!("OUT_DIR"), "/note.rs"));
//! }
//! ```

pub mod ast;
mod builder;
mod emit;
mod error;
mod expr;
mod lexer;
mod names;
mod parse;
mod resolve;
mod source;

pub use builder::Builder;
pub use error::{Error, Location, Result};
pub use source::Loader;
