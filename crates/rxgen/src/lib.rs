//! Generates Rust from rxgen `.xg` interface files: types with XDR codecs, client stubs and asynchronous servers.
//!
//! The dialect is the one OpenAFS's rxgen reads (docs of [`ast`]); the generated code uses the `xdr` crate and nothing
//! else, and knows no transport: stubs move bytes through `xdr::rpc::CallStream`, which a transport implements for its
//! calls. For each package there is
//! - a struct for each procedure's request and reply, with its codec;
//! - `trait Server`, one async function a procedure: parameters in, those of the reply out, a refusal's abort code as an
//!   error. Of a `split` procedure the function moves the raw bytes itself, between the parameters and its return;
//! - `serve`, which reads opcode and parameters, calls the function and writes the reply. What breaks the interface ends
//!   the call with rxgen's codes (RXGEN_OPCODE, RXGEN_SS_UNMARSHAL, ...). Bounds of the interface hold as soon as a length
//!   has come; without one, parameters end at `xdr::rpc::ARGUMENTS_MAX`;
//! - `Tally`, what became of each procedure's calls, and how long they took.
//!
//! Clients call `xdr::rpc::call` with a request, or `start` and `end` around a split call's raw bytes.
//! Use it from a `build.rs`:
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
